"""SmartNoise SQL with DuckDB as its database. It has neither joins nor quantiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import duckdb
import snsql

ROWS = 50
COUNTS, SUMS = ("COUNT(*) AS n", "COUNT"), ("SUM(amount) AS total", "SUM")
QUERIES = {
    "Q1": ((), (COUNTS,)),
    "Q2": ((), (("COUNT(DISTINCT user_id) AS n", "COUNT"),)),
    "Q3": (("category",), (COUNTS, SUMS, ("AVG(amount) AS mean", "AVG"))),
    "Q4": (("country", "on_day"), (COUNTS, SUMS)),
    "Q6": (("category",), (COUNTS, SUMS)),
}
"""Keys, and aggregates with the names that they have elsewhere: COUNT and day are no names there."""


def ready() -> None:
    """Importing it is enough."""


class _Connection:
    """DuckDB as SmartNoise expects a Postgres connection to be. DuckDB has no RANDOM() in the order of a window, so
    that users' rows are sampled by a hash of them instead, with a new salt each time."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database
        self._salts = count()
        self.description: Any = None

    def cursor(self) -> _Connection:
        return self

    def execute(self, sql: str) -> None:
        shuffled = f"ORDER BY HASH(clamped, {next(self._salts)})"
        self.description = self._database.execute(sql.replace("ORDER BY RANDOM ( )", shuffled)).description

    def __iter__(self) -> Iterator[Any]:
        return iter(self._database.fetchall())

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


def prepare(
    files: Mapping[str, str], case: str, most: int = ROWS
) -> Callable[[], tuple[list[str], Sequence[Sequence[Any]]]]:
    """How a query of the events is asked. An ε there is for each statistic: it is set so that the whole costs 1."""
    if case not in QUERIES:
        raise NotImplementedError("has no quantiles" if case == "Q5" else "has no joins")
    keys, aggregates = QUERIES[case]
    database = duckdb.connect()
    database.execute(f"CREATE VIEW events AS SELECT *, day::VARCHAR AS on_day FROM '{files['events']}'")
    by_row = case == "Q6"
    table = {
        "row_privacy": by_row,
        "max_ids": 1 if by_row else most,
        "censor_dims": case == "Q4",
        "user_id": {"type": "int"} if by_row else {"type": "int", "private_id": True},
        "country": {"type": "string"},
        "category": {"type": "string"},
        "on_day": {"type": "string"},
        "amount": {"type": "float", "lower": 0.0, "upper": 500.0},
    }
    sql = f"SELECT {', '.join([*keys, *(text for text, _ in aggregates)])} FROM main.events"
    sql += f" GROUP BY {', '.join(keys)}" if keys else ""

    def reader(epsilon: float) -> Any:
        privacy = snsql.Privacy(epsilon=epsilon, delta=1e-7)
        metadata = {"": {"main": {"events": table}}}
        return snsql.from_connection(_Connection(database), privacy=privacy, metadata=metadata, engine="postgres")

    epsilon = 1 / reader(1.0).get_privacy_cost(sql)[0]
    columns = [*keys, *(name for _, name in aggregates)]
    return lambda: (columns, reader(epsilon).execute(sql)[1:])
