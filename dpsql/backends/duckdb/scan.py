"""What a scan yields: one row a record, each value a function of its record alone (Theorem SCAN-1).

A view reads a source carefully: no filter reaches the reader of a parquet file, so that nothing can be skipped by what
several records have in common (row-group statistics, bloom filters, dictionaries), and a value that its type can't hold
is NULL. Where a full reading of this very version has shown that it makes no difference, filters and values pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import duckdb

from dpsql.backends.duckdb.cursor import Cursor, EngineEnded, NoRoom, is_crowded
from dpsql.backends.duckdb.names import literal, paths, quoted
from dpsql.backends.in_groups import groups_of, read_in_groups
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

Shown = dict[str, Proven | None]
"""What a full reading has shown of each column, by its name; None where a value of it can't be read at all."""

WRITTEN = ("min", "min_value", "max", "max_value")
"""The statistics of a footer that are texts of values."""


def examine(connection: Cursor, rows: str, columns: Sequence[Column], *, validated: bool) -> Shown:
    """Read every value of these columns of the rows.

    validated: whoever made the rows made sure that text is UTF-8.
    """

    def read(some: Sequence[Column]) -> Shown:
        tests = ", ".join(f"{_readable(c, validated=validated)}, {_fits(c)}" for c in some)
        found = connection.execute(f"SELECT {tests} FROM {rows}").fetchall()[0]
        return {c.name: Proven(fits=bool(found[2 * place + 1])) for place, c in enumerate(some)}

    groups = groups_of(columns)
    return read_in_groups(groups, lambda some: _halved(connection, read, some, lambda one: None), len(columns))


def examine_parquet(connection: Cursor, files: Sequence[Path], columns: Sequence[Column]) -> Shown:
    """Read every value of these columns of parquet files, row group by row group, a few columns at a time.

    DuckDB itself finds text that isn't UTF-8 when it reads parquet.
    """
    plain = [c for c in columns if not c.ordered]
    shown = examine(connection, read_parquet(files), plain, validated=True)
    shown |= {name: replace(one, numbers=True) for name, one in shown.items() if one is not None}
    try:
        _keep_footers(connection, files)
        parts = [] if _has_our_names(connection, files) else _row_groups(connection)
    except duckdb.Error:  # a footer may say what its own types can't hold
        parts = []

    def read(some: Sequence[Column]) -> Shown:
        if not parts:
            return examine(connection, read_parquet(files), some, validated=True)
        found = [row for part in parts for row in connection.execute(_compared(part, some)).fetchall()]
        return {c.name: _together([Proven(*facts) for name, *facts in found if name == c.name]) for c in some}

    def alone(one: Column) -> Proven | None:
        return examine(connection, read_parquet(files), [one], validated=True)[one.name]

    ordered = _alike([c for c in columns if c.ordered])
    shown |= read_in_groups(ordered, lambda some: _halved(connection, read, some, alone), len(columns), len(plain))
    connection.execute(f"DROP TABLE IF EXISTS temp.{FOOTERS}")
    return shown  # where it fails, the table goes with its cursor


def _together(parts: Sequence[Proven]) -> Proven:
    """What is true of all row groups; of none, everything is."""
    return Proven(
        all(one.fits for one in parts), all(one.statistics for one in parts), all(one.numbers for one in parts)
    )


