"""COUNT over EXCEPT and INTERSECT of private values counts values, and needs no list of them."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support import Connect

import dpsql

PEOPLE = 400
A = pa.table(
    {
        "person": list(range(PEOPLE)),
        "tag": [None if p % 50 == 0 else f"t{p % 40}" for p in range(PEOPLE)],
        "c": [p % 6 for p in range(PEOPLE)],
    }
)
B = pa.table(
    {"person": list(range(PEOPLE)), "tag": [f"t{p % 25}" for p in range(PEOPLE)], "c": [p % 4 for p in range(PEOPLE)]}
)
TABLES = {"a": A, "b": B}
POLICY: dict[str, Any] = {
    "privacy": {"max_rows": 1, "max_groups": 1},
    "tables": {name: {"unit": "person", "columns": {"c": {"min": 0, "max": 9}}} for name in TABLES},
}
COUNTS = {
    "except": "SELECT COUNT(*) AS n FROM (SELECT tag FROM a EXCEPT SELECT tag FROM b) AS q",
    "intersect": "SELECT COUNT(*) AS n FROM (SELECT tag FROM a INTERSECT SELECT tag FROM b) AS q",
    "rows of values": "SELECT 2 * COUNT(*) AS n FROM (SELECT tag, c FROM a EXCEPT SELECT tag, c FROM b WHERE c > 1)",
    "lists": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT tag FROM b INTERSECT SELECT tag FROM a GROUP BY 1)",
    "in a CTE": "WITH q AS (SELECT tag FROM b EXCEPT SELECT tag FROM a) SELECT COUNT(*) AS n FROM q",
}


@pytest.mark.parametrize("name", COUNTS)
def test_values_that_few_people_share_are_counted(connect: Connect, name: str) -> None:
    with duckdb.connect() as plain:
        for table, rows in TABLES.items():
            plain.register(table, rows)
        truth = plain.execute(COUNTS[name]).fetchall()
    exact = connect(TABLES, POLICY, delta=1e-6).query(COUNTS[name], epsilon=10**7)
    assert exact.rows == truth
    told = {**POLICY, "privacy": {**POLICY["privacy"], "limits_share": 0.2}}
    answer = connect(TABLES, told, delta=1e-6).query(COUNTS[name], epsilon=5)
    intervals = answer.intervals(0.999)["n"]
    assert intervals is not None and intervals[0] is not None
    assert intervals[0][0] - 1 <= truth[0][0] <= intervals[0][1] + 1 and answer.cost.delta == 0


def test_nothing_is_selected_so_that_no_delta_is_needed(connect: Connect) -> None:
    session = connect(TABLES, POLICY, delta=0)
    quote = session.explain(COUNTS["except"], epsilon=1)
    assert quote.price.delta == 0 and len(quote.steps) == 2 and not any(step.selection for step in quote.steps)


def test_public_values_are_counted_too_however_few_people_have_each(connect: Connect) -> None:
    sql = "SELECT COUNT(*) AS n FROM (SELECT c FROM a EXCEPT SELECT c FROM b) AS q"
    told = {**POLICY, "privacy": {"limits_share": 0.2}}
    session = connect(TABLES, told, delta=1e-6)
    assert not any(step.selection for step in session.explain(sql, epsilon=5).steps)
    answer = session.query(sql, epsilon=5)
    ends = (answer.intervals(0.999)["n"] or [None])[0]
    assert ends is not None
    low, high = ends
    assert low - 1 <= 2 <= high + 1 and abs(answer.rows[0][0] - 2) <= 12


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(tag) AS n FROM (SELECT tag FROM a EXCEPT SELECT tag FROM b) AS q",
        "SELECT COUNT(*) AS n FROM (SELECT tag FROM a EXCEPT SELECT tag FROM b) AS q WHERE tag > 't3'",
        "SELECT tag FROM a EXCEPT SELECT tag FROM b",
    ],
)
def test_what_asks_for_more_than_a_number_is_a_list_still(connect: Connect, sql: str) -> None:
    with pytest.raises(dpsql.PrivacyError):
        connect(TABLES, POLICY, delta=0).explain(sql, epsilon=1)
    assert any(s.selection for s in connect(TABLES, POLICY, delta=1e-6).explain(sql, epsilon=1).steps)


def test_rows_that_people_are_compared_with_themselves_by_are_counted_as_rows(connect: Connect) -> None:
    sql = "SELECT COUNT(*) AS n FROM (SELECT person, tag FROM a EXCEPT SELECT person, tag FROM b) AS q"
    session = connect(TABLES, POLICY)
    assert len(session.explain(sql, epsilon=1).steps) == 1
