"""Arithmetic that can't overflow or divide by zero.

Theorem TOTAL-1: integers and decimals are computed in a type that holds every result their *types* allow (never their
policy range, which data may break), and in DOUBLE where no exact type does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dpsql.core.ranges import Range, Value
from dpsql.core.types import DOUBLE, FLOAT, HUGEINT, MAX_DIGITS, Type, decimal, integer_for, whole_digits
from dpsql.sql.dialect import data_type
from dpsql.sql.functions import dates
from dpsql.sql.functions.base import (
    Function,
    Scalar,
    Scope,
    binary,
    call,
    ends,
    mismatch,
    nullif_zero,
    number,
    only,
    wrap,
)
from dpsql.sql.functions.casts import align, as_number, convert
from dpsql.sql.functions.constants import literal
from dpsql.sql.refuse import shown

_COMBINE: dict[type[exp.Expr], Callable[[Range, Range], Range]] = {
    exp.Add: Range.add,
    exp.Sub: Range.sub,
    exp.Mul: Range.mul,
}
_INT64_DIGITS = 18  # a DECIMAL up to here is computed in 64 bits, and its overflow raises


def arithmetic(node: exp.Expr, scope: Scope) -> Scalar:
    """+, - and * of numbers; + and - with dates go to the calendar."""
    only(node, "this", "expression")
    if isinstance(node.expression.unnest(), exp.Interval) or isinstance(node.this.unnest(), exp.Interval):
        return dates.shift(node, scope)
    a, b = scope(node.this), scope(node.expression)
    if not isinstance(node, exp.Mul) and any(s.type.is_date or s.type.is_timestamp for s in (a, b)):
        return dates.days(node, a, b)
    a, b = as_number(a, node.this), as_number(b, node.expression)
    combine = _COMBINE[type(node)]
    known, hard = combine(a.range, b.range), combine(a.hard, b.hard)
    if a.type.is_float or b.type.is_float:
        to = DOUBLE if DOUBLE in (a.type, b.type) else FLOAT
        return Scalar(binary(type(node), convert(a, to).sql, convert(b, to).sql), to, known)
    if a.type.is_integer and b.type.is_integer:
        size = integer_for(*ends(hard.hull(a.hard, b.hard)))
        if size is not None:
            return Scalar(binary(type(node), convert(a, size).sql, convert(b, size).sql), size, known, hard)
    else:
        exact = _decimals(node, a, b, hard)
        if exact is not None:
            left, right, to = exact
            return Scalar(binary(type(node), left.sql, right.sql), to, known, hard)
    return Scalar(binary(type(node), convert(a, DOUBLE).sql, convert(b, DOUBLE).sql), DOUBLE, known)


def _decimals(node: exp.Expr, a: Scalar, b: Scalar, hard: Range) -> tuple[Scalar, Scalar, Type] | None:
    """Both operands as decimals whose DuckDB result type holds every result; None if 38 digits are too few."""
    left, right = _as_decimal(a), _as_decimal(b)
    if left is None or right is None:
        return None
    (w1, s1), (w2, s2) = ((s.type.width or 0, s.type.scale or 0) for s in (left, right))
    digits = whole_digits(*ends(hard))
    if not isinstance(node, exp.Mul):
        scale, width = max(s1, s2), max(w1 - s1, w2 - s2) + max(s1, s2) + 1
    else:
        scale, width = s1 + s2, w1 + w2
        if width > _INT64_DIGITS >= max(w1, w2) and scale < _INT64_DIGITS:
            # DuckDB would keep this product in 64 bits and raise on overflow: widen one operand, unless it always fits.
            if digits is None or digits + scale <= _INT64_DIGITS:
                width = _INT64_DIGITS
            else:
                left, width = convert(left, decimal(_INT64_DIGITS + 1, s1)), _INT64_DIGITS + 1 + w2
    if digits is None or digits + scale > MAX_DIGITS:
        return None
    return left, right, decimal(min(width, MAX_DIGITS), scale)


def _as_decimal(s: Scalar) -> Scalar | None:
    if s.type.is_decimal:
        return s
    digits = whole_digits(*ends(s.hard))
    return None if digits is None or digits > MAX_DIGITS else convert(s, decimal(max(digits, 1), 0))


def divide(node: exp.Expr, scope: Scope) -> Scalar:
    """a / b in floating point, NULL where b is 0."""
    only(node, "this", "expression", "typed", "safe")
    return _quotient(node, scope, scope(node.this), scope(node.expression))


def _quotient(node: exp.Expr, scope: Scope, first: Scalar, second: Scalar) -> Scalar:
    a, b = as_number(first, node.this), as_number(second, node.expression)
    to = FLOAT if FLOAT in (a.type, b.type) and DOUBLE not in (a.type, b.type) else DOUBLE
    safe = _never_zero(b)
    a, b = convert(a, to), convert(b, to)
    known = a.range.div(b.range)
    divisor = b.sql if safe else nullif_zero(b)
    return Scalar(binary(exp.Div, a.sql, divisor), to, known.with_nullable(known.nullable or not safe))


def _never_zero(s: Scalar) -> bool:
    if s.type.is_float:
        low, high = ends(s.range)
        return isinstance(s.sql, exp.Literal) and low is not None and low == high != 0
    return not s.hard.contains(Fraction(0))


def integer_divide(node: exp.Expr, scope: Scope) -> Scalar:
    """a // b: towards zero for integers, NULL where b is 0; like / for the other numbers, as in DuckDB."""
    only(node, "this", "expression")
    a, b = as_number(scope(node.this), node.this), as_number(scope(node.expression), node.expression)
    if not (a.type.is_integer and b.type.is_integer):
        return _quotient(node, scope, a, b)
    return _whole(node, a, b, a.range.div(b.range).monotone(toward_zero), "//")


