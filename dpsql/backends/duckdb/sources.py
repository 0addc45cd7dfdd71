"""Opening sources and locking engines.

Two engines, both in memory. The private one has a view over each source and then loses every other way to the outside
(allowed paths, not directories: those would allow writes). The public one (public.py) has public tables only, and is
where post-processing runs.

Settings are GLOBAL: queries run on cursors, and a cursor doesn't inherit what is set on its connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb

from dpsql.backends.base import WHOLE_SOURCE, Misread
from dpsql.backends.duckdb.csv_files import examine_csv, read_csv
from dpsql.backends.duckdb.cursor import Cursor
from dpsql.backends.duckdb.limits import limit
from dpsql.backends.duckdb.names import literal, paths, quoted
from dpsql.backends.duckdb.scan import (
    NOTHING,
    WHOLE,
    Column,
    Proven,
    Runs,
    examine,
    examine_parquet,
    in_folder,
    read_parquet,
)
from dpsql.backends.located import Located
from dpsql.core.errors import DataError, PolicyError, nearest
from dpsql.core.types import Type
from dpsql.policy.model import ColumnUnit, LinkedUnit, Table
from dpsql.policy.settings import EngineSettings

NO_COLUMN = "dpsql_no_column"
"""What a view has whose rows are only counted."""

Connection = duckdb.DuckDBPyConnection
Schema = dict[str, tuple[tuple[str, str], ...]]
Arrow = Any

CONFIG: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    # DuckDB 2.0.0 takes COALESCE(SUM(a), 0) over a LEFT JOIN for 0 where statistics say that nothing matches: one
    # person's row would change what is counted of everybody. So nothing is concluded from statistics. Filters that one
    # side of a join makes for the other while it runs have dropped rows by timing, and where memory ran short.
    # Grouping rows below a join as well as above it, where they look few, takes longer (FACT-SPEED-6).
    "disabled_optimizers": "statistics_propagation,join_filter_pushdown,partial_aggregate_pushdown",
}


# ---------------------------------------------------------------- the private engine


def _held(one: Located) -> str:
    """The name under which an engine knows what the table's view reads: a database, or an object."""
    return f"dpsql_source_{one.table.name.lower()}"


def _place(one: Located) -> str:
    return quoted(_held(one))


def open_private(located: tuple[Located, ...], settings: EngineSettings, spill: Path | None) -> Connection:
    """An engine over all sources, closed to everything else; what doesn't fit into memory goes to `spill`."""
    connection = duckdb.connect(":memory:", config=CONFIG)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    limit(connection, settings, spill)
    for one in located:
        if one.object is None:
            attach(connection, one)
            create_view(connection, one)
    lock(connection, [f for one in located for f in one.files if one.table.kind != "duckdb"])
    return connection


