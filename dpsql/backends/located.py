"""A policy's tables and where their rows are: files, or objects passed from Python. What engines have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dpsql.accounting.fingerprint import Source
from dpsql.core.errors import DataError, PolicyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy, Table

Arrow = Any


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """A policy table and where its rows are: files, or an Arrow table passed from Python."""

    table: Table
    files: tuple[Path, ...]
    object: Arrow | None
    inside: Callable[[Located, bytes], bytes] | None = None  # what the rows of a table of a database file are
    event: str = ""  # the stamp of an object, which has none of its own

    @property
    def name(self) -> str:
        """The table's name, as mappings are keyed."""
        return self.table.name.lower()

    @property
    def stays_open(self) -> bool:
        """Whether an open session keeps reading the very file that it opened, whatever takes its place."""
        return self.table.kind == "duckdb"

    @property
    def source(self) -> Source:
        """What the ledger fingerprints."""
        if self.object is None:
            look = None if self.inside is None else partial(self.inside, self)
            return Source(self.table.name.lower(), files=self.files, part=self.table.table or "", inside=look)
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
            located.append(Located(table, (), to_arrow(name, given[name])))
        elif table.source is None:
            raise PolicyError(
                f"tables.{table.name}: no source, and no object was passed for it",
                code="missing-key",
                hint=f'add source = "{table.name}.parquet", or pass sources={{"{table.name}": table}} to connect()',
            )
        else:
            located.append(Located(table, find_files(policy, table, table.source), None))
    return tuple(located)


def to_arrow(name: str, value: Any) -> Arrow:
    """A pyarrow, pandas or polars object as an Arrow table whose values are what their types say."""
    import pyarrow as pa

    try:
        table = _converted(name, value)
        table.validate(full=True)  # invalid text would make functions fail on single rows
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # their texts quote values
        raise DataError(
            f"sources[{name!r}] holds invalid values, or values of several types in one column",
            code="unreadable",
            hint="pyarrow.Table.from_pandas(…) or to_arrow(), then validate(full=True), say more",
        ) from None
    return table


def _converted(name: str, value: Any) -> Arrow:
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    module = type(value).__module__.split(".")[0]
    if module == "pandas":
        return _typed(name, pa.Table.from_pandas(value, preserve_index=False), [str(d) for d in value.dtypes])
    if module == "polars":
        return value.to_arrow() if hasattr(value, "to_arrow") else value.collect().to_arrow()
    raise PolicyError(
        f"sources[{name!r}] is a {type(value).__name__}",
        code="bad-source",
        hint="pass a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame",
    )


def _typed(name: str, table: Arrow, dtypes: Sequence[str]) -> Arrow:
    """A table of pandas, none of whose types was read off its rows.

    Theorem SCAN-1: what types there are is public, so no row may decide it. Of objects pandas says nothing: texts,
    dates and truth values tell what they are, each by itself; of numbers, lists and dicts one row makes another type.
    """
    import pyarrow as pa

    for place, dtype in enumerate(dtypes):
        field = table.schema.field(place)
        if dtype != "object":
            continue
        if pa.types.is_null(field.type):  # as it would be with a text in it
            table = table.set_column(place, field.name, table.column(place).cast(pa.string()))
        elif pa.types.is_nested(field.type) or pa.types.is_floating(field.type) or _is_exact(field.type):
            raise PolicyError(
                f"sources[{name!r}]: {field.name} is a column of Python objects, whose type its rows would decide",
                code="bad-source",
                hint=f'give it one: df["{field.name}"].astype("Int64") or "float64"; or pass a pyarrow.Table with a '
                "schema: pyarrow.Table.from_pandas(df, schema=…)",
            )
    return table


def _is_exact(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_))


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
