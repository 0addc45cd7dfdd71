"""A small database in an engine of its own, without files."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import duckdb

from dpsql.backends.duckdb.limits import spill_to
from dpsql.backends.duckdb.names import quoted
from dpsql.backends.duckdb.sources import CONFIG, lock
from dpsql.backends.small import Arrow, Relation
from dpsql.core.errors import EngineError

SECONDS = 10  # that a statement may take
MOST_ROWS = 100_000


class DuckDBSmall:
    """See backends/small.py."""

    def __init__(self, relations: Sequence[Relation], macros: Mapping[str, str]) -> None:
        """macros: what follows their name in CREATE MACRO, by name."""
        self._connection = duckdb.connect(":memory:", config={**CONFIG, "threads": 1})
        self._lock = threading.Lock()
        self._connection.execute("SET GLOBAL TimeZone = 'UTC'")
        spill_to(self._connection, None)
        self._connection.execute("SET memory_limit = '256MB'")
        self._connection.execute(f"SET GLOBAL max_execution_time = {SECONDS * 1000}")
        for schema in dict.fromkeys(one.schema for one in relations):
            self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        for one in relations:
            self._fill(one)
        for name, body in macros.items():
            self._connection.execute(f"CREATE MACRO {quoted(name)}{body}")
        lock(self._connection, [])

    def _fill(self, one: Relation) -> None:
        place = f"{quoted(one.schema)}.{quoted(one.name)}"
        listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in one.columns)
        self._connection.execute(f"CREATE TABLE {place} ({listed})")
        if one.rows:
            row = f"({', '.join('?' * len(one.columns))})"
            rows = ", ".join([row] * len(one.rows))
            self._connection.execute(f"INSERT INTO {place} VALUES {rows}", [value for row in one.rows for value in row])

    def run(self, sql: str) -> Arrow:
        """The rows of one SELECT as an Arrow table; EngineError where the engine refuses it or it has too many."""
        import pyarrow as pa

        with self._lock:
            cursor = self._connection.cursor()
        try:
            reader = cursor.sql(sql).to_arrow_reader(10_000)
            batches, count = [], 0
            for batch in reader:
                batches.append(batch)
                count += batch.num_rows
                if count > MOST_ROWS:
                    raise EngineError("too many rows")
            return pa.Table.from_batches(batches, reader.schema)
        except (duckdb.Error, pa.ArrowException) as error:
            raise EngineError(str(error).splitlines()[0]) from None
        finally:
            cursor.close()

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()
