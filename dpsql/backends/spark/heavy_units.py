"""An index of heavy units on Spark: found in one look at a table's owners, and handed to the statements it refines.

A list is sent to every task. So it is kept only if it is short: how many heavy units there are decides how long a
query takes, and never whether it fails (Theorem INDEX-1, What it tells).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from dpsql.backends.listed import MOST, ROWS, HeavyUnits, Listed
from dpsql.backends.spark.queries import Table, Text, write
from dpsql.backends.spark.sources import as_arrow
from dpsql.backends.statements.pieces import alias, column, conjunction, count, grouped, select, subquery
from dpsql.backends.statements.rows import relation
from dpsql.core.types import Type
from dpsql.plan.nodes import Scan
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import Owned
from dpsql.sql.gridded import cast, number
from dpsql.sql.trees import copied, nodes_of

UNITS = 2**20  # at most so many are listed,
LONGEST = 40  # none of more characters than that,
BYTES = 2**25  # and no more than so much is fetched or sent
HEAVY = "heavy"

Tables = Mapping[str, Table]


def unit_type(of: Owned, tables: Tables) -> Type | None:
    """The type of these units; None where they are none that an index lists."""
    owner = tables[of.tables[-1]].columns.get(of.owner.lower())
    kind = None if owner is None else owner.type
    listed = kind is not None and (kind.name == "VARCHAR" or (kind.is_integer and kind.bits <= 64))
    return kind if listed else None


def is_short(listed: Listed) -> bool:
    """Can a list be sent to every task? Else the statement is the plain one, which says the same."""
    return bool(listed.units.num_rows <= UNITS and listed.units.nbytes <= BYTES)


def heavy_units(
    of: Owned, above: int, by: tuple[exp.Expr, ...], tables: Tables, run: Callable[[Text], Any]
) -> HeavyUnits | None:
    """Every unit with more than so many rows; None where units aren't listed: by their type, or as they are too many.

    by: with more than that in one group of these expressions (Theorem INDEX-4).
    """
    import pyarrow as pa

    kind = unit_type(of, tables)
    if kind is None:
        return None
    text = write(_statement(of, above, by, kind), tables)
    most = min(UNITS, BYTES // (4 * LONGEST)) if kind.is_text else UNITS  # four bytes a character
    found = run(Text(f"{text.sql}\nLIMIT {most + 2}", text.parameters, text.columns))
    heavy = found.filter(found.column(HEAVY))
    if found.num_rows > most + 1 or heavy.column(UNIT).null_count:
        return None
    total = sum(int(rows) for rows in found.column(ROWS).to_pylist())
    units = {UNIT: as_arrow(heavy.column(UNIT), kind), ROWS: heavy.column(ROWS).cast(pa.int64())}
    if by:
        units[MOST] = heavy.column(MOST).cast(pa.int64())
    # Whether all rows have an owner isn't asked: statements here drop those that have none, with or without a list.
    return HeavyUnits(of, above, pa.table(units).sort_by([(MOST if by else ROWS, "descending")]), False, total, by)


def _statement(of: Owned, above: int, by: tuple[exp.Expr, ...], kind: Type) -> exp.Select:
    """Each owner with more rows than that, and how many; and of all other rows together how many there are.

    Rows, owners and links are those of a scan (Theorem OWN-1). A text that is too long is NULL.
    """
    keys = [copied(key) for key in by]
    own: dict[str, str] = {} if of.links else {of.owner: UNIT}
    for one in (c for key in keys for c in nodes_of(key, exp.Column)):
        one.set("this", exp.to_identifier(own.setdefault(one.name, f"c{len(own)}"), quoted=True))
        one.set("table", None)
    columns = tuple((name, source) for source, name in own.items())
    rows = subquery(relation(Scan(of.table, columns, UNIT, of.owner, of.links)), "r")
    counts = [alias(count(), ROWS), alias(count(), MOST)]
    units = grouped(select([column(UNIT), *counts], rows), [column(UNIT), *keys])
    if keys:
        sums = [alias(exp.Sum(this=column(ROWS)), ROWS), alias(exp.Max(this=column(MOST)), MOST)]
        units = grouped(select([column(UNIT), *sums], subquery(units, "g")), [column(UNIT)])
    is_heavy = exp.GT(this=column(MOST), expression=number(above))
    short = exp.LTE(this=exp.Length(this=column(UNIT)), expression=number(LONGEST))
    told = conjunction([is_heavy, *([short] if kind.is_text else [])])
    named = [
        alias(exp.Case(ifs=[exp.If(this=told, true=column(UNIT))]), UNIT),
        alias(is_heavy.copy(), HEAVY),
        alias(exp.Case(ifs=[exp.If(this=is_heavy.copy(), true=column(MOST))], default=cast(number(0), "BIGINT")), MOST),
        column(ROWS),
    ]
    by_kind = [column(name) for name in (UNIT, HEAVY, MOST)]
    return grouped(
        select([*by_kind, alias(exp.Sum(this=column(ROWS)), ROWS)], subquery(select(named, subquery(units, "u")), "k")),
        [key.copy() for key in by_kind],
    )
