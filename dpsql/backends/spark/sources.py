"""Sources: parquet files as views of Spark's, and Arrow tables of public values, each column in the type it says.

Theorem SCAN-1, On Spark: no filter reaches the reader of a file, and nothing is read by statistics. A value that its
type can't hold, a moment outside of the years 1 to 9999 and text that isn't UTF-8 make a source unreadable; where
nobody has looked yet, they are NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from dpsql.backends.base import WHOLE_SOURCE, Deadline
from dpsql.backends.in_groups import groups_of, read_in_groups
from dpsql.backends.located import Located
from dpsql.backends.spark.constants import DAY, days_since_1970
from dpsql.backends.spark.queries import ROW, Table
from dpsql.backends.spark.reading import Reading
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.values import Value, name_of, spark_type, value
from dpsql.core.errors import DataError, PolicyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.types import TIMESTAMP, TIMESTAMPTZ, Type

FIRST, LAST = "0001-01-01", "9999-12-31"
FITS = "spark-fits"
"""Fact of a column: Spark has read it in full, and every value fits its type."""
BUCKETED = "spark-bucketed"
"""Fact of a whole source: each row is in its bucket."""

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


@dataclass(frozen=True, slots=True)
class Column:
    """A column of files: its name there, its type, and Spark's name of that type."""

    name: str
    type: Type
    kind: str

    @property
    def is_usable(self) -> bool:
        """Does Spark read the column as the type that stands for ours, or as one of which it is made value by value?"""
        return self.kind.upper() == spark_type(self.type) or self._has_zone

    @property
    def _has_zone(self) -> bool:
        """Are they moments of INT96, as Spark writes them? To Spark they have a zone, which is UTC (settings.py)."""
        return self.kind == "timestamp" and self.type == TIMESTAMP

    @property
    def text(self) -> str:
        """The column in Spark's type that stands for ours."""
        name = name_of(self.name)
        return f"CAST({name} AS {spark_type(self.type)})" if self._has_zone else name

    @property
    def test(self) -> str | None:
        """The test that a value is one that the type can hold."""
        return test_of(self.name, TIMESTAMPTZ if self._has_zone else self.type)

    @property
    def fitted(self) -> str:
        """The column, with NULL in the place of what its type can't hold."""
        return self.text if self.test is None else f"CASE WHEN {self.test} THEN {self.text} END"


