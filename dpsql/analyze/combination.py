"""Several values of a row as one: what COUNT(DISTINCT (a, b)) counts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.core.ranges import Range
from dpsql.core.types import VARCHAR
from dpsql.sql.dialect import cast
from dpsql.sql.scalar import Scalar


def combination(parts: Sequence[Scalar]) -> Scalar:
    """One text for each combination of values, NULLs among them: equal for equal values, and for no others.

    Each value is written out behind its length, so that no text can look like two. It is a function of the row alone
    and never fails, because every value of these types has a text.
    """
    if len(parts) == 1 and not parts[0].nullable:
        return parts[0]
    texts = [_text(part) for part in parts]
    whole: exp.Expr = texts[0]
    for text in texts[1:]:
        whole = exp.DPipe(this=whole, expression=text, safe=True)
    return Scalar(whole, VARCHAR, Range(nullable=False))


def _text(part: Scalar) -> exp.Expr:
    plain = cast(canonical(part).copy(), "VARCHAR")
    length = cast(exp.Length(this=plain.copy()), "VARCHAR")
    marked = exp.DPipe(this=length, expression=exp.Literal.string(":"), safe=True)
    missing = exp.If(
        this=exp.Is(this=exp.Paren(this=part.sql.copy()), expression=exp.Null()), true=exp.Literal.string("-")
    )
    return exp.Paren(this=exp.Case(ifs=[missing], default=exp.DPipe(this=marked, expression=plain, safe=True)))


def canonical(key: Scalar) -> exp.Expr:
    """A key as one of its equals: −0.0 equals 0.0, and which of them a group shows would depend on a row."""
    if not key.type.is_float:
        return key.sql
    zero = exp.If(this=exp.EQ(this=key.sql.copy(), expression=exp.Literal.number(0)), true=_double("0"))
    strange = exp.If(this=exp.Anonymous(this="isnan", expressions=[key.sql.copy()]), true=_double("nan"))
    return exp.Case(ifs=[zero, strange], default=key.sql.copy())


def _double(text: str) -> exp.Expr:
    return cast(exp.Literal.string(text), "DOUBLE")
