"""The queries of the baseline, with the options that they are asked with, by suite; and sessions over their tables.

Golden, relational and TPC-H queries, and random ones: with loose limits that are named, and as analysts ask them, with
none. Whatever is drawn here comes from Python's own generator, so that a case stays the same with every library.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import test_tpch
from golden_files import FOLDER, read
from random_sql.grammar import Grammar
from random_sql.test_random import LOOSE
from random_sql.world import CITIES, FIRST, KINDS, LAST, ORDERS_PER_UNIT, SKUS, Row, World, open_session
from spark_suites import golden_tables
from test_relations_end_to_end import POLICY, QUERIES, tables

import dpsql
from dpsql.analyze.ownership import key_promise, rows_promise

RANDOM_QUERIES = 2_000
AS_ASKED: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


@dataclass(frozen=True)
class Suite:
    """Queries with their options, by title; opened: a session over their tables, in a folder of its own."""

    name: str
    queries: Mapping[str, tuple[str, dict[str, Any]]]
    opened: Callable[[Path], Any]


def _recorded(session: dpsql.Session, rows: str, *keys: str) -> dpsql.Session:
    """The session, with promises recorded as verified: one row for each unit of a table, and keys of others."""
    engine = session._engine
    versions, known = engine.versions(), engine.policy.tables
    engine.ledger.record_promise(rows, str(rows_promise(known[rows])), versions[rows], True)
    for name in keys:
        engine.ledger.record_promise(name, key_promise(known[name]), versions[name], True)
    return session


@contextmanager
def _golden(_: Path) -> Iterator[dpsql.Session]:
    policy = tomllib.loads((FOLDER / "policy.toml").read_text(encoding="utf-8"))
    policy["budget"] = {"epsilon": 10**9, "delta": 9e-4}
    sources = golden_tables()
    with dpsql.connect(dpsql.Policy.from_dict(policy), sources=sources, ledger=":memory:") as session:
        yield _recorded(session, "people")


@contextmanager
def _relations(_: Path) -> Iterator[dpsql.Session]:
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=tables(), ledger=":memory:") as session:
        yield _recorded(session, "users", "orders")


@contextmanager
def _tpch(folder: Path) -> Iterator[dpsql.Session]:
    test_tpch.generated(folder)
    with dpsql.connect(folder / "policy.toml") as session:  # its ledger has the promises, verified
        yield session


def _with_automatic(tables_: Mapping[str, Any]) -> dict[str, Any]:
    """Policy entries in which some columns have automatic bounds."""
    found = {name: {**entry, "columns": dict(entry.get("columns", {}))} for name, entry in tables_.items()}
    for name, column in (("orders", "amount"), ("users", "score"), ("items", "qty")):
        found[name]["columns"][column] = {"bounds": "auto"}
    return found


def _random(privacy: Mapping[str, Any], *, automatic: bool = False) -> Callable[[Path], Any]:
    @contextmanager
    def opened(_: Path) -> Iterator[dpsql.Session]:
        with open_session(a_world(), privacy=privacy, change=_with_automatic if automatic else dict) as session:
            yield session

    return opened


def a_world() -> World:
    """Forty people with orders and items, with what nobody has and what is no number."""
    dice = Random(20)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.1 else value

    users: list[Row] = []
    orders: list[Row] = []
    items: list[Row] = []
    names = ["Ann", "ann", "Bo", " Cy ", "Di-di", "Ålä", "", "100%", "O'Neil"]
    for uid in [*range(1, 41), None]:
        score = dice.choice([dice.randint(-80, 80) / 8, float("nan"), float("inf"), -0.0])
        born = FIRST.replace(year=1950) + timedelta(days=dice.randrange(59 * 365))
        person = (dice.choice(CITIES), dice.randrange(100), score, dice.random() < 0.5, dice.choice(names), born)
        users.append((uid, *map(maybe, person)))
        for j in range(dice.choice([0, 1, 1, 2, 3, 6])):
            oid = (99 if uid is None else uid) * ORDERS_PER_UNIT + j
            day = FIRST + timedelta(days=dice.randrange((LAST - FIRST).days))
            placed = datetime(2024, 1, 1) + timedelta(minutes=dice.randrange(180 * 24 * 60))
            amount = Decimal(dice.randrange(50_000)) / 100
            orders.append((uid, oid, *map(maybe, (day, amount, dice.choice(KINDS), placed))))
            for _ in range(dice.randrange(4)):
                items.append((oid, *map(maybe, (dice.choice(SKUS), dice.randrange(21), dice.randrange(800) / 8))))
    items += [(None, "a1", 1, 1.0), (77, "b1", 2, 2.0)]
    survey = [
        tuple(map(maybe, (dice.randint(1, 5), dice.randrange(17) / 8, dice.choice(["x", "y", "z"]), "note")))
        for _ in range(30)
    ]
    return World({"users": users, "orders": orders, "items": items, "survey": survey})


def _drawn(first: int, options: Mapping[str, Any], count: int) -> dict[str, tuple[str, dict[str, Any]]]:
    return {str(n): (Grammar(f"baseline:{n}").query().sql, dict(options)) for n in range(first, first + count)}


_NAMED = {**{name: value for name, value in LOOSE.items() if name != "fresh"}, "epsilon": 10**8}
_THIRD = RANDOM_QUERIES // 3
SUITES = (
    Suite(
        "golden",
        {
            f"{file}: {case.title}": (case.sql, {"epsilon": 1, **case.options})
            for file, case in read("explain")
            if not (FOLDER / f"{file}.toml").is_file()
        },
        _golden,
    ),
    Suite("relations", {str(i): (sql, {"epsilon": 10, "delta": "1e-9"}) for i, sql in enumerate(QUERIES)}, _relations),
    Suite(
        "tpch",
        {
            f"{name}{title}": ((test_tpch.HERE / f"{name}.sql").read_text(encoding="utf-8"), {**AS_ASKED, **limits})
            for name in test_tpch.QUERIES
            for title, limits in (("", {"max_rows": 500, "max_groups": 100}), (" as asked", {}))
        },
        _tpch,
    ),
    Suite("random", _drawn(0, _NAMED, _THIRD), _random({"limits_share": 0})),
    Suite("random as asked", _drawn(_THIRD, AS_ASKED, _THIRD), _random({})),
    Suite(
        "random with automatic ranges",
        _drawn(2 * _THIRD, AS_ASKED, RANDOM_QUERIES - 2 * _THIRD),
        _random({}, automatic=True),
    ),
)
