"""Opening sources and locking engines.

Two engines, both in memory. The private one has a view over each source and then loses every other way to the outside
(allowed paths, not directories: those would allow writes). The public one (public.py) has public tables only, and is
where post-processing runs.

Settings are GLOBAL: queries run on cursors, and a cursor doesn't inherit what is set on its connection.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from dpsql.accounting.fingerprint import Source
from dpsql.backends.duckdb.cursor import Cursor
from dpsql.backends.duckdb.limits import limit
from dpsql.errors import DataError, PolicyError, nearest
from dpsql.frozen import dataclass
from dpsql.policy import ColumnUnit, LinkedUnit, Policy, Table
from dpsql.settings import EngineSettings

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
    "disabled_optimizers": "statistics_propagation,join_filter_pushdown",
}


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """A policy table and where its rows are: files, or an Arrow table passed from Python."""

    table: Table
    files: tuple[Path, ...]
    object: Arrow | None

    @property
    def source(self) -> Source:
        """What the ledger fingerprints."""
        if self.object is None:
            return Source(self.table.name.lower(), files=self.files, part=self.table.table or "")
        return Source(self.table.name.lower(), chunks=lambda: _ipc(self.object))


def locate(policy: Policy, objects: Mapping[str, Any]) -> tuple[Located, ...]:
    """Find each table's files, or take the object that was passed for it."""
    given = {name.lower(): value for name, value in objects.items()}
    unknown = set(given) - set(policy.tables)
    if unknown:
        name = sorted(unknown)[0]
        near = nearest(name, tuple(policy.tables))
        raise PolicyError(
            f"sources has a table {name} that the policy doesn't name",
            code="unknown-source",
            hint=f"did you mean {near}?" if near else f"tables of the policy: {', '.join(policy.tables)}",
        )
    located = []
    for name, table in policy.tables.items():
        if name in given:
            located.append(Located(table, (), to_arrow(name, given[name])))
        elif table.source is None:
            raise PolicyError(
                f"tables.{table.name}: no source, and no object was passed for it",
                code="missing-key",
                hint=f'add source = "{table.name}.parquet", or pass sources={{"{table.name}": table}} to connect()',
            )
        else:
            located.append(Located(table, _files(policy, table, table.source), None))
    return tuple(located)


def to_arrow(name: str, value: Any) -> Arrow:
    """A pyarrow, pandas or polars object as an Arrow table."""
    import pyarrow as pa

    if isinstance(value, pa.Table | pa.RecordBatch):
        table = value if isinstance(value, pa.Table) else pa.Table.from_batches([value])
        try:
            table.validate(full=True)  # invalid text would make functions fail on single rows
        except pa.ArrowInvalid:
            raise DataError(
                f"sources[{name!r}] holds invalid values", code="unreadable", hint="table.validate(full=True) says more"
            ) from None
        return table
    module = type(value).__module__.split(".")[0]
    if module == "pandas":
        return pa.Table.from_pandas(value, preserve_index=False)
    if module == "polars":
        return value.to_arrow() if hasattr(value, "to_arrow") else value.collect().to_arrow()
    raise PolicyError(
        f"sources[{name!r}] is a {type(value).__name__}",
        code="bad-source",
        hint="pass a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame",
    )


def _ipc(table: Arrow) -> Iterator[bytes]:
    """Bytes that determine an Arrow table's rows."""
    import pyarrow as pa

    yield table.schema.remove_metadata().serialize().to_pybytes()
    for batch in table.combine_chunks().to_batches(max_chunksize=1 << 20):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def _files(policy: Policy, table: Table, source: str) -> tuple[Path, ...]:
    path = Path(source)
    base = path if path.is_absolute() else policy.folder / path
    if any(c in source for c in "*?["):
        root = Path(base.anchor) if base.is_absolute() else Path()
        found = sorted(p for p in root.glob(str(base.relative_to(root))) if p.is_file())
    else:
        found = [base] if base.is_file() else []
    if not found:
        raise DataError(
            f"tables.{table.name}.source: there is no file {source}",
            code="no-file",
            hint=f"paths are relative to the policy's folder, {policy.folder}",
        )
    if table.kind == "duckdb":
        found += [wal for f in found if (wal := f.with_name(f.name + ".wal")).is_file()]
    return tuple(p.resolve() for p in found)


# ---------------------------------------------------------------- the private engine


