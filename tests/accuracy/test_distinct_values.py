"""COUNT(DISTINCT x) has a limit of its own: on different values, and not on rows."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import dpsql

PEOPLE = 3_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """About 5 rows each; w is one of 60 numbers in a range of 100, s a session of 4 rows of its owner, c one of 3."""
    random = np.random.default_rng(27)
    rows = 4 * random.geometric(0.4, PEOPLE)
    id = np.repeat(np.arange(PEOPLE), rows)
    return pa.table(
        {
            "id": id,
            "w": random.integers(0, 60, len(id)),
            "s": [f"s{number}" for number in np.arange(len(id)) // 4],
            "g": random.choice(["a", "b"], len(id)),
        }
    )


@pytest.fixture
def session(table: pa.Table) -> Iterator[dpsql.Session]:
    columns = {"w": {"min": 0, "max": 99}, "g": {"values": ["a", "b"], "nullable": False}}
    policy = {"budget": {"epsilon": 1000}, "tables": {"t": {"unit": "id", "columns": columns}}}
    opened = dpsql.connect(dpsql.Policy.from_dict(policy), sources={"t": table}, ledger=":memory:")
    with opened:
        yield opened


@pytest.mark.parametrize(
    ("sql", "within"),
    [
        ("SELECT COUNT(DISTINCT w) AS d FROM t", 12),
        ("SELECT COUNT(DISTINCT w) AS d, COUNT(*) AS n FROM t", 24),
        ("SELECT COUNT(DISTINCT w) AS d, SUM(w) AS n FROM t WHERE w < 50", 24),
        ("SELECT COUNT(DISTINCT s) AS d, COUNT(*) AS n FROM t", 400),
        ("SELECT COUNT(DISTINCT s) AS d FROM t", 200),
    ],
)
def test_different_values_are_counted_as_well_as_their_own_number_in_a_unit_allows(
    session: dpsql.Session, table: pa.Table, sql: str, within: float
) -> None:
    with duckdb.connect() as plain:
        plain.register("t", table)
        truth = plain.sql(sql).fetchall()[0][0]
    answer = session.query(sql, epsilon=1)
    value, interval = answer.rows[0][0], (answer.intervals(0.999)["d"] or [None])[0]
    assert abs(value - truth) <= within
    assert interval is not None and interval[0] <= truth <= interval[1]


def test_in_groups_values_have_their_own_limit_too(session: dpsql.Session) -> None:
    answer = session.query("SELECT g, COUNT(DISTINCT w) AS d, COUNT(*) AS n FROM t GROUP BY g", epsilon=1)
    assert all(abs(row[1] - 60) <= 40 for row in answer.rows if row[0] is not None)
    assert "different values" in " ".join(answer.notes)


def test_what_a_limit_on_values_cuts_is_no_part_of_the_rows(session: dpsql.Session) -> None:
    """Others may have the same values, so the number isn't called low."""
    answer = session.query("SELECT COUNT(DISTINCT w) AS d FROM t", epsilon=1, max_rows=2)
    assert "low by" not in str(answer) and abs(answer.rows[0][0] - 60) <= 20


def test_a_repetition_is_free(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(DISTINCT s) AS d, COUNT(*) AS n FROM t"
    first = session.query(sql, epsilon=1)
    assert session.query(sql, epsilon=1).rows == first.rows
    assert session.free(sql) is not None


def test_explain_says_the_limit_once_it_is_chosen(session: dpsql.Session) -> None:
    sql = "SELECT COUNT(DISTINCT w) AS d, COUNT(*) AS n FROM t"
    assert "still to be chosen" in str(session.explain(sql, epsilon=1))
    session.query(sql, epsilon=1)
    assert "at most 1 per unit" in str(session.explain(sql, epsilon=1))


def test_a_count_of_nearly_nothing_reads_at_least_0_and_keeps_its_value(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*) AS n FROM t WHERE s = 'nobody has this'", epsilon=1)
    assert "at least 0" in str(answer) and "at least -" not in str(answer)
    ends = (answer.intervals()["n"] or [None])[0]
    assert ends is not None
    low, high = ends
    assert low <= answer.rows[0][0] and high == float("inf")
