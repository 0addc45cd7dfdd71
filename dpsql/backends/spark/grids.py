"""What is known of a value on its grid: the test that lets it through bounds the integer that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dpsql.backends.spark.values import Value
from dpsql.core.types import DOUBLE, Type
from dpsql.sql.as_sql import as_sql

EXACT = 2**51  # up to here a rounded difference of doubles tells what the exact one does (Theorem GRID-2)


def bounded(chosen: Value, test: exp.Expr, node: exp.Expr) -> Value:
    """The branch of a CASE that puts a value on a grid, within the ends of that grid; any other as it is.

    Doubles: CASE WHEN ABS(x * n - middle) <= half THEN CAST(x * n AS …) (Theorem GRID-2). Decimals: CASE
    WHEN x BETWEEN low AND high THEN CAST(CAST(x AS DECIMAL(w, s)) * 10^s AS …), which is exact.
    """
    product = node.this.unnest() if isinstance(node, exp.Cast) else None
    if not isinstance(product, exp.Mul) or not chosen.type.is_integer or chosen.low is None or chosen.high is None:
        return chosen
    ends = _of_doubles(test.unnest(), product) or _of_decimals(test.unnest(), product)
    if ends is None or ends[0].denominator != 1 or ends[1].denominator != 1:
        return chosen
    return replace(chosen, low=max(chosen.low, int(ends[0])), high=min(chosen.high, int(ends[1])))


def _of_doubles(test: exp.Expr, product: exp.Mul) -> tuple[Fraction, Fraction] | None:
    distance = test.this.this.unnest() if isinstance(test, exp.LTE) and isinstance(test.this, exp.Abs) else None
    if not isinstance(distance, exp.Sub) or distance.this.unnest() != product:
        return None
    middle, half = map(_double, (distance.expression, test.expression))
    if middle is None or half is None:
        return None
    low, high = middle - half, middle + half
    return (low, high) if max(abs(low), abs(high)) <= EXACT else None


def _double(node: exp.Expr) -> Fraction | None:
    """A constant double."""
    said = _said(node, lambda type_: type_ == DOUBLE)
    return None if said is None or float(said) - float(said) != 0 else Fraction(float(said))


def _of_decimals(test: exp.Expr, product: exp.Mul) -> tuple[Fraction, Fraction] | None:
    x = product.this.unnest()
    factor = product.expression.unnest()
    if not isinstance(test, exp.Between) or not isinstance(x, exp.Cast) or not isinstance(factor, exp.Literal):
        return None
    to = Type.parse(as_sql(x.args["to"]))
    if not to.is_decimal or str(factor.this) != str(10 ** (to.scale or 0)) or test.this.unnest() != x.this.unnest():
        return None
    low, high = (_said(test.args[end], lambda type_: type_.is_decimal) for end in ("low", "high"))
    if low is None or high is None:
        return None
    return Fraction(low) * int(factor.this), Fraction(high) * int(factor.this)


def _said(node: exp.Expr, is_kind: Callable[[Type], bool]) -> str | None:
    """The text of CAST('…' AS a type of this kind)."""
    cast = node.unnest()
    if not isinstance(cast, exp.Cast) or not is_kind(Type.parse(as_sql(cast.args["to"]))):
        return None
    return str(cast.this.this) if isinstance(cast.this, exp.Literal) and cast.this.is_string else None