def _alike(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """Columns of one type, a few at a time."""
    kinds: dict[str, list[Column]] = {}
    for column in columns:
        kinds.setdefault(column.kind, []).append(column)
    for of in kinds.values():
        yield from groups_of(of)


def _halved(
    connection: Cursor,
    read: Callable[[Sequence[Column]], Shown],
    some: Sequence[Column],
    alone: Callable[[Column], Proven | None],
) -> Shown:
    """What `read` shows of columns; where it fails, of each half. alone: of a single column of which it fails.

    An engine that has ended fails of every column, whatever its values are: nothing is shown by it (Theorem SCAN-1).
    """
    try:
        return read(some)
    except duckdb.Error as error:
        if connection.ended:
            raise EngineEnded(some[0].name if len(some) == 1 else "") from None
        if len(some) > 1:
            half = len(some) // 2
            first = _halved(connection, read, some[:half], alone)
            return first | _halved(connection, read, some[half:], alone)
        if is_crowded(error):
            raise NoRoom(some[0].name) from None
        return {some[0].name: alone(some[0])}


def _readable(column: Column, *, validated: bool) -> str:
    """Looks at each value, unlike COUNT."""
    name = quoted(column.name)
    if not validated and (Type.parse(column.kind).is_text or column.kind == "JSON"):
        return f"COUNT(decode(encode(CAST({name} AS VARCHAR))))"
    return f"MAX({name}) IS NULL"


def _fits(column: Column) -> str:
    """Does every value fit its type?"""
    return "TRUE" if column.test is None else f"COALESCE(bool_and({column.test}), TRUE)"


def _has_our_names(connection: Runs, files: Sequence[Path]) -> bool:
    """Are columns called like those that the comparison makes?"""
    query = f"SELECT COUNT(*) FROM parquet_schema({paths(files)}) WHERE starts_with(lower(name), 'dpsql_')"
    return bool(connection.execute(query).fetchall() != [(0,)])


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups that one statement reads: all of some files, `size` rows in each but the last, or one of one file."""

    files: tuple[Path, ...]
    size: int
    rows: tuple[int, int, int] | None = None
    """The one: its number, its first row, and the first row after it."""

    def query(self, columns: Sequence[Column]) -> str:
        """These columns of the rows, each row with its file and the number of its row group."""
        shown = ", ".join(["dpsql_file", *(quoted(c.name) for c in columns)])
        source = read_parquet(self.files, ", filename = 'dpsql_file', file_row_number = true")
        if self.rows is None:
            return f"SELECT {shown}, file_row_number // {self.size} AS dpsql_group FROM {source}"
        number, start, end = self.rows
        within = f"file_row_number >= {start} AND file_row_number < {end}"
        return f"SELECT {shown}, {number} AS dpsql_group FROM {source} WHERE {within}"


def _row_groups(connection: Runs) -> list[Part]:
    """Few statements where row groups are of one size, as most writers make them."""
    listed = connection.execute(f"SELECT DISTINCT file_name, row_group_id, n FROM {FOOTERS} ORDER BY ALL").fetchall()
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


FOOTERS = "dpsql_footers"


def _keep_footers(connection: Runs, files: Sequence[Path]) -> None:
    """Keep what footers say of each row group and column, for statements that compare it."""
    said = ", ".join(f"MAX(stats_{name}) AS said_{name}" for name in WRITTEN)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {FOOTERS} AS SELECT file_name, row_group_id, path_in_schema AS name, "
        "MAX(row_group_num_rows) AS n, COUNT(*) AS told, MAX(stats_null_count) AS nulls, "
        f"COUNT(bloom_filter_offset) AS blooms, {said} FROM parquet_metadata({paths(files)}) GROUP BY ALL"
    )


def _compared(part: Part, columns: Sequence[Column]) -> str:
    """For each of these columns, all of one type and ordered: its name, whether all values fit it, whether what the
    footers say of each row group is true of it, and whether none is NaN. No row: there is none.

    What can't be compared with its values isn't known to be true: columns that a footer names otherwise, texts that
    aren't of the column's type, and bloom filters, whoever wrote them.
    """
    kind = columns[0].kind
    is_float = Type.parse(kind).is_float
    seen: list[str] = []
    for i, c in enumerate(columns):
        name = quoted(c.name)
        number = f" FILTER (WHERE NOT isnan({name}))" if is_float else ""
        seen.append(f"MIN({name}){number} AS low{i}, MAX({name}){number} AS high{i}, COUNT({name}) AS some{i}")
        seen.append(f"{_fits(c)} AS fits{i}")
        if is_float:
            seen.append(f"COALESCE(NOT bool_or(isnan({name})), TRUE) AS number{i}")
    every = range(len(columns))
    spread = [f"unnest([{', '.join(literal(c.name) for c in columns)}]) AS name"]
    for one in ("low", "high", "some", "fits", *(["number"] if is_float else [])):
        spread.append(f"unnest([{', '.join(f'{one}{i}' for i in every)}]) AS {one}")
    tests = ["COALESCE(w.n = s.n AND s.told = 1 AND s.blooms = 0, FALSE)", "COALESCE(w.n - w.some = s.nulls, TRUE)"]
    for said in WRITTEN:
        end, sign = ("w.low", ">=") if said.startswith("min") else ("w.high", "<=")
        within = f"COALESCE({end} {sign} TRY_CAST(s.said_{said} AS {kind}), FALSE)"
        tests.append(f"(s.said_{said} IS NULL OR {end} IS NULL OR {within})")
    numbers = "bool_and(w.number)" if is_float else "TRUE"
    return (
        f"WITH g AS (SELECT dpsql_file, dpsql_group, COUNT(*) AS n, {', '.join(seen)} FROM ({part.query(columns)}) "
        f"GROUP BY dpsql_file, dpsql_group), w AS (SELECT dpsql_file, dpsql_group, n, {', '.join(spread)} FROM g) "
        f"SELECT w.name, bool_and(w.fits), bool_and({' AND '.join(tests)}), {numbers} FROM w LEFT JOIN {FOOTERS} AS s "
        "ON w.dpsql_file = s.file_name AND w.dpsql_group = s.row_group_id AND w.name = s.name GROUP BY w.name"
    )
