"""The histogram behind automatic bounds: one unit moves it by at most 1 (2 where it is replaced), whatever its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
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
from dpsql.core.types import Type
from dpsql.quote.model import Step
from dpsql.statistics.bounds import Seed

HUGE = 2**63 - 1
SCHEMA = pa.schema(
    [("id", pa.int64()), ("o", pa.int64()), ("x", pa.float64()), ("i", pa.int64()), ("d", pa.decimal128(9, 2))]
)
COLUMNS = {name: {"bounds": "auto"} for name in ("x", "i", "d")}
UNITS: dict[str, Any] = {
    "row": {"unit": "row"},
    "column": {"unit": "id"},
    "link": {"unit": {"through": "owners", "on": {"o": "o"}}},
}
OWNERS = pa.table({"o": list(range(100)), "who": [i // 2 for i in range(100)]})
SEEDS = {
    "x": Seed.of(Type.parse("DOUBLE")),
    "i": Seed.of(Type.parse("BIGINT")),
    "d": Seed.of(Type.parse("DECIMAL(9,2)")),
}

floats = st.one_of(
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5e-324, -0.0, 2.0**64, 0.5]),
)
ints = st.one_of(st.none(), st.integers(-20, 20), st.sampled_from([HUGE, -HUGE - 1, 2**40]))
cents = st.one_of(st.none(), st.decimals(-9999999, 9999999, places=2))


def rows(unit: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(unit, st.none(), floats, ints, cents).map(lambda r: (r[0], r[0], *r[2:]))


def table(data: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*data, strict=True)) if data else [()] * len(SCHEMA)
    return pa.table([pa.array(c, t.type) for c, t in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@cache
def session(kind: str, adjacency: str) -> dpsql.Session:
    tables: dict[str, Any] = {"t": {**UNITS[kind], "columns": COLUMNS}}
    sources = {"t": table([])}
    if kind == "link":
        tables["owners"], sources["owners"] = {"unit": "who", "key": "o"}, OWNERS
    whole = {
        "budget": {"epsilon": 100, "delta": 0},
        "privacy": {"limits_share": 0, "adjacency": adjacency, "max_rows": 5},
        "tables": tables,
    }
    found = dpsql.connect(dpsql.Policy.from_dict(whole), sources=sources, ledger=":memory:")
    if kind == "link":
        engine = found._engine
        promise = str(key_promise(engine.policy.tables["owners"]))
        engine.ledger.record_promise("owners", promise, engine.versions()["owners"], True)
    return found


@cache
def step(kind: str, adjacency: str, column: str) -> Step:
    """The histogram's step: made without any row."""
    quote = session(kind, adjacency).explain(f"SELECT SUM({column}) FROM t", epsilon=1)
    assert quote.stages[0].kind == "range"
    return quote.stages[0].releases[0]


@pytest.fixture(autouse=True, scope="module")
def closed_at_the_end() -> Iterator[None]:
    yield
    step.cache_clear()
    for kind in UNITS:
        for adjacency in ("add_remove", "replace_one"):
            session(kind, adjacency).close()
    session.cache_clear()


def counted(kind: str, adjacency: str, column: str, data: Sequence[tuple[Any, ...]]) -> list[int]:
    one = step(kind, adjacency, column)
    cursor = cursor_of(session(kind, adjacency))
    cursor.register("t", table(data))
    exact = execute(one, cursor)
    cursor.close()
    (m,) = one.measurements
    (counts,) = m.statistic.columns([exact.tallies[t] for t in m.statistic.tallies])
    return [int(c) for c in counts]


SOME = settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
HOSTILE = [(77, 77, x, i, Decimal(1)) for x in (1e308, float("nan"), 3.0, -1e-300, None) for i in (HUGE, None, 0, 2)]


@pytest.mark.parametrize("column", ["x", "i", "d"])
@pytest.mark.parametrize("kind", UNITS)
@SOME
@given(data=st.lists(rows(st.integers(0, 9)), max_size=9), added=st.lists(rows(st.just(77)), min_size=1, max_size=9))
@example(data=[], added=HOSTILE * 50)
@pytest.mark.sample(3)
def test_one_unit_moves_the_histogram_by_one_at_most(kind: str, column: str, data: list[Any], added: list[Any]) -> None:
    added = added[:1] if kind == "row" else added
    (m,) = step(kind, "add_remove", column).measurements
    before, after = (counted(kind, "add_remove", column, d) for d in (data, [*data, *added]))
    moved = [abs(a - b) for a, b in zip(before, after, strict=True)]
    whole = 2 ** step(kind, "add_remove", column).bits
    assert sum(moved) <= m.sensitivity.l1 == whole


