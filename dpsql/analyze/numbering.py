"""Numbers of rows: those that a window gives a unit's rows, and those that rows get that are their own units."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from dpsql.analyze.ownership import Ownership
from dpsql.analyze.variables import KeyColumn
from dpsql.core.errors import PrivacyError
from dpsql.core.ranges import Range
from dpsql.core.types import BIGINT
from dpsql.plan.nodes import Expr, Filter, GroupUnits, Join, Mark, Project, Relation, Scan, Union, Windows
from dpsql.plan.rows import conjuncts, plan_column
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar


def kept_rows(owner: Ownership, condition: Expr) -> Ownership:
    """WHERE row_number <= k leaves each unit at most k rows. Only the condition itself proves it, no declared range."""
    for conjunct in conjuncts(condition):
        rows = _most(conjunct, owner.ranks)
        if rows is not None and (owner.rows is None or rows < owner.rows):
            owner = replace(owner, rows=rows, promised=None, why=f"at most {rows} rows of each unit are kept")
    return owner


def _most(node: Expr, ranks: frozenset[str]) -> int | None:
    """k of `rank <= k` and the like, where k is a whole number as it stands: nothing is computed or rounded."""
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return _most(exp.LTE(this=node.this.copy(), expression=node.args["high"].copy()), ranks)
    match node:
        case exp.LTE() | exp.EQ():
            rank, number, less = node.this, node.expression, 0
        case exp.LT():
            rank, number, less = node.this, node.expression, 1
        case exp.GTE():
            rank, number, less = node.expression, node.this, 0
        case exp.GT():
            rank, number, less = node.expression, node.this, 1
        case _:
            return None
    if isinstance(node, exp.EQ) and isinstance(rank.unnest(), exp.Literal):
        rank, number = number, rank
    rank, number = rank.unnest(), number.unnest()
    if isinstance(rank, exp.Column) and rank.name in ranks and isinstance(number, exp.Literal) and number.is_int:
        return max(1, int(number.this) - less)
    return None


def numbered(relation: Relation, name: str) -> Relation:
    """Rows that are units of their own, each numbered in a column of this name, since a join may repeat them."""
    match relation:
        case Scan():
            return replace(relation, unit=name)
        case Join():
            return replace(relation, left=numbered(relation.left, name))
        case Filter() | Mark():
            return replace(relation, input=numbered(relation.input, name))
        case Project():
            columns = (*relation.columns, (name, plan_column(name)))
            return replace(relation, input=numbered(relation.input, name), columns=columns, unit=name)
        case Union() | GroupUnits() | Windows():
            raise refuse(
                PrivacyError,
                "a join that repeats rows needs a unit column, and here each row is a unit of its own",
                None,
                code="row-unit",
                hint="join before the UNION",
            )
        case _:
            assert_never(relation)


def number_column(table: str, name: str) -> KeyColumn:
    """What is known of a row's number."""
    return KeyColumn(table, None, Scalar(plan_column(name), BIGINT, Range(nullable=False)))
