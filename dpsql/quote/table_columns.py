"""What a query's expressions are in terms of a table's own columns, as far as its rows have them by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.plan.nodes import Expr, Filter, Join, Mark, Project, Relation, Scan, Windows
from dpsql.sql.trees import copied, nodes_of


def over_table(expression: Expr, relation: Relation) -> Expr | None:
    """An expression over a relation, written over the columns of the table that its rows are a part of.

    None where it looks at something that a row has from elsewhere: another side of a join, other rows of its unit, a
    unit at the end of links. The rows are those of the first scan (`quote/indexed.py`).
    """
    match relation:
        case Scan():
            return _written(expression, {name: exp.column(source, quoted=True) for name, source in relation.columns})
        case Filter() | Mark() | Windows():
            # A mark's own column, or a window's, is no column of the scan: nothing stands for it there.
            return over_table(expression, relation.input)
        case Join():
            return over_table(expression, relation.left)
        case Project():
            below = _written(expression, dict(relation.columns))
            return None if below is None else over_table(below, relation.input)
        case _:
            return None


def _written(expression: Expr, columns: Mapping[str, Expr]) -> Expr | None:
    """The expression with these in the place of its columns; None where it has others."""
    whole: Expr = exp.Paren(this=copied(expression))
    for one in list(nodes_of(whole, exp.Column)):
        if one.name not in columns:
            return None
        one.replace(exp.Paren(this=copied(columns[one.name])))
    return whole.unnest()
