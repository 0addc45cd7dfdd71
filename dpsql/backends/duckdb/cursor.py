"""Cursors whose statements can be stopped: by Ctrl-C, by a signal, by a time limit.

Fetching is part of a statement: results stream, so rows may still be computed, and fail, then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

import duckdb

from dpsql.backends.base import SECRET, Deadline, engine_failed, timed_out
from dpsql.core.concurrency import TimeUp, stoppable
from dpsql.core.errors import DataError

T = TypeVar("T")


class Health:
    """Whether an engine still works. An internal error of DuckDB's ends it for everybody who uses it."""

    def __init__(self) -> None:
        self.failed = False

    def look(self, error: duckdb.Error, connection: duckdb.DuckDBPyConnection) -> None:
        """Note an error that ended the engine: one that says so, or after which it does nothing any more."""
        if isinstance(error, duckdb.InternalException | duckdb.FatalException):
            self.failed = True
        try:
            with connection.cursor() as cursor:  # what the connection itself is at stays as it is
                cursor.execute("SELECT 1").fetchall()
        except duckdb.Error:
            self.failed = True


class Cursor:
    """A DuckDB connection of one's own. Errors are DuckDB's, for the caller to put into words; time-outs are not."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, health: Health | None = None) -> None:
        self._connection = connection
        self._health = health or Health()
        self.until: Deadline | None = None
        self.secret: int | None = None
        """What statements with caps take as a parameter (Theorem CAP-1). Without it they fail."""

    def _parameters(self, text: str) -> dict[str, int] | None:
        """The secret, for a statement with that parameter: constants and names of columns may be of the same text."""
        if self.secret is None or f"${SECRET}" not in text:
            return None
        (statement,) = self._connection.extract_statements(text)
        return {SECRET: self.secret} if SECRET in statement.named_parameters else None

    @property
    def ended(self) -> bool:
        """Has an error ended the engine, one of this cursor's or of any other's that it shares its `Health` with?"""
        return self._health.failed

    def execute(self, text: str) -> Cursor:
        """Run a statement; its rows are there to fetch."""
        self._stoppable(lambda: self._connection.execute(text, self._parameters(text)))
        return self

    def fetchall(self) -> list[Any]:
        """The rows that are left."""
        return self._stoppable(self._connection.fetchall)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return self._stoppable(self._connection.fetchone)

    def rows(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """A statement's column names and rows."""

        def run() -> tuple[list[str], list[tuple[Any, ...]]]:
            found = self._connection.execute(text, self._parameters(text)).fetchall()
            return [name for name, *_ in self._connection.description or ()], found

        return self._stoppable(run)

    def arrow(self, text: str) -> Any:
        """A statement's result as an Arrow table."""
        return self._stoppable(lambda: self._connection.sql(text, params=self._parameters(text)).to_arrow_table())

    def typed(self, text: str) -> tuple[Any, list[str]]:
        """A statement's result as an Arrow table, and the DuckDB type of each column."""

        def run() -> tuple[Any, list[str]]:
            relation = self._connection.sql(text)
            return relation.to_arrow_table(), [str(t) for t in relation.types]

        return self._stoppable(run)

    def register(self, name: str, table: Any) -> None:
        """Let statements read an Arrow table by this name."""
        with self._watched():
            self._connection.register(name, table)

    def unregister(self, name: str) -> None:
        """Take the name back. Never fails: where an engine has ended, there is nothing to take back."""
        with suppress(duckdb.Error), self._watched():
            self._connection.unregister(name)

    def drop(self, name: str) -> None:
        """Remove a temporary table of this cursor's, if there is one. Never fails, as above."""
        with suppress(duckdb.Error), self._watched():
            self._connection.execute(f"DROP TABLE IF EXISTS temp.{name}")

    def close(self) -> None:
        """Close the cursor. Never fails."""
        with suppress(duckdb.Error):
            self._connection.close()

    def _stoppable(self, work: Callable[[], T]) -> T:
        seconds = None if self.until is None else self.until.at - monotonic()
        with self._watched():
            try:
                return stoppable(work, self._connection.interrupt, seconds)
            except TimeUp:
                assert self.until is not None
                raise timed_out(self.until.limit) from None

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Only DuckDB's errors leave, and it is noted if they ended the engine."""
        try:
            yield
        except duckdb.Error as error:
            self._health.look(error, self._connection)
            raise
        except DataError:
            raise
        except Exception as foreign:  # of Arrow's, say: its text, too, may quote a cell
            raise duckdb.OperationalError(type(foreign).__name__) from None


@contextmanager
def one_message() -> Iterator[None]:
    """Whatever fails in the engine, fails with one and the same message (attack 9)."""
    try:
        yield
    except duckdb.Error as error:
        raise engine_failed(reason_of(error)) from None


class NoRoom(Exception):
    """Reading a column (or a whole source: "") takes more memory, or disk for spilling, than the engine may have."""


class EngineEnded(Exception):
    """The engine ended while a column (or a whole source: "") was read, which says nothing of its values."""


def is_crowded(error: duckdb.Error) -> bool:
    """Did memory, or the disk for spilling, run out?"""
    return isinstance(error, duckdb.OutOfMemoryException) or "No space left" in str(error)


def reason_of(error: duckdb.Error) -> str:
    """Why a statement failed, for the steward's log: in our words, since the engine's may quote a row."""
    said = str(error)
    if "No space left" in said:
        return "spill: no space left on the disk"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "spill: its limit was reached" if "max_temp_directory_size" in said else "memory: its limit was reached"
    return type(error).__name__
