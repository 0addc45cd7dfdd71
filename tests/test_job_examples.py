"""examples/jobs: each of them runs, in a copy of the folder."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dpsql
from dpsql.cli.main import cli

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "jobs"
    shutil.copytree(ROOT / "examples" / "jobs", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        runpy.run_path("make_data.py")
    return folder


@pytest.fixture
def start(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    monkeypatch.chdir(jobs)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    return lambda name: runpy.run_path(name)


def spent(folder: Path) -> Fraction:
    with dpsql.connect(folder / "policy.toml") as session:
        return session.budget.spent.epsilon


def test_the_script_releases_a_day(jobs: Path, start: Callable[[str], dict[str, Any]]) -> None:
    report = start("script.py")["report"]
    assert report.cost.epsilon == 1 and {line.state for line in report.lines} == {"released"}
    assert start("script.py")["report"].cost.epsilon == 0


def test_the_pipelines_go_on_with_what_was_released(jobs: Path, start: Callable[[str], dict[str, Any]]) -> None:
    shares = start("pandas_pipeline.py")["table"]
    assert len(shares) == 4 and abs(shares["share"].sum() - 1) < 1e-9
    joined = start("polars_pipeline.py")["table"]
    assert joined.columns == ["city", "visits", "minutes", "minutes_low", "minutes_high"]


def test_a_task_that_is_called_again_pays_nothing(jobs: Path, start: Callable[[str], dict[str, Any]]) -> None:
    task = start("airflow_task.py")["private_release"]
    files = task("2026-11-13")
    before = spent(jobs)
    assert files == ["out/2026-11-13/visits.parquet", "out/2026-11-13/minutes.csv"]
    assert task("2026-11-13") == files and spent(jobs) == before


def test_the_folder_of_sql_files_is_one_batch(jobs: Path, start: Callable[[str], dict[str, Any]]) -> None:
    before = spent(jobs)
    done = CliRunner().invoke(cli, ["run", "report", "--param", "date=2026-11-16"])
    assert done.exit_code == 0, done.output
    assert spent(jobs) - before == 1
    assert (jobs / "out/report/by_city-2026-11-16.parquet").exists() and (
        jobs / "out/report/long-2026-11-16.csv"
    ).exists()


def test_the_nightly_job_survives_a_crash_half_way(jobs: Path) -> None:
    before, out = spent(jobs), jobs / "out" / "2026-11-12"

    def nightly(*more: str) -> int:
        command = [sys.executable, "nightly.py", "2026-11-12", *more]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(command, cwd=jobs, env={**os.environ, "PYTHONPATH": path}, check=False).returncode

    assert nightly("--crash") == 137
    assert spent(jobs) - before == Fraction(1, 2)
    assert not (out / "minutes.csv").exists() and not list(out.glob(".*"))
    kept = (out / "visits.parquet").read_bytes()
    assert nightly() == 0
    assert spent(jobs) - before == 1 and (out / "visits.parquet").read_bytes() == kept
    assert (out / "minutes.csv.receipt.json").exists()


@pytest.mark.skipif("DPSQL_DBT" not in os.environ, reason="DPSQL_DBT names the dbt of another environment")
def test_a_release_after_dbt_is_paid_once_however_often_dbt_runs(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbt = Path(os.environ["DPSQL_DBT"]).absolute()
    monkeypatch.chdir(jobs / "dbt")
    for said in ("release: cost ε = 0.5\n", "release: cost nothing\n"):
        subprocess.run([dbt, "run", "--profiles-dir", "."], check=True, capture_output=True)
        done = CliRunner().invoke(cli, ["run", "release.toml", "--param", "date=2026-11-15"])
        assert done.exit_code == 0 and done.stdout.endswith(said), done.output


def test_the_release_of_the_dbt_example_runs_without_dbt(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(jobs / "dbt")
    shutil.copy(jobs / "visits.parquet", "long_visits.parquet")
    assert CliRunner().invoke(cli, ["run", "release.toml", "--param", "date=2026-11-14"]).exit_code == 0
