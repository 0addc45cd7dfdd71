"""Constants of queries, checked on an empty engine before any row is read. Text goes in as parameters only."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import duckdb

from dpsql.core.types import Type

_INTERVAL = (
    "SELECT date_part('year', i) * 12 + date_part('month', i), date_part('day', i), "
    "(date_part('hour', i) * 60 + date_part('minute', i)) * 60000000 + date_part('microsecond', i) "
    "FROM (SELECT CAST(? AS INTERVAL) AS i)"
)
_TESTS = {  # functions that don't take a text first: what must be TRUE, with ? for the constant
    "timezone": "SELECT TIMESTAMP '2024-01-01 00:00:00' AT TIME ZONE ? IS NOT NULL",
    "strftime": "SELECT strftime(TIMESTAMP '2024-01-01 00:00:00', ?) IS NOT NULL",
    "try_strptime": "SELECT typeof(try_strptime('', ?)) = 'TIMESTAMP'",  # no time zone
}


@lru_cache(maxsize=1)
def _engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:", config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


@lru_cache(maxsize=4096)
def ask(sql: str, *parameters: str) -> tuple[Any, ...] | None:
    """One row of constants from an engine that holds no data; None if it objects."""
    try:
        return _engine().cursor().execute(sql, list(parameters)).fetchone()
    except duckdb.Error:
        return None


class DuckDBConstants:
    """What constants mean in DuckDB's SQL."""

    def read(self, text: str, to: Type) -> str | None:
        """The literal in its type, as DuckDB writes it."""
        row = ask(f"SELECT CAST(TRY_CAST(? AS {to.sql}) AS VARCHAR)", text)
        return None if row is None or row[0] is None else str(row[0])

    def interval(self, text: str) -> tuple[int, int, int] | None:
        """The months, days and microseconds of an INTERVAL literal."""
        row = ask(_INTERVAL, text)
        return None if row is None or row[0] is None else (int(row[0]), int(row[1]), int(row[2]))

    def accepts(self, name: str, *constants: str | int) -> bool:
        """Whether DuckDB takes these constants behind an empty text, or as a format or a zone."""
        texts = [c for c in constants if isinstance(c, str)]
        if name in _TESTS:
            return ask(_TESTS[name], *texts) == (True,)
        marks = ", ".join(str(c) if isinstance(c, int) else "?" for c in constants)
        return ask(f"SELECT {name}('', {marks})", *texts) is not None

    def matches(self, text: str, pattern: str) -> bool:
        """Whether RE2 finds the pattern in the text."""
        row = ask("SELECT regexp_matches(?, ?)", text, pattern)
        return row is not None and bool(row[0])
