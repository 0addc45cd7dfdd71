"""A value on its grid, as an expression: finite test, clip and rounding in one CASE (Theorem GRID-1)."""

from __future__ import annotations

from fractions import Fraction
from typing import assert_never

from sqlglot import exp

from dpsql.core.grid import Grid
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.base import call, wrap
from dpsql.sql.trees import copied


def gridded(value: exp.Expr, grid: Grid) -> exp.Expr:
    """Theorem GRID-1: finite test, clip and rounding in one CASE; NULL, NaN and ±inf become NULL.

    The clip bounds are grid points, so that low ≤ integer ≤ high whatever the row holds. NaN sorts above every
    number in DuckDB, so it falls through all three branches.
    """
    value = wrap(value)
    storage = _narrowest(grid)
    low, high = number(grid.low), number(grid.high)
    floor: exp.Expr
    ceiling: exp.Expr
    match grid.source:
        case "integer":
            inside: exp.Expr = copied(value)
            floor, ceiling, finite = copied(low), copied(high), False
        case "decimal":
            # DuckDB multiplies in the value's own 64 bits, and raises where the product doesn't fit. What gets here
            # lies within the grid, whose bounds tell whether it does (Theorem GRID-4): 128 bits take ten times as long.
            scale = len(str(grid.step.denominator)) - 1
            digits = 18 if grid.magnitude * grid.step.denominator < 10**18 else 38
            wide = cast(copied(value), f"DECIMAL({digits},{scale})")
            inside = exp.Mul(this=wide, expression=exp.Literal.number(grid.step.denominator))
            floor, ceiling, finite = _decimal(grid.low, grid.step), _decimal(grid.high, grid.step), False
        case "float":
            inside = exp.Mul(this=copied(value), expression=_double(1 / grid.step))
            floor, ceiling, finite = _double(grid.low * grid.step), _double(grid.high * grid.step), True
        case "any":
            return exp.Case(ifs=[exp.If(this=present(value), true=exp.Literal.number(1))])
        case "finite":
            finite_test = call("isfinite", value)
            return exp.Case(ifs=[exp.If(this=finite_test, true=exp.Literal.number(1))])
        case _:
            assert_never(grid.source)
    above: exp.Expr = exp.GT(this=copied(value), expression=copied(ceiling))
    below: exp.Expr = exp.LT(this=copied(value), expression=copied(floor))
    within: exp.Expr = exp.Between(this=copied(value), low=floor, high=ceiling)
    if finite:
        within = _near(inside, grid)
        above = exp.and_(
            above, exp.LT(this=copied(value), expression=cast(exp.Literal.string("inf"), "DOUBLE")), copy=False
        )
        below = exp.and_(
            below, exp.GT(this=copied(value), expression=cast(exp.Literal.string("-inf"), "DOUBLE")), copy=False
        )
    return exp.Case(
        ifs=[
            exp.If(this=within, true=cast(inside, storage)),
            exp.If(this=above, true=cast(high, storage)),
            exp.If(this=below, true=cast(low, storage)),
        ]
    )


def _near(scaled: exp.Expr, grid: Grid) -> exp.Expr:
    """Theorem GRID-2: |scaled − middle| ≤ half the span, one comparison of doubles instead of two.

    The value is looked at in steps, as it is rounded: the engine then scales it once, and reads it no second time.
    """
    assert grid.magnitude <= 2**51, grid
    middle, half = Fraction(grid.low + grid.high, 2), Fraction(grid.high - grid.low, 2)
    distance = exp.Abs(this=exp.Sub(this=copied(scaled), expression=_double(middle)))
    return exp.LTE(this=distance, expression=_double(half))


def _narrowest(grid: Grid) -> str:
    """The integers that a grid's points are kept in (Theorem GRID-4): fewer bytes are sooner read and added up.

    What is an integer already is not made narrower than most integers are: that cast would take more than it saves.
    """
    if grid.magnitude < 2**15 and grid.source != "integer":
        return "SMALLINT"
    return "INTEGER" if grid.magnitude < 2**31 else "BIGINT"


def present(value: exp.Expr) -> exp.Expr:
    """value IS NOT NULL."""
    return exp.Not(this=exp.Is(this=wrap(value), expression=exp.Null()))


def number(value: int) -> exp.Expr:
    """A whole number."""
    return exp.Literal.number(value)


def _double(value: Fraction) -> exp.Expr:
    """An exact double: the caller's value is one."""
    number = float(value)
    assert Fraction(number) == value, value
    return cast(exp.Literal.string(repr(number)), "DOUBLE")


def _decimal(integer: int, step: Fraction) -> exp.Expr:
    scale = len(str(step.denominator)) - 1
    digits = str(abs(integer)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return cast(exp.Literal.string(f"-{text}" if integer < 0 else text), f"DECIMAL({max(len(digits), 1)},{scale})")


def cast(e: exp.Expr, to: str) -> exp.Expr:
    """CAST(e AS to)."""
    return exp.Cast(this=e, to=data_type(to))