def toward_zero(v: Value) -> Fraction:
    assert isinstance(v, Fraction)
    return Fraction(math.trunc(v))


def remainder(node: exp.Expr, scope: Scope) -> Scalar:
    """a % b with the sign of a, NULL where b is 0."""
    only(node, "this", "expression")
    a, b = as_number(scope(node.this), node.this), as_number(scope(node.expression), node.expression)
    known = a.range.mod(b.range)
    if a.type.is_integer and b.type.is_integer:
        if b.range.is_finite and b.range.magnitude >= 1:  # whole numbers: the remainder is smaller than the divisor
            most = b.range.magnitude - 1
            known = known.intersect(Range(-most, most))
        return _whole(node, a, b, known, "%")
    safe = _never_zero(b)
    a, b = align([a, b], [node.this, node.expression])
    divisor = b.sql if safe else nullif_zero(b)
    return Scalar(binary(exp.Mod, a.sql, divisor), a.type, known.with_nullable(known.nullable or not safe))


def _whole(node: exp.Expr, a: Scalar, b: Scalar, known: Range, operator: str) -> Scalar:
    """// or % of integers."""
    safe = _never_zero(b)
    kind = exp.Mod if operator == "%" else exp.IntDiv
    results = a.hard
    if b.hard.contains(Fraction(-1)):
        a = mirrored(a)  # the one quotient that overflows is least // -1
        results = a.hard.hull(a.hard.neg())
    size = integer_for(*ends(results.hull(b.hard))) if a.type.is_integer else None
    if size is None:
        a, b = convert(a, DOUBLE), convert(b, DOUBLE)
        quotient = binary(exp.Mod if operator == "%" else exp.Div, a.sql, nullif_zero(b))
        sql = quotient if operator == "%" else call("trunc", quotient)
        return Scalar(sql, DOUBLE, known.with_nullable(True))
    a, b = convert(a, size), convert(b, size)
    hard = a.hard.mod(b.hard) if operator == "%" else a.hard.hull(a.hard.neg())
    nullable = a.nullable or b.nullable or not safe
    divisor = b.sql if safe else nullif_zero(b)
    return Scalar(binary(kind, a.sql, divisor), size, known.with_nullable(nullable), hard)


def mirrored(s: Scalar) -> Scalar:
    """A number in a type that holds -x, too. Only the least HUGEINT has no place in any: it is NULL."""
    if not s.type.is_integer:
        return s
    size = integer_for(*ends(s.hard.hull(s.hard.neg())))
    if size is not None:
        return s if s.type.holds(*ends(s.hard.neg())) else convert(s, size)
    if not HUGEINT.holds(*ends(s.hard)):
        return convert(s, DOUBLE)
    huge = convert(s, HUGEINT)
    sql = exp.Nullif(this=huge.sql.copy(), expression=number(-(2**127)))
    return Scalar(sql, HUGEINT, huge.range.with_nullable(True), Range.of(1 - 2**127, 2**127 - 1))


