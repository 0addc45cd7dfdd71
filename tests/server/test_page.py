"""The page's files: built where that can be done, and else in one line what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpsql.server import page


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose page isn't built, on a machine whose npm writes down what it is told, and builds a page."""
    (tmp_path / "src").mkdir()
    for file in ("package.json", "package-lock.json", "src/main.js"):
        (tmp_path / file).touch()
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text('#!/bin/sh\necho "$1" >> told\nmkdir -p dist && touch dist/index.html\n')
    npm.chmod(0o755)
    monkeypatch.setattr(page, "WEB", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "dist")
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_a_checkout_is_built_once_and_again_when_its_sources_change(checkout: Path) -> None:
    said: list[str] = []
    assert page.ensure_built(said.append) is None and page.ensure_built(said.append) is None
    assert (checkout / "told").read_text().split() == ["ci", "run"] and len(said) == 1
    later = (checkout / "dist/index.html").stat().st_mtime + 10
    os.utime(checkout / "src/main.js", (later, later))
    assert not page.is_built()


def test_without_npm_or_with_one_that_fails_a_line_says_what_to_do(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "bin/npm").write_text("#!/bin/sh\nexit 1\n")
    assert page.ensure_built() == page.NOT_BUILT
    monkeypatch.setenv("PATH", str(checkout / "src"))
    assert page.ensure_built() == page.NOT_BUILT


def test_a_wheel_needs_no_npm_if_it_has_the_page_and_says_so_if_it_has_not(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    for file in ("package.json", "package-lock.json", "src/main.js"):
        (checkout / file).unlink()
    assert page.ensure_built() == page.NOT_THERE
    (checkout / "dist").mkdir()
    (checkout / "dist/index.html").touch()
    assert page.ensure_built() is None
