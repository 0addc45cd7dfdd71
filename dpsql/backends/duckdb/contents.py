"""What files hold, before there is a policy: tables, columns and types, from metadata alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import duckdb

from dpsql.backends.base import Contents
from dpsql.backends.duckdb.csv_files import header_of
from dpsql.backends.duckdb.names import literal, quoted
from dpsql.backends.duckdb.scan import read_parquet
from dpsql.backends.duckdb.sources import CONFIG
from dpsql.core.errors import DataError
from dpsql.policy.model import SEPARATORS, Table, source_kind


def contents(source: str, files: tuple[Path, ...]) -> tuple[Contents, ...]:
    """The tables of a source. Of a CSV file the first line alone is read, and its columns are text."""
    kind = source_kind(source)
    if kind == "csv":
        return (_csv(source, files),)
    with closing(duckdb.connect(":memory:", config=CONFIG)) as connection:
        try:
            if kind == "parquet":
                found = connection.execute(f"DESCRIBE SELECT * FROM {read_parquet(files)}").fetchall()
                return (Contents(None, tuple((name, text) for name, text, *_ in found)),)
            return _database(connection, files[0])
        except duckdb.Error as error:  # only metadata has been read: the message is about the file
            raise DataError(
                f"{source} can't be opened: {str(error).splitlines()[0]}",
                code="unreadable",
                hint="name parquet, CSV or DuckDB files; check that nobody else has it open for writing",
            ) from None


def _csv(source: str, files: tuple[Path, ...]) -> Contents:
    """The columns that a first line names. Where it is one name by the usual separator and several by another, that is
    the one; no other line is looked at.
    """
    names, separator = header_of(_unnamed(source), files), None
    if names and len(names) == 1:
        found = {mark: header_of(_unnamed(source, mark), files) for mark in SEPARATORS if mark in names[0]}
        separator = max(found, key=lambda mark: len(found[mark]), default=None)
        names = names if separator is None else found[separator]
    if not any(name.strip() for name in names):
        raise DataError(
            f"{source}: its first line is empty" if files[0].stat().st_size else f"{source} is empty",
            code="no-header",
            hint="a CSV file begins with a line that names its columns: add it, or leave the file out",
        )
    return Contents(None, tuple((name, "VARCHAR") for name in names), separator)


def _database(connection: duckdb.DuckDBPyConnection, file: Path) -> tuple[Contents, ...]:
    connection.execute(f"ATTACH {literal(str(file))} AS dpsql_source (READ_ONLY)")
    tables = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'dpsql_source' AND NOT internal "
        "ORDER BY ALL"
    ).fetchall()
    found = []
    for schema, name in tables:
        columns = connection.execute(f"DESCRIBE dpsql_source.{quoted(schema)}.{quoted(name)}").fetchall()
        found.append(Contents(f"{schema}.{name}", tuple((column, text) for column, text, *_ in columns)))
    return tuple(found)


def _unnamed(source: str, separator: str | None = None) -> Table:
    """A table that has no name yet, for messages about its file."""
    return Table(Path(source).name, source, None, False, None, None, None, {}, separator=separator)
