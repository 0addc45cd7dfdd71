"""What an answer leaves out is told in short lines: before it is paid for, and wherever an answer is shown."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.analyze.unmet import LONGEST
from dpsql.answer.render import as_json
from dpsql.answer.text_table import plain_table
from dpsql.explain.facts import as_dict
from dpsql.refresh.promises import verify

PEOPLE = 300
ROWS = [(p, i) for p in range(PEOPLE) for i in range(1 + p % 3)]
VISITS = pa.table(
    {
        "person": [p for p, _ in ROWS],
        "plan": [("pro", "free")[p % 2] for p, _ in ROWS],
        "grade": [p % 3 for p, _ in ROWS],
        "place": [f"place {p % 2}" if p < 290 else f"rare {p}" for p, _ in ROWS],
        "x": [float(p % 10) for p, _ in ROWS],
    }
)
COLUMNS: dict[str, Any] = {
    "plan": {"values": ["pro", "free"]},
    "grade": {"values": [0, 1, 2]},
    "x": {"min": 0, "max": 100},
}
NOBODY = "rows of visits whose person is NULL are left out"


def policy(**privacy: Any) -> dict[str, Any]:
    return {
        "privacy": {"max_rows": 3, "max_groups": 1, **privacy},
        "tables": {"visits": {"unit": "person", "columns": COLUMNS}},
    }


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    return connect({"visits": VISITS}, policy(), delta=1e-4)


def before(session: dpsql.Session, sql: str) -> list[str]:
    """What explain says is left out, without what it says of every query of this table."""
    quote = session.explain(sql, epsilon=1)
    found: list[str] = as_dict(quote).get("notes", [])
    assert all(line in str(quote) and len(line) <= LONGEST for line in found)
    assert NOBODY in found
    return [line for line in found if line != NOBODY]


@pytest.mark.parametrize(
    ("where", "line"),
    [
        ("1 = 0", "nothing but noise can come out: 1 = 0 is never true"),
        ("x > 200", "x > 200 should keep no row: the policy has x from 0 to 100"),
        ("x > 50 AND x < 30", "nothing but noise can come out: no x meets x > 50 and x < 30"),
        ("plan = 'Pro'", "'Pro' is not among the values that the policy lists for plan: did you mean 'pro'?"),
        (
            "plan IN ('free', 'por')",
            "'por' is not among the values that the policy lists for plan: did you mean 'pro'?",
        ),
        ("plan = 'zzz'", "'zzz' is not among the values that the policy lists for plan"),
        ("grade = 7", "7 is not among the values that the policy lists for grade: did you mean 2?"),
    ],
)
def test_a_condition_that_no_declared_value_meets_is_told_before_payment_and_under_the_answer(
    session: dpsql.Session, where: str, line: str
) -> None:
    sql = f"SELECT COUNT(*) FROM visits WHERE {where}"
    assert before(session, sql) == [line]
    answer = session.query(sql, epsilon=1)
    assert line in answer.notes


@pytest.mark.parametrize(
    "where",
    [
        "x > 99",
        "x >= 100",
        "plan = 'pro'",
        "grade = 2",
        "grade = 2.0",
        "lower(plan) = 'Pro'",
        "place = 'nowhere'",
        "x IS NULL",
    ],
)
def test_a_condition_that_some_declared_value_meets_is_told_nothing(session: dpsql.Session, where: str) -> None:
    assert before(session, f"SELECT COUNT(*) FROM visits WHERE {where}") == []


def test_literals_are_looked_up_wherever_a_column_is_compared(session: dpsql.Session) -> None:
    line = "'Pro' is not among the values that the policy lists for plan: did you mean 'pro'?"
    for sql in (
        "SELECT COUNT(*) FILTER (WHERE plan = 'Pro') FROM visits",
        "SELECT SUM(CASE WHEN plan = 'Pro' THEN 1 ELSE 0 END) FROM visits",
        "WITH v AS (SELECT plan AS p, x FROM visits) SELECT AVG(x) FROM v WHERE p <> 'Pro'",
        "SELECT COUNT(*) FROM (SELECT person, plan FROM visits GROUP BY person, plan) AS q WHERE plan = 'Pro'",
        "SELECT COUNT(*) FROM visits AS a JOIN visits AS b ON a.person = b.person AND b.plan = 'Pro'",
    ):
        assert line in before(session, sql), sql


def test_many_and_long_literals_are_few_and_short_lines(session: dpsql.Session) -> None:
    many = ", ".join(f"'{'p' * 60}{i}'" for i in range(10))
    found = before(session, f"SELECT COUNT(*) FROM visits WHERE plan IN ({many})")
    assert 1 <= len(found) <= 3 and all("…" in line for line in found)


def test_how_small_a_group_is_not_shown_is_told(session: dpsql.Session) -> None:
    sql = "SELECT place, COUNT(*) FROM visits GROUP BY place"
    (step,) = session.explain(sql, epsilon=4).steps
    assert step.selection is not None
    line = f"groups with fewer than about {step.selection.units} units are not shown"
    assert line in str(session.explain(sql, epsilon=4))
    answer = session.query(sql, epsilon=4)
    assert line in answer.notes and {row[0] for row in answer.rows} == {"place 0", "place 1"}


def test_a_table_without_rows_says_why(session: dpsql.Session) -> None:
    rare = "SELECT place, COUNT(*) AS n FROM visits WHERE person >= 290 GROUP BY place"
    assert session.query(rare, epsilon=4).notes[0] == "no group had enough units to be shown"
    none = "SELECT place, COUNT(*) AS n FROM visits GROUP BY place HAVING COUNT(*) > 100000"
    assert session.query(none, epsilon=4).notes[0] == "no group that can be shown meets the conditions on noisy values"
    for sql, line in (
        ("SELECT place, COUNT(*) FROM visits GROUP BY place LIMIT 0", "nothing can come out: LIMIT 0"),
        (
            "SELECT plan, COUNT(*) FROM visits WHERE plan = 'Pro' GROUP BY plan",
            "nothing can come out: no possible value of the keys meets the conditions",
        ),
    ):
        assert line in before(session, sql)
        answer = session.query(sql, epsilon=4)
        assert not answer.rows and line in answer.notes and not any("enough units" in one for one in answer.notes)


def test_rows_of_nobody_are_told_of_until_somebody_verified_that_there_are_none(connect: Connect) -> None:
    columns = {**COLUMNS, "person": {"nullable": False}}
    promised = {"privacy": {"max_rows": 3}, "tables": {"visits": {"unit": "person", "columns": columns}}}
    session = connect({"visits": VISITS}, promised)
    sql = "SELECT COUNT(*) FROM visits"
    assert NOBODY in as_dict(session.explain(sql, epsilon=1))["notes"] and NOBODY in session.query(sql, epsilon=1).notes
    engine = session._engine
    for name, version in engine.versions().items():
        for finding in verify(engine, engine.policy.tables[name]):
            engine.ledger.record_promise(name, finding.promise, version, finding.holds)
    assert "notes" not in as_dict(session.explain(sql, epsilon=1))
    assert NOBODY not in session.query(sql, epsilon=2).notes


def test_what_is_told_before_payment_is_the_same_with_and_without_a_person(connect: Connect) -> None:
    queries = (
        "SELECT COUNT(*) FROM visits WHERE x > 200",
        "SELECT place, COUNT(*) FROM visits WHERE plan = 'Pro' GROUP BY place",
        "SELECT place, COUNT(*) FROM visits GROUP BY place",
    )
    person = pa.compute.equal(VISITS.column("person"), 299)
    without = VISITS.filter(pa.compute.invert(person))
    found = [
        [connect({"visits": table}, policy(), delta=1e-4).explain(sql, epsilon=1).notes for sql in queries]
        for table in (VISITS, without, VISITS.slice(0, 0))
    ]
    assert found[0] == found[1] == found[2]


def test_every_way_of_showing_an_answer_has_all_of_its_notes(session: dpsql.Session) -> None:
    answer = session.query("SELECT MIN(x), AVG(x) FROM visits WHERE plan = 'Pro'", epsilon=1)
    assert any("did you mean" in line for line in answer.notes) and NOBODY in answer.notes
    assert as_json(answer)["receipt"]["notes"] == list(answer.notes)
    assert all(line in answer._repr_html_().replace("&#x27;", "'") for line in answer.notes)
    assert session.replay(answer.receipt.id).notes == answer.notes
    assert "too few" in plain_table(answer) or answer.rows
