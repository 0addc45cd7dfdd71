"""MODE(x): the winner of GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1, as a scalar subquery of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Aggregate, Expr, Filter, Release
from dpsql.plan.refusals import not_yet_correlated
from dpsql.plan.rows import Rows
from dpsql.plan.unmatched import rows_without_match
from dpsql.sql.refuse import refuse, shown

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


def most_frequent(builder: Builder, node: Expr, rows: Rows, group: Expr | None) -> Expr:
    """A release by the value of all rows that have one; only its largest group is looked at (winners.py)."""
    if rows.foreign:
        raise not_yet_correlated(next(rows.foreign[0].find_all(exp.Column)))
    if rows.unmatched is not None:
        raise rows_without_match(rows.unmatched)
    call = node.this if isinstance(node, exp.Filter) else node
    value = call.this
    if value is None or isinstance(value, exp.Distinct):
        raise refuse(SQLError, "MODE takes one value", node, code="arity", hint="write MODE(x)")
    if group is not None:
        text = shown(value)
        raise refuse(
            PrivacyError,
            "MODE is one value of all rows; beside GROUP BY it would be one for each group",
            node,
            code="unsupported-aggregate",
            hint=f"count, and keep the first of each group: SELECT g, {text} FROM t GROUP BY g, {text} "
            f"QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY COUNT(*) DESC) = 1",
        )
    key = builder.row_level(value, rows)
    there: Expr = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
    if isinstance(node, exp.Filter):
        there = exp.and_(there, exp.Paren(this=builder.row_level(node.expression.this, rows)))
    counted = Aggregate("COUNT", None, False, None, node)
    name = builder.add(Release(Filter(rows.relation, there), (key,), (counted,)))
    first = exp.Ordered(this=_column("a0", name), desc=True)
    query = exp.select(_column("k0", name)).from_(exp.Table(this=exp.to_identifier(name, quoted=True)))
    query.set("order", exp.Order(expressions=[first]))
    return exp.Subquery(this=query.limit(1))


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
