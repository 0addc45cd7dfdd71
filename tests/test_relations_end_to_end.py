"""Joins, unions, subqueries and windows over private rows: at a huge ε they are answered like plain DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsql
from dpsql.analyze.ownership import key_promise, rows_promise

QUERIES = [q.strip() for q in (Path(__file__).parent / "relations.sql").read_text().split(";") if q.strip()]


def tables() -> dict[str, pa.Table]:
    """Users with orders with items; some point to nobody. Amounts are halves, so that sums are exact."""
    pick = random.Random(7)
    users, orders, items = range(60), range(500), range(1000)
    return {
        "users": pa.table(
            {
                "uid": list(users),
                "city": [pick.choice(["a", "b", "c"]) for _ in users],
                "age": [pick.randint(18, 90) for _ in users],
                "score": [pick.randint(0, 20) / 2 for _ in users],
            }
        ),
        "orders": pa.table(
            {
                "oid": list(orders),
                "uid": [None if pick.random() < 0.02 else pick.randint(0, 63) for _ in orders],
                "amount": [pick.randint(0, 200) / 2 for _ in orders],
                "kind": [pick.choice(["x", "y"]) for _ in orders],
                "day": [pick.randint(0, 30) for _ in orders],
            }
        ),
        "items": pa.table(
            {
                "oid": [pick.randint(0, 510) for _ in items],
                "sku": [pick.randint(0, 9) for _ in items],
                "qty": [pick.randint(1, 5) for _ in items],
            }
        ),
        "skus": pa.table(
            {"sku": list(range(10)), "name": [f"s{i % 4}" for i in range(10)], "price": [i / 2 for i in range(10)]}
        ),
        "tags": pa.table({"sku": [i % 10 for i in range(30)], "tag": [f"t{i % 3}" for i in range(30)]}),
        "rows": pa.table(
            {"x": [pick.randint(0, 9) for _ in range(200)], "s": [pick.randint(0, 9) for _ in range(200)]}
        ),
    }


POLICY: dict[str, Any] = {
    "budget": {"epsilon": 1e12, "delta": 1e-9},
    "privacy": {"max_rows": 2000, "max_groups": 100},
    "tables": {
        "users": {
            "unit": "uid",
            "rows_per_unit": 1,
            "columns": {
                "city": {"values": ["a", "b", "c"]},
                "age": {"min": 0, "max": 120},
                "score": {"min": 0, "max": 10},
            },
        },
        "orders": {
            "unit": "uid",
            "key": "oid",
            "columns": {
                "amount": {"min": 0, "max": 100},
                "kind": {"values": ["x", "y"]},
                "day": {"min": 0, "max": 30},
            },
        },
        "items": {
            "unit": {"through": "orders", "on": {"oid": "oid"}},
            "columns": {"sku": {"references": "skus.sku"}, "qty": {"min": 0, "max": 10}},
        },
        "rows": {"unit": "row", "columns": {"x": {"min": 0, "max": 9}, "s": {"min": 0, "max": 9}}},
        "skus": {"public": True},
        "tags": {"public": True},
    },
}


def kept(session: dpsql.Session) -> None:
    """Record what a check of the promises would find."""
    engine = session._engine
    versions, known = engine.versions(), engine.policy.tables
    engine.ledger.record_promise("users", str(rows_promise(known["users"])), versions["users"], True)
    engine.ledger.record_promise("orders", key_promise(known["orders"]), versions["orders"], True)


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=tables(), ledger=":memory:") as opened:
        kept(opened)
        yield opened


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """The same tables without the rows that belong to nobody."""
    connection = duckdb.connect()
    for name, table in tables().items():
        connection.register(f"all_{name}", table)
    owned = {
        "orders": "SELECT * FROM all_orders WHERE uid IS NOT NULL",
        "items": "SELECT i.* FROM all_items i JOIN orders USING (oid)",
    }
    for name in ("users", "orders", "items", "skus", "tags", "rows"):
        connection.execute(f"CREATE TABLE {name} AS {owned.get(name, f'FROM all_{name}')}")
    yield connection
    connection.close()


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(round(float(v), 2) if isinstance(v, int | float | Decimal) else v for v in r) for r in rows), key=str
    )


@pytest.mark.sample(12)
@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_private_rows_is_answered_like_plain_duckdb(
    sql: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    found = comparable(session.query(sql, epsilon=2e9, delta=1e-12).rows)
    expected = comparable(plain.execute(sql).fetchall())
    assert [row for row in expected if row not in found] == []
    empty = [row for row in found if row not in expected]  # cells of public keys that nobody is in
    assert all(any(v in (0, None) for v in row) for row in empty), empty


@pytest.mark.sample(8)
@pytest.mark.parametrize("sql", QUERIES)
def test_every_column_that_a_statement_reads_is_there_though_nobody_named_it_before(
    sql: str, plain: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, of which no column was read in full when they were opened: one that is missed fails after payment."""
    monkeypatch.setattr("dpsql.engine.columns_named", lambda *_: frozenset())
    for name, table in tables().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    sources = {name: {**entry, "source": f"{name}.parquet"} for name, entry in POLICY["tables"].items()}
    policy = dpsql.Policy.from_dict({**POLICY, "tables": sources}, folder=tmp_path)
    with dpsql.connect(policy, ledger=":memory:") as session:
        kept(session)
        found = comparable(session.query(sql, epsilon=2e9, delta=1e-12).rows)
    assert [row for row in comparable(plain.execute(sql).fetchall()) if row not in found] == []
