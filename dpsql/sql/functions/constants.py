"""Literals: typed as DuckDB types them, and checked before any row is read."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range, Value
from dpsql.core.types import DOUBLE, MAX_DIGITS, VARCHAR, Type, decimal, integer_for
from dpsql.sql.dialect import constants
from dpsql.sql.functions.base import Scalar, cast_node, mismatch
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import copied


def constant_text(node: exp.Expr, what: str) -> str:
    """The text of an argument that must be a string literal."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return str(inner.this)
    raise refuse(
        SQLError,
        f"{what} must be a string literal, not {shown(node)}",
        node,
        code="literal-needed",
        hint="write it as a constant: a pattern or a format that comes from a row could make a query fail on that row",
    )


def constant_number(node: exp.Expr) -> Fraction | None:
    """The value of a number literal with its sign; None for everything else."""
    inner = node.unnest()
    if isinstance(inner, exp.Neg):
        value = constant_number(inner.this)
        return None if value is None else -value
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return _parse_number(str(inner.this))
    return None


def _parse_number(text: str) -> Fraction | None:
    try:
        value = Decimal(text)
    except ArithmeticError:
        return None
    if not value.is_finite() or len(text) > 400 or abs(value.adjusted()) > 400:
        return None
    return Fraction(value)


def constant_integer(node: exp.Expr, what: str, low: int, high: int) -> int:
    """An argument that must be a whole number literal within bounds."""
    value = constant_number(node)
    if value is None or value.denominator != 1 or not low <= value <= high:
        raise refuse(
            SQLError,
            f"{what} must be a whole number from {low} to {high}, not {shown(node)}",
            node,
            code="literal-needed",
            hint=f"write it as a constant: {min(max(low, 1), high)}",
        )
    return int(value)


def literal(node: exp.Literal) -> Scalar:
    """A number or a string as DuckDB types it: 1 is INTEGER, 1.5 DECIMAL(2,1), 1e3 DOUBLE."""
    if node.is_string:
        return Scalar(copied(node), VARCHAR, Range(nullable=False), longest=len(str(node.this)))
    text = str(node.this)
    value = _parse_number(text)
    if value is None:
        raise refuse(
            SQLError,
            f"{text} isn't a number that can be used here",
            node,
            code="bad-literal",
            hint="write a number between -1e308 and 1e308",
        )
    exact = Range(value, value, nullable=False)
    if "e" in text.lower():
        value = Fraction(float(value))
        return Scalar(copied(node), DOUBLE, Range(value, value, nullable=False))
    if "." in text:
        whole, after = text.split(".")
        width = len(whole) + len(after)
        if width > MAX_DIGITS:
            return Scalar(cast_node(node, DOUBLE, True), DOUBLE, exact)
        return Scalar(copied(node), decimal(max(width, 1), len(after)), exact, exact)
    size = integer_for(value, value)
    if size is None:
        raise refuse(SQLError, f"{text} is larger than any integer", node, code="bad-literal", hint="write it as 1e40")
    return Scalar(copied(node), size, exact, exact)


_EXAMPLES = {
    "DATE": "it like '2024-01-31'",
    "BOOLEAN": "TRUE or FALSE",
    "TIME": "it like '12:00:00'",
    "UUID": "it like '550e8400-e29b-41d4-a716-446655440000'",
}


def literal_as(s: Scalar, to: Type, node: exp.Expr) -> Scalar:
    """A string literal read as a constant of another type, checked now so that it can't fail later."""
    text = s.text
    assert text is not None
    if to.is_text:
        return s
    if not (to.is_numeric or to.is_boolean or to.is_date or to.is_timestamp or to.name in ("TIME", "UUID")):
        raise mismatch(
            node,
            f"'{text}' can't be read as {to}",
            f"only IS NULL and COUNT work on {to}; it compares with nothing here",
        )
    read = constants().read(text, to)
    if read is None:
        other = "it like '2024-01-31 12:00:00'" if to.is_timestamp else "a number: 5"
        example = _EXAMPLES.get(to.name, other)
        raise refuse(
            SQLError,
            f"'{text}' can't be read as {to}",
            node,
            code="bad-literal",
            hint=f"write {example}",
        )
    value = _python(read, to)
    bounds = Range(value, value, nullable=False)
    return Scalar(cast_node(s.sql, to, True), to, bounds, bounds if to.limits else None)


def _python(text: str, to: Type) -> Value | None:
    """The text of a constant as a value of a range; None where Python can't say it (BC, infinity, NaN)."""
    try:
        if to.is_date:
            return date.fromisoformat(text)
        if to.is_timestamp:
            return datetime.fromisoformat(text.removesuffix("+00"))
        if to.is_boolean:
            return Fraction(text == "true")
        return Fraction(text) if to.is_numeric else None
    except ValueError:
        return None
