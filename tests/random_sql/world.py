"""The small world of the random queries: its policy, its tables (hypothesis writes the rows), its plain twin.

People have one row in `users` and any number in `orders`; `items` belong to whoever placed their order; each row of
`survey` is a unit of its own; `cities`, `skus` and `tags` are public. Values lie inside the policy's ranges and lists,
since clipping is not what is compared here; NULL, NaN, infinity, rows of nobody and dangling links all occur.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st
from source_kinds import KINDS as SOURCES
from source_kinds import csv_type

import dpsql
from dpsql.refresh.promises import verify

Row = tuple[Any, ...]

CITIES = ["bern", "lima", "oslo", "rome"]
KINDS = ["gift", "new", "used"]
SKUS = ["a1", "a2", "b1", "c9"]
GROUPS = ["x", "y", "z"]
FIRST, LAST = date(2024, 1, 1), date(2024, 6, 30)

SCHEMAS: dict[str, Any] = {
    "users": pa.schema(
        [
            ("uid", pa.int64()),
            ("city", pa.string()),
            ("age", pa.int32()),
            ("score", pa.float64()),
            ("vip", pa.bool_()),
            ("name", pa.string()),
            ("born", pa.date32()),
        ]
    ),
    "orders": pa.schema(
        [
            ("uid", pa.int64()),
            ("oid", pa.int64()),
            ("day", pa.date32()),
            ("amount", pa.decimal128(9, 2)),
            ("kind", pa.string()),
            ("placed", pa.timestamp("us")),
        ]
    ),
    "items": pa.schema([("oid", pa.int64()), ("sku", pa.string()), ("qty", pa.int32()), ("price", pa.float64())]),
    "survey": pa.schema(
        [("answer", pa.int16()), ("weight", pa.float64()), ("grp", pa.string()), ("note", pa.string())]
    ),
    "cities": pa.schema([("city", pa.string()), ("region", pa.string()), ("pop", pa.int32())]),
    "skus": pa.schema([("sku", pa.string()), ("color", pa.string()), ("list_price", pa.int32())]),
    "tags": pa.schema([("sku", pa.string()), ("tag", pa.string())]),
}
PUBLIC: dict[str, list[Row]] = {
    "cities": [("bern", "north", 134), ("lima", "south", 9_000), ("oslo", "north", 700), ("pisa", "south", 90)],
    "skus": [("a1", "red", 10), ("a2", "blue", 20), ("b1", "red", 35), ("c9", None, 90)],
    "tags": [("a1", "t"), ("a1", "u"), ("a2", "t"), ("b1", "u"), ("b1", "v"), ("b1", "w")],
}
PROTECTED = ("users", "orders", "items", "survey")
TABLES: dict[str, dict[str, Any]] = {
    "users": {
        "unit": "uid",
        "rows_per_unit": 1,
        "columns": {
            "city": {"values": CITIES},
            "age": {"min": 0, "max": 99},
            "score": {"min": -10, "max": 10},
            "born": {"min": date(1950, 1, 1), "max": date(2009, 12, 31)},
        },
    },
    "orders": {
        "unit": "uid",
        "key": "oid",
        "columns": {
            "day": {"min": FIRST, "max": LAST},
            "amount": {"min": 0, "max": 500},
            "kind": {"values": KINDS},
            "placed": {"min": datetime(2024, 1, 1), "max": datetime(2024, 7, 1)},
        },
    },
    "items": {
        "unit": {"through": "orders", "on": {"oid": "oid"}},
        "columns": {
            "sku": {"references": "skus.sku"},
            "qty": {"min": 0, "max": 20},
            "price": {"min": 0, "max": 100},
        },
    },
    "survey": {
        "unit": "row",
        "columns": {
            "answer": {"min": 1, "max": 5},
            "weight": {"min": 0, "max": 2},
            "grp": {"values": GROUPS},
        },
    },
    "cities": {"public": True},
    "skus": {"public": True},
    "tags": {"public": True},
}
ORDERS_PER_UNIT = 100  # an order's number is its owner's times this, plus a number of its own: oid // 100 owns it


@dataclass(frozen=True)
class World:
    """The private rows, by table."""

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    def tables(self) -> dict[str, pa.Table]:
        return {name: arrow(name, PUBLIC.get(name) or self.rows.get(name, ())) for name in SCHEMAS}

    def without(self, uid: int) -> World:
        """The same world without one person."""
        orders = {row[1] for row in self.rows["orders"] if row[0] == uid}
        keep = {
            "users": [r for r in self.rows["users"] if r[0] != uid],
            "orders": [r for r in self.rows["orders"] if r[0] != uid],
            "items": [r for r in self.rows["items"] if r[0] not in orders],
        }
        return World({**self.rows, **keep})

    def plus(self, other: World) -> World:
        """Both together."""
        return World({name: [*self.rows.get(name, ()), *other.rows.get(name, ())] for name in PROTECTED})

    def units(self) -> list[int]:
        return sorted({r[0] for name in ("users", "orders") for r in self.rows[name] if r[0] is not None})

    def __str__(self) -> str:
        lines = []
        for name in PROTECTED:
            lines.append(f"{name}({', '.join(SCHEMAS[name].names)})")
            lines += [f"  {', '.join(str(v) for v in row)}" for row in self.rows[name]]
        return "\n".join(lines)


def arrow(name: str, rows: Sequence[Row]) -> pa.Table:
    schema = SCHEMAS[name]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def open_session(
    world: World,
    *,
    adjacency: str = "add_remove",
    kind: str = "Arrow",
    folder: Path | None = None,
    privacy: Mapping[str, Any] = MappingProxyType({"limits_share": 0}),
    change: Callable[[Mapping[str, Any]], dict[str, Any]] = dict,
) -> dpsql.Session:
    """A session with as much budget as a policy can have, its promises verified as by `dpsql check --steward`.

    kind: what private tables are kept as, in a new folder where they are files; public ones are Arrow tables. privacy:
    the policy's section; change: makes other entries of its tables.
    """
    tables, sources = dict(TABLES), world.tables()
    for name in PROTECTED if folder is not None else ():
        below = folder / name if folder is not None else Path()
        below.mkdir(parents=True)
        rows = sources.pop(name)
        placed = SOURCES[kind](rows, below)
        typed = {f.name: {"type": csv_type(f.type)} for f in rows.schema} if "CSV" in kind else {}
        said = TABLES[name].get("columns", {})
        columns = {column: {**typed.get(column, {}), **said.get(column, {})} for column in {**typed, **said}}
        tables[name] = {**TABLES[name], **placed.entry, "columns": columns}
        if placed.object is not None:
            sources[name] = placed.object
    policy = dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**12, "delta": 9e-4},
            "privacy": {"adjacency": adjacency, **privacy},
            "tables": change(tables),
        }
    )
    session = dpsql.connect(policy, sources=sources, ledger=":memory:")
    engine = session._engine
    for name, version in engine.versions().items():
        for finding in verify(engine, policy.tables[name]):
            assert finding.holds, finding.text
            engine.ledger.record_promise(name, finding.promise, version, True)
    return session


def open_plain(world: World) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB over the same rows, without those that belong to nobody."""
    db = duckdb.connect(config={"threads": 1})
    # DuckDB 2.0.0 takes COALESCE(SUM(x), 0) > 1.234 over a join to be never true, by statistics of the wrong scale.
    db.execute("SET disabled_optimizers = 'statistics_propagation,join_filter_pushdown'")
    for name, table in world.tables().items():
        db.register(f"all_{name}", table)
    for name in SCHEMAS:
        where = " WHERE uid IS NOT NULL" if name in ("users", "orders") else ""
        where = " WHERE oid IN (SELECT oid FROM all_orders WHERE uid IS NOT NULL)" if name == "items" else where
        db.execute(f"CREATE TABLE {name} AS SELECT * FROM all_{name}{where}")
    return db


