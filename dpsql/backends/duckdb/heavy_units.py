"""An index of heavy units: found in one look at a table's owners, and read by statements that it refines."""

from __future__ import annotations

from sqlglot import exp

from dpsql.backends.duckdb.cursor import Cursor, one_message
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.listed import MOST, ROWS, HeavyUnits, total_name
from dpsql.backends.statements.pieces import alias, column, conjunction, count, grouped, joined, select, subquery, table
from dpsql.core.types import Type
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import Owned
from dpsql.sql.gridded import cast, number
from dpsql.sql.trees import copied, nodes_of

TOTAL, HASH = "total", "hash"
MOST_NUMBERS = 2**24
"""How many numbers a table of units has in memory: some hundred megabytes. With two aggregates, of 4 million units."""


def heavy_units(of: Owned, above: int, cursor: Cursor, by: tuple[exp.Expr, ...] = ()) -> HeavyUnits | None:
    """Every unit with more than so many rows; None where units have a type that Arrow may not bring back as it was.

    by: with more than that in one group of these expressions.
    """
    with one_message():
        found, (unit, *_) = cursor.typed(text_of(_by_group(of, above, by) if by else _by_unit(of, above)))
    if not _comes_back(unit):
        return None
    nobodys = found.column(UNIT).null_count  # 1 where there are rows of nobody's, which come first
    total = int(found.column(TOTAL)[0].as_py()) if found.num_rows else 0
    return HeavyUnits(of, above, found.slice(nobodys).drop_columns([TOTAL]), not nobodys, total, by)


def all_units(of: Owned, columns: tuple[exp.Expr, ...], cursor: Cursor) -> HeavyUnits | None:
    """Every unit with its number of rows and these aggregates of them; None where they are too many, or of a type that
    Arrow may not bring back as it was."""
    query = _by_unit(of, 0)
    for place, column_ in enumerate(columns):
        query.select(alias(_of_first(column_), total_name(place)), copy=False)
    most = MOST_NUMBERS // (2 + len(columns))
    query.limit(most + 1, copy=False)
    with one_message():
        found, (unit, _, _, *types) = cursor.typed(text_of(query))
    if found.num_rows > most or not _comes_back(unit) or not all(map(_is_exact, types)):
        return None
    nobodys = found.column(UNIT).null_count
    total = int(found.column(TOTAL)[0].as_py()) if found.num_rows else 0
    units = found.slice(nobodys).drop_columns([TOTAL])
    return HeavyUnits(of, 0, units, not nobodys, total, totals=columns, types=tuple(types))


def _comes_back(unit: str) -> bool:
    """Is this a type of units that Arrow brings back as they were?"""
    kind = Type.parse(unit)
    return kind.name == "VARCHAR" or (kind.is_integer and kind.bits <= 64)


def _is_exact(type_: str) -> bool:
    """Does Arrow bring back each number of a type, so that a cast makes the same of it?"""
    kind = Type.parse(type_)
    return kind.is_integer or kind.is_decimal or kind.name == "DOUBLE"


def _of_first(expression: exp.Expr) -> exp.Expr:
    """An expression over the table's own columns, which is the first of the tables that are read."""
    made = copied(expression)
    for one in nodes_of(made, exp.Column):
        one.set("table", exp.to_identifier("t0"))
    return made


def _by_unit(of: Owned, above: int) -> exp.Select:
    """How many rows each owner has, if more than that; and, with NULL for the unit, how many have none, if any has."""
    owner = _owner(of)
    rows = _rows(of, [alias(owner, UNIT), alias(count(), ROWS), alias(_total(count()), TOTAL)])
    return grouped(_listed(rows, owner, count(), above), [owner.copy()])


def _by_group(of: Owned, above: int, by: tuple[exp.Expr, ...]) -> exp.Select:
    """The same, if more than that are in one group, and how many. Rows of nobody's are listed as before.

    Theorem INDEX-4: groups are told apart by a hash of their keys, which is smaller than most of these. Two with one
    hash are counted as one, so that a unit is listed which needn't be.
    """
    keys = [_of_first(key) for key in by]
    owner, hashed = _owner(of), exp.Anonymous(this="hash", expressions=keys)
    groups = _rows(of, [alias(owner, UNIT), alias(hashed, HASH), alias(count(), ROWS)])
    groups = grouped(groups, [owner.copy(), hashed.copy()])
    sum_of, most = exp.Sum(this=column(ROWS)), exp.Max(this=column(ROWS))
    outputs = [column(UNIT), alias(cast(sum_of, "BIGINT"), ROWS), alias(most, MOST), alias(_total(sum_of), TOTAL)]
    return grouped(_listed(select(outputs, subquery(groups, "g")), column(UNIT), most, above), [column(UNIT)])


def _owner(of: Owned) -> exp.Expr:
    return column(of.owner, f"t{len(of.links)}")


def _rows(of: Owned, outputs: list[exp.Expr]) -> exp.Select:
    """Rows, owners and links are those of a scan (Theorem OWN-1), except that rows without an owner aren't dropped."""
    rows = select(outputs, table(of.table, "t0"))
    for i, link in enumerate(of.links):
        equal = [exp.EQ(this=column(a, f"t{i}"), expression=column(b, f"t{i + 1}")) for a, b in link.on]
        joined(rows, table(link.table, f"t{i + 1}"), conjunction(equal), "LEFT")
    return rows


def _total(rows: exp.Expr) -> exp.Expr:
    """How many rows there are, of all owners."""
    return cast(exp.Window(this=exp.Sum(this=rows.copy())), "BIGINT")


def _listed(rows: exp.Select, owner: exp.Expr, size: exp.Expr, above: int) -> exp.Select:
    """Only owners of so large a size, the largest first; and before them nobody, if rows have no owner."""
    nobody = exp.Is(this=owner.copy(), expression=exp.Null())
    many = exp.Or(this=nobody, expression=exp.GT(this=size.copy(), expression=number(above)))
    rows.set("qualify", exp.Qualify(this=many))  # and not HAVING: the total is that of all rows
    order = [exp.Ordered(this=nobody.copy(), desc=True), exp.Ordered(this=size.copy(), desc=True)]
    rows.set("order", exp.Order(expressions=order))
    return rows
