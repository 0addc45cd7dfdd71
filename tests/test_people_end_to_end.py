"""People with many rows: with loose limits and almost no noise, every answer is plain DuckDB's."""

from __future__ import annotations

import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support import Connect

import dpsql
from dpsql.analyze.ownership import key_promise

LOOSE: dict[str, Any] = {"epsilon": 10**12, "max_rows": 5000, "max_groups": 1000}
dice = random.Random(7)
PEOPLE = [int(dice.paretovariate(1.0)) % 40 for _ in range(3000)]
EVENTS = pa.table(
    {
        "uid": PEOPLE,
        "oid": list(range(3000)),
        "k": [dice.choice(["a", "b", "c"]) for _ in PEOPLE],
        "name": [f"n{dice.randrange(30)}" for _ in PEOPLE],
        "x": [None if dice.random() < 0.1 else round(dice.uniform(-2, 4), 3) for _ in PEOPLE],
        "i": [dice.randrange(-9, 90) for _ in PEOPLE],
    }
)
ITEMS = pa.table(
    {"oid": [dice.randrange(3100) for _ in range(5000)], "price": [dice.randrange(100) for _ in range(5000)]}
)
POLICY: dict[str, Any] = {
    "tables": {
        "t": {
            "unit": "uid",
            "key": "oid",
            "columns": {
                "k": {"values": ["a", "b", "c"]},
                "x": {"min": -2, "max": 4},
                "i": {"min": -9, "max": 90},
            },
        },
        "items": {"unit": {"through": "t", "on": {"oid": "oid"}}, "columns": {"price": {"min": 0, "max": 100}}},
    }
}
QUERIES = [
    "SELECT COUNT(*), COUNT(x), SUM(i), AVG(i), COUNT(DISTINCT uid) FROM t",
    "SELECT k, COUNT(*), SUM(x), AVG(x) FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k",
    "SELECT k, VAR_POP(i), VAR_SAMP(i), STDDEV(i), STDDEV_POP(x) FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k",
    "SELECT k, COUNT(DISTINCT uid), SUM(i) FILTER (WHERE x > 0) FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k",
    "SELECT name, COUNT(*), SUM(i) FROM t GROUP BY name HAVING COUNT(*) > 0 ORDER BY name",
    "SELECT DISTINCT name FROM t ORDER BY name",
    "SELECT name, k, COUNT(DISTINCT uid) FROM t WHERE i > 0 GROUP BY ALL ORDER BY ALL",
    "SELECT uid % 4 AS g, COUNT(*) FROM t GROUP BY g HAVING COUNT(*) > 0 ORDER BY g",
]


@pytest.fixture
def session(connect: Connect) -> dpsql.Session:
    made = connect({"t": EVENTS, "items": ITEMS}, POLICY, epsilon=10**12, delta=1e-4)
    engine = made._engine
    engine.ledger.record_promise("t", key_promise(engine.policy.tables["t"]), engine.versions()["t"], True)
    return made


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.register("t", EVENTS)
        db.register("items", ITEMS)
        return db.execute(sql).fetchall()


def alike(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], off: int = 0) -> bool:
    def close(a: Any, b: Any) -> bool:
        if isinstance(a, float) and b is not None:
            return math.isclose(a, float(b), rel_tol=1e-3, abs_tol=1e-3)
        return abs(a - b) <= off if isinstance(a, int) and isinstance(b, int) else bool(a == b)

    return len(ours) == len(theirs) and all(
        len(p) == len(q) and all(map(close, p, q)) for p, q in zip(ours, theirs, strict=True)
    )


@pytest.mark.sample(6)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("sql", QUERIES)
def test_with_loose_limits_an_answer_is_duckdbs(session: dpsql.Session, sql: str, mechanism: str) -> None:
    answer = session.query(sql, mechanism=mechanism, delta="1e-4", **LOOSE)
    # Even at ε = 10¹² Gaussian noise on a sum of 5,000 rows of up to 90 has a standard deviation of about 0.3.
    assert alike(answer.rows, plain(sql), off=0 if mechanism == "laplace" else 3), (answer.rows[:5], plain(sql)[:5])


def test_rows_of_a_linked_table_are_counted_for_their_owners(session: dpsql.Session) -> None:
    answer = session.query("SELECT COUNT(*), SUM(price), COUNT(DISTINCT PRIVACY_UNIT()) FROM items", **LOOSE)
    joined = "SELECT COUNT(*), SUM(price), COUNT(DISTINCT uid) FROM items JOIN t USING (oid)"
    assert alike(answer.rows, plain(joined))


def test_a_limit_counts_everyone_for_at_most_that_many_rows(session: dpsql.Session) -> None:
    options = {**LOOSE, "epsilon": 10**11, "max_rows": 10}
    (count,) = session.query("SELECT COUNT(*) FROM t", **options).rows[0]
    capped = plain("SELECT SUM(LEAST(n, 10)) FROM (SELECT COUNT(*) AS n FROM t GROUP BY uid)")[0][0]
    assert abs(count - capped) <= 1
    shares = session.query("SELECT k, COUNT(*) AS n FROM t WHERE k IS NOT NULL GROUP BY k", **options).rows
    assert abs(sum(n for _, n in shares) - capped) <= 2  # the same weights for every group


def test_a_limit_by_group_bounds_each_group(session: dpsql.Session) -> None:
    options = {**LOOSE, "max_rows_per_group": 3}
    found = session.query("SELECT k, COUNT(*) FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k", **options).rows
    sql = "SELECT k, SUM(LEAST(n, 3)) FROM (SELECT k, uid, COUNT(*) AS n FROM t GROUP BY k, uid) GROUP BY k ORDER BY k"
    assert all(abs(a[1] - b[1]) <= 1 for a, b in zip(found, plain(sql), strict=True))