def lock(connection: Connection, files: list[Path]) -> None:
    """No file but these, no extension, no change of configuration, from now on."""
    listed = ", ".join(literal(str(f)) for f in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def attach(connection: Connection, one: Located) -> None:
    """Open the database that a source is a table of; files of other kinds are opened when they are read."""
    with _opening(one):
        if one.table.kind == "duckdb":
            connection.execute(f"ATTACH {literal(str(one.files[0]))} AS {_place(one)} (READ_ONLY)")
            _refuse_computed(connection, one)
        elif one.table.kind == "parquet":
            _same_schemas(connection, one)


def _refuse_computed(connection: Connection, one: Located) -> None:
    """Theorem SCAN-1: rows are records. What is computed whenever it is read isn't always the same."""
    *schema, name = (one.table.table or "").split(".")
    place = [_held(one), ".".join(schema).lower() or "main", name.lower()]
    here = "WHERE database_name = ? AND schema_name.lower() = ?"
    views = connection.execute(f"SELECT view_name FROM duckdb_views() {here} AND view_name.lower() = ?", place)
    what = "a view" if views.fetchall() else ""
    columns = connection.execute(
        f"SELECT column_name FROM duckdb_columns() {here} AND table_name.lower() = ? AND is_generated", place
    ).fetchall()
    if what or columns:
        what = what or f"a table with a generated column, {columns[0][0]}"
        raise DataError(
            f"tables.{one.table.name}: {one.table.table} of {one.table.source} is {what}: "
            "its rows are computed anew whenever it is read",
            code="unreadable",
            hint=f"make a table of them: CREATE TABLE … AS SELECT * FROM {one.table.table}",
        )


def create_view(
    connection: Connection, one: Located, shown: Mapping[str, Proven] | None = None, name: str | None = None
) -> None:
    """A view over the files of one source, with the types that the policy pins (Theorem SCAN-1).

    shown: the columns that it has, in lower case, each with what a full reading showed of it; None: all columns, of
    which nothing is known. name: the view's, in the place of the table's.
    """
    with _opening(one):
        columns = raw_columns(connection, one)
        if shown is not None:
            columns = [c for c in columns if c.name.lower() in shown]
        known = [NOTHING] if shown is None else list(shown.values())
        # Where no column was read nothing is known: footers say how many rows there are, too.
        known = known or [NOTHING]
        whole = Proven(statistics=all(c.statistics for c in known), unquoted=all(c.unquoted for c in known))
        listed = _columns(one, columns, shown or {}) or f"TRUE AS {NO_COLUMN}"
        rows = f"SELECT {listed} FROM ({_raw(connection, one, whole)})"
        connection.execute(f"CREATE OR REPLACE VIEW {quoted(name or one.table.name.lower())} AS {rows}")


@contextmanager
def _opening(one: Located) -> Iterator[None]:
    table = one.table
    try:
        yield
    except duckdb.Error as error:
        # Only schemas have been read so far: the message is about the file, not about a row. The first line of a CSV
        # file may be a row all the same (attack 49).
        said = "" if table.kind == "csv" else f": {str(error).splitlines()[0]}"
        raise DataError(
            f"tables.{table.name}: {table.source} can't be opened{said}",
            code="unreadable",
            hint="check the file, and that nobody else has it open for writing",
        ) from None


def _raw(connection: Runs, one: Located, proven: Proven) -> str:
    """The rows of the files of a source, as DuckDB reads them."""
    if one.table.kind == "csv":
        return read_csv(one.table, one.files, _used(one.table), unquoted=proven.unquoted)
    if one.table.kind == "parquet":
        folders, whole = folder_columns(connection, one), "" if proven.statistics else WHOLE
        if not folders:
            return f"SELECT * FROM {read_parquet(one.files)}{whole}"
        made = ", ".join(f"{in_folder(name, 'dpsql_file')} AS {quoted(name)}" for name in folders)
        files = read_parquet(one.files, ", filename = 'dpsql_file'")
        return f"SELECT * EXCLUDE (dpsql_file), {made} FROM {files}{whole}"
    return f"SELECT * FROM {_place(one)}.{'.'.join(quoted(p) for p in (one.table.table or '').split('.'))}"


def folder_columns(connection: Runs, one: Located) -> tuple[str, ...]:
    """Columns that the names of the files' folders make (year=2024): those that the policy gives a type.

    No other one is made, and nothing is inferred: one folder's name would change the type of all of them.
    """
    keys = [{part.partition("=")[0].lower() for part in f.parent.parts if "=" in part} for f in one.files]
    typed = [c.name for c in one.table.columns.values() if c.type is not None]
    found = [name for name in typed if all(name.lower() in of for of in keys)]
    if one.table.kind != "parquet" or not found:
        return ()
    for file in one.files:
        try:
            unquote(str(file.parent), errors="strict").encode()
        except (UnicodeDecodeError, UnicodeEncodeError):
            raise DataError(
                f"tables.{one.table.name}: the name of a folder of {one.table.source} isn't UTF-8",
                code="unreadable",
                hint="rename it: percent signs in it stand for the bytes of UTF-8",
            ) from None
    own = connection.execute(f"DESCRIBE SELECT * FROM {read_parquet(one.files)}").fetchall()
    return tuple(name for name in found if name.lower() not in {column.lower() for column, *_ in own})


def raw_columns(connection: Runs, one: Located) -> list[Column]:
    """The columns of a source, typed as DuckDB reads them."""
    with reading(connection, one) as rows:
        return [Column(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {rows}").fetchall()]


@contextmanager
def reading(connection: Runs, one: Located) -> Iterator[str]:
    """A query of a source's rows as DuckDB reads them, objects from Python included."""
    if one.object is None:
        yield _raw(connection, one, NOTHING)
        return
    connection.register(_held(one), one.object)
    try:
        yield f"SELECT * FROM {_place(one)}"
    finally:
        connection.unregister(_held(one))


def _columns(one: Located, raw: Sequence[Column], shown: Mapping[str, Proven]) -> str:
    """Columns made to fit. Those whose type the policy pins are cast to it; a value that doesn't fit is NULL.

    shown: what is known of them, by their names in lower case.
    """
    table, columns = one.table, []
    kind = None if one.object is not None else table.kind
    for column in raw:
        proven = shown.get(column.name.lower(), NOTHING)
        said = table.column(column.name)
        pinned = said.type if said is not None and said.type is not None else column.kind
        # UHUGEINT: compared with other integers it would be a double, or fail.
        wanted = "HUGEINT" if pinned == "UHUGEINT" else pinned
        name = quoted(column.name)
        if wanted == column.kind:
            text = column.fitted(kind, proven)
            if kind == "duckdb" and column.kind == "VARCHAR":
                text = f'{text} COLLATE "binary"'  # a collation would make two spellings one group, and show either
        elif kind == "csv":
            # NULLIF: DuckDB would push a bare cast of a CSV column into its reader, where a value that doesn't fit is
            # an error of the whole row.
            text = f"TRY_CAST(NULLIF({name}, '') AS {wanted})"
        else:
            text = f"TRY_CAST({column.fitted(kind, proven)} AS {wanted})"
        columns.append(f"{text} AS {name}")
    return ", ".join(columns)


def misread(one: Located) -> Misread:
    """Lines of a CSV file that aren't rows, and fields that don't fit their type: queries pass over both in silence."""
    if one.object is not None or one.table.kind != "csv":
        return Misread(0)
    rows = read_csv(one.table, one.files, _used(one.table), unquoted=False, errors="store_rejects")
    typed = [c for c in one.table.columns.values() if c.type is not None and not Type.parse(c.type).is_text]
    misfits = "".join(
        f", COUNT(*) FILTER ({quoted(c.name)} IS NOT NULL AND TRY_CAST({quoted(c.name)} AS {c.type}) IS NULL)"
        for c in typed
    )
    connection = Cursor(duckdb.connect(":memory:"))
    try:
        # Fetch all of it: the rejects are there once the scan has ended.
        found = connection.execute(f"SELECT COUNT(*){misfits} FROM ({rows})").fetchall()[0]
        query = "SELECT COUNT(DISTINCT (file_id, line)) FROM reject_errors"
        rejected = connection.execute(query).fetchall()[0][0]
    finally:
        connection.close()
    return Misread(rejected, tuple((c.name, count) for c, count in zip(typed, found[1:], strict=True)))


def hold(cursor: Runs, one: Located, *, fits: bool) -> None:
    """Let a cursor read an object from Python by its table's name, with the types that the policy pins.

    fits: all of its values fit their own types; those that don't are NULL (Theorem SCAN-1).
    """
    name = one.table.name.lower()
    if fits and all(column.type is None for column in one.table.columns.values()):
        cursor.register(name, one.object)
        return
    raw = raw_columns(cursor, one)
    columns = _columns(one, raw, {c.name.lower(): Proven(fits=fits) for c in raw})
    cursor.register(_held(one), one.object)
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW {quoted(name)} AS SELECT {columns} FROM {_place(one)}")


def columns_apart(connection: Runs, one: Located) -> dict[str, Column] | None:
    """The columns of a source that are read in full one by one, by their names in lower case; None where it is read as
    a whole: CSV files, of which only listed columns are read, and objects, which are in memory."""
    if one.object is not None or one.table.kind == "csv" or one.table.public:
        return None
    return {c.name.lower(): c for c in raw_columns(connection, one)}


def prove(connection: Cursor, one: Located, columns: Sequence[Column]) -> dict[str, Proven | None]:
    """What a full reading of a private source shows (Theorem SCAN-1), column by column; None where one isn't readable.

    columns: those to read, of a source that is read one by one; else WHOLE_SOURCE is told.
    """
    if one.object is None and one.table.kind == "csv":
        return {WHOLE_SOURCE: _prove_csv(one)}
    raw = [] if one.object is None else raw_columns(connection, one)
    with reading(connection, one) as rows:
        if one.object is not None:
            found = examine(connection, f"({rows})", raw, validated=True).values()
            known = [proven for proven in found if proven is not None]
            fits = Proven(fits=all(proven.fits for proven in known))
            return {WHOLE_SOURCE: fits if len(known) == len(found) else None}
        if one.table.kind == "duckdb":
            shown = examine(connection, f"({rows})", columns, validated=False)
        else:
            folders = folder_columns(connection, one)
            held = [column for column in columns if column.name not in folders]
            shown = examine_parquet(connection, one.files, held)
            shown |= {name: Proven(fits=True, statistics=True, numbers=True) for name in folders}
    return {name.lower(): proven for name, proven in shown.items()}


def _prove_csv(one: Located) -> Proven | None:
    aside = Cursor(duckdb.connect(":memory:", config=CONFIG))  # where rejects are stored, and forgotten
    try:
        found = examine_csv(one.table, one.files, _used(one.table), aside)
    finally:
        aside.close()
    return None if found is None else Proven(fits=True, unquoted=found.unquoted)


def _same_schemas(connection: Connection, one: Located) -> None:
    """All files of a glob must have the same columns: DuckDB would cast row by row, and fail on some row."""
    if len(one.files) == 1:
        return
    columns = "list((name, type, CAST(logical_type AS VARCHAR), converted_type, num_children) ORDER BY name)"
    per_file = f"SELECT {columns} AS s FROM parquet_schema({paths(one.files)}) GROUP BY file_name"
    found = connection.execute(f"SELECT COUNT(DISTINCT s) FROM ({per_file})").fetchone()
    if found is not None and found[0] > 1:
        raise DataError(
            f"tables.{one.table.name}: the files of {one.table.source} have different columns or types",
            code="schemas",
            hint="write them with the same schema",
        )


def _used(table: Table) -> frozenset[str]:
    """The columns of a private CSV file that are read: those that the policy lists, or finds owners by."""
    return frozenset(table.columns) | {c.lower() for c in _structural(table)}


def _structural(table: Table) -> list[str]:
    """Columns that the policy uses to find owners; unlisted ones in a CSV are text."""
    columns = list(table.key or ())
    if isinstance(table.unit, ColumnUnit):
        columns.append(table.unit.column)
    if isinstance(table.unit, LinkedUnit):
        columns += [here for here, _ in table.unit.on]
    return columns


# ---------------------------------------------------------------- schemas


def read_schema(connection: Connection, located: tuple[Located, ...]) -> Schema:
    """Each table's columns and DuckDB types, from metadata alone; checks the policy's columns against them."""
    schema: Schema = {}
    for one in located:
        name = one.table.name.lower()
        cursor = connection.cursor()
        try:
            if one.object is not None:
                hold(cursor, one, fits=True)
            found = cursor.execute(f"DESCRIBE SELECT * FROM {quoted(name)}").fetchall()
        except duckdb.Error:
            raise DataError(
                f"sources[{one.table.name!r}] has a column of a type that DuckDB doesn't read",
                code="unreadable",
                hint="cast it to another one (16-bit floats to 32-bit ones), or leave it out",
            ) from None
        finally:
            cursor.close()
        schema[name] = tuple((column, text) for column, text, *_ in found)
        _check_columns(one.table, _own_names(one, [c for c, _ in schema[name]]))
    return schema


def _own_names(one: Located, shown: list[str]) -> list[str]:
    """The names that the source itself gives its columns: DuckDB renames the second of two that differ in case."""
    if one.object is not None:
        return list(one.object.column_names)
    lowered = {c.lower() for c in shown}
    renamed = [c for c in lowered if c.rpartition("_")[2].isdigit() and c.rpartition("_")[0] in lowered]
    if one.table.kind != "parquet" or not renamed:
        return shown
    import pyarrow.parquet as pq

    return list(pq.read_schema(one.files[0]).names)


def _check_columns(table: Table, columns: list[str]) -> None:
    lowered = [c.lower() for c in columns]
    twice = sorted({c for c in lowered if lowered.count(c) > 1})
    if twice:
        raise DataError(
            f"tables.{table.name}: two columns are called {twice[0]}, apart from case",
            code="duplicate-column",
            hint="rename one of them in the data",
        )
    for path, name in [
        *((f"tables.{table.name}.columns.{c.name}", c.name) for c in table.columns.values()),
        *((f"tables.{table.name}", c) for c in _structural(table)),
    ]:
        if name.lower() not in lowered:
            near = nearest(name, columns)
            raise PolicyError(
                f"{path}: {table.name} has no column {name}",
                code="unknown-column",
                hint=f"did you mean {near}?" if near else f"its columns are: {', '.join(columns[:30])}",
            )
