"""A policy's tables and where their rows are: files, or objects passed from Python. What engines have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpsql.accounting.fingerprint import Listed, Listing, Source, list_files
from dpsql.backends.lakes import is_lake, resolve
from dpsql.backends.objects import Arrow, to_arrow
from dpsql.core.errors import DataError, PolicyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy, Table


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """A policy table and where its rows are: files, or an Arrow table passed from Python."""

    table: Table
    files: tuple[Path, ...]
    object: Arrow | None
    inside: Callable[[Located, bytes], bytes] | None = None  # what the rows of a table of a database file are
    event: str = ""  # the stamp of an object, which has none of its own
    is_copied: bool = False  # when it is opened, and read from the copy
    listing: Listing | None = None  # what tells versions apart where the files are too large to read for that
    is_replaced: Callable[[], bool] | None = None  # by other files, where an engine knows which these are

    @property
    def name(self) -> str:
        """The table's name, as mappings are keyed."""
        return self.table.name.lower()

    @property
    def stays_open(self) -> bool:
        """Whether an open session keeps reading the very file that it opened, whatever takes its place."""
        return self.table.kind == "duckdb" or self.is_copied

    @property
    def source(self) -> Source:
        """What the ledger fingerprints."""
        if self.listing is not None:
            return Source(self.name, listing=self.listing)
        if self.object is None:
            look = None if self.inside is None else partial(self.inside, self)
            # How a CSV file is divided says what its rows are: read otherwise, it is another version.
            part = self.table.table or self.table.separator or ""
            return Source(self.table.name.lower(), files=self.files, part=part, inside=look)
        return Source(self.table.name.lower(), chunks=lambda: _ipc(self.object), event=self.event)


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
            pinned = {key: column.type for key, column in table.columns.items() if column.type is not None}
            located.append(Located(table, (), to_arrow(name, given[name], pinned, public=table.public)))
        elif table.source is None:
            raise PolicyError(
                f"tables.{table.name}: no source, and no object was passed for it",
                code="missing-key",
                hint=f'add source = "{table.name}.parquet", or pass sources={{"{table.name}": table}} to connect()',
            )
        else:
            located.append(Located(table, find_files(policy, table, table.source), None))
    return tuple(located)


def _ipc(table: Arrow) -> Iterator[bytes]:
    """Bytes that determine an Arrow table's rows."""
    import pyarrow as pa

    yield table.schema.remove_metadata().serialize().to_pybytes()
    for batch in table.combine_chunks().to_batches(max_chunksize=1 << 20):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield sink.getvalue().to_pybytes()


def find_files(policy: Policy, table: Table, source: str) -> tuple[Path, ...]:
    """The files that a source names now."""
    if table.kind == "catalog":  # an engine lists them
        return ()
    if is_lake(source):
        return resolve(table, source, policy.folder).files
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


def list_again(policy: Policy, table: Table, files: tuple[Path, ...]) -> Listed:
    """The listing of a source's files, which must be those that an engine was told to read, and no others.

    Theorem VERSION-1: no version is recorded, and nothing is recorded of one, for other files than are read.
    """
    source, state = table.source or "", ""
    if is_lake(source):
        lake = resolve(table, source, policy.folder)
        found, state = lake.files, lake.state
    else:
        found = find_files(policy, table, source)
    if found != files:
        raise other_files(table)
    return list_files(table.name, files, state)


def other_files(table: Table) -> DataError:
    """What is said where a source is made of other files by now."""
    return DataError(
        f"tables.{table.name}: {table.source} is made of other files than those that are open",
        code="data-changed",
        hint="open a new session: this one still expects the old data",
    )


def has_other_files(policy: Policy, one: Located) -> bool:
    """Does a source name other files by now than those that are open?"""
    if one.is_replaced is not None:
        return one.is_replaced()
    return find_files(policy, one.table, one.table.source or "") != one.files


def file_marks(located: Sequence[Located]) -> dict[Path, tuple[int, ...]]:
    """Which files are behind the sources, so that it is noticed if one is replaced."""
    found: dict[Path, tuple[int, ...]] = {}
    for file in (f for one in located for f in one.files):
        try:
            stat = file.stat()
            found[file] = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except OSError:
            found[file] = ()
    return found
