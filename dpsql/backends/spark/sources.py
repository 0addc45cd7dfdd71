"""Sources: parquet files as views of Spark's, and Arrow tables of public values, each column in the type it says.

Theorem SCAN-1, On Spark: no filter reaches the reader of a file, and nothing is read by statistics. A value that its
type can't hold, a moment outside of the years 1 to 9999 and text that isn't UTF-8 make a source unreadable; where
nobody has looked yet, they are NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsql.backends.base import Deadline
from dpsql.backends.located import Located
from dpsql.backends.spark.constants import DAY, days_since_1970
from dpsql.backends.spark.queries import ROW, Table
from dpsql.backends.spark.reading import Reading
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.values import Value, name_of, spark_type, value
from dpsql.core.errors import DataError, PolicyError, SQLError
from dpsql.core.types import Type

FIRST, LAST = "0001-01-01", "9999-12-31"
FITS = "spark-fits"  # what a full reading shows
BUCKETED = "spark-bucketed"

_OTHER_CALENDARS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_PATTERNS = "*?[]{}\\:"
_IN_BUCKET = "dpsql bucket"
_HIDDEN = "_metadata"  # where Spark says in which file and at which place a row is

Columns = Sequence[tuple[str, str]]


def columns_of(schema: Columns) -> dict[str, Value]:
    """What statements know of a table's columns: types, and the years that moments are in."""
    found = {}
    for name, text in schema:
        type_ = Type.parse(text)
        moment = type_.is_date or type_.is_timestamp
        found[name.lower()] = Value("", type_, 1, 9999) if moment else value("", type_)
    return found


def test_of(name: str, type_: Type) -> str | None:
    """The test that a value is one that its type can hold; None where every bit pattern is."""
    quoted = name_of(name)
    if type_.is_decimal:
        top = "9" * (type_.width or 0)  # its sign within the text: Spark's own minus rounds to 34 digits
        low, high = (f"CAST('{sign}{top}E-{type_.scale}' AS {spark_type(type_)})" for sign in ("-", ""))
        return f"({quoted} BETWEEN {low} AND {high})"
    if type_.is_date:
        return f"({quoted} BETWEEN DATE '{FIRST}' AND DATE '{LAST}')"
    if type_.is_timestamp:
        kind = "TIMESTAMP" if type_.has_zone else "TIMESTAMP_NTZ"
        return f"({quoted} >= {kind} '{FIRST} 00:00:00' AND {quoted} <= {kind} '{LAST} 23:59:59.999999')"
    return f"is_valid_utf8({quoted})" if type_.is_text else None


