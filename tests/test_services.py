"""What is left out for want of a program is said, and never left out where everything has to run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import services
from services import SERVICES, WANTING, left_out, needs


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without any program, on which tests may be left out."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(services, "JARS", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def skipped(nodeid: str, reason: str) -> pytest.TestReport:
    where = (nodeid, None, "")
    return pytest.TestReport(nodeid, where, {}, "skipped", (nodeid, 1, f"Skipped: {reason}"), "setup")


@pytest.mark.parametrize("name", SERVICES)
def test_a_missing_program_leaves_a_test_out_but_fails_it_under_ci(name: str, bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception, match=WANTING + SERVICES[name].title):
        needs(name)
    bare.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"CI=true: {SERVICES[name].title}"):
        needs(name)


def test_a_program_that_is_there_is_found(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / SERVICES["chromium"].commands[-1]
    program.touch(mode=0o755)
    assert needs("chromium") == str(program)


def test_the_summary_names_each_program_once_with_the_files_that_needed_it(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(pytest.skip.Exception) as chromium:
        needs("chromium")
    reports = [
        skipped("test_show.py::test_a", str(chromium.value)),
        skipped("test_show.py::test_b", str(chromium.value)),
        skipped("accounting/test_anchor.py", str(chromium.value)),
        skipped("test_disk.py::test_c", "calls of a POSIX system"),
    ]
    assert left_out(reports) == ["left out for want of Chromium: anchor, show"]


def test_the_whole_run_repeats_these_lines() -> None:
    assert runpy.run_path(str(Path(__file__).with_name("__main__.py")))["WANTING"] == WANTING
