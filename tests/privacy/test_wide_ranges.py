"""The histogram behind the range of a computed value: one unit moves it by at most 1, whatever its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support import cursor_of, examples

import dpsql
from dpsql.analyze.ownership import key_promise
from dpsql.backends.duckdb.run import execute
from dpsql.quote.model import Step

SCHEMA = pa.schema(
    [("id", pa.int64()), ("o", pa.int64()), ("g", pa.int64()), ("x", pa.float64()), ("q", pa.int64()),
     ("a", pa.date32()), ("b", pa.date32())]
)  # fmt: skip
DAYS = {"min": date(2020, 1, 1), "max": date(2024, 12, 31)}
COLUMNS: dict[str, Any] = {
    "x": {"min": 0, "max": 100, "private": True},
    "q": {"min": 1, "max": 50, "private": True},
    "a": DAYS,
    "b": DAYS,
}
UNITS: dict[str, Any] = {
    "row": {"unit": "row"},
    "column": {"unit": "id"},
    "link": {"unit": {"through": "owners", "on": {"o": "o"}}},
}
OWNERS = pa.table({"o": list(range(100)), "who": [i // 2 for i in range(100)]})
PUBLIC = pa.table({"g": [0, 1, 1, 2], "f": [1, 2, 3, 4]})
QUERIES = {
    "products": "SELECT SUM(x * q) FROM t",
    "dates": "SELECT AVG(b - a) FROM t",
    "totals": "SELECT AVG(s) FROM (SELECT g, SUM(x * q) AS s FROM t GROUP BY PRIVACY_UNIT(), g)",
    "union": "SELECT AVG(y) FROM (SELECT x * q AS y FROM t UNION ALL SELECT x FROM t)",
    "join": "SELECT SUM(t.x * p.f * t.q) FROM t JOIN p ON t.g = p.g",
    "noisy condition": "SELECT AVG(x * q) FROM t WHERE x > (SELECT AVG(x) FROM t)",
}
CASES = [
    (kind, name)
    for kind in UNITS
    for name in QUERIES
    if kind != "row" or name in ("products", "dates", "join", "noisy condition")
]

amounts = st.one_of(
    st.none(), st.floats(0, 100), st.sampled_from([float("nan"), float("inf"), -1e308, 1e308, -0.0, 99.9])
)
days = st.one_of(st.none(), st.dates(date(1990, 1, 1), date(2090, 1, 1)))
counts = st.one_of(st.none(), st.integers(0, 60), st.sampled_from([2**63 - 1, -(2**63)]))


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    others = st.tuples(st.integers(0, 3), amounts, counts, days, days)
    return st.tuples(unit, others).map(lambda r: (r[0], r[0], *r[1]))


def table(data: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*data, strict=True)) if data else [()] * len(SCHEMA)
    return pa.table([pa.array(c, t.type) for c, t in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


LIMITED = {"limits_share": 0, "max_rows": 5}


def opened(
    kind: str, adjacency: str, data: Sequence[tuple[Any, ...]], limits: dict[str, Any] = LIMITED
) -> dpsql.Session:
    tables: dict[str, Any] = {"t": {**UNITS[kind], "columns": COLUMNS}, "p": {"public": True}}
    sources = {"t": table(data), "p": PUBLIC}
    if kind == "link":
        tables["owners"], sources["owners"] = {"unit": "who", "key": "o"}, OWNERS
    whole = {
        "budget": {"epsilon": 100, "delta": 0},
        "privacy": {"adjacency": adjacency, **limits},
        "tables": tables,
    }
    found = dpsql.connect(dpsql.Policy.from_dict(whole), sources=sources, ledger=":memory:")
    if kind == "link":
        engine = found._engine
        promise = str(key_promise(engine.policy.tables["owners"]))
        engine.ledger.record_promise("owners", promise, engine.versions()["owners"], True)
    return found


@cache
def session(kind: str, adjacency: str) -> dpsql.Session:
    return opened(kind, adjacency, [])


@cache
def step(kind: str, adjacency: str, name: str) -> Step:
    """The histogram's step: made without any row."""
    quote = session(kind, adjacency).explain(QUERIES[name], epsilon=1)
    assert quote.stages[0].kind == "range" and quote.main.automatic
    return quote.stages[0].releases[0]


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    step.cache_clear()
    for kind in UNITS:
        for adjacency in ("add_remove", "replace_one"):
            session(kind, adjacency).close()
    session.cache_clear()


