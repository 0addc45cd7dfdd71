"""The engine is an assumption of the proofs: which versions were tried, and what happens with another one."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.backends.duckdb.versions import TESTED_DUCKDB
from dpsql.cli.main import cli

ROOT = Path(__file__).parents[1]
POLICY = """
[budget]
epsilon = 100
delta = 0
query_epsilon = 1
[tables.t]
source = "t.parquet"
unit = "row"
"""
COUNT = "SELECT COUNT(*) AS n FROM t"
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments))


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", "9.9.9")


def refuse_untested() -> None:
    Path("policy.toml").write_text(f'{POLICY}\n[engine]\nuntested = "refuse"\n')


def test_the_installed_duckdb_is_one_that_the_suite_was_run_with() -> None:
    assert duckdb.__version__ in TESTED_DUCKDB


def test_every_tested_version_may_be_installed() -> None:
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (least,) = [need.removeprefix("duckdb>=") for need in needs if need.startswith("duckdb")]
    numbers = [tuple(map(int, version.split("."))) for version in (least, *TESTED_DUCKDB)]
    assert min(numbers) == numbers[0]


def test_a_tested_engine_is_not_spoken_of(run: Run) -> None:
    assert "WARNING" not in run("check").stdout
    receipt = json.loads(run("query", COUNT, "--format", "json").stdout)["receipt"]
    assert not {"engine", "untested"} & set(receipt)
    for command in (("query", COUNT), ("explain", COUNT), ("check",)):
        assert run(*command, "--strict-engine").exit_code == 0


@pytest.mark.usefixtures("newer")
def test_check_warns_of_an_untested_engine(run: Run) -> None:
    done = run("check")
    assert done.exit_code == 0
    assert "WARNING   dpsql was not tested with DuckDB 9.9.9, only with 2.0.0" in done.stdout


def test_an_untested_engine_is_in_the_receipt_also_when_the_answer_comes_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(duckdb, "__version__", "9.9.9")
        first = run("query", COUNT, "--format", "json")
    assert "measured by DuckDB 9.9.9, which dpsql was not tested with" in first.stderr
    id = json.loads(first.stdout)["receipt"]["id"]
    stored = run("query", COUNT, "--format", "json")  # by a tested one, from what the other measured
    replayed = run("budget", "--replay", id, "--format", "json")
    for shown in (first, stored, replayed):
        receipt = json.loads(shown.stdout)["receipt"]
        assert (receipt["engine"], receipt["untested"]) == ("DuckDB 9.9.9", True)
    fresh = json.loads(run("query", COUNT, "--fresh", "--format", "json").stdout)["receipt"]
    assert "untested" not in fresh


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("command", [("query", COUNT), ("explain", COUNT), ("check",), ("check", "--steward")])
def test_the_flag_refuses_an_untested_engine(run: Run, command: tuple[str, ...]) -> None:
    assert run(*command).exit_code == 0
    refused = run(*command, "--strict-engine")
    assert refused.exit_code == 5 and "not tested with DuckDB 9.9.9" in refused.stderr
    assert not refused.stdout


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("flags", [(), ("--strict-engine",)])
@pytest.mark.parametrize("command", [("query", COUNT), ("explain", COUNT), ("check",)])
def test_the_policy_refuses_an_untested_engine_whatever_the_flags(
    run: Run, command: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    refuse_untested()
    refused = run(*command, *flags)
    assert refused.exit_code == 5 and 'pip install "duckdb==2.0.0"' in refused.stderr
    assert not Path("policy.ledger.sqlite").exists()


@pytest.mark.usefixtures("newer", "run")
def test_a_session_can_be_strict_and_never_looser_than_the_policy() -> None:
    with pytest.raises(dpsql.PolicyError) as refused:
        dpsql.connect("policy.toml", strict_engine=True)
    assert refused.value.code == "untested-engine"
    refuse_untested()
    with pytest.raises(dpsql.PolicyError):
        dpsql.connect("policy.toml", strict_engine=False)


def test_a_policy_that_refuses_untested_engines_takes_a_tested_one(run: Run) -> None:
    refuse_untested()
    assert run("query", COUNT).exit_code == 0


def test_the_engine_script_names_tests_that_exist_and_says_how_a_version_is_admitted() -> None:
    spec = importlib.util.spec_from_file_location("engine_script", ROOT / "tests" / "engine.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert all((ROOT / "tests" / name).exists() for name in script.FILES)
    assert script.verdict("2.0.0", 12, False, True) == "DuckDB 2.0.0 is admitted, and passed 12 tests"
    assert "FAILED" in script.verdict("2.0.0", 12, True, True)
    assert "FAILED" in script.verdict("2.0.0", 0, False, True)
    assert "add it to TESTED_DUCKDB" in script.verdict("9.9.9", 12, False, False)
    assert "--whole" in script.verdict("9.9.9", 12, False, False)
    assert "not admitted, and FAILED" in script.verdict("9.9.9", 12, True, True)
