"""docs/jobs.md: its files run, and its commands print what it shows."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpsql.cli.main import cli
from dpsql.jobs.model import KINDS, ONCE_PER
from dpsql.jobs.read import FORMATS, JOB, QUERY

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "jobs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's data and policy, and the files of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    runpy.run_path(str(EXAMPLE / "make_data.py"))
    (tmp_path / "policy.toml").write_text((EXAMPLE / "policy.toml").read_text())
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_commands_of_the_page_print_what_it_shows(folder: Path) -> None:
    (session,) = re.findall(r"<!-- run -->\n```\n(.*?)```", PAGE, re.DOTALL)
    steps = re.findall(r"^\$ dpsql (.*)\n((?:[^$].*\n)*)", session, re.MULTILINE)
    assert len(steps) == 3
    for command, shown in steps:
        done = CliRunner().invoke(cli, shlex.split(command))
        assert done.exit_code == 0 and done.stdout == shown
    task = runpy.run_path("airflow_task.py")["private_release"]
    assert task("2026-11-14") == ["out/2026-11-14/visits.parquet", "out/2026-11-14/minutes.csv"]


def test_the_folder_of_the_page_runs(folder: Path) -> None:
    done = CliRunner().invoke(cli, ["run", "report", "--param", "date=2026-11-15"])
    assert done.exit_code == 0 and (folder / "report" / "long-2026-11-15.csv").exists(), done.output


def test_the_example_is_the_job_of_the_page(folder: Path) -> None:
    assert (folder / "release.toml").read_text() == (EXAMPLE / "release.toml").read_text()


def test_every_key_type_and_format_is_on_the_page() -> None:
    told = set(re.findall(r"`([^`]*)`", PAGE))
    words = {word for text in told for word in re.findall(r"\w+", text)}
    assert {*JOB, *QUERY, *KINDS, *ONCE_PER, *FORMATS} - {"queries"} <= words and "[queries.x]" in told