def counted(kind: str, adjacency: str, name: str, data: Sequence[tuple[Any, ...]]) -> list[int]:
    one = step(kind, adjacency, name)
    cursor = cursor_of(session(kind, adjacency))
    cursor.register("t", table(data))
    exact = execute(one, cursor)
    cursor.close()
    (m,) = one.measurements
    (found,) = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
    return [int(c) for c in found]


def moved(kind: str, adjacency: str, name: str, *sides: Sequence[tuple[Any, ...]]) -> int:
    here, there = (counted(kind, adjacency, name, side) for side in sides)
    return sum(abs(a - b) for a, b in zip(here, there, strict=True))


SOME = settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
DAY = date(2023, 1, 1)
HOSTILE = [
    (77, 77, i % 4, x, q, DAY, DAY + timedelta(days=3**i))
    for i, (x, q) in enumerate([(99.0, 49), (0.01, 1), (float("nan"), 3), (1e308, 2**63 - 1), (50.0, None), (7.0, 9)])
]


@pytest.mark.parametrize(("kind", "name"), CASES)
@SOME
@given(data=st.lists(rows(st.integers(0, 9)), max_size=9), added=st.lists(rows(st.just(77)), min_size=1, max_size=9))
@example(data=[], added=HOSTILE * 20)
@pytest.mark.sample(3)
def test_one_unit_moves_the_histogram_by_one_at_most(kind: str, name: str, data: list[Any], added: list[Any]) -> None:
    added = added[:1] if kind == "row" else added
    (m,) = step(kind, "add_remove", name).measurements
    assert moved(kind, "add_remove", name, data, [*data, *added]) <= m.sensitivity.l1
    assert m.sensitivity.l1 == 2 ** step(kind, "add_remove", name).bits  # one vote a unit


@pytest.mark.parametrize(("kind", "name"), CASES)
@SOME
@given(data=st.lists(rows(st.integers(0, 5)), max_size=9), old=rows(st.just(77)), new=rows(st.just(77)))
@example(data=[], old=HOSTILE[0], new=HOSTILE[1])
@pytest.mark.sample(3)
def test_a_unit_that_is_replaced_moves_it_by_two_at_most(
    kind: str, name: str, data: list[Any], old: tuple[Any, ...], new: tuple[Any, ...]
) -> None:
    (m,) = step(kind, "replace_one", name).measurements
    assert moved(kind, "replace_one", name, [*data, old], [*data, new]) <= m.sensitivity.l1
    assert m.sensitivity.l1 == 2 * 2 ** step(kind, "replace_one", name).bits


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_claims_are_attained(kind: str, adjacency: str) -> None:
    mine = [(77, 77, g, 90.0, q, DAY, DAY) for g, q in ((0, 40),) if kind == "row"] or HOSTILE[:2] * 3
    other = [] if adjacency == "add_remove" else [(77, 77, 0, 0.001, 1, DAY, DAY)]
    claimed = step(kind, adjacency, "products").measurements[0].sensitivity.l1
    assert Fraction(99, 100) * claimed <= moved(kind, adjacency, "products", mine, other) <= claimed


@pytest.mark.parametrize("limits", [LIMITED, {}])
@pytest.mark.parametrize(("kind", "name"), [case for case in CASES if case != ("row", "join")])  # that needs a limit
@pytest.mark.sample(5)
def test_with_and_without_the_person_price_schema_and_messages_are_the_same(
    kind: str, name: str, limits: dict[str, Any]
) -> None:
    seen = []
    for data in ([], HOSTILE, [(1, 1, 0, 5.0, 5, DAY, DAY)] * 3):
        with opened(kind, "add_remove", data, limits) as one:
            quote = str(one.explain(QUERIES[name], epsilon=1))
            answer = one.query(QUERIES[name], epsilon=1)
            assert all(v is None or isfinite(v) for v in answer.rows[0])
            history = [(e.note["sql"], e.cost, e.state) for e in one._engine.ledger.history()]
            seen.append((quote, answer.table.schema, answer.cost, history))
    assert seen[0] == seen[1] == seen[2]


def test_a_found_range_makes_no_keys() -> None:
    seen = []
    for data in ([], [(i, i, 0, 50.0, 5, DAY, DAY + timedelta(days=2)) for i in range(500)]):
        with opened("column", "add_remove", data) as one:
            one.query("SELECT AVG(b - a) FROM t", epsilon=10)
            quote = one.explain("SELECT b - a, AVG(b - a) FROM t GROUP BY 1", epsilon=1)
            seen.append((quote.steps[0].count, quote.steps[0].cells, quote.price))
    assert seen[0] == seen[1]
