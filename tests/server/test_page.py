"""The page's files: built where that can be done, and else in one line what to do."""

from __future__ import annotations

import json
import os
import subprocess
from math import inf, isinf
from pathlib import Path
from typing import Any

import pytest
from services import needs

from dpsql.answer.columns import FULL, Source
from dpsql.answer.interval_text import Interval
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


COLUMNS: list[tuple[list[Any], list[Interval]]] = [
    ([19_700, 80, 3_000, -5, 7], [(19_603.0, inf), (69.0, 91.0), (2_903.0, 5_387.0), (-inf, 6.0), (-inf, inf)]),
    ([80, 90, None], [(69.0, 91.0), (78.0, 101.0), None]),
    ([16.61234, 16.2, 14.2, 3.33], [(16.1, 17.2), (15.9, 16.5), (14.0, inf), None]),
    ([0.2314, -0.5], [(0.20187, inf), (-0.75, 0.9)]),
    ([20_000, 1_234_567], [(900.0, inf), (1_000_000.0, 9_000_000.0)]),
    ([12], [(-inf, inf)]),
]


def test_the_page_writes_intervals_as_tables_do() -> None:
    code = f"""
        import {{ described }} from {json.dumps((page.WEB / "src/intervals.js").as_uri())};
        console.log(JSON.stringify(JSON.parse(process.argv[1]).map(([v, e]) => described(v, e))));
    """
    sent = json.dumps([[values, [as_sent(one) for one in ends]] for values, ends in COLUMNS])
    run = subprocess.run([needs("node"), "--input-type=module", "-e", code, sent], capture_output=True, check=True)
    for (values, ends), found in zip(COLUMNS, json.loads(run.stdout), strict=True):
        head, *behind = Source("n", values, ends, True, ["too few"] * len(values)).shown(FULL)
        errors = behind[0].cells if behind else [""] * len(values)
        ranges = bool(behind) and behind[0].ranges
        assert [cell.replace("−", "-") for cell in found["cells"]] == head.cells
        assert [one.removeprefix("± ").strip("()").replace("−", "-") for one in found["errors"]] == errors
        assert found["ranges"] == ranges


def as_sent(interval: Interval) -> list[float | None] | None:
    """An interval as JSON has it."""
    ends = [None if interval is None or isinf(end) else end for end in interval or ()]
    return ends if any(end is not None for end in ends) else None


def test_only_columns_with_public_keys_have_that_badge() -> None:
    """By what `inspect._asked` says of a column."""
    code = f"""
        import {{ roleOf }} from {json.dumps((page.WEB / "src/sidebar.js").as_uri())};
        console.log(JSON.stringify(JSON.parse(process.argv[1]).map((ask) => roleOf(ask) ?? "")));
    """
    roles = {
        "key, SUM, AVG, …": "public key",
        "key": "public key",
        "key (selected)": "selected key",
        "key (selected), SUM(CLIP(x, a, b))": "selected key",
        "unit: COUNT DISTINCT": "unit",
        "COUNT, no key": "",
        "keyless": "",
    }
    sent = json.dumps(list(roles))
    run = subprocess.run([needs("node"), "--input-type=module", "-e", code, sent], capture_output=True, check=True)
    assert json.loads(run.stdout) == list(roles.values())
