"""Joins, unions, subqueries and windows over private rows: at a huge ε they are answered like plain DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dpsql
from dpsql.analyze.ownership import key_promise, rows_promise

QUERIES = [
    "SELECT COUNT(*) FROM users JOIN orders ON users.uid = orders.uid",
    "SELECT city, COUNT(*), SUM(amount) FROM users u, orders o WHERE u.uid = o.uid AND o.kind = 'x' GROUP BY city",
    "SELECT city, SUM(qty) FROM items JOIN orders USING (oid) JOIN users USING (uid) GROUP BY city",
    "SELECT name, SUM(qty * price) FROM items JOIN skus USING (sku) GROUP BY name",
    "SELECT tag, COUNT(*) FROM items LEFT JOIN tags ON items.sku = tags.sku GROUP BY tag",
    "SELECT COUNT(*) FROM users LEFT JOIN orders ON users.uid = orders.uid AND amount > 50",
    "SELECT COUNT(*) FROM users WHERE uid IN (SELECT uid FROM orders WHERE kind = 'x')",
    "SELECT COUNT(*) FROM users WHERE uid NOT IN (SELECT uid FROM orders WHERE kind = 'x' AND day > 10)",
    "SELECT COUNT(*) FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.uid = u.uid AND o.day > u.age - 20)",
    "SELECT COUNT(*) FROM users u WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.uid = u.uid AND o.day > u.age - 20)",
    "SELECT AVG(n), SUM(n) FROM (SELECT uid, COUNT(*) AS n FROM orders GROUP BY uid)",
    "SELECT kind, COUNT(*) FROM (SELECT uid, kind, MAX(amount) AS m FROM orders GROUP BY uid, kind HAVING COUNT(*) > 3) WHERE m > 90 GROUP BY kind",
    "SELECT SUM(amount) FROM orders WHERE oid IN (SELECT oid FROM items GROUP BY oid HAVING SUM(qty) > 10)",
    "SELECT COUNT(*) FROM (SELECT uid FROM orders UNION ALL SELECT uid FROM users)",
    "SELECT COUNT(*) FROM (SELECT uid FROM orders UNION SELECT uid FROM users)",
    "SELECT COUNT(*) FROM (SELECT uid FROM users INTERSECT SELECT uid FROM orders)",
    "SELECT COUNT(*) FROM (SELECT uid FROM users EXCEPT SELECT uid FROM orders WHERE day > 25)",
    "SELECT SUM(amount) FROM (SELECT uid, amount, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day, oid) AS rn FROM orders) WHERE rn <= 3",
    "SELECT SUM(amount) FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day, oid) = 1)",
    "SELECT COUNT(*) FROM (SELECT day - LAG(day) OVER (PARTITION BY uid ORDER BY day, oid) AS gap FROM orders) WHERE gap > 2",
    "SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)",
    "SELECT COUNT(*) FROM orders CROSS JOIN (SELECT AVG(amount) AS m FROM orders) q WHERE amount > m",
    "SELECT COUNT(*) FROM items WHERE sku IN (SELECT sku FROM skus WHERE price > 5)",
    "SELECT COUNT(*) FROM items WHERE sku IN (SELECT sku FROM items GROUP BY sku HAVING COUNT(*) > 460)",
    "SELECT name, (SELECT COUNT(*) FROM items i WHERE i.sku = s.sku) AS n FROM skus s",
    "SELECT COUNT(*) FROM rows JOIN skus ON rows.x = skus.sku",
    "SELECT tag, COUNT(*) FROM rows JOIN tags ON rows.x = tags.sku GROUP BY tag",
    "SELECT COUNT(*), SUM(x) FROM (SELECT x FROM rows UNION ALL SELECT x FROM rows)",
    "SELECT city, AVG(total) FROM (SELECT u.uid, city, SUM(amount) AS total FROM users u JOIN orders o USING (uid) GROUP BY u.uid, city) GROUP BY city",
    "SELECT AVG((SELECT COUNT(*) FROM orders o WHERE o.uid = u.uid)) FROM users u",
    "SELECT SUM(s) FROM (SELECT uid, SUM(score) AS s FROM users GROUP BY uid)",
    "WITH a AS (SELECT city, COUNT(*) AS n FROM users GROUP BY city), b AS (SELECT city, SUM(amount) AS t FROM users JOIN orders USING (uid) GROUP BY city) SELECT city, t / n FROM a JOIN b USING (city)",
    "SELECT COUNT(*) FROM (SELECT DISTINCT uid, kind FROM orders)",
    "SELECT a.kind, COUNT(*) FROM orders a JOIN orders b ON a.uid = b.uid AND a.day = b.day GROUP BY a.kind",
    "SELECT COUNT(*) FROM users NATURAL JOIN orders",
    "SELECT COUNT(*) FROM skus RIGHT JOIN items ON skus.sku = items.sku",
    "SELECT MAX(n) OVER () FROM (SELECT COUNT(*) AS n FROM orders)",
    "SELECT COUNT(*) FROM users u LEFT JOIN orders o ON u.uid = o.uid LEFT JOIN items i ON o.oid = i.oid",
    "SELECT u.city, o.kind, COUNT(*) FROM users u LEFT JOIN orders o ON u.uid = o.uid AND o.amount > 90 GROUP BY u.city, o.kind",
    "SELECT COUNT(*), COUNT(DISTINCT o.uid) FROM items i, orders o, users u, skus s WHERE i.oid = o.oid AND o.uid = u.uid AND s.sku = i.sku AND s.price > 3 AND u.age > 40",
    "SELECT city, COUNT(*) FROM users WHERE uid IN (SELECT uid FROM orders GROUP BY uid HAVING SUM(amount) > 500) OR age > 80 GROUP BY city",
    "SELECT COUNT(*) FROM items i WHERE EXISTS (SELECT 1 FROM tags t WHERE t.sku = i.sku AND t.tag = 't1')",
    "SELECT COUNT(*) FROM items i WHERE NOT EXISTS (SELECT 1 FROM tags t WHERE t.sku = i.sku AND t.tag = 't1')",
    "SELECT COUNT(*) FROM items WHERE sku NOT IN (SELECT sku FROM skus WHERE price > 5)",
    "SELECT AVG(first_amount) FROM (SELECT uid, ARG_MIN(amount, oid) AS first_amount FROM orders GROUP BY uid)",
    "SELECT AVG(x) FROM (SELECT uid, FIRST(amount ORDER BY day DESC, oid) AS x FROM orders GROUP BY uid)",
    "SELECT COUNT(*) FROM (SELECT uid, COUNT(DISTINCT kind) AS k, BOOL_AND(day > 3) AS b, MIN(day) AS lo FROM orders GROUP BY ALL) WHERE k = 2 AND NOT b AND lo < 3",
    "SELECT SUM(running) FROM (SELECT SUM(day) OVER (PARTITION BY uid ORDER BY oid ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS running FROM orders)",
    "SELECT r, COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY uid ORDER BY day) AS r FROM orders) WHERE r <= 3 GROUP BY r",
    "SELECT kind, SUM(n) FROM (SELECT uid, kind, COUNT(*) AS n, RANK() OVER (PARTITION BY uid ORDER BY COUNT(*) DESC, kind) AS r FROM orders GROUP BY uid, kind QUALIFY r = 1) GROUP BY kind",
    "SELECT v.lo, COUNT(*) FROM users JOIN (VALUES (0, 30), (30, 60), (60, 130)) AS v(lo, hi) ON age >= v.lo AND age < v.hi GROUP BY v.lo",
    "SELECT city, COUNT(*) FROM (SELECT city, uid FROM users UNION ALL SELECT city, uid FROM users WHERE age > 50) GROUP BY city",
    "SELECT COUNT(*) FROM users u JOIN orders o ON u.uid = o.uid WHERE o.amount > (SELECT AVG(amount) FROM orders WHERE kind = 'x') AND u.age < (SELECT MAX(sku) * 10 FROM skus)",
    "SELECT s.name, SUM(i.qty) AS n FROM items i JOIN skus s ON i.sku = s.sku GROUP BY s.name HAVING SUM(i.qty) > 10 ORDER BY n DESC",
    "SELECT COUNT(*) FROM (SELECT DISTINCT o.uid, s.name FROM orders o JOIN items i USING (oid) JOIN skus s USING (sku))",
]


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


@pytest.fixture(scope="module")
def session() -> Iterator[dpsql.Session]:
    with dpsql.connect(dpsql.Policy.from_dict(POLICY), sources=tables(), ledger=":memory:") as opened:
        engine = opened._engine
        versions, known = engine.versions(), engine.policy.tables
        engine.ledger.record_promise("users", str(rows_promise(known["users"])), versions["users"], True)
        engine.ledger.record_promise("orders", key_promise(known["orders"]), versions["orders"], True)
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


@pytest.mark.parametrize("sql", QUERIES)
def test_a_query_over_private_rows_is_answered_like_plain_duckdb(
    sql: str, session: dpsql.Session, plain: duckdb.DuckDBPyConnection
) -> None:
    found = comparable(session.query(sql, epsilon=1e10, delta=1e-12).rows)
    expected = comparable(plain.execute(sql).fetchall())
    assert [row for row in expected if row not in found] == []
    empty = [row for row in found if row not in expected]  # cells of public keys that nobody is in
    assert all(any(v in (0, None) for v in row) for row in empty), empty
