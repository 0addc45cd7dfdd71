"""Whom a draft protects where names don't say it, whom it doesn't, and what its budget is enough for."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from dpsql.cli.main import cli
from dpsql.policy.model import Policy
from dpsql.steward.advice import DeclaredLimit, ladder, least_wrong
from dpsql.steward.data_profile import MANY_UNITS
from dpsql.steward.init import Answers, Drafted, draft, look_at
from dpsql.steward.question_budget import QUESTIONS, learning_line, question_budget

Run = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPSQL_POLICY", raising=False)
    return tmp_path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsql.cli.policy.interactive", lambda: True)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


def loans(name: str = "loans", **more: object) -> None:
    """3,000 loans by 600 badges, of 900 books."""
    draw = random.Random(1)
    rows = 3000
    columns: dict[str, object] = {
        "badge": [draw.randrange(600) for _ in range(rows)],
        "days": [draw.randrange(28) for _ in range(rows)],
        "shelf_mark": [f"b{draw.randrange(900)}" for _ in range(rows)],
    }
    pq.write_table(pa.table(columns | more), f"{name}.parquet")


def tables() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(Path("policy.toml").read_text(encoding="utf-8"))["tables"]
    return found


def stewards(**answers: Any) -> Drafted:
    return draft(look_at(["."], Path.cwd(), steward=True), Answers(**answers))


# ---------------------------------------------------------------- columns that repeat as people's ids do


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_nobody_to_ask_takes_the_column_that_repeats_and_says_which_it_did_not(
    folder: Path, options: tuple[str, ...]
) -> None:
    loans()
    done = run("init", "loans.parquet", "--steward", *options)
    assert done.exit_code == 0, done.output
    assert tables()["loans"]["unit"] == "badge"
    assert "all rows with one badge are protected together" in done.stderr
    assert "shelf_mark repeats as people's ids do" in done.stderr and "was not taken for a person" in done.stderr
    assert run("check", "--steward").exit_code == 0


def test_a_terminal_is_asked_with_the_safe_answer_first(folder: Path, terminal: None) -> None:
    loans()
    done = run("init", "loans.parquet", "--steward", stdin="\n" * 9)
    assert "Who is protected? [badge]" in done.stderr and "values of loans.badge in 3,000 rows" in done.stderr
    assert done.exit_code == 0 and tables()["loans"]["unit"] == "badge"
    Path("policy.toml").unlink()
    done = run("init", "loans.parquet", "--steward", stdin="row\n\n\n")
    assert done.exit_code == 0 and tables()["loans"]["unit"] == "row"
    assert "badge repeats as people's ids do" in done.stderr


@pytest.mark.parametrize(("answer", "unit"), [("", {"column": "badge", "domain": "badge"}), ("n", "row")])
def test_a_table_beside_those_with_ids_is_asked_about_by_itself(
    folder: Path, terminal: None, answer: str, unit: object
) -> None:
    loans()
    pq.write_table(pa.table({"user_id": [n // 2 for n in range(900)], "x": [1] * 900}), "visits.parquet")
    done = run("init", ".", "--steward", stdin=f"\n{answer}\n{answer}\n\n\n\n")
    assert done.exit_code == 0, done.output
    assert "Does badge name people" in done.stderr
    assert tables()["visits"]["unit"] == "user_id" and tables()["loans"]["unit"] == unit


def test_quantities_things_and_codes_are_nobodys_ids(folder: Path) -> None:
    draw = random.Random(2)
    rows = range(4000)
    columns = {
        "fare_cents": [draw.randrange(900) for _ in rows],
        "dauer": [int(draw.gauss(2000, 300)) for _ in rows],
        "balance_of": [draw.randrange(-900, 900) for _ in rows],
        "product": [f"p{draw.randrange(900)}" for _ in rows],
        "zip": [10000 + draw.randrange(900) for _ in rows],
    }
    pq.write_table(pa.table(columns), "t.parquet")
    made = stewards()
    assert 'unit = "row"' in made.text and not any("people" in line for line in made.findings), made.findings


def test_without_a_look_at_rows_nothing_repeats(folder: Path) -> None:
    loans()
    assert run("init", "loans.parquet").exit_code == 0 and tables()["loans"]["unit"] == "row"


# ---------------------------------------------------------------- two kinds of people in one table


@pytest.mark.parametrize("names", [("driver_id", "rider_id"), ("driver", "rider")])
def test_whom_the_draft_leaves_without_protection_is_said_plainly(folder: Path, names: tuple[str, str]) -> None:
    draw = random.Random(3)
    columns = {name: [draw.randrange(many) for _ in range(4000)] for name, many in zip(names, (300, 900), strict=True)}
    pq.write_table(pa.table(columns | {"km": [1.5] * 4000}), "trips.parquet")
    made = stewards(unit="rider")
    assert tomllib.loads(made.text)["tables"]["trips"]["unit"] == names[1]
    (warning,) = [line for line in made.findings if "WARNING" in line]
    assert warning == (
        f"trips: WARNING: {names[0]} names people, too, and this draft does not protect them. Noise hides what one "
        "rider did; what one driver did can show in answers. dpsql init --unit driver protects each driver instead"
    )
    assert f"# ? {names[0]} names people, too, and this draft does NOT protect them" in made.text
    assert names[0] not in tomllib.loads(made.text)["tables"]["trips"]["columns"]  # an id gets no range
    other = stewards(unit="driver")
    assert tomllib.loads(other.text)["tables"]["trips"]["unit"] == names[0]
    assert any(f"WARNING: {names[1]} names people" in line for line in other.findings)


def test_a_session_of_one_user_alone_is_nobody_whom_the_draft_leaves_without_protection(folder: Path) -> None:
    draw = random.Random(4)
    users = [draw.randrange(200) for _ in range(3000)]
    columns = {"user_id": users, "session_id": [f"s{user}-{draw.randrange(5)}" for user in users]}
    pq.write_table(pa.table(columns), "events.parquet")
    made = stewards(unit="user")
    assert not any("WARNING" in line for line in made.findings) and "NOT protect" not in made.text
    assert any(line.startswith("events: each session of session_id is of one user alone") for line in made.findings)


def test_a_unit_that_is_never_missing_is_promised_so_that_no_answer_speaks_of_rows_of_nobody(folder: Path) -> None:
    pq.write_table(pa.table({"user_id": [1, 1, 2, 3], "n": [1, 2, 3, 4]}), "whole.parquet")
    pq.write_table(pa.table({"user_id": [1, None, 2, 3], "n": [1, 2, 3, 4]}), "gaps.parquet")
    drafted = tomllib.loads(stewards(unit="user").text)["tables"]
    assert drafted["whole"]["columns"]["user_id"] == {"nullable": False}
    assert "user_id" not in drafted["gaps"]["columns"]


def test_check_says_it_of_a_policy_too(folder: Path) -> None:
    pq.write_table(pa.table({"driver_id": [1, 2], "rider_id": [1, 2]}), "trips.parquet")
    assert run("init", "trips.parquet", "--unit", "rider").exit_code == 0
    shown = run("check").stdout
    assert "other people are named by driver_id (driver): this policy does not protect them" in shown


# ---------------------------------------------------------------- lists of values


@pytest.mark.parametrize(("holders", "listed"), [(MANY_UNITS - 1, False), (MANY_UNITS, True)])
def test_a_list_of_values_is_drafted_where_many_units_hold_each(folder: Path, holders: int, listed: bool) -> None:
    units = [*range(900), *range(holders), *([0] * 300)]  # one unit holds the rare value in many rows
    plans = ["free"] * 900 + ["pro"] * holders + ["pro"] * 300
    pq.write_table(pa.table({"user_id": units, "plan": plans}), "t.parquet")
    made = stewards()
    assert ('values = ["free", "pro"]' in made.text) is listed
    rare = [line for line in made.findings if "public keys" in line]
    assert len(rare) == (0 if listed else 1)
    if not listed:
        assert '"pro"' not in made.text and f"held by {holders} users" in rare[0] and '"pro"' in rare[0]


# ---------------------------------------------------------------- the budget, limits, and learning them


@pytest.mark.parametrize("total", ["0.1", "0.5", "1", "2.5", "3", "7", "10", "100"])
def test_a_drafted_budget_lasts_for_fifty_questions_after_learning(total: str) -> None:
    made = question_budget(total)
    assert QUESTIONS <= made.after_learning <= made.questions <= 2 * QUESTIONS + 20
    assert made.query * made.questions <= Decimal(total)


def test_the_draft_says_for_how_many_questions_its_budget_is_enough(folder: Path) -> None:
    loans()
    done = run("init", "loans.parquet", "--epsilon", "1")
    policy = Policy.load("policy.toml")
    assert policy.budget.query_epsilon is not None
    questions = int(policy.budget.epsilon / policy.budget.query_epsilon)
    assert f"lasts for {questions} questions at ε = 0.016 each" in done.stderr
    assert f"enough for {questions} of them" in Path("policy.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("options", [(), ("--steward",)])
def test_no_limit_is_drafted_and_learning_is_offered_where_units_have_rows(
    folder: Path, options: tuple[str, ...]
) -> None:
    pq.write_table(pa.table({"user_id": [n // 9 for n in range(900)], "x": [1] * 900}), "t.parquet")
    done = run("init", "t.parquet", *options)
    text = Path("policy.toml").read_text(encoding="utf-8")
    assert "max_rows =" not in text and "max_groups =" not in text
    line = learning_line(Policy.load("policy.toml"))
    assert line is not None and line in done.stderr
    assert line in run("check", "--steward").stderr and line not in run("check").output
    pq.write_table(pa.table({"x": [1] * 900}), "t.parquet")
    assert "dpsql learn --steward" not in run("init", "t.parquet", "--force").stderr


def test_the_ladder_of_limits_ends_at_the_first_step_that_holds_all() -> None:
    assert ladder(1) == [1] and ladder(2) == [1, 2] and ladder(51) == [1, 2, 5, 10, 20, 50, 100]
    offered = [DeclaredLimit(1, 900, 5000), DeclaredLimit(10, 300, 40), DeclaredLimit(100, 120, 0)]
    assert least_wrong(offered, Fraction(1)) == offered[1] and least_wrong(offered, Fraction(1, 1000)) == offered[0]
    assert least_wrong([], Fraction(1)) is None


@pytest.mark.parametrize(("heavy", "offer"), [(MANY_UNITS - 1, 5), (MANY_UNITS, 50)])
def test_no_limit_is_offered_that_rests_on_fewer_than_a_hundred_units(folder: Path, heavy: int, offer: int) -> None:
    units = [unit for unit in range(1000) for _ in range(40 if unit < heavy else 4)]
    pq.write_table(pa.table({"user_id": units}), "t.parquet")
    Path("policy.toml").write_text(
        '[budget]\nepsilon = 1\n[tables.t]\nsource = "t.parquet"\nunit = "user_id"\n', encoding="utf-8"
    )
    shown = run("check", "--steward").stdout
    assert f"max_rows = {offer} could be declared" in shown
    assert "People who read the policy learn it, and no ε covers that" in shown
    assert "could be declared" not in run("check").stdout


def test_few_units_are_offered_no_limit(folder: Path) -> None:
    pq.write_table(pa.table({"user_id": [n // 3 for n in range(150)]}), "t.parquet")
    Path("policy.toml").write_text(
        '[budget]\nepsilon = 1\n[tables.t]\nsource = "t.parquet"\nunit = "user_id"\n', encoding="utf-8"
    )
    assert "leave max_rows to the queries" in run("check", "--steward").stdout
