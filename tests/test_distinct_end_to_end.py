"""COUNT(DISTINCT x) through the whole pipeline: DuckDB's own numbers where limits are loose, matchings where not."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support import Connect

import dpsql

dice = random.Random(3)
COUNT = 600
TABLE = pa.table(
    {
        "id": [dice.randrange(60) for _ in range(COUNT)],
        "k": [dice.choice("abc") for _ in range(COUNT)],
        "p": [dice.choice(["p0", "p1", None]) for _ in range(COUNT)],
        "i": pa.array([dice.choice([None, *range(40)]) for _ in range(COUNT)], pa.int32()),
        "x": [dice.choice([float("nan"), float("inf"), 0.0, -0.0, None, *map(float, range(30))]) for _ in range(COUNT)],
        "s": [dice.choice(["", "ä", "é", None, *map(str, range(90))]) for _ in range(COUNT)],
        "d": pa.array([dice.choice([None, *range(50)]) for _ in range(COUNT)], pa.int32()).cast(pa.date32()),
        "b": [dice.choice([True, False, None]) for _ in range(COUNT)],
    }
)
POLICY: dict[str, Any] = {"tables": {"t": {"unit": "id", "columns": {"k": {"values": ["a", "b", "c"]}}}}}
ROWS: dict[str, Any] = {"tables": {"t": {"unit": "row", "columns": {"k": {"values": ["a", "b", "c"]}}}}}
LOOSE: dict[str, Any] = {"epsilon": 10**6, "delta": "1e-6", "max_rows": 1_000, "max_groups": 100}
QUERIES = [
    "SELECT COUNT(DISTINCT i), COUNT(DISTINCT x), COUNT(DISTINCT s), COUNT(DISTINCT d), COUNT(DISTINCT b) FROM t",
    "SELECT COUNT(DISTINCT x::FLOAT), COUNT(DISTINCT i::DECIMAL(9, 2)), COUNT(DISTINCT d::TIMESTAMP) FROM t",
    "SELECT COUNT(DISTINCT UPPER(s) || k), COUNT(DISTINCT i % 7), COUNT(DISTINCT x > 3) FROM t WHERE i < 30",
    "SELECT COUNT(DISTINCT s) FILTER (WHERE b) AS n, COUNT(*), COUNT(s), COUNT(DISTINCT id) FROM t",
    "SELECT k, COUNT(DISTINCT x), COUNT(DISTINCT d) FILTER (WHERE i > 9) FROM t WHERE k IN ('a', 'b', 'c') GROUP BY k",
    "SELECT p, COUNT(DISTINCT s), COUNT(*) FROM t GROUP BY p",
    "SELECT p, k, COUNT(DISTINCT x) FROM t GROUP BY ALL HAVING COUNT(*) > 0",
    "SELECT k, COUNT(DISTINCT i) FROM t WHERE k IS NOT NULL GROUP BY ROLLUP (k) HAVING COUNT(DISTINCT i) > 0",
    "SELECT MAX(n) FROM (SELECT k, COUNT(DISTINCT s) AS n FROM t GROUP BY k)",
    "SELECT COUNT(DISTINCT s) FROM t WHERE i > (SELECT MAX(n) / 4 FROM (SELECT COUNT(DISTINCT i) AS n FROM t))",
]  # fmt: skip


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.register("t", TABLE)
        return db.execute(sql).fetchall()


@pytest.mark.sample(6)
@pytest.mark.parametrize("policy", [POLICY, ROWS], ids=["units", "rows"])
@pytest.mark.parametrize("sql", QUERIES)
def test_with_loose_limits_it_is_what_duckdb_says(connect: Connect, sql: str, policy: dict[str, Any]) -> None:
    if policy is ROWS:
        sql = sql.replace("COUNT(DISTINCT id)", "COUNT(DISTINCT id % 1000)")
    session = connect({"t": TABLE}, policy, epsilon=10**9, delta=1e-4)
    assert sorted(session.query(sql, **LOOSE).rows, key=repr) == sorted(plain(sql), key=repr)


def test_the_approximate_count_is_the_same(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10**9, delta=1e-4)
    sql = "SELECT APPROX_COUNT_DISTINCT(s) AS n, APPROX_COUNT_DISTINCT(id) AS m FROM t"
    assert session.query(sql, **LOOSE).rows == plain("SELECT COUNT(DISTINCT s), COUNT(DISTINCT id) FROM t")
    assert session.explain(sql, **LOOSE).steps[0].calls[1].units


def matching(pairs: set[tuple[Any, Any]], most: int) -> int:
    """Kuhn's algorithm, by the book: each unit takes at most so many values."""
    taken: dict[tuple[Any, int], Any] = {}

    def take(value: Any, seen: set[Any]) -> bool:
        for place in ((u, n) for u, v in pairs if v == value for n in range(most)):
            if place not in seen:
                seen.add(place)
                if place not in taken or take(taken[place], seen):
                    taken[place] = value
                    return True
        return False

    return sum(take(value, set()) for value in {v for _, v in pairs})


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("column", ["s", "x", "i"])
@pytest.mark.sample(3)
def test_with_a_limit_it_is_the_largest_matching(connect: Connect, column: str, most: int) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10**9)
    found = session.query(f"SELECT COUNT(DISTINCT {column}) FROM t", epsilon=10**6, max_rows=most).rows[0][0]
    pairs = {(u, repr(v + 0 if column == "x" else v)) for u, v in plain(f"SELECT id, {column} FROM t") if v is not None}
    assert found == matching(pairs, most)


