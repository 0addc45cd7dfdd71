"""Qrlew (pyqrlew): it rewrites a query, and DuckDB runs what it wrote. It has no quantiles.

What it spends isn't always the ε that it is told (docs/comparison.md).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyqrlew
import sqlalchemy

ROWS = 50
QUERIES = {
    "Q1": ("SELECT COUNT(*) AS n FROM events", ["COUNT"]),
    "Q2": ("SELECT COUNT(DISTINCT user_id) AS n FROM events", ["COUNT"]),
    "Q3": (
        "SELECT category, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean FROM events GROUP BY category",
        ["category", "COUNT", "SUM", "AVG"],
    ),
    "Q4": (
        "SELECT country, day, COUNT(*) AS n, SUM(amount) AS total FROM events GROUP BY country, day",
        ["country", "day", "COUNT", "SUM"],
    ),
    "Q6": (
        "SELECT category, COUNT(*) AS n, SUM(amount) AS total FROM events GROUP BY category",
        ["category", "COUNT", "SUM"],
    ),
    "Q7": (
        "SELECT segment, SUM(amount) AS total FROM events JOIN users ON events.user_id = users.user_id "
        "GROUP BY segment",
        ["segment", "SUM"],
    ),
}
SCHEMA = {
    "events": "id INTEGER, user_id INTEGER, country TEXT, category TEXT, day TEXT, amount FLOAT, qty INTEGER",
    "users": "user_id INTEGER, age INTEGER, segment TEXT",
}
NUMBERS = "WITH RECURSIVE t(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM t WHERE i < ?) SELECT i FROM t"


def ready() -> None:
    """Importing it is enough."""


def _dataset(sizes: Mapping[str, int]) -> Any:
    """What it has to know of the tables. It learns their sizes from a database, so there is one with empty rows."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sizes.sqlite"
        database = sqlite3.connect(file)
        for name, columns in SCHEMA.items():
            database.execute(f"CREATE TABLE {name} ({columns})")
            database.execute(f"INSERT INTO {name} (user_id) {NUMBERS}", [sizes[name]])
        database.commit()
        database.close()
        engine = sqlalchemy.create_engine(f"sqlite:///{file}")
        known = pyqrlew.Dataset.from_database("benchmark", engine)
        engine.dispose()
    known = known.with_range(None, "events", "amount", 0.0, 500.0)
    known = known.with_possible_values(None, "events", "category", [f"cat{i:02}" for i in range(20)])
    return known.with_possible_values(None, "users", "segment", [f"seg{i}" for i in range(8)])


def prepare(
    files: Mapping[str, str], case: str, rows: int = ROWS
) -> Callable[[], tuple[list[str], Sequence[Sequence[Any]]]]:
    """How a query of the events is asked: rewritten anew each time, as a new text would be."""
    if case not in QUERIES:
        raise NotImplementedError("has no quantiles")
    sql, columns = QUERIES[case]
    database = duckdb.connect()
    database.execute(f"CREATE VIEW events AS SELECT file_row_number AS id, * FROM read_parquet('{files['events']}')")
    database.execute(f"CREATE VIEW users AS FROM '{files['users']}'")
    sizes = {name: database.execute(f"SELECT COUNT(*) FROM {name}").fetchall()[0][0] for name in SCHEMA}
    known = _dataset(sizes)
    unit = "id" if case == "Q6" else "user_id"
    units: list[Any] = [("events", [], unit), ("users", [], "user_id")]
    most = 1.0 if case == "Q6" else float(rows)

    def run() -> tuple[list[str], Sequence[Sequence[Any]]]:
        budget = {"epsilon": 1.0, "delta": 1e-7}
        made = known.relation(sql).rewrite_with_differential_privacy(known, units, budget, most, 1.0, int(most))
        text = made.relation().to_query(pyqrlew.Dialect.PostgreSql)
        return columns, database.execute(text).fetchall()

    return run
