"""Which groups are there: what is counted for it moves by no more than is claimed, and neighbours see the same plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import cursor_of, examples

import dpsql
from dpsql.backends.duckdb.run import execute
from dpsql.core.sensitivity import Sensitivity
from dpsql.quote.model import Quote
from dpsql.statistics.counts import Units

GROUPS = 3
KEYS = [f"k{i}" for i in range(40)]
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string()), ("n", pa.int32())])
QUERIES = {
    "distinct": "SELECT DISTINCT k FROM t",
    "group by": "SELECT k, n FROM t WHERE n > 1 GROUP BY k, n HAVING k > 'k1'",
    "union": "SELECT k FROM t UNION SELECT k FROM t WHERE n > 2",
    "over a list": "SELECT MIN(n) FROM (SELECT DISTINCT n, k FROM t) AS q",
    "averages": "SELECT AVG(a) FROM (SELECT k, AVG(n) AS a FROM t GROUP BY k) AS q",
    "first keys": "SELECT k, SUM(n) FROM t GROUP BY k ORDER BY k LIMIT 3",
}


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def policy(adjacency: str) -> dpsql.Policy:
    columns = {"k": {"values": KEYS}, "n": {"min": 0, "max": 5}}
    return dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e6},
            "privacy": {"adjacency": adjacency, "max_groups": GROUPS, "max_rows": 5},
            "tables": {"t": {"unit": "id", "columns": columns}},
        }
    )


@cache
def session(adjacency: str) -> dpsql.Session:
    return dpsql.connect(policy(adjacency), sources={"t": table([])}, ledger=":memory:")


@cache
def quoted(adjacency: str, sql: str) -> Quote:
    """One quote for all data sets: it holds the secret."""
    return session(adjacency).explain(sql, epsilon=1)


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    quoted.cache_clear()
    for adjacency in ("add_remove", "replace_one"):
        session(adjacency).close()
    session.cache_clear()


def units(adjacency: str, sql: str, rows: Sequence[Any]) -> tuple[list[int], Sensitivity]:
    """The number of units in each cell, and what is claimed of how far one of them moves that vector."""
    cursor = cursor_of(session(adjacency))
    cursor.register("t", table(rows))
    try:
        (step,) = quoted(adjacency, sql).steps
        exact = execute(step, cursor)
        (m,) = [m for m in step.measurements if isinstance(m.statistic, Units)]
        (numbers,) = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
        return list(map(int, numbers)), m.sensitivity
    finally:
        cursor.close()


def moved(adjacency: str, sql: str, one: Sequence[Any], other: Sequence[Any]) -> tuple[list[int], Sensitivity]:
    before, claim = units(adjacency, sql, one)
    after, _ = units(adjacency, sql, other)
    return [b - a for a, b in zip(before, after, strict=True)], claim


def within(moves: list[int], claim: Sensitivity) -> bool:
    return sum(map(abs, moves)) <= claim.l1 and sum(m * m for m in moves) <= claim.l2_squared


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(unit, st.sampled_from([*KEYS[:6], None, "n77"]), st.one_of(st.none(), st.integers(-2, 7)))


SOME = settings(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck))
others = st.lists(rows(st.integers(0, 3)), max_size=10)
hostile = st.lists(rows(st.just(77)), min_size=1, max_size=12)
EVERYWHERE = [(77, k, n) for k in [*KEYS, None] for n in (2, 3)]
ELSEWHERE = [(77, k, 4) for k in KEYS[20:]]
FEW = [(u, KEYS[u % 5], u % 4) for u in range(12)]


@pytest.mark.parametrize("name", QUERIES)
@SOME
@given(data=others, before=hostile, added=hostile)
@example(data=FEW, before=[(77, "k3", 2)], added=EVERYWHERE)
@pytest.mark.sample(2)
def test_one_unit_moves_what_tells_presence_by_no_more_than_is_claimed(
    name: str, data: list[Any], before: list[Any], added: list[Any]
) -> None:
    assert within(*moved("add_remove", QUERIES[name], data, [*data, *added]))
    assert within(*moved("replace_one", QUERIES[name], [*data, *before], [*data, *added]))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_claim_is_attained(adjacency: str) -> None:
    before = [(77, k, 2) for k in KEYS[:20]] if adjacency == "replace_one" else []
    moves, claim = moved(adjacency, QUERIES["distinct"], [*FEW, *before], [*FEW, *ELSEWHERE])
    assert sum(map(abs, moves)) == claim.l1 == GROUPS * (2 if before else 1)
    assert Fraction(9, 10) * claim.l2_squared < sum(m * m for m in moves)


def test_neighbours_see_the_same_price_threshold_and_schema() -> None:
    sql = "SELECT COUNT(*) AS n FROM (SELECT k FROM t EXCEPT SELECT k FROM t WHERE id = 77) AS q"
    seen = []
    for data in (FEW, [*FEW, *EVERYWHERE]):
        with dpsql.connect(policy("add_remove"), sources={"t": table(data)}, ledger=":memory:") as one:
            quote = one.explain(sql, epsilon=1)
            least = [call.at for step in quote.steps for call in step.calls]
            answer = one.query(sql, epsilon=1)
            seen.append((quote.price, quote.result, least, answer.cost, answer.notes, answer.columns))
    assert seen[0] == seen[1]
