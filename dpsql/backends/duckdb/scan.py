"""What a scan yields: one row a record, each value a function of its record alone (Theorem SCAN-1).

A view reads a source carefully: no filter reaches the reader of a parquet file, so that nothing can be skipped by what
several records have in common (row-group statistics, bloom filters, dictionaries), and a value that its type can't hold
is NULL. Where a full reading of this very version has shown that it makes no difference, filters and values pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import duckdb

from dpsql.backends.duckdb.cursor import Cursor
from dpsql.backends.duckdb.names import literal, paths, quoted
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type

Runs = duckdb.DuckDBPyConnection | Cursor
"""What runs statements."""

FIRST, LAST = "290309-12-22 (BC)", "294247-01-10"
"""The days that a TIMESTAMP holds, from beginning to end or nearly so: what lies beyond them fails when it is cast."""


@dataclass(frozen=True, slots=True)
class Proven:
    """What a full reading has shown of one version of a source. Nothing is proven until it was read."""

    fits: bool = False
    """Every value is one that its type can hold."""
    statistics: bool = False
    """What parquet footers say of a row group is true of each of its values."""
    numbers: bool = False
    """No float of a parquet file is NaN, of which footers don't speak."""
    unquoted: bool = False
    """A CSV file holds no quote: each line break ends a record."""


NOTHING = Proven()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source as DuckDB names and types it."""

    name: str
    kind: str

    def fitted(self, source: str | None, proven: Proven) -> str:
        """The column as a scan yields it. source: the kind of file; None for objects from Python."""
        name, test = quoted(self.name), self.test
        if test is not None and not proven.fits:
            return f"CASE WHEN {test} THEN {name} END"
        if source == "parquet" and Type.parse(self.kind).is_float and not proven.numbers:
            # Statistics leave NaN out, and NaN is DuckDB's greatest value. The constant is there for whoever
            # concludes something from the branches of a CASE.
            return f"CASE WHEN isnan({name}) THEN CAST('nan' AS {self.kind}) ELSE {name} END"
        return name

    @property
    def ordered(self) -> bool:
        """Do least and greatest value bound all others, as the engine compares them? (NaN aside.)"""
        type_ = Type.parse(self.kind)
        return type_.is_key and type_.name != "ENUM"

    @property
    def test(self) -> str | None:
        """The test that a value is one that its type can hold; None where every bit pattern is."""
        name, type_ = quoted(self.name), Type.parse(self.kind)
        if type_.is_decimal:
            assert type_.width is not None and type_.scale is not None
            digits = "9" * type_.width
            whole, part = digits[: type_.width - type_.scale], digits[type_.width - type_.scale :]
            top = f"{whole or '0'}.{part}" if part else whole
            return f"{name} BETWEEN CAST('-{top}' AS {self.kind}) AND CAST('{top}' AS {self.kind})"
        if self.kind in ("TIME", "TIME_NS"):
            return f"{name} BETWEEN CAST('00:00:00' AS {self.kind}) AND CAST('24:00:00' AS {self.kind})"
        if type_.is_date or (type_.is_timestamp and type_.name != "TIMESTAMP_NS"):
            infinite = ", ".join(f"CAST('{end}' AS {self.kind})" for end in ("-infinity", "infinity"))
            within = f"{name} BETWEEN CAST('{FIRST}' AS {self.kind}) AND CAST('{LAST}' AS {self.kind})"
            return f"({within} OR {name} IN ({infinite}))"
        return None


WHOLE = f" LIMIT {2**63 - 1}"
"""Behind a query of files: all of its rows. No filter passes a LIMIT, so nothing is skipped."""


def read_parquet(files: Sequence[Path], options: str = "") -> str:
    """A table function over parquet files. Folders like year=2024 make no columns."""
    return f"read_parquet({paths(files)}, hive_partitioning = false, can_have_nan = true{options})"


def in_folder(name: str, file: str) -> str:
    """What stands behind name= in the folders that a file lies in, as text: the same for each record of the file."""
    pattern = literal(rf"(?i)[/\\]{re.escape(name)}=([^/\\]*)[/\\]")
    return f"url_decode(NULLIF(regexp_extract({file}, {pattern}, 1), '__HIVE_DEFAULT_PARTITION__'))"


# ---------------------------------------------------------------- a full reading


def examine(connection: Runs, rows: str, columns: Sequence[Column], *, validated: bool) -> Proven | None:
    """Read every value of these rows; None where one can't be read at all.

    validated: whoever made the rows made sure that text is UTF-8.
    """
    tests = ", ".join(_readable(c, validated=validated) for c in columns)
    try:
        *_, fits = connection.execute(f"SELECT {tests}, {_fits(columns)} FROM {rows}").fetchall()[0]
    except duckdb.Error:
        return None
    return Proven(fits=fits)


def examine_parquet(connection: Runs, files: Sequence[Path], columns: Sequence[Column]) -> Proven | None:
    """Read every value of parquet files, row group by row group; None where one can't be read at all.

    DuckDB itself finds text that isn't UTF-8 when it reads parquet.
    """
    try:
        found = [
            connection.execute(_compared(part, columns)).fetchall()[0][:3] for part in _row_groups(connection, files)
        ]
        told = _comparable(connection, files, columns)
    except duckdb.Error:  # a footer may say what its own types can't hold
        return examine(connection, read_parquet(files), columns, validated=True)
    fits, true, numbers = (all(one[i] for one in found) for i in range(3))
    return Proven(fits=fits, statistics=told and true, numbers=numbers)


def _readable(column: Column, *, validated: bool) -> str:
    """Looks at each value, unlike COUNT."""
    name = quoted(column.name)
    if not validated and (Type.parse(column.kind).is_text or column.kind == "JSON"):
        return f"COUNT(decode(encode(CAST({name} AS VARCHAR))))"
    return f"MAX({name}) IS NULL"


def _fits(columns: Sequence[Column]) -> str:
    """Does every value fit its type?"""
    return " AND ".join(f"COALESCE(bool_and({c.test}), TRUE)" for c in columns if c.test is not None) or "TRUE"


def _comparable(connection: Runs, files: Sequence[Path], columns: Sequence[Column]) -> bool:
    """Are there only statistics that can be compared with the values? Bloom filters can't be, whoever is said to have
    written them; and columns must not be called like those that the comparison makes.
    """
    found = connection.execute(
        f"SELECT COUNT(*) FROM parquet_metadata({paths(files)}) WHERE bloom_filter_offset IS NOT NULL"
    ).fetchall()
    return bool(found == [(0,)]) and not any(c.name.lower().startswith("dpsql_") for c in columns)


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups that one statement reads: all of some files, `size` rows in each but the last, or one of one file."""

    files: tuple[Path, ...]
    size: int
    rows: tuple[int, int, int] | None = None
    """The one: its number, its first row, and the first row after it."""

    @property
    def query(self) -> str:
        """The rows, each with its file and the number of its row group."""
        source = read_parquet(self.files, ", filename = 'dpsql_file', file_row_number = true")
        if self.rows is None:
            return f"SELECT *, file_row_number // {self.size} AS dpsql_group FROM {source}"
        number, start, end = self.rows
        within = f"file_row_number >= {start} AND file_row_number < {end}"
        return f"SELECT *, {number} AS dpsql_group FROM {source} WHERE {within}"