def open_private(located: tuple[Located, ...], settings: EngineSettings, spill: Path | None) -> Connection:
    """An engine over all sources, closed to everything else; what doesn't fit into memory goes to `spill`."""
    connection = duckdb.connect(":memory:", config=CONFIG)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    limit(connection, settings, spill)
    for i, one in enumerate(located):
        if one.object is None:
            create_view(connection, one, f"source{i}")
    lock(connection, [f for one in located for f in one.files if one.table.kind != "duckdb"])
    return connection


def lock(connection: Connection, files: list[Path]) -> None:
    """No file but these, no extension, no change of configuration, from now on."""
    listed = ", ".join(_literal(str(f)) for f in files)
    connection.execute(f"SET allowed_paths = [{listed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def file_marks(located: Sequence[Located]) -> dict[Path, tuple[int, ...]]:
    """Which files are behind the sources: an open session keeps reading the DuckDB files that it attached."""
    found: dict[Path, tuple[int, ...]] = {}
    for file in (f for one in located for f in one.files):
        try:
            stat = file.stat()
            found[file] = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except OSError:
            found[file] = ()
    return found


def create_view(connection: Connection, one: Located, attached: str) -> None:
    """A view over one source, with the types that the policy pins."""
    table = one.table
    name = quoted(table.name.lower())
    try:
        if table.kind == "duckdb":
            connection.execute(f"ATTACH {_literal(str(one.files[0]))} AS {attached} (READ_ONLY)")
            parts = ".".join(quoted(p) for p in (table.table or "").split("."))
            rows = f"SELECT * FROM {attached}.{parts}"
        elif table.kind == "csv":
            rows = read_csv(one)
        else:
            _same_schemas(connection, one)
            rows = f"SELECT * FROM read_parquet({_paths(one.files)}, hive_partitioning = false)"
        connection.execute(f"CREATE VIEW {name} AS {_typed(connection, table, rows)}")
    except duckdb.Error as error:
        # Only headers and schemas have been read so far: the message is about the file, not about a row.
        raise DataError(
            f"tables.{table.name}: {table.source} can't be opened: {str(error).splitlines()[0]}",
            code="unreadable",
            hint="check the file, and that nobody else has it open for writing",
        ) from None


def _same_schemas(connection: Connection, one: Located) -> None:
    """All files of a glob must have the same columns: DuckDB would cast row by row, and fail on some row."""
    if len(one.files) == 1:
        return
    columns = "list((name, type, CAST(logical_type AS VARCHAR), converted_type, num_children) ORDER BY name)"
    per_file = f"SELECT {columns} AS s FROM parquet_schema({_paths(one.files)}) GROUP BY file_name"
    found = connection.execute(f"SELECT COUNT(DISTINCT s) FROM ({per_file})").fetchone()
    if found is not None and found[0] > 1:
        raise DataError(
            f"tables.{one.table.name}: the files of {one.table.source} have different columns or types",
            code="schemas",
            hint="write them with the same schema",
        )


def _typed(connection: Connection, table: Table, rows: str) -> str:
    """Columns whose type the policy pins are cast to it; a value that doesn't fit is NULL."""
    found = connection.execute(f"DESCRIBE {rows}").fetchall()
    columns = []
    for name, kind, *_ in found:
        said = table.column(name)
        pinned = said.type if said is not None and said.type is not None else kind
        # UHUGEINT: compared with other integers it would be a double, or fail.
        wanted = "HUGEINT" if pinned == "UHUGEINT" else pinned
        if wanted != kind:
            # NULLIF: DuckDB would push a bare cast of a CSV column into its reader, where a value that doesn't fit is
            # an error of the whole row.
            text = f"NULLIF({quoted(name)}, '')" if table.kind == "csv" else quoted(name)
            columns.append(f"TRY_CAST({text} AS {wanted}) AS {quoted(name)}")
        elif table.kind == "duckdb" and kind == "VARCHAR":
            # A collation would make two spellings one group, and show either.
            columns.append(f'{quoted(name)} COLLATE "binary" AS {quoted(name)}')
        else:
            columns.append(quoted(name))
    return f"SELECT {', '.join(columns)} FROM ({rows})"


def read_csv(one: Located, *, errors: str = "ignore_errors") -> str:
    """Nothing about a private CSV file is sniffed: one row could change it (ATTACKS 37). Header and policy decide.

    A record with too many or too few fields is left out; errors = "store_rejects" tells which ones.
    """
    table = one.table
    if table.public and not any(c.type for c in table.columns.values()):
        return f"SELECT * FROM read_csv({_paths(one.files)})"
    headers = {tuple(_header(f)) for f in one.files}
    if len(headers) > 1:
        raise DataError(
            f"tables.{table.name}: the files of {table.source} have different headers",
            code="headers",
            hint="give them the same columns in the same order",
        )
    header = list(headers.pop())
    delimiter = "\t" if ".tsv" in one.files[0].suffixes else ","
    columns = ", ".join(f"{_literal(c)}: 'VARCHAR'" for c in header)
    used = set(table.columns) if not table.public else {c.lower() for c in header}
    used |= {c.lower() for c in _structural(table)}
    shown = ", ".join(quoted(c) for c in header if c.lower() in used)
    if not shown:
        raise PolicyError(
            f"tables.{table.name}.columns: none of the listed columns is in {table.source}",
            code="unknown-column",
            hint=f"its header is: {', '.join(header)}",
        )
    return (
        f"SELECT {shown} FROM read_csv({_paths(one.files)}, auto_detect = false, header = true, "
        f"delim = {_literal(delimiter)}, quote = '\"', escape = '\"', columns = {{{columns}}}, {errors} = true)"
    )


def well_formed(one: Located) -> bool:
    """Is every quote of a private CSV file closed? An open one would swallow other people's rows.

    A record that only has too many or too few fields is a row by itself, and no harm to others.
    """
    connection = Cursor(duckdb.connect(":memory:", config=CONFIG))
    try:
        # All of it is fetched: the rejects are there once the scan has ended.
        connection.execute(f"SELECT COUNT(COLUMNS(*)) FROM ({read_csv(one, errors='store_rejects')})").fetchall()
        found = connection.execute("SELECT DISTINCT CAST(error_type AS VARCHAR) FROM reject_errors").fetchall()
    except duckdb.Error:
        return False
    finally:
        connection.close()
    by_itself = {"MISSING COLUMNS", "TOO MANY COLUMNS", "INVALID ENCODING", "LINE SIZE OVER MAXIMUM"}
    return {kind for (kind,) in found} <= by_itself


def readable(cursor: Cursor, table: str, columns: list[str]) -> bool:
    """Can every value of these columns be read?"""
    largest = ", ".join(f"MAX({quoted(c)}) IS NULL" for c in columns)  # unlike COUNT, it looks at each value
    try:
        cursor.execute(f"SELECT {largest} FROM {quoted(table)}").fetchall()
    except duckdb.Error:
        return False
    return True


def unlisted(one: Located) -> frozenset[str]:
    """Columns of a private CSV file that the policy doesn't list: they have no type, so they can't be used."""
    if one.table.public or one.object is not None or one.table.kind != "csv":
        return frozenset()
    return frozenset(c.lower() for c in _header(one.files[0])) - set(one.table.columns)


def _structural(table: Table) -> list[str]:
    """Columns that the policy uses to find owners; unlisted ones in a CSV are text."""
    columns = list(table.key or ())
    if isinstance(table.unit, ColumnUnit):
        columns.append(table.unit.column)
    if isinstance(table.unit, LinkedUnit):
        columns += [here for here, _ in table.unit.on]
    return columns


def _header(file: Path) -> list[str]:
    try:  # the first line alone: what is in the others must not matter
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as binary:
            line = binary.readline().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{file.name} can't be read: {type(error).__name__}", code="unreadable", hint="save it as UTF-8 text"
        ) from None
    delimiter = "\t" if ".tsv" in file.suffixes else ","
    return next(csv.reader([line], delimiter=delimiter), [])


# ---------------------------------------------------------------- schemas


def read_schema(connection: Connection, located: tuple[Located, ...]) -> Schema:
    """Each table's columns and DuckDB types, from metadata alone; checks the policy's columns against them."""
    schema: Schema = {}
    for one in located:
        name = one.table.name.lower()
        cursor = connection.cursor()
        if one.object is not None:
            cursor.register(name, one.object)
        found = cursor.execute(f"DESCRIBE SELECT * FROM {quoted(name)}").fetchall()
        schema[name] = tuple((column, text) for column, text, *_ in found)
        cursor.close()
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


def _paths(files: tuple[Path, ...]) -> str:
    return f"[{', '.join(_literal(str(f)) for f in files)}]"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted(text: str) -> str:
    """A name in quotes."""
    return '"' + text.replace('"', '""') + '"'