def negate(node: exp.Expr, scope: Scope) -> Scalar:
    """-x, in a type that holds it."""
    only(node, "this")
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return _negative_literal(inner)
    s = mirrored(as_number(scope(node.this), node.this))
    return Scalar(exp.Neg(this=wrap(s.sql)), s.type, s.range.neg(), s.hard.neg() if s.type.limits else None)


def _negative_literal(inner: exp.Literal) -> Scalar:
    text = str(inner.this)
    if text.isdigit():
        value = -Fraction(int(text)) if len(text) < 50 else Fraction(1)
        size = integer_for(value, value)
        if size is not None and value <= 0:
            known = Range(value, value, nullable=False)
            sql = exp.Cast(this=exp.Neg(this=inner.copy()), to=data_type(size.sql))
            return Scalar(exp.Neg(this=inner.copy()) if value > -(2**31) else sql, size, known, known)
    s = literal(inner)
    return Scalar(exp.Neg(this=wrap(s.sql)), s.type, s.range.neg(), s.hard.neg() if s.extent else None)


def bits(kind: type[exp.Expr], name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """&, | and XOR of integers."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this", "expression")
        a, b = scope(node.this), scope(node.expression)
        if not all(s.type.is_integer or s.is_null for s in (a, b)):
            raise mismatch(node, f"{shown(node)} needs integers", "cast both sides to BIGINT")
        a, b = align([a, b], [node.this, node.expression])
        if not a.type.is_integer:
            raise mismatch(node, f"{shown(node)} needs integers of one size", "cast both sides to BIGINT")
        nullable = a.nullable or b.nullable
        (l1, h1), (l2, h2) = ends(a.range), ends(b.range)
        known = Range(nullable=nullable)
        if l1 is not None and l2 is not None and min(l1, l2) >= 0:
            top = None if h1 is None or h2 is None else Fraction(2 ** int(max(h1, h2)).bit_length() - 1)
            known = Range(Fraction(0), top, nullable, a.range.because(*b.range.why).why)
        sql = call("xor", a.sql, b.sql) if name == "xor" else binary(kind, a.sql, b.sql)
        return Scalar(sql, a.type, known)

    return rule


def invert(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = scope(node.this)
    if not s.type.is_integer or s.type.is_unsigned:
        raise mismatch(node, f"{shown(node)} needs a signed integer", "cast it to BIGINT")
    one = Range(Fraction(1), Fraction(1), False)
    return Scalar(exp.BitwiseNot(this=wrap(s.sql)), s.type, s.range.neg().sub(one), s.hard.neg().sub(one))


_WIDE = "computed in a type that holds every result of its types, else in DOUBLE"
_AS_IS = "total in DuckDB"
_ZERO = "NULL where the divisor is 0"

FUNCTIONS: tuple[Function, ...] = (
    Function(("+",), "operator", "sum; date plus days or INTERVAL", _WIDE, "sum of the ranges", arithmetic, (exp.Add,)),
    Function(("-",), "operator", "difference", _WIDE, "difference of the ranges", arithmetic, (exp.Sub,)),
    Function(("*",), "operator", "product", _WIDE, "all products of the ends", arithmetic, (exp.Mul,)),
    Function(("/",), "operator", "floating-point division", _ZERO, "quotients, if 0 is outside", divide, (exp.Div,)),
    Function(("//",), "operator", "integer division", _ZERO, "quotients, cut", integer_divide, (exp.IntDiv,)),
    Function(("%", "MOD"), "operator", "remainder, sign of the first", _ZERO, "within the divisor", remainder,
             (exp.Mod,)),
    Function(("NEG",), "operator", "unary minus", _WIDE, "mirrored", negate, (exp.Neg,)),
    Function(("&",), "operator", "bitwise and of integers", _AS_IS, "bits of the ends", bits(exp.BitwiseAnd, "&"),
             (exp.BitwiseAnd,)),
    Function(("|",), "operator", "bitwise or of integers", _AS_IS, "bits of the ends", bits(exp.BitwiseOr, "|"),
             (exp.BitwiseOr,)),
    Function(("XOR",), "number", "bitwise xor of integers", _AS_IS, "bits of the ends", bits(exp.BitwiseXor, "xor"),
             (exp.BitwiseXor,)),
    Function(("~",), "operator", "bitwise not", _AS_IS, "-x - 1", invert, (exp.BitwiseNot,)),
)  # fmt: skip