# ---------------------------------------------------------------- the rows


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Now and then NULL."""
    return st.integers(0, 9).flatmap(lambda n: st.none() if n == 0 else strategy)


days = st.integers(0, (LAST - FIRST).days).map(lambda n: FIRST + timedelta(days=n))
eighths = st.integers(-80, 80).map(lambda n: n / 8)
scores = st.one_of(eighths, eighths, eighths, st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0]))
cents = st.integers(0, 50_000).map(lambda n: Decimal(n) / 100)
names = st.sampled_from(["Ann", "ann", "Bo", " Cy ", "Di-di", "Ålä", "", "100%", "O'Neil"])
times = st.integers(0, 180 * 24 * 60).map(lambda n: datetime(2024, 1, 1) + timedelta(minutes=n))
born = st.integers(0, 59 * 365).map(lambda n: date(1950, 1, 1) + timedelta(days=n))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to a dozen people, most of them with orders and items; and some rows that belong to nobody."""
    users: list[Row] = []
    orders: list[Row] = []
    items: list[Row] = []

    def user(uid: int | None) -> None:
        users.append(
            (
                uid,
                draw(maybe(st.sampled_from(CITIES))),
                draw(maybe(st.integers(0, 99))),
                draw(maybe(scores)),
                draw(maybe(st.booleans())),
                draw(maybe(names)),
                draw(maybe(born)),
            )
        )

    def order(uid: int | None, oid: int) -> None:
        kind, amount = draw(maybe(st.sampled_from(KINDS))), draw(maybe(cents))
        orders.append((uid, oid, draw(maybe(days)), amount, kind, draw(maybe(times))))
        for _ in range(draw(st.integers(0, 3))):
            item(oid)

    def item(oid: int | None) -> None:
        sku, qty = draw(maybe(st.sampled_from(SKUS))), draw(maybe(st.integers(0, 20)))
        items.append((oid, sku, qty, draw(maybe(st.integers(0, 800).map(lambda n: n / 8)))))

    for uid in range(1, draw(st.integers(4, 12)) + 1):
        if draw(st.integers(0, 9)):
            user(uid)
        for j in range(draw(st.sampled_from([0, 1, 1, 2, 3, 6]))):
            order(uid, uid * ORDERS_PER_UNIT + j)
    for _ in range(draw(st.integers(0, 2))):
        user(None)
    for j in range(draw(st.integers(0, 2))):
        order(None, 9_900 + j)
    for oid in draw(st.lists(st.sampled_from([None, 9_955, 77]), max_size=2)):
        item(oid)
    survey = draw(
        st.lists(
            st.tuples(
                maybe(st.integers(1, 5)),
                maybe(st.one_of(st.integers(0, 16).map(lambda n: n / 8), st.just(float("nan")))),
                maybe(st.sampled_from(GROUPS)),
                maybe(names),
            ),
            max_size=12,
        )
    )
    return World({"users": users, "orders": orders, "items": items, "survey": survey})
