"""One spelling for quantiles: PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) is QUANTILE_CONT(x, q)."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse

MAX_SHARES = 100
MAX_DIGITS = 6

_Percentile = exp.PercentileCont | exp.PercentileDisc


def ordered_inside(root: exp.Query) -> exp.Query:
    """Rewrite ordered-set aggregates to the form with the value first; a descending order counts from the top."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.WithinGroup) and isinstance(node.this, _Percentile | exp.Mode):
            one = _ordered(node.expression)
            if isinstance(node.this, exp.Mode):
                return exp.Mode(this=one.this)
            return type(node.this)(this=one.this, expression=_turned(node.this.this, one))
        if isinstance(node, _Percentile) and isinstance(node.expression, exp.Order):
            one = _ordered(node.expression)
            if one.this == node.this:
                return type(node)(this=node.this, expression=_turned(node.expression.this, one))
        return node

    found = root.transform(rewrite)
    assert isinstance(found, exp.Query)
    return found


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
        return share
    if isinstance(share, exp.Array):
        return exp.Array(expressions=[_turned(e, one) for e in share.expressions])
    try:
        return exp.Literal.number(str(1 - Decimal(share.name)))
    except InvalidOperation:
        return share  # shares() says what is wrong with it


def shares(node: exp.Expr, call: exp.Expr) -> tuple[tuple[Fraction, ...], bool]:
    """The shares of the rows that a quantile asks for, and whether they were a list."""
    listed = isinstance(node, exp.Array)
    written = node.expressions if listed else [node]
    found = tuple(_share(e, call) for e in written)
    if not found or len(found) > MAX_SHARES:
        raise refuse(
            SQLError,
            f"a list of quantiles has 1 to {MAX_SHARES} shares",
            call,
            code="quantile",
            hint="write QUANTILE_CONT(x, [0.25, 0.5, 0.75])",
        )
    return found, listed


def _share(node: exp.Expr, call: exp.Expr) -> Fraction:
    literal = node.unnest()
    if isinstance(literal, exp.Cast) and isinstance(literal.this, exp.Literal):
        literal = literal.this
    try:
        share = Decimal(literal.name) if isinstance(literal, exp.Literal) else None
    except InvalidOperation:
        share = None
    if share is None or not 0 <= share <= 1 or Fraction(share).denominator > 10**MAX_DIGITS:
        raise refuse(
            SQLError,
            f"a quantile's share is a number from 0 to 1, with at most {MAX_DIGITS} digits",
            call,
            code="quantile",
            hint="write QUANTILE_CONT(x, 0.5)",
        )
    return Fraction(share)
