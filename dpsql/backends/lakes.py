"""Delta and Iceberg tables: their present state as a list of parquet files, which any engine reads like a glob.

Only tables whose rows are the rows of these files, under the names that the files have, are such a list: what deletes
rows or renames columns beside the files is refused, with what the steward can do (Theorem SCAN-1, Lakes).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from dpsql.core.errors import DataError
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Table

DELTA, ICEBERG = "delta:", "iceberg:"
_HARMLESS = {"deletionVectors", "timestampNtz", "variantType", "vacuumProtocolCheck", "columnMapping"}
"""What a Delta table may ask of readers, where it is seen that no file has deletions or columns other names."""
_PURGED = "rewrite it without them: OPTIMIZE, then REORG TABLE … APPLY (PURGE); or write it to a new table"
_LISTED = "pip install -U 'deltalake>=1.5'"
"""A version that lists deletion vectors, without which a table that may have some is refused."""


@dataclass(frozen=True, slots=True)
class Lake:
    """The files of a table's present state, and what the table calls that state."""

    files: tuple[Path, ...]
    state: str


def is_lake(source: str) -> bool:
    """Does a source name a Delta or Iceberg table?"""
    return source.startswith((DELTA, ICEBERG))


def resolve(table: Table, source: str, folder: Path) -> Lake:
    """The present state of a table; folder: what paths are relative to."""
    if source.startswith(DELTA):
        found = _delta(table, folder / source.removeprefix(DELTA))
    else:
        found = _iceberg(table, source.removeprefix(ICEBERG))
    if not found.files:
        _refuse(table, "has no files", "write rows first", code="no-file")
    missing = [file for file in found.files if not file.is_file()]
    if missing:
        _refuse(
            table,
            f"names {missing[0]}, which isn't a file here",
            "its files must be on a file system of this machine; files of object stores aren't read",
            code="no-file",
        )
    return found


def _refuse(table: Table, what: str, hint: str, code: str = "lake") -> NoReturn:
    raise DataError(f"tables.{table.name}.source: {table.source} {what}", code=code, hint=hint)


# ---------------------------------------------------------------- Delta


def _delta(table: Table, path: Path) -> Lake:
    if "%" in str(path):
        _refuse(table, "has a percent sign in its path, which names another folder there", "rename the folder")
    module = extra("deltalake", "delta", "a source of Delta Lake (delta:…)")
    try:
        found = module.DeltaTable(str(path))
        version, said, protocol, uris = found.version(), found.metadata(), found.protocol(), found.file_uris()
    except Exception as error:  # of many kinds; logs hold the least and greatest values of files, so no word of it
        _refuse(
            table, f"can't be opened as a Delta table ({type(error).__name__})", "a folder with _delta_log", "no-file"
        )
    if said.partition_columns:
        _refuse(
            table,
            f"is partitioned by {', '.join(said.partition_columns)}: these columns aren't in its files",
            "write it without partitions; Z-ORDER or clustering divides files, too",
        )
    unknown = set(protocol.reader_features or ()) - _HARMLESS
    if protocol.min_reader_version > 3 or unknown:
        _refuse(table, f"asks its readers for {', '.join(sorted(unknown)) or 'more'}", "write it to a new table")
    if said.configuration.get("delta.columnMapping.mode", "none") != "none":
        _refuse(
            table,
            "maps columns: their names aren't those in its files",
            "write it to a new table, without delta.columnMapping.mode",
        )
    if "deletionVectors" in (protocol.reader_features or ()):
        if not hasattr(found, "deletion_vectors"):
            _refuse(table, f"may have deletion vectors, which deltalake {module.__version__} can't list", _LISTED)
        if _has_deletions(found):
            _refuse(table, "has deletion vectors: rows that are in its files and not in the table", _PURGED)
    # The library writes paths as in URLs, percent signs included.
    files = tuple(sorted(Path(unquote(str(uri).removeprefix("file://"))).resolve() for uri in uris))
    return Lake(files, f"delta {said.id} {version}")


def _has_deletions(found: Any) -> bool:
    try:
        return any(batch.num_rows for batch in found.deletion_vectors())
    except Exception:  # there is one, and it can't be read
        return True


# ---------------------------------------------------------------- Iceberg


def _iceberg(table: Table, name: str) -> Lake:
    module = extra("pyiceberg.catalog", "iceberg", "a source of Iceberg (iceberg:…)")
    catalog, _, inner = name.partition(".")
    try:
        found = module.load_catalog(catalog).load_table(inner)
        snapshot = found.current_snapshot()
        manifests = [] if snapshot is None else snapshot.manifests(found.io)
        deletes = [m for m in manifests if int(m.content) != 0 and (m.has_added_files() or m.has_existing_files())]
        data = [] if deletes or snapshot is None else [(task.file, task.delete_files) for task in _tasks(found)]
    except Exception as error:  # of many kinds; manifests hold the least and greatest values of files, so no word of it
        _refuse(
            table,
            f"can't be opened as an Iceberg table ({type(error).__name__})",
            "iceberg:catalog.namespace.table, of a catalog that pyiceberg knows (.pyiceberg.yaml)",
            "no-file",
        )
    if deletes or any(others for _, others in data):
        _refuse(
            table,
            "has delete files: rows that are in its files and not in the table",
            "compact it: CALL system.rewrite_data_files(table => '…', options => map('delete-file-threshold', '1')), "
            "then expire old snapshots",
        )
    if any(file.file_format.value.lower() != "parquet" for file, _ in data):
        _refuse(table, "has files that aren't parquet", "rewrite them as parquet (write.format.default)")
    files = tuple(sorted(Path(file.file_path.removeprefix("file://").removeprefix("file:")) for file, _ in data))
    if _was_renamed(found) and any(_is_renamed(found, file) for file in files):
        _refuse(
            table,
            "has renamed columns: names in its files are others",
            "rewrite its files: CALL system.rewrite_data_files(table => '…', options => map('rewrite-all', 'true'))",
        )
    return Lake(files, f"iceberg {found.metadata.table_uuid} {snapshot and snapshot.snapshot_id}")


def _tasks(found: Any) -> Iterator[Any]:
    yield from found.scan().plan_files()


def _was_renamed(found: Any) -> bool:
    """Did any column ever have another name, or a name another column?"""
    pairs = {(field.field_id, field.name) for schema in found.schemas().values() for field in schema.fields}
    return len({i for i, _ in pairs}) < len(pairs) or len({name for _, name in pairs}) < len(pairs)


def _is_renamed(found: Any, file: Path) -> bool:
    """Has a column of this file another name than the table's column, or a name that is now another column's?"""
    import pyarrow.parquet as pq

    ids = {str(field.field_id): field.name for field in found.schema().fields}
    numbers = {name: number for number, name in ids.items()}
    for field in pq.read_schema(file):
        number = (field.metadata or {}).get(b"PARQUET:field_id", b"").decode()
        if ids.get(number, field.name) != field.name or numbers.get(field.name, number) != number:
            return True
    return False
