"""Tables of Spark's catalog: what they are made of, as Spark lists it. This machine needn't see their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dpsql.accounting.fingerprint import Entry, Listed
from dpsql.backends.located import Located, other_files
from dpsql.backends.spark.reading import Buckets, Reading
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.values import name_of
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Table

_REMEDY = "make a table of it: CREATE TABLE db.name USING parquet AS SELECT … FROM …"
_PLAIN = {"path", "compression", "serialization.format"}  # options of a table that change nothing of what is read
_HIDDEN = ("comment",)  # all else that is said of a column changes what is read of it


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table of Spark's catalog, as it was when it was opened. Each call lists its files again, and wants the same."""

    table: Table
    connection: Connection
    said: Mapping[str, Any]
    reading: Reading
    listed: Listed

    def __call__(self) -> Listed:
        """The listing, which must be that of the files that are open (Theorem VERSION-1)."""
        if _listed(self.connection, self.table, self.said) != self.listed:
            raise other_files(self.table)
        return self.listed

    def is_replaced(self) -> bool:
        """Has the table other files by now, or does its name stand for another one?"""
        return _listed(self.connection, self.table, _described(self.connection, self.table)) != self.listed

    @property
    def empty(self) -> Any:
        """An Arrow table of its columns without rows, from which the engine of this process knows their types."""
        import pyarrow as pa

        return pa.table({name: pa.array([], _arrow(kind)) for name, kind in self.reading.columns or ()})


def catalog_table(connection: Connection, one: Located) -> CatalogTable:
    """Look a table up."""
    table = one.table
    said = _described(connection, table)
    name = _quoted(table)
    # Listed before it is resolved: what is written in between shows when it is listed again.
    listed = _listed(connection, table, said)
    columns = tuple(
        (column, kind)
        for column, kind, more in connection.columns(name)
        if _is_known(kind) and not set(more) - set(_HIDDEN)
    )
    reading = Reading(tuple(file.name for file in listed.files), columns, name, _buckets(said, columns))
    return CatalogTable(table, connection, said, reading, listed)


def _quoted(table: Table) -> str:
    return ".".join(map(name_of, (table.source or "").split(".")))


def _described(connection: Connection, table: Table) -> Mapping[str, Any]:
    """What the catalog says of a table. Refuses what isn't a list of parquet files."""
    where = f"tables.{table.name}.source: {table.source}"
    try:
        found = connection.arrow(f"DESCRIBE EXTENDED {_quoted(table)} AS JSON", {})
    except DataError:
        raise DataError(
            f"{where} is no table of Spark's own catalog",
            code="no-file",
            hint="db.table or catalog.db.table, as Spark calls it. A file: end it in .parquet; a Delta table: "
            'source = "delta:/path"; an Iceberg table: source = "iceberg:catalog.db.table"',
        ) from None
    said: Mapping[str, Any] = json.loads(found.column(0)[0].as_py())
    kind, form = str(said.get("type", "")), str(said.get("provider", ""))
    if kind not in ("MANAGED", "EXTERNAL"):
        raise _refused(f"{where} is a {kind.lower() or 'table of another kind'}, and no list of files", _REMEDY)
    if form.lower() != "parquet":
        raise _refused(f"{where} is stored as {form or 'something else'}, and not as parquet", _REMEDY)
    if said.get("partition_columns"):
        raise _refused(
            f"{where} is partitioned: columns that are in the names of folders aren't in its files",
            f"{_REMEDY}; CLUSTERED BY (the unit) INTO 200 BUCKETS divides it in a way that helps",
        )
    return said


def _refused(what: str, hint: str) -> DataError:
    return DataError(what, code="not-on-backend", hint=hint)


def _listed(connection: Connection, table: Table, said: Mapping[str, Any]) -> Listed:
    """All files of the table's folder, and what else says what its rows are: nothing that depends on one."""
    location = str(said["location"])
    if any(c in location for c in "*?[]{}\\"):
        raise _refused(f"tables.{table.name}: Spark would read {location} as a pattern of names", "move the table")
    try:
        found = connection.folder(location)
    except DataError:
        raise _gone(table) from None
    if not found:
        raise _gone(table)
    # Theorem SCAN-1, On Spark: where there are folders like year=2024, Spark lists and reads nothing beside them.
    if {path.split("/")[-2] for path, _, _ in found} != {location.rstrip("/").rpartition("/")[2]}:
        raise _refused(f"tables.{table.name}: {table.source} has folders within its folder", _REMEDY)
    named = ("location", "columns", "num_buckets", "bucket_columns", "storage_properties", "created_time")
    state = {key: said.get(key) for key in named}
    return Listed(
        tuple(Entry(path, size, millis * 1_000_000) for path, size, millis in sorted(found)),
        json.dumps(state, sort_keys=True),
    )


def _gone(table: Table) -> DataError:
    return DataError(
        f"tables.{table.name}.source: {table.source} has no files that Spark can list",
        code="source-missing",
        hint="a table without rows has none: write rows first",
    )


def _buckets(said: Mapping[str, Any], columns: tuple[tuple[str, str], ...]) -> Buckets | None:
    """How the table is bucketed, where it is by columns that are read as they stand."""
    names, number = said.get("bucket_columns") or (), int(said.get("num_buckets") or 0)
    usable = number > 0 and bool(names) and {*names} <= {name for name, _ in columns}
    # Theorem BUCKET-1 is about files that are read in one way: a table's own options would read them in another.
    usable = usable and set(said.get("storage_properties") or ()) <= _PLAIN
    return Buckets(tuple(names), number) if usable else None


_ARROW = {
    "boolean": "bool_",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "date": "date32",
}


def _is_known(kind: str) -> bool:
    return kind in _ARROW or kind in ("timestamp", "timestamp_ntz") or kind.startswith("decimal(")


def _arrow(kind: str) -> Any:
    """A type of Spark's in Arrow."""
    import pyarrow as pa

    if kind in _ARROW:
        return getattr(pa, _ARROW[kind])()
    if kind.startswith("decimal("):
        width, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(width), int(scale))
    return pa.timestamp("us", tz="UTC" if kind == "timestamp" else None)
