"""The shares of the rows that a quantile asks for: QUANTILE_CONT(x, 0.5), QUANTILE_DISC(x, [0.25, 0.75])."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse

MAX_SHARES = 100
MAX_DIGITS = 6


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