class Files:
    """The parquet files of one private table, as Spark reads them.

    Statements have the columns that were read in full, and no others (Theorem SCAN-1, Parts of a source): the rest is
    neither in the view that they read nor in what Spark is told to read.
    """

    def __init__(
        self, one: Located, reading: Reading, schema: Columns, own: Columns, connection: Connection, number: int
    ) -> None:
        self.one = one
        self._connection = connection
        self._reading = reading
        _check_types(one, schema, own)
        _check_files(one, [Type.parse(text) for _, text in own])
        kinds = self._kinds()
        known = [(name, Type.parse(text)) for name, text in schema if is_known(Type.parse(text))]
        # What Spark reads as something else is there for no query: writing a statement refuses it.
        found = [Column(name, type_, kinds[name]) for name, type_ in known if name in kinds]
        self.columns = {column.name.lower(): column for column in found if column.is_usable}
        self._bucket_columns = [(name, kinds[name]) for name in reading.buckets.columns] if reading.buckets else []
        self._has_whole = False
        self._is_dealt_out: bool | None = None  # whether each row is in its bucket, once it is known
        types = {name: known for name, known in columns_of(schema).items() if name in self.columns}
        self.table = Table(f"dpsql_source_{number}", types, _rows(one.files))

    def _kinds(self) -> dict[str, str]:
        """Spark's type of each column: it must be the one that stands for ours."""
        try:
            return self._connection.types(self._reading)
        except DataError:  # only footers were read; and yet their words are Spark's
            raise DataError(
                f"tables.{self.one.table.name}: Spark can't read {self.one.table.source}",
                code="unreadable",
                hint="the cluster must see the files under the paths that this machine sees them at",
            ) from None

    def show(self, read: Collection[str], *, is_dealt_out: bool | None = None) -> None:
        """Let statements read these columns, each of which was read in full and holds values of its type alone.

        is_dealt_out: whether each row was found in its bucket: then Spark may group by the columns of buckets without a
        shuffle (Theorem BUCKET-1). None: nobody has looked.
        """
        self._is_dealt_out = is_dealt_out
        columns = [column for name, column in self.columns.items() if name in read]
        texts = [column.text for column in columns]
        self._name(self.table.view, columns, texts, bucketed=bool(is_dealt_out))

    def whole(self) -> Table:
        """The table with all columns, for the steward: what nobody has read is NULL where it doesn't fit its type."""
        found = replace(self.table, view=f"{self.table.view}_whole")
        if not self._has_whole:
            columns = list(self.columns.values())
            self._name(found.view, columns, [column.fitted for column in columns])
            self._has_whole = True
        return found

    def _name(self, view: str, columns: Sequence[Column], texts: Sequence[str], *, bucketed: bool = False) -> None:
        """Let statements read rows by this name: these texts as the columns, and where each row is."""
        listed = [f"{text} AS {name_of(c.name.lower())}" for text, c in zip(texts, columns, strict=True)]
        listed.append(f"concat_ws('#', {_HIDDEN}.file_path, {_HIDDEN}.row_index) AS {name_of(ROW)}")
        self._connection.read(self._narrowed(columns), listed, view, bucketed=bucketed)

    def _narrowed(self, columns: Sequence[Column], more: Columns = ()) -> Reading:
        """The same files, of which Spark is told of these columns alone; of none, where none is asked for."""
        kinds = {column.name: column.kind for column in columns} | dict(more)
        return replace(self._reading, columns=tuple(kinds.items())) if kinds else self._reading

    def examine(self, names: Sequence[str], until: Deadline | None = None) -> dict[str, tuple[str, ...] | None]:
        """Read every value of these columns, a few at a time; None of one with a value that doesn't fit its type.

        Of the whole source: whether each row is in its bucket, where there are buckets and nobody has looked yet. They
        are looked at row by row, and not relied on.
        """
        shown: dict[str, tuple[str, ...] | None] = {}
        columns = [self.columns[name] for name in names]
        buckets = self._reading.buckets
        if buckets is not None and self._is_dealt_out is None and all(map(buckets.has, self._reading.addresses)):
            within = [f"{buckets.test} AS `{_IN_BUCKET}`"]
            (held,) = self._asked(self._narrowed([], self._bucket_columns), within, [_all(f"`{_IN_BUCKET}`")], until)
            shown[WHOLE_SOURCE] = (BUCKETED,) if held else ()

        def read(some: Sequence[Column]) -> dict[str, tuple[str, ...] | None]:
            names = [name_of(column.name) for column in some]
            tests = [_all(c.test) if c.test is not None else f"MAX({name_of(c.name)}) IS NULL" for c in some]
            found = self._asked(self._narrowed(some), names, tests, until)
            fits = {c.name.lower(): c.test is None or fits for c, fits in zip(some, found, strict=True)}
            return {name: (FITS,) if one else None for name, one in fits.items()}

        return shown | read_in_groups(groups_of(columns), read, len(columns))

    def _asked(self, reading: Reading, listed: list[str], tests: list[str], until: Deadline | None) -> list[bool]:
        """What these tests show of all rows, over these expressions."""
        view = f"{self.table.view}_{token_hex(4)}"  # a reading that was given up may still make its view
        self._connection.read(reading, listed, view, until=until)
        try:
            texts = ", ".join(f"{test} AS c{i}" for i, test in enumerate(tests))
            found = self._connection.arrow(f"SELECT {texts} FROM {view}", {}, until)
        finally:
            self._connection.drop(view)
        return [bool(column[0].as_py()) for column in found.columns]


def _all(test: str) -> str:
    """That a test holds for every row where it isn't NULL."""
    return f"COALESCE(BOOL_AND({test}), TRUE)"


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
