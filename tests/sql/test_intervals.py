"""Months and days in one query: each column has its own value, before the releases and after them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

import pyarrow as pa
import pytest

import dpsql

DAY = date(2024, 1, 31)
SHIFTS = {
    "d + INTERVAL 1 MONTH": datetime(2024, 2, 29),
    "d + INTERVAL 30 DAY": datetime(2024, 3, 1),
    "INTERVAL 720 HOUR + d": datetime(2024, 3, 1),
    "d + INTERVAL '1 month 3 days'": datetime(2024, 3, 3),
    "d - INTERVAL 33 DAY": datetime(2023, 12, 29),
    "DATE_ADD(d, INTERVAL (-1) MONTH)": datetime(2023, 12, 31),
    "d - INTERVAL 30 DAY + INTERVAL 1 MONTH - INTERVAL 30 DAY": datetime(2024, 1, 2),
    "TIME_BUCKET(INTERVAL 1 MONTH, d)": date(2024, 1, 1),
    "TIME_BUCKET(INTERVAL 30 DAY, d)": date(2024, 1, 27),
}
LISTED = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(SHIFTS))


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    table = {"unit": "person", "columns": {"d": {"values": [DAY]}}}
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 100}, "tables": {"visits": table}})
    rows = pa.table({"person": range(500), "d": [DAY] * 500})
    with dpsql.connect(policy, sources={"visits": rows}, ledger=":memory:") as opened:
        yield opened


@pytest.mark.parametrize("groups", ["GROUP BY ALL", "GROUP BY d"], ids=["keys", "results"])
def test_every_shift_is_its_own(session: dpsql.Session, groups: str) -> None:
    key = "" if groups == "GROUP BY ALL" else "d, "
    answer = session.query(f"SELECT {key}{LISTED}, COUNT(*) AS n FROM visits {groups}", epsilon=1)
    (row,) = (row for row in map(dict, (zip(answer.columns, r, strict=True) for r in answer.rows)) if row["c0"])
    assert {sql: row[f"c{i}"] for i, sql in enumerate(SHIFTS)} == SHIFTS


def test_filters_by_months_and_by_days_count_their_own_rows(session: dpsql.Session) -> None:
    counts = ", ".join(f"COUNT(*) FILTER (WHERE d + INTERVAL {by} > DATE '2024-02-29')" for by in ("1 MONTH", "30 DAY"))
    ((months, days),) = session.query(f"SELECT {counts} FROM visits", epsilon=10).rows
    assert months < 100 < 400 < days


@pytest.mark.parametrize(
    "sql",
    [
        "2 * INTERVAL 15 DAY + d AS a, INTERVAL 1 MONTH + d AS b",
        "INTERVAL 1 MONTH + INTERVAL 30 DAY + d AS a",
        "d - INTERVAL '1 month 3 days' AS a, d + INTERVAL 1 DAY AS b",
        "d + INTERVAL (1 + 0) MONTH AS a, d + INTERVAL 30 DAY AS b",
        "d + CAST('1 ' || 'month' AS INTERVAL) AS a, d + INTERVAL 30 DAY AS b",
        "SUM(COUNT(*)) OVER (ORDER BY d RANGE INTERVAL 1 MONTH PRECEDING) AS a, d + INTERVAL 30 DAY AS b",
    ],
)
def test_what_cannot_be_told_apart_is_refused_for_free(session: dpsql.Session, sql: str) -> None:
    before = session.budget.spent
    with pytest.raises(dpsql.SQLError, match="can't tell INTERVALs apart") as refused:
        session.query(f"SELECT d, {sql} FROM visits GROUP BY d", epsilon=1)
    assert refused.value.code == "interval-mixed"
    assert session.budget.spent == before


def test_what_the_refusal_says_to_write_is_answered(session: dpsql.Session) -> None:
    told = (
        "SELECT d, d - INTERVAL 1 MONTH - INTERVAL 3 DAY AS a, d + INTERVAL 1 DAY AS b, COUNT(*) FROM visits GROUP BY d"
    )
    row = next(row for row in session.query(told, epsilon=1).rows if row[0] == DAY)
    assert row[1:3] == (datetime(2023, 12, 28), datetime(2024, 2, 1))


def test_one_interval_alone_is_duckdbs_whatever_its_parts_are() -> None:
    """Of a time with a zone DuckDB adds days first where something is taken away: 30 April − 6 days + 11 months."""
    moments = pa.array([datetime(2020, 4, 30, 23, 30)] * 500, pa.timestamp("us", tz="UTC"))
    policy = dpsql.Policy.from_dict({"budget": {"epsilon": 100}, "tables": {"t": {"unit": "person"}}})
    sql = (
        "SELECT COUNT_IF(tz + INTERVAL '11 months -6 days 22 hours' > TIMESTAMPTZ '2021-03-26 00:00:00+00') AS n FROM t"
    )
    rows = pa.table({"person": range(500), "tz": moments})
    with dpsql.connect(policy, sources={"t": rows}, ledger=":memory:") as session:
        assert abs(session.query(sql, epsilon=10).rows[0][0] - 500) < 50
