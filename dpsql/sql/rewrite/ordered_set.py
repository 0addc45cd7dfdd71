"""One spelling for quantiles: PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) is QUANTILE_CONT(x, q)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import replaced

_Percentile = exp.PercentileCont | exp.PercentileDisc


def ordered_set(tree: exp.Query) -> exp.Query:
    """The query with ordered-set aggregates in the form with the value first; a descending order counts from the top.

    What DuckDB would call such an output is asked of this form, too (backends/duckdb/public.py).
    """
    return replaced(tree, (exp.WithinGroup, exp.PercentileCont, exp.PercentileDisc), _value_first)


def _value_first(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, _Percentile | exp.Mode):
        one = _ordered(node.expression)
        if isinstance(node.this, exp.Mode):
            return _call(node.this, this=one.this.copy())
        return _call(node.this, this=one.this.copy(), expression=_turned(node.this.this, one))
    if isinstance(node, _Percentile) and isinstance(node.expression, exp.Order):
        one = _ordered(node.expression)
        if one.this == node.this:
            return _call(node, this=node.this.copy(), expression=_turned(node.expression.this, one))
    return node


def _call(node: exp.Expr, **arguments: exp.Expr) -> exp.Expr:
    """A call of a node's function with other arguments, which stands where the node stood."""
    call = type(node)(**arguments)
    call.meta.update(node.meta)
    return call


def _ordered(order: exp.Expr) -> exp.Ordered:
    if isinstance(order, exp.Order) and len(order.expressions) == 1 and isinstance(order.expressions[0], exp.Ordered):
        return order.expressions[0]
    raise refuse(
        SQLError,
        "WITHIN GROUP takes one ORDER BY expression",
        order,
        code="within-group",
        hint="write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)",
    )


def _turned(share: exp.Expr, one: exp.Ordered) -> exp.Expr:
    """The share from the other end, where the order is a descending one."""
    if not one.args.get("desc"):
        return share.copy()
    if isinstance(share, exp.Array):
        return exp.Array(expressions=[_turned(e, one) for e in share.expressions])
    try:
        return exp.Literal.number(str(1 - Decimal(share.name)))
    except InvalidOperation:
        return share.copy()  # plan/shares.py says what is wrong with it
