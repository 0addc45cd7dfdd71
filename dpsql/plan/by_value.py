"""Aggregates of the noisy counts of a value's values: a release of its own by them, and a scalar subquery over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates.form import ByValue
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Expr, Filter, Release, counted_rows
from dpsql.plan.refusals import not_yet_correlated
from dpsql.plan.rows import Rows
from dpsql.plan.unmatched import rows_without_match
from dpsql.sql.refuse import refuse, shown

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


def of_counts(builder: Builder, form: ByValue, node: Expr, rows: Rows, group: Expr | None) -> Expr:
    """A release by the value of all rows that have one, and what the aggregate makes of its noisy counts."""
    if rows.foreign:
        raise not_yet_correlated(next(rows.foreign[0].find_all(exp.Column)))
    if rows.unmatched is not None:
        raise rows_without_match(rows.unmatched)
    value = _argument(form, node)
    if group is not None and form.beside_groups is not None:
        why, way = form.beside_groups
        raise refuse(PrivacyError, why, node, code="unsupported-aggregate", hint=way.replace("{x}", shown(value)))
    key = builder.row_level(value, rows)
    there: Expr = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
    if isinstance(node, exp.Filter):
        there = exp.and_(there, exp.Paren(this=builder.row_level(node.expression.this, rows)))
    counted = counted_rows(None, node, form.counts)
    name = builder.add(Release(Filter(rows.relation, there), (key,), (counted,)))
    query = form.over(_column("k0", name), _column("a0", name))
    return exp.Subquery(this=query.from_(exp.Table(this=exp.to_identifier(name, quoted=True))))


def _argument(form: ByValue, node: Expr) -> Expr:
    """The one value that it is taken of."""
    call = node.this if isinstance(node, exp.Filter) else node
    given = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
    if len(given) != 1 or not isinstance(given[0], exp.Expr) or isinstance(given[0], exp.Distinct | exp.Star):
        raise refuse(SQLError, f"{form.name} takes one value", node, code="arity", hint=f"write {form.name}(x)")
    return given[0]


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
