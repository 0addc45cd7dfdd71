"""Google's clause, contribution bounds and interval ends: almost without noise, plain DuckDB says the same."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from math import inf
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support import Connect

import dpsql

dice = random.Random(11)
PEOPLE = [int(dice.paretovariate(0.9)) % 50 for _ in range(2000)]
EVENTS = pa.table(
    {
        "uid": PEOPLE,
        "k": [dice.choice(["a", "b", "c"]) for _ in PEOPLE],
        "name": [f"n{dice.randrange(20)}" for _ in PEOPLE],
        "x": [dice.choice([None, math.nan, math.inf, *[round(dice.uniform(-9, 30), 3)] * 5]) for _ in PEOPLE],
        "i": pa.array([None if dice.random() < 0.1 else dice.randrange(-50, 300) for _ in PEOPLE], pa.int32()),
        "d": pa.array([Decimal(dice.randrange(-50000, 90000)) / 100 for _ in PEOPLE], pa.decimal128(9, 2)),
        "b": [dice.random() < 0.4 for _ in PEOPLE],
    }
)
TABLE: dict[str, Any] = {"columns": {"k": {"values": ["a", "b", "c"]}, "d": {"min": -1000, "max": 1000}}}
CLAUSE = (
    "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000000, delta = 1e-4, max_groups_contributed = 60, max_rows = 2000)"
)


def clipped(aggregate: str, low: float, high: float, where: str = "TRUE", by: str = "k, uid") -> str:
    """What each unit (or row) has by itself, moved into the bounds, and added up by k."""
    own = f"SELECT k, {aggregate} AS s, COUNT(*) AS n FROM t WHERE k IS NOT NULL AND {where} GROUP BY {by}"
    return f"SELECT k, SUM(LEAST(GREATEST(s, {low}), {high})) FROM ({own}) WHERE s IS NOT NULL GROUP BY k ORDER BY k"


PER_GROUP = [
    ("SUM(i, contribution_bounds_per_group => (-20, 400))", clipped("SUM(i)", -20, 400)),
    ("SUM(i, contribution_bounds_per_group => (5, 5))", clipped("SUM(i)", 5, 5)),
    ("SUM(d, contribution_bounds_per_group => (-1.25, 700.5))", clipped("SUM(d)", -1.25, 700.5)),
    ("SUM(x, contribution_bounds_per_group => (0, 90.5))", clipped("SUM(x)", 0, 90.5, "isfinite(x)")),
    ("SUM(b, contribution_bounds_per_group => (0, 3))", clipped("SUM(b::INT)", 0, 3)),
    ("SUM(i * 2 + 1, contribution_bounds_per_group => (-9, 99))", clipped("SUM(i * 2 + 1)", -9, 99)),
    ("SUM(i, contribution_bounds_per_group => (-9, 99)) FILTER (WHERE b)", clipped("SUM(i)", -9, 99, "b")),
    ("COUNT(*, contribution_bounds_per_group => (0, 5))", clipped("COUNT(*)", 0, 5)),
    ("COUNT(*, contribution_bounds_per_group => (3, 9)) FILTER (WHERE b)", clipped("COUNT(*)", 3, 9, "b")),
    ("COUNT(i, contribution_bounds_per_group => (2, 4))", clipped("COUNT(i)", 2, 4, "i IS NOT NULL")),
]
PER_ROW = [
    ("SUM({}, contribution_bounds_per_row => (0, 100))", "SUM({})", "i"),
    ("AVG({}, contribution_bounds_per_row => (-10, 20))", "AVG({})", "d"),
    ("SUM({}, contribution_bounds_per_row => (-2.5, 11)) FILTER (WHERE b)", "SUM({}) FILTER (WHERE b)", "x"),
    ("VAR_POP({}, contribution_bounds_per_row => (0, 64))", "VAR_POP({})", "i"),
    ("STDDEV({}, contribution_bounds_per_row => (0, 16))", "STDDEV({})", "x"),
]


@pytest.fixture(params=["uid", "row"])
def unit(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(unit: str, connect: Connect) -> dpsql.Session:
    made: dpsql.Session = connect({"t": EVENTS}, {"tables": {"t": {**TABLE, "unit": unit}}}, epsilon=10**12, delta=5e-4)
    return made


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.register("events", EVENTS)
        db.execute("CREATE TABLE t AS SELECT *, ROW_NUMBER() OVER () AS number FROM events")
        return db.execute(sql).fetchall()


def alike(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    def close(a: Any, b: Any) -> bool:
        number = not isinstance(a, str) and a is not None and b is not None
        return math.isclose(a, b, rel_tol=3e-3, abs_tol=0.1) if number else bool(a == b)

    return len(ours) == len(theirs) and all(all(map(close, p, q)) for p, q in zip(ours, theirs, strict=True))


@pytest.mark.sample(6)
@pytest.mark.parametrize(("aggregate", "same"), PER_GROUP, ids=[a for a, _ in PER_GROUP])
def test_bounds_per_group_clip_what_each_unit_adds_to_a_group(
    aggregate: str, same: str, session: dpsql.Session, unit: str
) -> None:
    expected = plain(same if unit == "uid" else same.replace("k, uid", "k, number"))
    answer = session.query(f"SELECT {CLAUSE} k, {aggregate} FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k")
    assert alike(answer.rows, expected), (answer.rows, expected)


@pytest.mark.sample(6)
@pytest.mark.parametrize(("aggregate", "same", "column"), PER_ROW, ids=[a for a, _, _ in PER_ROW])
def test_bounds_per_row_clip_each_value(aggregate: str, same: str, column: str, session: dpsql.Session) -> None:
    low, high = aggregate.partition("(")[2].partition("(")[2].partition(")")[0].split(", ")
    finite = f"CASE WHEN isfinite({column}::DOUBLE) THEN LEAST(GREATEST({column}, {low}), {high}) END"
    rest = "FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k"
    answer = session.query(f"SELECT {CLAUSE} k, {aggregate.format(column)} {rest}")
    expected = plain(f"SELECT k, {same.format(finite)} {rest}")
    assert alike(answer.rows, expected), (answer.rows, expected)
    clip = session.query(f"SELECT {CLAUSE} k, {same.format(f'CLIP({column}, {low}, {high})')} {rest}")
    assert alike(answer.rows, clip.rows)


def test_private_keys_and_other_aggregates_beside_a_clipped_sum(session: dpsql.Session, unit: str) -> None:
    clause = CLAUSE.replace("1000000", "100000000")  # small sums beside large limits
    sql = (
        f"SELECT {clause} name, COUNT(*), SUM(i, contribution_bounds_per_group => (0, 300)), SUM(d) FROM t "
        "GROUP BY name ORDER BY name"
    )
    by = "uid" if unit == "uid" else "number"
    expected = plain(
        "SELECT name, SUM(n), SUM(LEAST(GREATEST(s, 0), 300)) FILTER (WHERE s IS NOT NULL), SUM(d) FROM "
        f"(SELECT name, COUNT(*) AS n, SUM(i) AS s, SUM(d) AS d FROM t GROUP BY name, {by}) GROUP BY name ORDER BY name"
    )
    answer = session.query(sql)
    assert alike(answer.rows, expected), (answer.rows[:3], expected[:3])


def test_units_beyond_their_groups_are_cut_for_clipped_sums_on_public_keys(connect: Connect) -> None:
    table = pa.table({"uid": [u for u in range(50) for _ in range(100)], "g": list(range(100)) * 50})
    policy = {"tables": {"t": {"unit": "uid", "columns": {"g": {"min": 0, "max": 99}}}}}
    session = connect({"t": table}, policy, epsilon=10**9)
    sql = "SELECT g, COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM t GROUP BY g"
    rows = session.query(sql, epsilon=10**6, max_groups=4).rows
    assert sum(n for _, n in rows) == 50 * 4


def test_types_are_those_of_the_plain_aggregate(connect: Connect) -> None:
    session = connect({"t": EVENTS}, {"tables": {"t": {**TABLE, "unit": "row"}}}, epsilon=10**9)
    sql = (
        "SELECT SUM(i, contribution_bounds_per_group => (0.5, 99.5)) AS i, "
        "SUM(i, contribution_bounds_per_row => (0, 9)) AS r, SUM(d, contribution_bounds_per_group => (0, 9)) AS d, "
        "SUM(x, contribution_bounds_per_group => (0, 9)) AS x, "
        "SUM(i, contribution_bounds_per_group => (0, 1e12)) AS big, DP_INTERVAL_LOW(i) FROM t"
    )
    table = session.query(sql, epsilon=1).to_arrow()
    types = [str(f.type) for f in table.schema]
    assert types == ["int64", "int64", "decimal128(38, 2)", "double", "decimal128(38, 0)", "double"]
    assert table.column_names == ["i", "r", "d", "x", "big", "dp_interval_low(i)"]


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_interval_ends_are_those_of_the_answer(session: dpsql.Session, mechanism: str) -> None:
    sql = (
        "SELECT k, COUNT(*) AS n, AVG(d) AS mean, STDDEV(d) AS sd, "
        "SUM(d, contribution_bounds_per_group => (0, 50)) AS s, "
        + ", ".join(f"DP_INTERVAL_LOW({c}) AS {c}_low, DP_INTERVAL_HIGH({c})" for c in ("n", "mean", "sd", "s"))
        + " FROM t GROUP BY k HAVING DP_INTERVAL_LOW(n) > -1e9 ORDER BY DP_INTERVAL_LOW(n) DESC"
    )
    answer = session.query(sql, epsilon="0.1", delta="1e-4", max_rows=20, max_groups=2, mechanism=mechanism)
    assert len(answer.rows) == 4
    found = answer.intervals()
    for place, column in ((5, "n"), (7, "mean"), (9, "sd"), (11, "s")):
        ends = [(row[place], row[place + 1]) for row in answer.rows]
        assert ends == [
            (None, None) if pair is None else (pair[0], None if pair[1] == inf else pair[1])  # no upper end: NULL
            for pair in found[column] or []
        ]
    assert found["n_low"] is None
    lows = [row[5] for row in answer.rows]
    assert lows == sorted(lows, reverse=True)


def test_interval_ends_pass_through_subqueries_and_expressions(connect: Connect) -> None:
    session = connect({"t": EVENTS}, {"tables": {"t": {**TABLE, "unit": "row"}}}, epsilon=10**9)
    sql = (
        "WITH c AS (SELECT k, COUNT(*) AS k2, DP_INTERVAL_HIGH(k2) - DP_INTERVAL_LOW(k2) AS width FROM t GROUP BY k) "
        "SELECT MAX(width), MIN(width) FROM c"
    )
    widest, least = session.query(sql, epsilon=1).rows[0]
    assert widest == least == 6.0


def test_an_alias_wins_over_a_column_of_the_same_name(connect: Connect) -> None:
    session = connect({"t": EVENTS}, {"tables": {"t": {**TABLE, "unit": "row"}}}, epsilon=10**9)
    low, high = session.query("SELECT COUNT(*) AS i, DP_INTERVAL_LOW(i), DP_INTERVAL_HIGH(i) FROM t", epsilon=1).rows[
        0
    ][1:]
    assert high - low == 6.0


def test_the_clauses_epsilon_is_what_the_whole_query_costs(connect: Connect) -> None:
    session = connect({"t": EVENTS}, {"tables": {"t": {**TABLE, "unit": "row"}}}, epsilon=1, delta=1e-5)
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.25, max_groups = 1, delta = 1e-6)"
    both = f"SELECT (SELECT {clause} COUNT(*) FROM t), (SELECT {clause} SUM(d) FROM t)"
    answer = session.query(both)
    assert answer.cost.epsilon == session.budget.spent.epsilon == Fraction(1, 4)


@pytest.mark.parametrize("bounds", ["(0, 1e18)", "(-1e-9, 1e-9)"])
def test_a_sum_of_zeros_in_a_fine_decimal_is_answered(connect: Connect, bounds: str) -> None:
    table = pa.table({"d": pa.array([Decimal(0)], pa.decimal128(38, 37))})
    session = connect({"t": table}, {"tables": {"t": {"unit": "row"}}}, epsilon=10**12)
    for per in ("row", "group"):
        (found,) = session.query(
            f"SELECT SUM(d, contribution_bounds_per_{per} => {bounds}) FROM t", epsilon=10**11
        ).rows
        assert isinstance(found[0], Decimal)