def _row_groups(connection: Runs, files: Sequence[Path]) -> list[Part]:
    """Few statements where row groups are of one size, as most writers make them."""
    listed = connection.execute(
        "SELECT DISTINCT file_name, row_group_id, row_group_num_rows "
        f"FROM parquet_metadata({paths(files)}) ORDER BY ALL"
    ).fetchall()
    sizes: dict[Path, list[int]] = {}
    for name, _, size in listed:
        sizes.setdefault(Path(name), []).append(size)
    single = max((of[0] for of in sizes.values() if len(of) == 1), default=1)
    alike: dict[int, list[Path]] = {}
    parts = []
    for file, of in sizes.items():
        size = max(1, single if len(of) == 1 else of[0])
        if len(of) == 1 or (set(of[:-1]) == {size} and of[-1] <= size):
            alike.setdefault(size, []).append(file)
            continue
        ends = list(accumulate(of))
        spans = zip([0, *ends], ends, strict=False)
        parts += [Part((file,), 1, (number, start, end)) for number, (start, end) in enumerate(spans)]
    return [*parts, *(Part(tuple(of), size) for size, of in alike.items())]


def _compared(part: Part, columns: Sequence[Column]) -> str:
    """Do the values of all columns fit; is what the footers say of each row group true of it; is none of them NaN?

    What can't be compared with its values isn't known to be true: columns without an order, and texts that aren't of
    the column's type.
    """
    seen = [f"{_fits(columns)} AS fits", "COUNT(*) AS n"]
    said: list[str] = []
    tests = ["COALESCE(w.n = s.n, FALSE)"]
    read: list[str] = []
    numbers: list[str] = []
    for i, c in enumerate(columns):
        name, of = quoted(c.name), f"FILTER (WHERE path_in_schema = {literal(c.name)})"
        if not c.ordered:
            seen.append(f"MAX({name}) AS read{i}")
            read.append(f"COUNT(w.read{i})")
            tests.append("FALSE")
            continue
        number = f" FILTER (WHERE NOT isnan({name}))" if Type.parse(c.kind).is_float else ""
        seen.append(f"MIN({name}){number} AS low{i}, MAX({name}){number} AS high{i}, COUNT({name}) AS some{i}")
        if number:
            seen.append(f"MAX({name}) AS read{i}")  # NaN, if any is: FACT-NAN-1
            read.append(f"COUNT(w.read{i})")
            numbers.append(f"COALESCE(NOT isnan(w.read{i}), TRUE)")
        said.append(f"COUNT(*) {of} AS told{i}, MAX(stats_null_count) {of} AS null{i}")
        tests.append(f"COALESCE(s.told{i} = 1, FALSE)")  # else there may be some that aren't compared
        tests.append(f"COALESCE(w.n - w.some{i} = s.null{i}, TRUE)")
        for end, sign, names in (("low", ">=", ("min", "min_value")), ("high", "<=", ("max", "max_value"))):
            for stated in names:
                said.append(f"MAX(stats_{stated}) {of} AS {stated}{i}")
                told = f"s.{stated}{i}"
                within = f"w.{end}{i} {sign} TRY_CAST({told} AS {c.kind})"
                tests.append(f"({told} IS NULL OR w.{end}{i} IS NULL OR COALESCE({within}, FALSE))")
    return (
        f"WITH w AS (SELECT dpsql_file, dpsql_group, {', '.join(seen)} FROM ({part.query}) GROUP BY ALL), "
        "s AS (SELECT file_name, row_group_id, MAX(row_group_num_rows) AS n"
        f"{''.join(f', {text}' for text in said)} FROM parquet_metadata({paths(part.files)}) GROUP BY ALL) "
        f"SELECT COALESCE(bool_and(w.fits), TRUE), COALESCE(bool_and({' AND '.join(tests)}), TRUE), "
        f"COALESCE(bool_and({' AND '.join(numbers) or 'TRUE'}), TRUE)"
        f"{''.join(f', {one}' for one in read)} FROM w "
        "LEFT JOIN s ON w.dpsql_file = s.file_name AND w.dpsql_group = s.row_group_id"
    )
