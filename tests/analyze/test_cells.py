"""Cells: exactly the groups that rows within the policy's bounds can have, whatever DuckDB finds among many of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from source_kinds import KINDS, csv_type
from support import sampled

import dpsql

NATION = pa.table(
    {
        "nk": pa.array(range(25), pa.int32()),
        "nation": [f"n{i:02}" for i in range(25)],
        "rk": pa.array([i % 5 for i in range(25)], pa.int32()),
    }
)
REGION = pa.table({"rk": pa.array(range(5), pa.int64()), "region": ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE"]})
ITEM = pa.table(
    {
        "sku": pa.array(range(60), pa.int64()),
        "code": [f"i{i:02}" for i in range(60)],
        "class": [f"c{i % 9}" for i in range(60)],
        "category": [("Books", "Sports", "Home")[i % 3] for i in range(60)],
        "price": pa.array([Decimal(i) / 4 for i in range(60)], pa.decimal128(8, 2)),
    }
)
TRIPS = pa.schema(
    [
        ("uid", pa.int64()),
        ("nk", pa.int32()),
        ("other", pa.int64()),
        ("sku", pa.int64()),
        ("pay", pa.float64()),
        ("wide", pa.int64()),
        ("fee", pa.decimal128(8, 2)),
        ("small", pa.float32()),
        ("age", pa.int32()),
        ("day", pa.date32()),
        ("seen", pa.timestamp("us")),
        ("kind", pa.string()),
    ]
)
COLUMNS: dict[str, Any] = {
    "nk": {"references": "nation.nk"},
    "pay": {"min": 0, "max": 1000},
    "wide": {"min": 0, "max": 1_000_000},
    "fee": {"min": 0, "max": 10},
    "small": {"min": -2, "max": 2},
    "age": {"min": 0, "max": 120},
    "day": {"min": date(2020, 1, 1), "max": date(2020, 12, 31)},
    "seen": {"min": datetime(2024, 1, 1), "max": datetime(2024, 12, 31, 23, 59, 59)},
    "kind": {"values": ["a", "b", "c"]},
}
POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1e12, "delta": 1e-4},
    "privacy": {"max_rows": 1_000_000, "max_groups": 3},
    "tables": {
        "trips": {"unit": "uid", "columns": COLUMNS},
        "nation": {"public": True},
        "region": {"public": True},
        "item": {"public": True},
    },
}
PUBLIC = {"nation": NATION, "region": REGION, "item": ITEM}

EXACT = {
    "a public filter, two tables on": "SELECT nation FROM trips JOIN nation USING (nk) JOIN region r USING (rk) WHERE "
    "region = 'ASIA'",
    "a comma join": "SELECT nation FROM trips t, nation n, region r WHERE t.nk = n.nk AND n.rk = r.rk AND region > 'B'",
    "keys of one table": "SELECT code, class, category, price FROM trips JOIN item USING (sku) WHERE category IN "
    "('Books', 'Home')",
    "keys of one table, apart": "SELECT class, nation, category FROM trips JOIN item USING (sku) JOIN nation USING "
    "(nk) WHERE rk < 2",
    "a filter in a subquery": "SELECT n FROM (SELECT nation AS n, uid FROM trips JOIN nation USING (nk) WHERE rk = 1)",
    "a column that equals a public one": "SELECT t.other, nation FROM trips t JOIN nation n ON t.other = n.nk WHERE "
    "t.other < 7",
    "a reference and its table": "SELECT trips.nk, nation, region FROM trips JOIN nation USING (nk) JOIN region USING "
    "(rk)",
    "IN a public list": "SELECT nk FROM trips WHERE nk IN (SELECT nk FROM nation WHERE rk = 2)",
    "EXISTS a public row": "SELECT nk FROM trips t WHERE EXISTS (SELECT 1 FROM nation n WHERE n.nk = t.nk AND rk = 2)",
    "LEFT JOIN": "SELECT nation FROM trips t LEFT JOIN nation n ON t.nk = n.nk",
    "LEFT JOIN with a filter": "SELECT nation FROM trips t LEFT JOIN nation n ON t.nk = n.nk AND n.rk = 2",
    "LEFT JOIN and WHERE": "SELECT nation FROM trips t LEFT JOIN nation n ON t.nk = n.nk WHERE n.rk = 2",
    "a union": "SELECT a FROM (SELECT uid, nation AS a FROM trips JOIN nation USING (nk) WHERE rk = 3 UNION ALL SELECT "
    "uid, kind FROM trips)",
    "parts of a date": "SELECT year(day), month(day) FROM trips",
    "two keys and a condition": "SELECT age, nk FROM trips WHERE age < nk AND age >= 10",
    "a list": "SELECT age FROM trips WHERE age IN (18, 65)",
    "FLOOR": "SELECT floor(pay / 50) * 50 FROM trips",
    "FLOOR as an integer": "SELECT CAST(floor(pay / 50) * 50 AS INTEGER) FROM trips",
    "FLOOR in a subquery": "SELECT b FROM (SELECT CAST(floor(pay / 50) AS INTEGER) * 50 AS b FROM trips) WHERE b < 500",
    "FLOOR below a bound": "SELECT floor(pay / 50) * 50 FROM trips WHERE pay >= 100 AND pay < 500",
    "FLOOR that rounding moves": "SELECT floor(pay * 10) FROM trips WHERE pay <= 0.7",
    "FLOOR of a decimal": "SELECT floor(fee) FROM trips WHERE fee < 7",
    "FLOOR of a single": "SELECT floor(small * 2) FROM trips",
    "CEIL": "SELECT ceil(pay / 100) FROM trips",
    "ROUND to tens": "SELECT round(pay, -1) FROM trips WHERE pay < 200",
    "ROUND to tenths": "SELECT round(pay, 1) FROM trips WHERE pay < 3",
    "ROUND of a decimal": "SELECT round(fee, 1) FROM trips",
    "ROUND of an integer": "SELECT round(wide, -5) FROM trips",
    "TRUNC": "SELECT trunc(pay / 200) FROM trips",
    "a cast": "SELECT CAST(pay / 100 AS INTEGER) FROM trips",
    "integer division": "SELECT wide // 100000 FROM trips WHERE wide < 700000",
    "integer division and back": "SELECT wide // 100000 * 100000 FROM trips",
    "WIDTH_BUCKET": "SELECT width_bucket(pay, 100, 300, 8) FROM trips WHERE pay < 250",
    "WIDTH_BUCKET of an integer": "SELECT width_bucket(age, 0, 100, 10) FROM trips",
    "TIME_BUCKET": "SELECT time_bucket(INTERVAL '2 weeks', seen) FROM trips",
    "TIME_BUCKET of months": "SELECT time_bucket(INTERVAL '2 months', seen) FROM trips WHERE seen < '2024-07-01'",
    "TIME_BUCKET of a date": "SELECT time_bucket(INTERVAL '10 days', day) FROM trips WHERE day < '2020-03-01'",
    "DATE_TRUNC": "SELECT date_trunc('month', seen) FROM trips WHERE seen < '2024-04-01'",
    "DATE_TRUNC as a date": "SELECT CAST(date_trunc('week', seen) AS DATE) FROM trips WHERE seen >= '2024-05-01'",
    "CASE of steps": "SELECT CASE WHEN pay > 500 THEN 'much' WHEN kind = 'a' THEN kind ELSE 'little' END FROM trips",
    "a step of a step": "SELECT floor(pay / 10) % 3 FROM trips",
    "cohorts": "SELECT date_trunc('month', f), date_diff('month', f, seen) FROM (SELECT uid, MIN(seen) AS f FROM trips "
    "GROUP BY uid) JOIN trips USING (uid) WHERE seen >= f",
    "cohorts by name": "SELECT c, m FROM (SELECT uid, date_trunc('month', f) AS c, date_diff('month', date_trunc("
    "'month', f), date_trunc('month', seen)) AS m FROM (SELECT uid, MIN(seen) AS f FROM trips GROUP BY uid) JOIN trips "
    "USING (uid)) WHERE m BETWEEN 0 AND 3",
}
MORE = {  # cells that there can't be, but nothing that is looked at says so
    "a LEFT JOIN of a LEFT JOIN": "SELECT nation, region FROM trips t LEFT JOIN nation n ON t.nk = n.nk LEFT JOIN "
    "region r ON n.rk = r.rk",
    "cohorts without a condition": "SELECT date_trunc('month', f), date_diff('month', f, seen) FROM (SELECT uid, "
    "MIN(seen) AS f FROM trips GROUP BY uid) JOIN trips USING (uid)",
}
COUNTS = {"a LEFT JOIN of a LEFT JOIN": 51, "cohorts without a condition": 157}


@cache
def rows() -> pa.Table:
    """Many rows within the policy's bounds, at their ends, and NULL; sometimes a whole person late in the year."""
    draw = random.Random(7)
    ends = {"pay": (0.0, 1000.0, 0.7, 500.0), "small": (-2.0, 2.0), "wide": (0, 10**6), "age": (0, 120)}
    made: list[dict[str, Any]] = []
    for i in range(30_000):
        uid = draw.randrange(10_000)
        row: dict[str, Any] = {
            "uid": uid,
            "nk": draw.randrange(25),
            "other": draw.randrange(-5, 30),
            "sku": draw.randrange(60),
            "pay": draw.choice((draw.uniform(0, 1000), draw.uniform(0, 3))),
            "wide": draw.randrange(10**6 + 1),
            "fee": Decimal(draw.randrange(1001)) / 100,
            "small": draw.uniform(-2, 2),
            "age": draw.randrange(121),
            "day": date(2020, 1, 1) + timedelta(days=draw.randrange(366)),
            "seen": datetime(2024, 1, 1) + timedelta(seconds=draw.randrange(uid % 366 * 86_400, 366 * 86_400)),
            "kind": draw.choice("abc"),
        }
        row |= {n: draw.choice(values) for n, values in ends.items() if i % 20 == 0}
        row |= {n: None for n in row if n != "uid" and i % 5 == 1 and draw.random() < 0.3}
        made.append(row)
    return pa.Table.from_pylist(made, TRIPS)


