"""Options from the environment, and errors for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from dpsql.cli.main import cli

Run = Callable[..., Result]
COUNT = "SELECT COUNT(*) AS n FROM people"


@pytest.mark.parametrize("name", ["query", "run"])
def test_every_flag_may_come_from_the_environment_and_help_says_so(dpsql: Run, name: str) -> None:
    flags = [p for p in cli.commands[name].params if isinstance(p, click.Option) and not p.hidden]
    shown = dpsql(name, "--help").stdout
    assert len(flags) >= 9
    for flag in flags:
        wanted = f"DPSQL_{flag.opts[-1].removeprefix('--').replace('-', '_').upper()}"
        assert flag.envvar == wanted and wanted in shown


def cost(done: Result) -> object:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["cost"]["epsilon"]


def test_the_price_comes_from_the_environment_and_the_command_line_is_stronger(
    dpsql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_FORMAT", "json")
    monkeypatch.setenv("DPSQL_EPSILON", "0.1")
    assert cost(dpsql("query", COUNT)) == 0.1
    assert cost(dpsql("query", COUNT, "--epsilon", "0.2")) == 0.2
    assert "0.1" in dpsql("explain", COUNT, "--fresh").stdout.splitlines()[0]
    monkeypatch.setenv("DPSQL_FRESH", "1")
    assert cost(dpsql("query", COUNT)) == 0.1


def test_an_accuracy_on_the_command_line_stands_for_an_epsilon_of_the_environment(
    dpsql: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_EPSILON", "0.1")
    done = dpsql("query", COUNT, "--accuracy", "5")
    assert done.exit_code == 0 and "cost ε = 0.1 " not in done.stderr
    monkeypatch.setenv("DPSQL_ACCURACY", "5")
    assert dpsql("query", COUNT).exit_code == 3  # both, and neither is stronger
    monkeypatch.setenv("DPSQL_CONFIDENCE", "0.9")
    assert dpsql("query", COUNT, "--epsilon", "0.3").exit_code == 0


def test_delta_limits_mechanism_file_and_output_are_heard(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "q.sql").write_text(COUNT)
    monkeypatch.setenv("DPSQL_FILE", "q.sql")
    monkeypatch.setenv("DPSQL_OUTPUT", "answer.csv")
    assert dpsql("query").exit_code == 0 and (folder / "answer.csv").read_text().startswith("n\n")
    monkeypatch.delenv("DPSQL_OUTPUT")
    assert dpsql("query", "SELECT COUNT(*) AS other FROM people").stdout.startswith("other\n")
    for name, value in (("DELTA", "0.5"), ("MECHANISM", "loud"), ("MAX_ROWS", "none")):
        with monkeypatch.context() as patch:
            patch.setenv(f"DPSQL_{name}", value)
            assert dpsql("query").exit_code in (2, 3)


def test_parameters_of_the_environment_are_one_to_a_line(dpsql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSQL_PARAM", "name=a b\nleast=20\n")
    assert dpsql("query", f"{COUNT} WHERE name = $name AND age > $least").exit_code == 0


def test_run_takes_its_parameters_from_the_environment(
    dpsql: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "q.sql").write_text(f"-- output = 'q.csv'\n-- params.least = 'integer'\n{COUNT} WHERE age > {{least}}")
    (folder / "job").mkdir()
    (folder / "q.sql").rename(folder / "job" / "q.sql")
    monkeypatch.setenv("DPSQL_PARAM", "least=20")
    monkeypatch.setenv("DPSQL_DRY_RUN", "true")
    done = dpsql("run", "job")
    assert done.exit_code == 0 and done.stdout.endswith("job: would cost ε = 1\n"), done.output


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "exit_code"),
    [
        (("SELECT nothing FROM people",), "unknown-column", "SQLError", 3),
        (("SELECT name FROM people",), "returns-rows", "PrivacyError", 3),
        ((COUNT, "--epsilon", "1000"), "budget-exhausted", "BudgetError", 4),
        ((COUNT, "--policy", "nowhere.toml"), "no-policy", "PolicyError", 5),
        ((COUNT, "--nothing"), "usage", "UsageError", 2),
        ((), "usage", "UsageError", 2),
    ],
)
@pytest.mark.parametrize("spelling", [("--format", "json"), ("--format=json",)])
@pytest.mark.sample(2)
def test_errors_are_one_line_of_json_for_programs(
    dpsql: Run, arguments: tuple[str, ...], code: str, kind: str, exit_code: int, spelling: tuple[str, ...]
) -> None:
    done = dpsql("query", *arguments, *spelling)
    (line,) = done.stderr.splitlines()
    error = json.loads(line)
    assert list(error) == ["kind", "code", "message", "hint", "span"] and done.stdout == ""
    assert (error["kind"], error["code"], done.exit_code) == (kind, code, exit_code)
    assert (error["span"] is None) == (code not in ("unknown-column", "returns-rows"))


def test_a_bug_is_json_without_its_text(dpsql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("a private row")

    monkeypatch.setattr("dpsql.session.connect", fail)
    done = dpsql("query", COUNT, "--format", "json")
    assert done.exit_code == 1 and json.loads(done.stderr)["code"] == "bug" and "private row" not in done.output


def test_without_it_errors_are_for_people(dpsql: Run) -> None:
    assert dpsql("query", "SELECT nothing FROM people").stderr.startswith("error: ")
    assert dpsql("query", "SELECT nothing FROM people", "--format", "csv").stderr.startswith("error: ")
