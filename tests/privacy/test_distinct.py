"""COUNT(DISTINCT x): how far one unit moves the numbers of values in all cells together, computed exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import cursor_of, examples

import dpsql
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import analyze
from dpsql.backends.duckdb.run import execute
from dpsql.core.sensitivity import Sensitivity
from dpsql.quote.calibrate import calibrate
from dpsql.quote.model import Ask, Step
from dpsql.sql.parse import parse
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.top import Top

NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("k", pa.string()), ("p", pa.string())]
)
CODES = pa.table({"k": ["a", "a", "b", "b", "b", "c"], "label": ["r", "s", "r", "s", "t", "t"]})
LIMITS: dict[str, dict[str, int]] = {
    "row": {"max_groups": 2},
    "id": {"max_rows": 3, "max_groups": 2},
    "peak": {"max_rows": 5, "max_rows_per_group": 2, "max_groups": 4},
    "joined": {"max_rows": 2, "max_groups": 2},  # rows that are units, numbered as they are read
    "values": {"max_rows": 5, "max_groups": 2},
    "more values": {"max_rows": 2, "max_groups": 4},
}
VALUES = {"values": 2, "more values": 5}
"""How many different values of a unit count, where that is a limit of its own."""
QUERIES = {
    "numbers": "SELECT COUNT(DISTINCT x) FROM t",
    "text that passes": "SELECT COUNT(DISTINCT s) FILTER (WHERE x > 0 OR x IS NULL), COUNT(*) FROM t",
    "computed": "SELECT APPROX_COUNT_DISTINCT(s || k) FROM t WHERE x < 100",
    "by public key": "SELECT k, COUNT(DISTINCT x) FROM t GROUP BY k",
    "by public key, filtered": "SELECT k, COUNT(DISTINCT x) FILTER (WHERE s <> 'u'), SUM(x) FROM t GROUP BY k",
    "by private key": "SELECT p, COUNT(DISTINCT x), COUNT(*) FROM t GROUP BY p",
    "by both": "SELECT k, p, COUNT(DISTINCT s) FROM t GROUP BY k, p",
    "combinations": "SELECT COUNT(DISTINCT (x, s)) FROM t",
    "how many groups": "SELECT k, COUNT(*) FROM (SELECT DISTINCT k, p, x FROM t) GROUP BY k",
}
JOINED = {
    "labels": "SELECT COUNT(DISTINCT label) FROM t JOIN codes USING (k)",
    "labels by key": "SELECT t.k, COUNT(DISTINCT label) FROM t JOIN codes USING (k) GROUP BY t.k",
    "labels by private key": "SELECT p, COUNT(DISTINCT label) FROM t JOIN codes USING (k) GROUP BY p",
    "keys by label": "SELECT label, COUNT(DISTINCT x) FROM t JOIN codes USING (k) GROUP BY label",
}


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@cache
def session(kind: str, adjacency: str) -> dpsql.Session:
    columns = {"k": {"values": ["a", "b", "c"]}, "x": {"min": -5, "max": 5}}
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 1e6, "delta": 1e-4},
            "privacy": {"adjacency": adjacency, **LIMITS[kind]},
            "tables": {
                "t": {"unit": "row" if kind in ("row", "joined") else "id", "columns": columns},
                "codes": {"public": True},
            },
        }
    )
    return dpsql.connect(policy, sources={"t": table([]), "codes": CODES}, ledger=":memory:")


@cache
def quoted(kind: str, adjacency: str, sql: str) -> tuple[Step, ...]:
    """The steps of one quote for all data sets: they hold the secret."""
    if kind not in VALUES:
        return session(kind, adjacency).explain(sql, epsilon=1, delta="1e-6").steps
    opened = session(kind, adjacency)
    catalog = opened._engine.catalog()
    statement = opened._quoting._statement(parse(sql), Limits(), catalog)
    limits = replace(statement.limits, max_values=VALUES[kind])
    ask = Ask(Fraction(1), Fraction(1, 10**6), "laplace", conversion=None)
    steps = calibrate(analyze(statement.plan, limits, catalog), ask).releases
    assert all(step.checked.bounding.values == VALUES[kind] for step in steps)
    return steps


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    quoted.cache_clear()
    for kind in LIMITS:
        for adjacency in ("add_remove", "replace_one"):
            session(kind, adjacency).close()
    session.cache_clear()


def counts(kind: str, adjacency: str, sql: str, rows: Sequence[tuple[Any, ...]]) -> list[dict[Any, int]]:
    """For each count of distinct values: the number in each cell, by its key."""
    cursor = cursor_of(session(kind, adjacency))
    cursor.register("t", table(rows))
    found = []
    try:
        for step in quoted(kind, adjacency, sql):
            exact = execute(step, cursor)
            cells = exact.cells if step.checked.private_keys else step.cells
            keys = [()] if cells is None else list(zip(*(c.to_pylist() for c in cells.columns), strict=True))
            for m in step.measurements:
                if isinstance(m.statistic, Distinct):
                    (numbers,) = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
                    found.append(dict(zip(keys, map(int, numbers), strict=True)))
    finally:
        cursor.close()
    return found


def moves(
    kind: str, adjacency: str, sql: str, one: Sequence[Any], other: Sequence[Any]
) -> list[tuple[list[int], Sensitivity]]:
    """For each count of distinct values: by how much each cell moves, and what is claimed of that vector."""
    claims = [
        m.sensitivity for s in quoted(kind, adjacency, sql) for m in s.measurements if isinstance(m.statistic, Distinct)
    ]
    before, after = (counts(kind, adjacency, sql, rows) for rows in (one, other))
    assert claims
    return [
        ([b.get(k, 0) - a.get(k, 0) for k in a.keys() | b.keys()], claim)
        for a, b, claim in zip(before, after, claims, strict=True)
    ]


def within(moved: list[int], claim: Sensitivity) -> bool:
    return sum(map(abs, moved)) <= claim.l1 and sum(m * m for m in moved) <= claim.l2_squared


numbers = st.one_of(st.none(), st.integers(-2, 4).map(float), st.sampled_from([NAN, INF, -INF, 1e308, -0.0, 0.0]))
texts = st.sampled_from(["u", "v", "w", "", None])
publics = st.sampled_from(["a", "a", "b", "c", "zzz", None])
privates = st.sampled_from(["p0", "p1", "p2", "n77", None])


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(unit, numbers, texts, publics, privates)


SOME = settings(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck))
others = st.lists(rows(st.integers(0, 3)), max_size=12)
hostile = st.lists(rows(st.just(77)), min_size=1, max_size=12)
MANY = [(77, float(i), f"new{i}", "abc"[i % 3], f"new{i % 50}") for i in range(1_000)]
HEAVY = [(u, x + u, f"{s} {u}", k, p) for u in range(20) for _, x, s, k, p in MANY[7 * u : 7 * u + 20]]
FEW = [(u, float(u % 4), "uvw"[u % 3], "abc"[u % 3], f"p{u % 2}") for u in range(12)]


@pytest.mark.sample(14)
@pytest.mark.parametrize("kind", ["id", "peak", *VALUES])
@pytest.mark.parametrize("name", QUERIES)
@SOME
@given(data=others, added=hostile)
@example(data=FEW, added=MANY)
@example(data=HEAVY, added=[(77, x, s, k, f"first{i}") for i, (_, x, s, k, _) in enumerate(MANY[:90])])
def test_one_unit_moves_the_numbers_by_no_more_than_is_claimed(
    name: str, kind: str, data: list[Any], added: list[Any]
) -> None:
    for moved, claim in moves(kind, "add_remove", QUERIES[name], data, [*data, *added]):
        assert within(moved, claim)
        assert min(moved, default=0) >= 0  # adding a unit never lowers a number


@pytest.mark.sample(14)
@pytest.mark.parametrize("kind", ["id", "peak", *VALUES])
@pytest.mark.parametrize("name", QUERIES)
@SOME
@given(data=others, before=hostile, after=hostile)
@example(data=FEW, before=MANY, after=[(77, x, s, "c", "n77") for _, x, s, _, _ in MANY])
def test_a_replaced_unit_moves_the_numbers_by_no_more_than_is_claimed(
    name: str, kind: str, data: list[Any], before: list[Any], after: list[Any]
) -> None:
    for moved, claim in moves(kind, "replace_one", QUERIES[name], [*data, *before], [*data, *after]):
        assert within(moved, claim)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", QUERIES)
@SOME
@given(data=others, before=rows(st.just(77)), after=rows(st.just(77)))
@pytest.mark.sample(3)
def test_one_row_moves_the_numbers_by_no_more_than_is_claimed(
    name: str, adjacency: str, data: list[Any], before: tuple[Any, ...], after: tuple[Any, ...]
) -> None:
    first = [*data, before] if adjacency == "replace_one" else data
    for moved, claim in moves("row", adjacency, QUERIES[name], first, [*data, after]):
        assert within(moved, claim)


@pytest.mark.parametrize("name", JOINED)
@SOME
@given(data=others, added=rows(st.just(77)), place=st.integers(0, 12))
@example(
    data=[(u, float(u), "u", "ab"[u % 2], f"p{u % 3}") for u in range(80)], added=(77, 99.0, "u", "b", "p0"), place=0
)
def test_a_row_that_shifts_everybodys_number_moves_no_more_than_is_claimed(
    name: str, data: list[Any], added: tuple[Any, ...], place: int
) -> None:
    for moved, claim in moves("joined", "add_remove", JOINED[name], data, [*data[:place], added, *data[place:]]):
        assert within(moved, claim)


SPREAD = [(77, 1000.0 + i, f"new{i}", "abc"[i % 3], "p0") for i in range(100)]
ATTAINED: dict[str, tuple[str, str, str, list[Any], list[Any]]] = {
    # (limits, relation, query, the unit's rows before, after): a claim that were 10% smaller would be broken by each
    "numbers": ("id", "add_remove", "numbers", [], MANY),
    "within the peak": ("peak", "add_remove", "numbers", [], MANY),
    "by public key": ("id", "add_remove", "by public key", [], [r for r in MANY if r[3] == "a"]),
    "shared out": ("id", "add_remove", "by public key", [], SPREAD),
    "peaks": ("peak", "add_remove", "by public key", [], SPREAD),
    "values": ("values", "add_remove", "numbers", [], MANY),
    "values shared out": ("values", "add_remove", "by public key", [], SPREAD),
    "more values than rows": ("more values", "add_remove", "by public key", [], SPREAD),
    "replaced values": ("more values", "replace_one", "numbers", [], MANY),
    "by private key": ("id", "add_remove", "by private key", [], SPREAD),
    "replaced": ("id", "replace_one", "numbers", [], MANY),
    "replaced by key": (
        "id",
        "replace_one",
        "by public key",
        [r for r in MANY if r[3] == "a"],
        [r for r in MANY if r[3] == "b"],
    ),
    "combinations": ("id", "add_remove", "combinations", [], MANY),
    "combinations of others' values": (
        "id",
        "add_remove",
        "combinations",
        [],
        [(77, x, s, "a", "p0") for x in (0.0, 1.0, None) for s in ("w", None)],
    ),
    "how many groups, replaced": (
        "id",
        "replace_one",
        "how many groups",
        [r for r in MANY if r[3] == "a"],
        [r for r in MANY if r[3] == "b"],
    ),
    "one row": ("row", "add_remove", "by public key", [], MANY[50:51]),
}


@pytest.mark.parametrize("name", ATTAINED)
@pytest.mark.sample(3)
def test_claims_are_attained(name: str) -> None:
    kind, adjacency, query, before, after = ATTAINED[name]
    ((moved, claim),) = moves(kind, adjacency, QUERIES[query], [*FEW, *before], [*FEW, *after])
    assert Fraction(9, 10) * claim.l1 < sum(map(abs, moved)) <= claim.l1
    assert within(moved, claim)


@pytest.mark.parametrize("kind", ["id", "peak"])
def test_one_cell_moves_by_no_more_than_the_peak_and_winners_rest_on_that(kind: str) -> None:
    sql = "SELECT k FROM t GROUP BY k ORDER BY COUNT(DISTINCT x) DESC LIMIT 1"
    (step,) = quoted(kind, "add_remove", sql)
    (m,) = step.measurements
    assert isinstance(m.statistic, Top)
    peak = LIMITS[kind].get("max_rows_per_group", LIMITS[kind]["max_rows"])
    for added in (MANY, [r for r in MANY if r[3] == "a"]):
        ((moved, _),) = moves(kind, "add_remove", QUERIES["by public key"], FEW, [*FEW, *added])
        assert max(moved) <= m.sensitivity.l1 == peak
    assert max(moved) == peak


def test_neighbours_see_the_same_price_schema_and_plan() -> None:
    for sql in QUERIES.values():
        texts = []
        for data in (FEW, [*FEW, *MANY]):
            policy = dpsql.Policy.from_dict(
                {
                    "budget": {"epsilon": 10, "delta": 1e-4},
                    "privacy": {**LIMITS["id"], "limits_share": 0},  # explain tells noisy counts
                    "tables": {
                        "t": {
                            "unit": "id",
                            "columns": {"k": {"values": ["a", "b", "c"]}, "x": {"min": -5, "max": 5}},
                        }
                    },
                }
            )
            with dpsql.connect(policy, sources={"t": table(data)}, ledger=":memory:") as one:
                answer = one.query(sql, epsilon=1, delta="1e-6")
                texts.append((str(one.explain(sql, epsilon=1, delta="1e-6")), answer.columns, answer.cost))
                assert answer.cost.epsilon == 1
        assert texts[0] == texts[1]