class Files:
    """The parquet files of one private table, as Spark reads them."""

    def __init__(
        self, one: Located, reading: Reading, schema: Columns, own: Columns, connection: Connection, number: int
    ) -> None:
        self.one = one
        self._connection = connection
        self._reading = reading
        self._schema = [(name, Type.parse(text)) for name, text in schema if is_known(Type.parse(text))]
        _check_types(one, schema, own)
        _check_files(one, [Type.parse(text) for _, text in own])
        self.table = Table(f"dpsql_source_{number}", columns_of(schema), _rows(one.files))
        self._check_spark()
        self.show()

    def _check_spark(self) -> None:
        """Each column must be of the type in Spark that stands for ours."""
        try:
            found = self._connection.types(self._reading)
        except DataError:  # only footers were read; and yet their words are Spark's
            raise DataError(
                f"tables.{self.one.table.name}: Spark can't read {self.one.table.source}",
                code="unreadable",
                hint="the cluster must see the files under the paths that this machine sees them at",
            ) from None
        self._schema = [
            (name, type_) for name, type_ in self._schema if found.get(name, "").upper() == spark_type(type_)
        ]
        usable = {name.lower() for name, _ in self._schema}
        # What Spark reads as something else is there for no query: writing a statement refuses it.
        self.table = replace(self.table, columns={n: v for n, v in self.table.columns.items() if n in usable})

    def show(self, *, proven: bool = False, bucketed: bool = False) -> None:
        """Let statements read the rows; where nothing is proven, what doesn't fit is NULL.

        bucketed: Spark may group by the columns of buckets without a shuffle (Theorem BUCKET-1).
        """
        listed = []
        for name, type_ in self._schema:
            test = None if proven else test_of(name, type_)
            text = name_of(name) if test is None else f"CASE WHEN {test} THEN {name_of(name)} END"
            listed.append(f"{text} AS {name_of(name.lower())}")
        listed.append(f"concat_ws('#', {_HIDDEN}.file_path, {_HIDDEN}.row_index) AS {name_of(ROW)}")
        self._connection.read(self._reading, listed, self.table.view, bucketed=bucketed)

    def examine(self) -> tuple[str, ...] | None:
        """Read every value; None where one doesn't fit. Buckets are looked at row by row, and not relied on."""
        raw, buckets = f"{self.table.view}_raw", self._reading.buckets
        listed = [name_of(name) for name, _ in self._schema]
        if buckets is not None and all(map(buckets.has, self._reading.addresses)):
            listed.append(f"{buckets.test} AS `{_IN_BUCKET}`")
        self._connection.read(self._reading, listed, raw)
        tests = [f"COALESCE(BOOL_AND({test}), TRUE)" for n, t in self._schema if (test := test_of(n, t)) is not None]
        read = [f"MAX({name_of(n)}) IS NULL" for n, t in self._schema if test_of(n, t) is None]
        held = [f"COALESCE(BOOL_AND(`{_IN_BUCKET}`), TRUE)"] if len(listed) > len(self._schema) else []
        asked = ", ".join(f"{e} AS c{i}" for i, e in enumerate([*held, *tests, *read]))
        try:
            found = self._connection.arrow(f"SELECT {asked or '1 AS c0'} FROM {raw}", {})
        finally:
            self._connection.drop(raw)
        shown = [found.column(i)[0].as_py() for i in range(len(held) + len(tests))]
        if not all(shown[len(held) :]):
            return None
        return (FITS, BUCKETED) if held and shown[0] else (FITS,)


def _rows(files: Sequence[Path]) -> int | None:
    """How many rows these files have, as their footers say; None where this machine doesn't see them."""
    import pyarrow.parquet as pq

    return None if not files else sum(pq.read_metadata(file).num_rows for file in files)


def is_known(type_: Type) -> bool:
    """Has Spark a type for it?"""
    try:
        spark_type(type_)
    except SQLError:
        return False
    return not type_.is_null


def _check_types(one: Located, schema: Columns, own: Columns) -> None:
    """Columns are read as the file has them: neither pinned to other types nor made of the names of folders."""
    kinds = {name.lower(): Type.parse(text) for name, text in own}
    if _HIDDEN in kinds:
        raise PolicyError(
            f"tables.{one.table.name}: a column {_HIDDEN} would hide where Spark says which row is which",
            code="not-on-backend",
            hint="rename it in the data",
        )
    for name, text in schema:
        if kinds.get(name.lower()) != Type.parse(text):
            raise PolicyError(
                f"tables.{one.table.name}.columns.{name}: Spark reads columns as the files have them",
                code="not-on-backend",
                hint="leave its type out, or write the column in that type once; folders make no columns here",
            )


def _check_files(one: Located, kinds: Sequence[Type]) -> None:
    """Refuse files that Spark passes over in silence, or reads otherwise by what their footers say."""
    import pyarrow.parquet as pq

    for file in one.files:
        if any(c in _PATTERNS for c in str(file)):
            raise DataError(
                f"tables.{one.table.name}: Spark would read {file.name} as a pattern of names",
                code="unreadable",
                hint=f"rename it, or its folder: without {' '.join(_PATTERNS)}",
            )
        if file.name.startswith((".", "_")) or file.name.endswith("._COPYING_"):
            raise DataError(
                f"tables.{one.table.name}: Spark would pass over {file.name}, which its name says isn't data",
                code="unreadable",
                hint="rename it: names of files may not begin with . or _ there",
            )
        if not any(kind.is_date or kind.is_timestamp for kind in kinds):
            continue
        said = pq.read_metadata(file).metadata or {}
        version = said.get(b"org.apache.spark.version", b"3").partition(b".")[0]
        if not version.isdigit() or int(version) < 3 or any(name in said for name in _OTHER_CALENDARS):
            raise DataError(
                f"tables.{one.table.name}: {file.name} has days of another calendar, says who wrote it",
                code="unreadable",
                hint="write it again with Spark 3 or later, without spark.sql.parquet.datetimeRebaseModeInWrite=LEGACY",
            )


