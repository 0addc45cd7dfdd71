"""dpsql init on the command line: what it writes and where, questions, exit codes."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpsql.cli.main import cli

Run = Callable[..., Result]


@pytest.fixture
def dpsql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    (tmp_path / "visits.csv").write_text(
        "user_id,ward,cost\n" + "".join(f"{n // 2},{n % 3},{n}.5\n" for n in range(60))
    )
    (tmp_path / "wards.csv").write_text("ward,floor\n0,1\n1,1\n2,2\n")

    def run(*arguments: str | os.PathLike[str], stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, [os.fspath(a) for a in arguments], input=stdin)

    return run


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.cli.policy.interactive", lambda: True)


def policy(path: str = "policy.toml") -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def test_a_policy_is_written_that_check_accepts_and_a_query_is_answered(dpsql: Run) -> None:
    done = dpsql("init", "visits.csv", "--steward")
    assert done.exit_code == 0 and done.stdout == ""
    assert "this reads rows" in done.stderr and "wrote policy.toml: 1 table, and " in done.stderr
    assert dpsql("check", "--steward").exit_code == 0
    assert dpsql("query", "SELECT AVG(cost) FROM visits").exit_code == 0


def test_under_a_pipe_nothing_is_asked(dpsql: Run) -> None:
    done = dpsql("init", "visits.csv", "wards.csv", stdin="")
    assert done.exit_code == 0 and "[y/N]" not in done.output
    assert policy()["tables"]["wards"]["unit"] == "row"


def test_on_a_terminal_enter_everywhere_is_the_same_as_yes(dpsql: Run, terminal: None) -> None:
    assert dpsql("init", "visits.csv", "wards.csv", "--yes", "-o", "yes.toml").exit_code == 0
    done = dpsql("init", "visits.csv", "wards.csv", "-o", "enter.toml", stdin="\n" * 10)
    assert done.exit_code == 0, done.output
    assert "Who is protected? [user]" in done.stderr and done.stdout == ""
    assert Path("yes.toml").read_text() == Path("enter.toml").read_text()
    assert dpsql("check", "--policy", "enter.toml").exit_code == 0


def test_answers_on_a_terminal_are_taken_and_asked_again_where_they_make_no_sense(dpsql: Run, terminal: None) -> None:
    done = dpsql("init", "visits.csv", "wards.csv", stdin="nobody\nrow\ny\nmuch\n2\n")
    assert done.exit_code == 0, done.output
    assert "no table has a column nobody" in done.stderr and "ε must be a number" in done.stderr
    found = policy()
    assert found["tables"]["visits"]["unit"] == "row" and found["tables"]["wards"]["public"] is True
    assert found["budget"]["epsilon"] == 2


def test_options_answer_instead(dpsql: Run) -> None:
    done = dpsql("init", ".", "--unit", "row", "--public", "wards", "--epsilon", "1", "--delta", "0")
    assert done.exit_code == 0
    found = policy()
    assert (found["budget"]["epsilon"], found["budget"]["delta"]) == (1, 0)
    assert found["tables"]["visits"]["unit"] == "row" and found["tables"]["wards"]["public"] is True


def test_a_policy_that_is_there_is_kept_unless_forced(dpsql: Run) -> None:
    Path("policy.toml").write_text("mine")
    refused = dpsql("init", "visits.csv")
    assert refused.exit_code == 2 and "--force" in refused.stderr and Path("policy.toml").read_text() == "mine"
    assert dpsql("init", "visits.csv", "--force").exit_code == 0
    assert policy()["tables"]["visits"]


def test_standard_output_takes_the_policy_alone(dpsql: Run) -> None:
    done = dpsql("init", "visits.csv", "-o", "-")
    assert tomllib.loads(done.stdout)["tables"] and not Path("policy.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["nowhere.parquet"], 6),
        (["visits.csv", "--epsilon", "much"], 5),
        (["visits.csv", "--delta", "1"], 5),
        (["visits.csv", "--unit", "nobody"], 5),
        (["visits.csv", "--public", "nobody"], 5),
        (["visits.csv", "-o", "no/such/folder/policy.toml"], 5),
    ],
)
def test_what_goes_wrong_has_the_exit_code_of_its_kind_and_writes_nothing(
    dpsql: Run, arguments: list[str], code: int
) -> None:
    done = dpsql("init", *arguments)
    assert done.exit_code == code and done.stdout == "" and "rror: " in done.stderr
    assert not Path("policy.toml").exists()


def test_no_ledger_is_made(dpsql: Run) -> None:
    assert dpsql("init", ".", "--steward").exit_code == 0
    assert not list(Path().glob("*.sqlite*"))
