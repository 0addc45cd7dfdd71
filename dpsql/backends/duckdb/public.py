"""The public engine, where post-processing runs, and the twin: empty tables to ask for names and types."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import duckdb
from sqlglot import exp

from dpsql.backends.base import Deadline
from dpsql.backends.duckdb.cursor import Cursor, Health
from dpsql.backends.duckdb.dialect import DUCKDB, text_of
from dpsql.backends.duckdb.limits import spill_to
from dpsql.backends.duckdb.names import quoted
from dpsql.backends.duckdb.sources import CONFIG, Arrow, Connection, Schema, attach, create_view, hold, lock
from dpsql.backends.located import Located
from dpsql.core.errors import EngineError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.sql.as_sql import as_sql
from dpsql.sql.parse import Tree
from dpsql.sql.rewrite.count_distinct import count_distinct
from dpsql.sql.rewrite.ordered_set import ordered_set
from dpsql.sql.trees import as_written, copied, explicit


class PublicDatabase:
    """Public tables, and whatever noisy tables a query brings along. No private table is ever in it.

    Without public tables, which would have to be there, its engine is opened when it is first needed: that takes as
    long as all else that a session opens.
    """

    def __init__(self, located: tuple[Located, ...], spill: Path | None = None) -> None:
        self.health = Health()
        public = tuple(one for one in located if one.table.public)
        self._objects = tuple(one for one in public if one.object is not None)
        self.memo: dict[object, Arrow] = {}
        self._spill = spill
        self._aside: _Aside | None = None
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._opened = self._open(public) if public else None
        self._closed = False

    def _open(self, public: tuple[Located, ...]) -> Connection:
        connection = _engine(self._spill)
        for one in public:
            if one.object is None:
                attach(connection, one)
                create_view(connection, one)
        lock(connection, [f for one in public for f in one.files if one.table.kind != "duckdb"])
        return connection

    @property
    def _connection(self) -> Connection:
        with self._opening:
            if self._opened is None:
                if self._closed:
                    raise duckdb.ConnectionException("closed")
                self._opened = self._open(())
            return self._opened

    def table(self, query: exp.Query, tables: Mapping[str, Arrow]) -> Arrow:
        """Run a query over public tables and these Arrow tables; gives an Arrow table."""
        return self.run(query, tables)[0]

    def run(self, query: exp.Query, tables: Mapping[str, Arrow]) -> tuple[Arrow, list[str]]:
        """The answer, and the DuckDB types of its columns."""
        try:
            with self._cursor(tables) as cursor:
                return cursor.typed(text_of(copied(query)))
        except duckdb.Error as error:
            # Public and noisy values only: the message can't leak.
            raise EngineError(str(error).splitlines()[0]) from None

    def apart(self, query: exp.Query, tables: Mapping[str, Arrow], seconds: float) -> Arrow:
        """Run a query over these tables alone, in an engine of its own: whatever happens to it harms nobody.

        Raises EngineError, or DataError when the time is up.
        """
        text = text_of(copied(query))
        with self._lock:
            if self._aside is None or self._aside.health.failed:
                self._aside = _Aside(_engine(self._spill), Health())
                lock(self._aside.connection, [])
            aside = self._aside
        cursor = Cursor(aside.connection.cursor(), aside.health)
        cursor.until = Deadline(monotonic() + seconds, f"{seconds:g} seconds")
        try:
            for name, value in tables.items():
                cursor.register(name, value)
            return cursor.arrow(text)
        except duckdb.Error as error:
            raise EngineError(str(error).splitlines()[0]) from None
        finally:
            cursor.close()

    @contextmanager
    def _cursor(self, tables: Mapping[str, Arrow]) -> Iterator[Cursor]:
        cursor = Cursor(self._connection.cursor(), self.health)
        try:
            for one in self._objects:
                hold(cursor, one, fits=True)
            for name, value in tables.items():
                cursor.register(name, value)
            yield cursor
        finally:
            cursor.close()

    def cursor(self) -> Connection:
        """A cursor without any query's noisy tables."""
        return self._connection.cursor()

    def catalog(self) -> list[str]:
        """The names of the tables and views that a query finds in it."""
        return [name for (name,) in self.cursor().execute("SHOW TABLES").fetchall()]

    def close(self) -> None:
        with self._opening:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
        if self._aside is not None:
            self._aside.connection.close()


@dataclass(frozen=True, slots=True)
class _Aside:
    """An engine that may fail."""

    connection: Connection
    health: Health


