"""What one unit's values add up to: written alike by counts of units and by lists of heavy ones (LIMITS-1, INDEX-5)."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.plan.nodes import Expr
from dpsql.sql.dialect import cast
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied


def size_of_value(written: Expr, value: Scalar) -> Expr:
    """|x| of a value that is clipped to its range, as a release clips it."""
    if value.type.is_boolean:
        return exp.Abs(this=cast(copied(written), "INTEGER"))
    ends = [literal(value.range.low), literal(value.range.high)]
    return exp.Abs(this=exp.Anonymous(this="CLIP", expressions=[copied(written), *ends]))


def unit_total(written: Expr, value: Scalar, where: Expr | None) -> Expr:
    """Σ|x| of the rows that pass a FILTER."""
    return filtered(exp.Sum(this=size_of_value(written, value)), where)


def filtered(aggregate: Expr, where: Expr | None) -> Expr:
    """An aggregate with this FILTER; None is no FILTER."""
    if where is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=copied(where)))


def literal(value: object) -> Expr:
    """A number as SQL writes it."""
    assert isinstance(value, Fraction)
    whole = value.denominator == 1 and abs(value) < 2**53
    number = exp.Literal.number(str(abs(value)) if whole else repr(abs(float(value))))
    return exp.Neg(this=number) if value < 0 else number
