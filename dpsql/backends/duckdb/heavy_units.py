"""An index of heavy units: found in one look at a table's owners, and read by statements that it refines."""

from __future__ import annotations

from sqlglot import exp

from dpsql.backends.duckdb.cursor import Cursor, one_message
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.listed import ROWS, HeavyUnits
from dpsql.backends.statements.pieces import alias, column, conjunction, count, grouped, joined, select, table
from dpsql.core.types import Type
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import Owned
from dpsql.sql.gridded import cast, number

TOTAL = "total"


def heavy_units(of: Owned, above: int, cursor: Cursor) -> HeavyUnits | None:
    """Every unit with more than so many rows; None where units have a type that Arrow may not bring back as it was."""
    with one_message():
        found, (unit, *_) = cursor.typed(text_of(_counted(of, above)))
    kind = Type.parse(unit)
    if not (kind.name == "VARCHAR" or (kind.is_integer and kind.bits <= 64)):
        return None
    nobodys = found.column(UNIT).null_count  # 1 where there are rows of nobody's, which come first
    total = int(found.column(TOTAL)[0].as_py()) if found.num_rows else 0
    return HeavyUnits(of, above, found.slice(nobodys).select([UNIT, ROWS]), complete=not nobodys, total=total)


def _counted(of: Owned, above: int) -> exp.Select:
    """How many rows each owner has, if more than that; and, with NULL for the unit, how many have none, if any has.

    Rows, owners and links are those of a scan (Theorem OWN-1), except that rows without an owner aren't dropped.
    """
    owner = column(of.owner, f"t{len(of.links)}")
    total = cast(exp.Window(this=exp.Sum(this=count())), "BIGINT")
    rows = select([alias(owner, UNIT), alias(count(), ROWS), alias(total, TOTAL)], table(of.table, "t0"))
    for i, link in enumerate(of.links):
        equal = [exp.EQ(this=column(a, f"t{i}"), expression=column(b, f"t{i + 1}")) for a, b in link.on]
        joined(rows, table(link.table, f"t{i + 1}"), conjunction(equal), "LEFT")
    nobody = exp.Is(this=owner.copy(), expression=exp.Null())
    many = exp.Or(this=nobody, expression=exp.GT(this=count(), expression=number(above)))
    rows.set("qualify", exp.Qualify(this=many))  # and not HAVING: the total is that of all rows
    order = [exp.Ordered(this=nobody.copy(), desc=True), exp.Ordered(this=count(), desc=True)]
    rows.set("order", exp.Order(expressions=order))
    return grouped(rows, [owner.copy()])
