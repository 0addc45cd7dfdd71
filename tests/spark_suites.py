"""The suites that run on Spark, too: queries of other test files, over their tables as parquet files.

A few by default, so that every kind of node occurs; all of them with --spark --whole. The same
session measures with both engines (two_engines.py), and exact integers are compared.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import test_golden
import test_tpch
from golden_files import FOLDER, read
from hypothesis import HealthCheck, Phase, given, seed, settings
from privacy import test_neighbours as neighbours
from random_sql.grammar import Grammar
from random_sql.test_random import LOOSE
from random_sql.world import World, open_session, worlds
from source_kinds import GROUP
from support import SPARK, WHOLE
from test_relations_end_to_end import POLICY, QUERIES, tables
from two_engines import Engines, beside, engines

import dpsql
from dpsql.analyze.ownership import key_promise, rows_promise

ALMOST_EXACT: dict[str, Any] = {"epsilon": 10**6, "delta": "1e-12"}
LARGE = {"epsilon": 10**9, "delta": 9e-4}
EVERYTHING = bool(os.environ.get(SPARK) and os.environ.get(WHOLE))


@dataclass(frozen=True)
class Suite:
    """Queries with their options, by a title; few: those that always run; open: both engines over their tables."""

    queries: dict[str, tuple[str, dict[str, Any]]]
    few: tuple[str, ...]
    open: Callable[[Path, str], Any] = field(compare=False)

    def chosen(self) -> list[str]:
        return list(self.queries) if EVERYTHING else list(self.few)


# ---------------------------------------------------------------- joins, unions, subqueries and windows


@contextmanager
def _relations(folder: Path, url: str) -> Iterator[Engines]:
    with engines(POLICY, tables(), folder, url) as opened:
        engine = opened.session._engine
        versions, known = engine.versions(), engine.policy.tables
        engine.ledger.record_promise("users", str(rows_promise(known["users"])), versions["users"], True)
        engine.ledger.record_promise("orders", key_promise(known["orders"]), versions["orders"], True)
        yield opened


_MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "median": ("SELECT kind, MEDIAN(day) FROM orders GROUP BY kind", {}),
    "median by group": ("SELECT kind, MEDIAN(day) FROM orders GROUP BY kind", {"max_rows": 6, "max_rows_per_group": 2}),
    "private keys": ("SELECT amount, COUNT(*) FROM orders GROUP BY amount", {"max_groups": 3}),
    "distinct": ("SELECT kind, COUNT(DISTINCT day) FROM orders GROUP BY kind", {"max_rows": 5}),
    "values in lists": ("SELECT COUNT(*) FROM (SELECT DISTINCT kind, day FROM orders) AS d", {"max_rows": 5}),
    "moments": ("SELECT AVG(amount), VAR_SAMP(amount) FROM orders", {}),
    "texts": ("SELECT COUNT(*) FROM users WHERE city IN ('a', '${env:HOME}') AND city LIKE '_'", {}),
}
RELATIONS = Suite(
    {
        title: (sql, {**ALMOST_EXACT, **asked})
        for title, (sql, asked) in {**{str(i): (sql, {}) for i, sql in enumerate(QUERIES)}, **_MORE}.items()
    },
    ("2", "3", "8", "13", "19", "22", *_MORE),
    _relations,
)


# ---------------------------------------------------------------- golden cases


def golden_tables() -> dict[str, pa.Table]:
    """Some rows for tables that golden cases leave empty."""
    dice = Random(11)

    def some(name: str, type_: Any) -> Any:
        if type_ == pa.string():
            return dice.choice(["north", "south", "x1", "x2", "x", "a", "b", None])
        if type_ == pa.date32():
            return date(1989, 6, 1) + timedelta(days=dice.randrange(4400))
        if type_ == pa.timestamp("us"):
            return datetime(2024, 1, 1) + timedelta(minutes=dice.randrange(3000))
        if type_ == pa.bool_():
            return dice.choice([True, False, None])
        if type_ == pa.float64():
            return dice.choice([None, float("nan"), float("inf"), dice.random() * 3])
        if pa.types.is_decimal(type_):
            return Decimal(dice.randrange(120_000)) / 100
        if pa.types.is_list(type_):
            return ["t"]
        return dice.choice([None, dice.randrange(-2, 130)]) if name != "order_id" else dice.randrange(40)

    def filled(schema: Any, rows: int) -> pa.Table:
        columns = {f.name: pa.array([some(f.name, f.type) for _ in range(rows)], f.type) for f in schema}
        return pa.table(columns, schema=schema)

    made = {name: filled(table.schema, 60) for name, table in test_golden.TABLES.items() if name != "codes"}
    ids = pa.array(range(60), pa.int64())
    return {
        **made,
        "people": made["people"].set_column(0, "id", ids),  # one row each, as is recorded
        "orders": made["orders"].set_column(1, "order_id", ids),
        "codes": test_golden.TABLES["codes"],
    }


@contextmanager
def _golden(folder: Path, url: str) -> Iterator[Engines]:
    policy = {**tomllib.loads((FOLDER / "policy.toml").read_text(encoding="utf-8")), "budget": LARGE}
    with engines(policy, golden_tables(), folder, url) as opened:
        engine = opened.session._engine
        promise = str(rows_promise(engine.policy.tables["people"]))
        engine.ledger.record_promise("people", promise, engine.versions()["people"], True)
        yield opened


GOLDEN = Suite(
    {
        f"{file}: {case.title}": (case.sql, {"epsilon": 1, **case.options})
        for file, case in read("explain")
        if not (FOLDER / f"{file}.toml").is_file()
    },
    (),
    _golden,
)


# ---------------------------------------------------------------- TPC-H


@contextmanager
def _tpch(folder: Path, url: str) -> Iterator[Engines]:
    test_tpch.generated(folder)
    with dpsql.connect(folder / "policy.toml") as session, beside(session, url) as opened:
        yield opened


TPCH = Suite(
    {
        name: ((test_tpch.HERE / f"{name}.sql").read_text(encoding="utf-8"), {"epsilon": 10**6, "delta": "1e-6"})
        for name in test_tpch.QUERIES
    },
    (),
    _tpch,
)


# ---------------------------------------------------------------- neighbours


@contextmanager
def _neighbours(folder: Path, url: str, *, by_unit: bool) -> Iterator[Engines]:
    """Rows with everything that a hostile unit can have; row groups are small, and there are several files."""
    dice = Random(f"spark {by_unit}")
    rows = [row for unit in range(14) for row in neighbours.runs(dice, unit, neighbours.ROWS_PER_UNIT)]
    rows += [neighbours.extreme(77, "a"), neighbours.lowest(77, "b"), neighbours.lowest(77, "zzz")]
    rows += [] if by_unit else neighbours.runs(dice, 15, 3 * GROUP)
    opened = neighbours.stored_session(rows, "parquet files of a glob", folder / "t", by_unit=by_unit)
    with opened as session, beside(session, url) as both:
        yield both


def _neighbouring(queries: dict[str, str], *few: str, by_unit: bool) -> Suite:
    listed = {name: (sql, {"epsilon": 1}) for name, sql in {**queries, **neighbours.FILTERED}.items()}
    return Suite(listed, few, partial(_neighbours, by_unit=by_unit))


BY_UNIT = _neighbouring(neighbours.BY_UNIT, "clipped", "product that overflows", by_unit=True)
BY_ROW = _neighbouring(neighbours.ROW_LEVEL, by_unit=False)


# ---------------------------------------------------------------- random queries


def _a_world() -> World:
    found: list[World] = []

    @seed(17)
    @settings(
        max_examples=4, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(world=worlds())
    def draw(world: World) -> None:
        found.append(world)

    draw()
    return max(found, key=lambda world: sum(map(len, world.rows.values())))


@contextmanager
def _random(folder: Path, url: str) -> Iterator[Engines]:
    session = open_session(_a_world(), kind="parquet by pyarrow", folder=folder)
    with session, beside(session, url) as opened:
        yield opened


RANDOM = Suite(
    {str(n): (Grammar(f"spark:{n}").query().sql, {**LOOSE, "epsilon": 10**6}) for n in range(200)},
    (),
    _random,
)

SUITES = {
    "relations": RELATIONS,
    "golden": GOLDEN,
    "tpch": TPCH,
    "by unit": BY_UNIT,
    "by row": BY_ROW,
    "random": RANDOM,
}