@pytest.mark.parametrize("kind", UNITS)
@SOME
@given(data=st.lists(rows(st.integers(0, 5)), max_size=9), old=rows(st.just(77)), new=rows(st.just(77)))
@example(data=[], old=HOSTILE[0], new=HOSTILE[10])
def test_a_unit_that_is_replaced_moves_it_by_two_at_most(
    kind: str, data: list[Any], old: tuple[Any, ...], new: tuple[Any, ...]
) -> None:
    (m,) = step(kind, "replace_one", "x").measurements
    before, after = (counted(kind, "replace_one", "x", [*data, row]) for row in (old, new))
    assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) <= m.sensitivity.l1
    assert m.sensitivity.l1 == 2 * 2 ** step(kind, "replace_one", "x").bits


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_claims_are_attained(kind: str, adjacency: str) -> None:
    one = step(kind, adjacency, "x")
    mine = [(77, 77, x, 0, None) for x in ((1.0,) if kind == "row" else (1.0, 1e9, -1e308))]
    other = [] if adjacency == "add_remove" else [(77, 77, 0.001, 0, None)]
    here, there = (counted(kind, adjacency, "x", [(1, 1, 1.0, 0, None), *d]) for d in (mine, other))
    moved = sum(abs(a - b) for a, b in zip(here, there, strict=True))
    claimed = one.measurements[0].sensitivity.l1
    assert Fraction(999, 1000) * claimed <= moved <= claimed


@SOME
@given(row=rows(st.just(1)))
@example(row=(1, 1, 8.0, 8, Decimal(8)))
@example(row=(1, 1, 0.0, 0, Decimal(0)))
@example(row=(1, 1, -(2.0**-40), 1, Decimal("0.01")))
@example(row=(1, 1, -1e308, -HUGE - 1, Decimal("-9999999.99")))
def test_every_value_lies_in_the_range_of_its_bucket(row: tuple[Any, ...]) -> None:
    for column, value in zip("xid", row[2:], strict=True):
        one, seed = step("row", "add_remove", column), SEEDS[column]
        counts = counted("row", "add_remove", column, [row])
        buckets = one.cells.column(0).to_pylist()
        found = [b for b, c in zip(buckets, counts, strict=True) if c]
        if value is None or not isfinite(value):
            assert not any(b is not None for b in found)
            continue
        (bucket,) = found
        low, high = seed.ends(bucket, bucket)
        inside = min(max(Fraction(value), seed.low), seed.high)
        assert low - Fraction(2) ** seed.first <= inside <= high + Fraction(2) ** seed.first


@pytest.mark.parametrize("kind", UNITS)
def test_with_and_without_the_person_price_schema_and_messages_are_the_same(kind: str) -> None:
    seen = []
    for data in ([], HOSTILE, [(1, 1, 5.0, 5, Decimal(5))] * 3):
        tables: dict[str, Any] = {"t": {**UNITS[kind], "columns": COLUMNS}}
        sources = {"t": table(data)}
        if kind == "link":
            tables["owners"], sources["owners"] = {"unit": "who", "key": "o"}, OWNERS
        whole = {
            "budget": {"epsilon": 100, "delta": 0},
            "privacy": {"limits_share": 0, "max_rows": 5},
            "tables": tables,
        }
        with dpsql.connect(dpsql.Policy.from_dict(whole), sources=sources, ledger=":memory:") as one:
            if kind == "link":
                engine = one._engine
                promise = str(key_promise(engine.policy.tables["owners"]))
                engine.ledger.record_promise("owners", promise, engine.versions()["owners"], True)
            quote = str(one.explain("SELECT SUM(x), AVG(i) FROM t", epsilon=1))
            answer = one.query("SELECT SUM(x), AVG(i) FROM t", epsilon=1)
            assert all(v is None or isfinite(v) for v in answer.rows[0])
            history = [(e.note["sql"], e.cost, e.state) for e in one._engine.ledger.history()]
            seen.append((quote, answer.table.schema, answer.cost, history))
    assert seen[0] == seen[1] == seen[2]