def _engine(spill: Path | None) -> Connection:
    """An engine for post-processing, which is of an analyst's making: it must not take the process down."""
    connection = duckdb.connect(":memory:", config={**CONFIG, "threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL error_on_division_by_zero = false")
    spill_to(connection, spill)
    connection.execute("SET memory_limit = '4GB'")
    connection.execute("SET GLOBAL max_execution_time = 60000")
    connection.execute(_CLIP)
    connection.execute(_WIDTH_BUCKET)
    return connection


_CLIP = "CREATE MACRO clip(x, low, high) AS CASE WHEN x IS NULL THEN NULL ELSE least(greatest(x, low), high) END"


_WIDTH_BUCKET = """CREATE MACRO width_bucket(x, low, high, n) AS CASE
    WHEN x IS NULL THEN NULL WHEN x < low THEN 0 WHEN x >= high THEN n + 1
    ELSE CAST(least(floor((CAST(x AS DOUBLE) - low) * n / (high - low)), n - 1) AS INTEGER) + 1 END"""


_TWIN = (
    _CLIP,
    _WIDTH_BUCKET,
    "CREATE MACRO privacy_unit() AS CAST(NULL AS BIGINT)",
    *(f"CREATE MACRO dp_interval_{end}(x) AS CAST(NULL AS DOUBLE)" for end in ("low", "high")),
    "CREATE MACRO randomized_response(x) AS x",
    *(
        f"CREATE MACRO {name}(x) AS CAST(COUNT(x) AS DOUBLE), (x, v) AS CAST(COUNT(x = v) AS DOUBLE)"
        for name in ("rr_count", "rr_frequency")
    ),
)
"""What queries may call that DuckDB doesn't know, by the types of its results alone."""


MAX_KNOWN = 1_000  # texts of queries and parts of them


class TwinDatabase:
    """Empty tables of the same schema: DuckDB's own word on names and types, with no data to leak."""

    def __init__(self, public: PublicDatabase, schema: Schema) -> None:
        self._known: dict[str, tuple[tuple[str, str], ...]] = {}
        self._lock = threading.Lock()
        self._health = public.health
        self._public, self._schema = public, schema
        self._opened: Connection | None = None

    def _open(self) -> Connection:
        """The empty tables, made when they are first asked about."""
        connection = self._public.cursor()
        connection.execute("ATTACH IF NOT EXISTS ':memory:' AS dpsql_twin")
        connection.execute("USE dpsql_twin")
        tables = []
        for table, columns in self._schema.items():
            listed = ", ".join(f"{quoted(c)} {text}" for c, text in columns)
            tables.append(f"CREATE TABLE {quoted(table)} ({listed})")
        connection.execute("; ".join(["BEGIN", *_TWIN, *tables, "COMMIT"]))
        return connection

    def describe(self, tree: Tree) -> tuple[tuple[str, str], ...]:
        """Names and types of a query's result; DuckDB's complaint, if it has one, is about the query alone."""
        try:
            return self.types(count_distinct(ordered_set(tree.root)))
        except SQLError as error:
            error.offsets = _quoted_place(error.message, tree.text) or (0, len(tree.text.rstrip()))
            raise

    def types(self, query: exp.Query) -> tuple[tuple[str, str], ...]:
        """Names and types of a query, or of a part of one. They depend on its text alone: the tables stay the same."""
        text = as_sql(explicit(as_written(query)), dialect=DUCKDB.name, copy=False)
        found = self._known.get(text)
        if found is None:
            found = self._described(text)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _described(self, text: str) -> tuple[tuple[str, str], ...]:
        try:
            with self._lock:  # a cursor for each would have to be told first where the tables are
                if self._opened is None:
                    self._opened = self._open()
                rows = self._opened.execute(f"DESCRIBE {text}").fetchall()
        except duckdb.Error as error:
            if self._opened is None:
                self._health.failed = True
            else:
                self._health.look(error, self._opened)
            message = str(error).splitlines()[0].partition("Error: ")[2] or "it can't run this query"
            raise SQLError(
                f"DuckDB: {message}",
                code="duckdb",
                hint="change the query there: DuckDB refuses it whatever the data; `dpsql functions` lists what works",
            ) from None
        return tuple((name, kind) for name, kind, *_ in rows)

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()


def as_texts(column: Arrow) -> list[str | None]:
    """The values of an Arrow column as DuckDB writes them."""
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.register("c", pa.table({"v": column}))
        return [text for (text,) in connection.execute("SELECT CAST(v AS VARCHAR) FROM c").fetchall()]


def _quoted_place(message: str, text: str) -> tuple[int, int] | None:
    """Where the first word that a message quotes stands in the text, if it stands there once."""
    for word in re.findall(r"""["']"?([^\s"'(]+)""", message):
        found = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
        if len(found) == 1:
            return found[0]
    return None