# ---------------------------------------------------------------- public values


def is_in_calendar(column: Any, type_: Type) -> bool:
    """Are all moments of a column within the years 1 to 9999? So infinite ones are not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not type_.is_date and not type_.is_timestamp:
        return True
    per_day = 1 if type_.is_date else DAY
    whole = column.cast(pa.date32()).cast(pa.int32()) if type_.is_date else column.cast(_micros(type_)).cast(pa.int64())
    ends = pc.min_max(whole.cast(pa.int64())).as_py()
    first, last = days_since_1970(1, 1, 1), days_since_1970(10_000, 1, 1)
    return ends["min"] is None or (first * per_day <= ends["min"] and ends["max"] < last * per_day)


def _micros(type_: Type) -> Any:
    """Microseconds in Arrow, in which both engines count."""
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC" if type_.has_zone else None)


def uploaded(
    connection: Connection,
    table: Any,
    kinds: Mapping[str, str],
    *,
    dealt_out: bool = False,
    until: Deadline | None = None,
) -> Table:
    """An Arrow table of public values as a view, its columns in these types of ours."""
    import pyarrow as pa

    arrays, listed, columns = {}, {}, {}
    if not kinds:  # rows that are only counted
        arrays[ROW], listed[ROW] = pa.nulls(table.num_rows, pa.int32()), name_of(ROW)
    for name, text in kinds.items():
        type_ = Type.parse(text)
        arrays[name], listed[name] = _carried(table.column(name), name, type_)
        columns[name] = Value("", type_) if type_.is_date or type_.is_timestamp else value("", type_)
    return Table(connection.view(pa.table(arrays), listed, dealt_out=dealt_out, until=until), columns)


def _carried(column: Any, name: str, type_: Type) -> tuple[Any, str]:
    """A column as Arrow and Spark both have it, and the expression that makes its own type of it."""
    import pyarrow as pa

    quoted, target = name_of(name), spark_type(type_)
    if type_.is_date:
        days = column.cast(pa.date32()).cast(pa.int32())
        return days, f"date_from_unix_date({quoted})"
    if type_.is_timestamp:
        micros = column.cast(_micros(type_)).cast(pa.int64())
        moment = f"timestamp_micros({quoted})"
        return micros, moment if type_.has_zone else f"CAST({moment} AS TIMESTAMP_NTZ)"
    if type_.is_text:
        return column.cast(pa.string()), quoted
    if type_.name in ("HUGEINT", "UBIGINT"):
        return column.cast(pa.decimal128(38, 0)), f"CAST({quoted} AS {target})"
    if type_.is_decimal:
        return column.cast(pa.decimal128(type_.width, type_.scale)), quoted
    if type_.is_integer:
        return column.cast(pa.int64()), f"CAST({quoted} AS {target})"
    if type_.is_null:
        return column.cast(pa.int32()), f"CAST({quoted} AS INT)"
    return column, f"CAST({quoted} AS {target})"


def as_arrow(column: Any, type_: Type) -> Any:
    """A column of a result in the Arrow type that the local engine gives this type."""
    import pyarrow as pa

    names = {
        "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(),
        "BIGINT": pa.int64(), "UTINYINT": pa.uint8(), "USMALLINT": pa.uint16(), "UINTEGER": pa.uint32(),
        "UBIGINT": pa.uint64(), "HUGEINT": pa.decimal128(38, 0), "FLOAT": pa.float32(), "DOUBLE": pa.float64(),
        "VARCHAR": pa.string(), "ENUM": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
        "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"), "NULL": pa.int32(),
    }  # fmt: skip
    to = pa.decimal128(type_.width, type_.scale) if type_.is_decimal else names[type_.name]
    return column.cast(to)