@pytest.mark.parametrize("most", [1, 2])
def test_a_limit_per_group_is_a_matching_in_each_group(connect: Connect, most: int) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10**9)
    sql = "SELECT k, COUNT(DISTINCT s) FROM t WHERE k IS NOT NULL GROUP BY k"
    found = dict(session.query(sql, epsilon=10**6, max_rows=100, max_rows_per_group=most).rows)
    for k in "abc":
        rows = plain(f"SELECT id, s FROM t WHERE k = '{k}' AND s IS NOT NULL")
        assert found[k] == matching(set(rows), most)


def test_a_unit_with_more_values_than_its_limit_shares_it_out_over_its_groups(connect: Connect) -> None:
    # 90, 9 and 1 values, at most 10: about 9, 0.9 and 0.1 of them.
    data = pa.table({"id": [7] * 100, "k": ["a"] * 90 + ["b"] * 9 + ["c"], "v": list(range(100))})
    session = connect({"t": data}, POLICY, epsilon=10**9)
    seen = set()
    for _ in range(10):
        sql = "SELECT k, COUNT(DISTINCT v) FROM t WHERE k IS NOT NULL GROUP BY k ORDER BY k"
        found = tuple(n for _, n in session.query(sql, epsilon=10**6, max_rows=10, fresh=True).rows)
        assert sum(found) == 10 and found[0] >= 9
        seen.add(found)
    assert seen <= {(10, 0, 0), (9, 1, 0), (9, 0, 1)}


def test_extremes_of_distinct_values_are_those_of_all(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10**9)
    low, high = session.query("SELECT MIN(DISTINCT CLIP(i, 0, 50)), MAX(DISTINCT CLIP(i, 0, 50)) FROM t", **LOOSE).rows[
        0
    ]
    assert (low, high) == (0, 39)


def test_what_a_refusal_of_sum_distinct_says_to_write_works(connect: Connect) -> None:
    session = connect({"t": TABLE}, POLICY, epsilon=10**9, delta=1e-4)
    with pytest.raises(dpsql.PrivacyError) as error:
        session.query("SELECT SUM(DISTINCT i) FROM t", **LOOSE)
    assert "SELECT SUM(x) FROM (SELECT i AS x FROM … GROUP BY 1 HAVING COUNT(*) > 50)" in str(error.value)
    written = "SELECT SUM(x) FROM (SELECT i AS x FROM t GROUP BY 1 HAVING COUNT(*) > 5)"
    assert session.query(written, **LOOSE).rows == plain(written)
