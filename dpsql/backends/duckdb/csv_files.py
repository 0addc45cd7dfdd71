"""CSV files: which records they hold, and how DuckDB reads them (Theorem SCAN-1).

Nothing about a private file is sniffed: one row could change it (attack 37). Header and policy decide. DuckDB splits a
file at multiples of 8,000,000 bytes and takes a quoted line break there for the end of a record, so a file is read in
parallel only if it was found to hold no quote at all, and by one thread from its first byte to its last otherwise.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import duckdb

from dpsql.backends.duckdb.cursor import Cursor, EngineEnded, NoRoom, is_crowded
from dpsql.backends.duckdb.names import literal, paths, quoted
from dpsql.core.errors import DataError, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Table

LONGEST = 2_000_000
"""Bytes of a record. DuckDB doesn't read longer ones, and a file that holds one is refused as a whole."""

_BY_ITSELF = {"MISSING COLUMNS", "TOO MANY COLUMNS"}
"""What DuckDB may reject: records that are left out by themselves, and no harm to others. One that isn't UTF-8 is left
out only by queries that read the column, so that the number of rows would depend on the query."""

_field_size = Lock()


@dataclass(frozen=True, slots=True)
class Records:
    """What an independent, sequential reader finds in CSV files."""

    whole: int
    """Records with as many fields as the header."""
    unquoted: bool
    """No quote anywhere: each line break ends a record, wherever a reader starts."""


def read_csv(
    table: Table, files: tuple[Path, ...], used: frozenset[str], *, unquoted: bool, errors: str = "ignore_errors"
) -> str:
    """SELECT of the columns that are used, as text. A record with too many or too few fields is left out.

    errors = "store_rejects" tells which records those are.
    """
    if table.public and not any(c.type for c in table.columns.values()):
        mark = "" if table.separator is None else f", delim = {literal(table.separator)}"
        return f"SELECT * FROM read_csv({paths(files)}, parallel = false{mark})"
    header = header_of(table, files)
    shown = ", ".join(quoted(c) for c in header if table.public or c.lower() in used)
    if not shown:
        # Not what its header is: without one, that would be somebody's row (attack 49).
        raise PolicyError(
            f"tables.{table.name}.columns: none of the listed columns is in the first line of {table.source}",
            code="unknown-column",
            hint="the first line must name the columns: add a header, list the names that it has, or say what stands "
            f'between them (separator = ";"); `dpsql init {table.source} --steward` proposes all of it',
        )
    columns = ", ".join(f"{literal(c)}: 'VARCHAR'" for c in header)
    return (
        f"SELECT {shown} FROM read_csv({paths(files)}, auto_detect = false, header = true, "
        f"delim = {literal(_delimiter(table, files[0]))}, quote = '\"', escape = '\"', columns = {{{columns}}}, "
        f"hive_partitioning = false, max_line_size = {LONGEST}, parallel = {unquoted}, {errors} = true)"
    )


def examine_csv(table: Table, files: tuple[Path, ...], used: frozenset[str], connection: Cursor) -> Records | None:
    """What the files hold, if DuckDB finds the same records in them as another reader does; else None.

    A quote that is never closed, or one that is followed by text, would swallow other people's records. Neither may
    there be a record that is too long for DuckDB.
    """
    found = _records(table, files)
    if found is None:
        return None
    rows = read_csv(table, files, used, unquoted=False, errors="store_rejects")
    try:
        # All of it is fetched: the rejects are there once the scan has ended.
        (number, *_), *_ = connection.execute(f"SELECT COUNT(*), COUNT(COLUMNS(*)) FROM ({rows})").fetchall()
        kinds = connection.execute("SELECT DISTINCT CAST(error_type AS VARCHAR) FROM reject_errors").fetchall()
    except duckdb.Error as error:
        if connection.ended:
            raise EngineEnded("") from None
        if is_crowded(error):
            raise NoRoom("") from None
        return None
    if number != found.whole or not {kind for (kind,) in kinds} <= _BY_ITSELF:
        return None
    # Readers that look for the next record after one with other fields are not relied upon to find it in parallel.
    return Records(found.whole, found.unquoted and not kinds)


def header_of(table: Table, files: tuple[Path, ...]) -> list[str]:
    """The names in the first record: that alone is read."""
    headers = {tuple(_first_record(table, file)) for file in files}
    if len(headers) > 1:
        raise DataError(
            f"tables.{table.name}: the files of {table.source} have different headers",
            code="headers",
            hint="give them the same columns in the same order",
        )
    header = list(headers.pop())
    if len({name.lower() for name in header}) < len(header):
        raise DataError(
            f"tables.{table.name}: two columns in the first line of {table.source} have the same name, apart from case",
            code="duplicate-column",
            hint="the first line must name the columns: add a header, or rename one of them",
        )
    return header


def _first_record(table: Table, file: Path) -> list[str]:
    try:
        with _text(file, "surrogateescape") as text, _any_size():
            first = next(csv.reader(text, delimiter=_delimiter(table, file)), [])
        if first:
            first[0] = first[0].removeprefix("\ufeff")
        "".join(first).encode()  # what isn't UTF-8 was read as surrogates: only the header itself must be
    except (OSError, EOFError, UnicodeEncodeError, csv.Error) as error:
        raise DataError(
            f"tables.{table.name}: the first line of {file.name} can't be read: {type(error).__name__}",
            code="unreadable",
            hint="save it as UTF-8 text, with the names of its columns in the first line",
        ) from None
    return first


def _records(table: Table, files: tuple[Path, ...]) -> Records | None:
    """The records as Python's own reader finds them, one after the other; None where quotes aren't as they should be,
    or text isn't UTF-8.
    """
    fields, whole, quotes = len(header_of(table, files)), 0, False
    try:
        for file in files:
            with _text(file, "strict") as text, _any_size():
                lines = _Lines(text)
                reader = csv.reader(lines, delimiter=_delimiter(table, file), strict=True)
                next(reader, None)
                whole += sum(len(record) == fields for record in reader)
                quotes = quotes or lines.quotes
    except (OSError, EOFError, UnicodeDecodeError, csv.Error):
        return None
    return Records(whole, not quotes)


class _Lines:
    """Lines of a text, and whether any of them held a quote."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text
        self.quotes = False

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            if '"' in line:
                self.quotes = True
            yield line


@contextmanager
def _text(file: Path, errors: str) -> Iterator[io.TextIOBase]:
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as binary:
        yield io.TextIOWrapper(binary, encoding="utf-8", errors=errors, newline="")


@contextmanager
def _any_size() -> Iterator[None]:
    """Python's limit on a field is one for the whole process: it is only ever raised, and set back."""
    with _field_size:
        before = csv.field_size_limit()
        csv.field_size_limit(max(before, LONGEST))
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _delimiter(table: Table, file: Path) -> str:
    return table.separator or default_separator(file)


def default_separator(file: Path) -> str:
    """What stands between fields where nobody says anything."""
    return "\t" if ".tsv" in file.suffixes else ","
