"""Statements over many rows: units in parts, so that what is kept of them fits into memory, and few of them sorted.

How many rows there are is private. It decides here how work is divided, and so how long it takes, and nothing else: the
integers are those of the statement as it stands (Theorems PARTS-1, CAP-3).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.backends.duckdb.cursor import Cursor
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.statements.parts import in_part, read_again, rows_below
from dpsql.backends.statements.pieces import alias, column, count, grouped, or_zero, select, table
from dpsql.backends.statements.render import in_order, render
from dpsql.backends.statements.tallies import unit_tally
from dpsql.backends.statements.uncut import (
    COUNTED,
    PAIR,
    REPEATED,
    ROWS,
    fits_uncut,
    most_rows,
    render_counted,
    render_pairs,
    render_uncut,
)
from dpsql.core.arrays import column as arrow_column
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Group, GroupUnits, OnCells, Statement, ToGrid, parts_of
from dpsql.sql.gridded import number

PARTS = "dpsql_parts"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows are many: those of a statement, of a part whose groups are counted, and of one that is capped."""

    few: int = 500_000
    counted: int = 2**22
    capped: int = 2**24
    shares: int = 4  # sorting some is worth while if they have at most one row in so many

    def parts(self, rows: int, most: int) -> int:
        """Into how many parts rows are divided."""
        return 1 if rows <= self.few else 1 << max(0, -(-rows // most) - 1).bit_length()


SIZES = Sizes()


def texts_in_parts(statement: Statement, tables: Set[str], cursor: Cursor, sizes: Sizes = SIZES) -> list[str]:
    """A statement that counts units by what they have in groups, for each part of the units; [] as it stands.

    tables: those that may be read more than once.
    """
    rows = rows_below(statement)
    if not isinstance(statement, OnCells) or rows is None or statement.input.input is not rows:
        return []
    if not any(isinstance(part, GroupUnits) and part.keys for part in parts_of(rows.input)):
        return []
    parts = sizes.parts(_number(rows, tables, cursor) or 0, sizes.counted)
    made = (replace(statement, input=in_part(statement.input, i, parts)) for i in range(parts))
    return [text_of(render(one)) for one in made] if parts > 1 else []


def capped(statement: Statement, tables: Set[str], cursor: Cursor, sizes: Sizes = SIZES) -> Any:
    """The result of a statement with private keys; None where it had better be run as it stands."""
    if not isinstance(statement, Group) or not fits_uncut(statement):
        return None
    rows = rows_below(statement)
    number_of = None if rows is None else _number(rows, tables, cursor)
    if number_of is None or number_of <= sizes.few:
        return None
    parts = sizes.parts(number_of, sizes.capped)
    with _temporary(PARTS, cursor):
        for i in range(parts):
            _measure(in_part(statement, i, parts), i == 0, cursor, sizes)
        keys = [column(k) for k in statement.keys]
        tallies = [alias(unit_tally(name, t), name) for name, t in statement.tallies]
        whole = grouped(select([*keys, *tallies], table(PARTS)), [k.copy() for k in keys])
        return cursor.arrow(text_of(in_order(whole, statement.keys)))


def _number(rows: ToGrid, tables: Set[str], cursor: Cursor) -> int | None:
    """How many rows the table has that is read; None where it had better be read once."""
    scan = read_again(rows, tables)
    if scan is None:
        return None
    _, [(found,)] = cursor.rows(text_of(select([count()], table(scan.table))))
    return int(found)


def _measure(group: Group, first: bool, cursor: Cursor, sizes: Sizes) -> None:
    """Add the tallies of a part to the temporary table."""
    into = f"CREATE TEMP TABLE {PARTS} AS" if first else f"INSERT INTO {PARTS}"
    with _temporary(COUNTED, cursor):
        cursor.execute(f"CREATE TEMP TABLE {COUNTED} AS {text_of(render_counted(group))}")
        repeated = _repeated(group, cursor, sizes)
        if repeated is None:
            cursor.execute(f"{into} {text_of(render(group, ranks=True))}")
            return
        try:
            cursor.register(REPEATED, repeated)
            cursor.execute(f"{into} {text_of(render_uncut(group))}")
        finally:
            cursor.unregister(REPEATED)


def _repeated(group: Group, cursor: Cursor, sizes: Sizes) -> Any:
    """The hashes of pairs of unit and group that more than one row has; None if so many units must be sorted anyway."""
    import pyarrow as pa

    above = exp.Where(this=exp.GT(this=column(ROWS), expression=number(most_rows(group))))
    heavy = exp.Filter(this=exp.Sum(this=column(ROWS)), expression=above)
    sums = select([or_zero(exp.Sum(this=column(ROWS))), or_zero(heavy)], table(COUNTED))
    _, [(rows, many)] = cursor.rows(text_of(sums))
    if int(many) * sizes.shares > int(rows):
        return None
    pairs = cursor.arrow(text_of(render_pairs(group))).column(PAIR)
    hashes = np.concatenate([np.zeros(0, np.uint64), *(_values(chunk) for chunk in pairs.chunks)])
    del pairs
    hashes.sort()
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    if len(twice) * sizes.shares > int(rows):
        return None
    return pa.table({PAIR: arrow_column(twice)})


def _values(chunk: Any) -> Any:
    return np.frombuffer(chunk.buffers()[1], dtype=np.uint64)[chunk.offset :][: len(chunk)]


@contextmanager
def _temporary(name: str, cursor: Cursor) -> Iterator[None]:
    """A table of this connection's own, which goes when it was used, whatever happens."""
    try:
        yield
    finally:
        cursor.drop(name)