def cells_of(session: dpsql.Session, sql: str) -> set[tuple[Any, ...]]:
    (step,) = session.explain(sql, epsilon=1).steps
    assert step.cells is not None, "the keys are selected privately"
    listed = [tuple(map(_plain, row)) for row in zip(*(c.to_pylist() for c in step.cells.columns), strict=True)]
    assert len(set(listed)) == len(listed)
    return set(listed)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal | int) else value


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    """Over no private row at all: cells are there before any is."""
    policy = dpsql.Policy.from_dict(POLICY)
    with dpsql.connect(policy, sources={"trips": TRIPS.empty_table(), **PUBLIC}, ledger=":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in {"trips": rows(), **PUBLIC}.items():
            connection.register(name, table)
        connection.execute(
            "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 ELSE "
            "CAST(floor((CAST(x AS DOUBLE) - low) * n / (high - low)) AS INTEGER) + 1 END"
        )
        yield connection


def grouped(sql: str) -> str:
    """The query with COUNT(*) by all its columns."""
    keys, rest = sql.split(" FROM ", 1)
    count = len(_split(keys.removeprefix("SELECT ")))
    return f"{keys}, COUNT(*) AS n FROM {rest} GROUP BY {', '.join(str(i + 1) for i in range(count))}"


def _split(keys: str) -> list[str]:
    depth, parts = 0, [""]
    for letter in keys:
        depth += (letter == "(") - (letter == ")")
        parts = [*parts, ""] if letter == "," and not depth else [*parts[:-1], parts[-1] + letter]
    return parts


@pytest.mark.sample(18)
@pytest.mark.parametrize("name", EXACT)
def test_cells_are_the_groups_that_there_can_be_and_no_others(
    name: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    sql = grouped(EXACT[name])
    found = {tuple(map(_plain, row[:-1])) for row in plain.execute(sql).fetchall()}
    assert cells_of(session, sql) == found


@pytest.mark.parametrize("name", MORE)
def test_cells_are_never_less_than_the_groups_that_there_can_be(
    name: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    sql = grouped(MORE[name])
    found = {tuple(map(_plain, row[:-1])) for row in plain.execute(sql).fetchall()}
    cells = cells_of(session, sql)
    assert found < cells and len(cells) == COUNTS[name]


def test_public_rows_without_a_match_stay_groups(session: dpsql.Session) -> None:
    every = "SELECT nation, COUNT(t.uid) FROM nation n LEFT JOIN trips t ON t.nk = n.nk AND n.rk = 2 GROUP BY nation"
    some = "SELECT nation, COUNT(t.uid) FROM nation n LEFT JOIN trips t ON t.nk = n.nk WHERE n.rk = 2 GROUP BY nation"
    asked = every.replace("n.rk = 2", "n.rk IN (SELECT rk FROM region WHERE region = 'ASIA')")
    assert [len(cells_of(session, sql)) for sql in (every, some, asked)] == [25, 5, 25]


def test_released_values_narrow_no_cells(session: dpsql.Session) -> None:
    sql = "SELECT age, COUNT(*) FROM trips WHERE age < (SELECT COUNT(*) FROM trips) GROUP BY age"
    *_, last = session.explain(sql, epsilon=1).steps
    assert last.cells is not None and last.cells.num_rows == 121


def test_explain_names_a_better_way_to_write_a_key(session: dpsql.Session) -> None:
    text = str(session.explain("SELECT pay, COUNT(*) FROM trips GROUP BY pay", epsilon=1, delta="1e-6"))
    assert "better: group by something coarser: CAST(FLOOR(pay) AS INTEGER)" in text
    assert "those that there can be of" in str(
        session.explain("SELECT code, class, COUNT(*) FROM trips JOIN item USING (sku) GROUP BY 1, 2", epsilon=1)
    )


# ---------------------------------------------------------------- data that break the policy's ranges


def broken() -> pa.Table:
    """Values inside and outside of the range of pay, one person each."""
    values = [0.0, 49.9, 50.0, 999.0, 1000.0, 1049.0, 1050.0, -1.0, -0.0, nan, inf, -inf, 1e300, None]
    nulls: list[dict[str, Any]] = [{"uid": i, "pay": v, "nk": 2 + 95 * (i % 2)} for i, v in enumerate(values)]
    return pa.Table.from_pylist([{**dict.fromkeys(TRIPS.names), **row} for row in nulls], TRIPS)


STEPS = {
    "floor(pay / 50) * 50": {0.0: 3, 50.0: 1, 950.0: 1, 1000.0: 2, None: 1},
    "CAST(round(pay, -2) AS INTEGER)": {0: 4, 100: 1, 1000: 3, None: 5},
    "width_bucket(pay, 0, 1000, 4)": {1: 4, 4: 1, 5: 6, None: 1},
    "nk": {2: 7},
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("key", STEPS)
@pytest.mark.parametrize("kind", ["parquet by pyarrow", "CSV", "DuckDB file", "Arrow"])
@pytest.mark.parametrize("limits", [{}, {"max_rows": 2, "max_rows_per_group": 1}], ids=["unlimited", "limited"])
def test_rows_outside_of_the_listed_steps_are_dropped(
    key: str, kind: str, limits: dict[str, Any], tmp_path: Path
) -> None:
    table = broken()
    placed = KINDS[kind](table, tmp_path)
    columns = {n: dict(COLUMNS.get(n, {})) for n in TRIPS.names}
    if kind == "CSV":
        columns = {n: {**c, "type": csv_type(TRIPS.field(n).type)} for n, c in columns.items()}
    trips = {"unit": "uid", "columns": columns, **placed.entry}
    policy = dpsql.Policy.from_dict({**POLICY, "tables": {**POLICY["tables"], "trips": trips}})
    sources = PUBLIC if placed.object is None else {**PUBLIC, "trips": placed.object}
    with dpsql.connect(policy, sources=sources, ledger=":memory:") as session:
        answer = session.query(f"SELECT {key} AS k, COUNT(*) AS n FROM trips GROUP BY k", epsilon=1e9, **limits)
    assert {k: n for k, n in answer.rows if n} == STEPS[key]


def test_a_neighbour_changes_no_cell(tmp_path: Path) -> None:
    """The cells of two data sets that differ by one person, who is where nobody else is, and outside of all ranges."""
    table = rows().slice(0, 500)
    person = pa.Table.from_pylist([{**dict.fromkeys(TRIPS.names), "uid": -1, "pay": 1e9, "nk": 99, "age": 500}], TRIPS)
    found, names = [], sampled(EXACT, 9)
    for i, data in enumerate((table, pa.concat_tables([table, person]), table.slice(0, 0))):
        for kind in ("parquet by pyarrow", "DuckDB file"):
            folder = tmp_path / f"{i}{kind}"
            folder.mkdir()
            trips = {**POLICY["tables"]["trips"], **KINDS[kind](data, folder).entry}
            policy = dpsql.Policy.from_dict({**POLICY, "tables": {**POLICY["tables"], "trips": trips}})
            with dpsql.connect(policy, sources=PUBLIC, ledger=":memory:") as session:
                found.append([cells_of(session, grouped(EXACT[name])) for name in names])
    assert all(one == found[0] for one in found)
