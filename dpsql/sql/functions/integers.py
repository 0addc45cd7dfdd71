"""Whole numbers: divisors, bits, and rounding to even ones."""

from __future__ import annotations

import math
from fractions import Fraction

from sqlglot import exp

from dpsql.core.ranges import Range, Value
from dpsql.core.types import BIGINT, DOUBLE, HUGEINT, TINYINT
from dpsql.sql.functions.arithmetic import mirrored
from dpsql.sql.functions.base import Function, Scalar, Scope, arguments, boolean, call, ends, mismatch, number
from dpsql.sql.functions.casts import as_double, as_number, convert
from dpsql.sql.functions.constants import constant_integer
from dpsql.sql.refuse import shown


def _whole(node: exp.Expr, scope: Scope, bits: int) -> Scalar:
    s = as_number(scope(node), node)
    if not s.type.is_integer or s.type.bits > bits:
        raise mismatch(node, f"{shown(node)} is {s.type}, not a BIGINT", f"write CAST({shown(node)} AS BIGINT)")
    return s


def gcd(node: exp.Expr, scope: Scope) -> Scalar:
    """The greatest common divisor, in a type that holds |a| and |b|; the least HUGEINT is NULL."""
    first, second = arguments(node, 2)
    a, b = (mirrored(_whole(n, scope, 128)) for n in (first, second))
    hard = a.hard.abs().hull(b.hard.abs())
    to = BIGINT if BIGINT.holds(*ends(hard)) else HUGEINT
    known = Range(Fraction(0), a.range.abs().hull(b.range.abs()).high, a.nullable or b.nullable)
    extent = Range(Fraction(0), hard.high)
    return Scalar(call("gcd", convert(a, to).sql, convert(b, to).sql), to, known, extent)


def bit_count(node: exp.Expr, scope: Scope) -> Scalar:
    (argument,) = arguments(node, 1)
    s = _whole(argument, scope, 64)
    bits = Range(Fraction(0), Fraction(s.type.bits), s.nullable)
    return Scalar(call("bit_count", s.sql), TINYINT, bits, bits.with_nullable(True))


def even(node: exp.Expr, scope: Scope) -> Scalar:
    """The next even number away from zero, in DOUBLE."""
    (argument,) = arguments(node, 1)
    s = as_double(scope(argument), argument)
    return Scalar(call("even", s.sql), DOUBLE, s.range.monotone(_even))


def _even(v: Value) -> Fraction:
    assert isinstance(v, Fraction)
    size = Fraction(2 * math.ceil(abs(v) / 2))
    return size if v >= 0 else -size


def round_even(node: exp.Expr, scope: Scope) -> Scalar:
    """ROUND_EVEN(x, digits): a half goes to the even neighbour; in DOUBLE."""
    x, places = arguments(node, 2)
    s = as_double(scope(x), x)
    digits = constant_integer(places, "digits", -40, 40)
    unit = Fraction(10) ** -digits
    low, high = ends(s.range)
    known = Range(
        None if low is None else math.floor(low / unit) * unit,
        None if high is None else math.ceil(high / unit) * unit,
        s.nullable,
        s.range.why,
    )
    return Scalar(call("round_even", s.sql, number(digits)), DOUBLE, known)


def signbit(node: exp.Expr, scope: Scope) -> Scalar:
    (argument,) = arguments(node, 1)
    s = as_double(scope(argument), argument)
    return boolean(call("signbit", s.sql), s)


FUNCTIONS: tuple[Function, ...] = (
    Function(("GCD", "GREATEST_COMMON_DIVISOR"), "number", "greatest common divisor",
             "computed in a type that holds every result of its types", "0 to the larger one", gcd),
    Function(("BIT_COUNT",), "number", "how many bits are set", "total in DuckDB up to 64 bits", "0 to 64", bit_count),
    Function(("EVEN",), "number", "next even number away from 0", "computed in DOUBLE", "even of the ends", even),
    Function(("ROUND_EVEN", "ROUNDBANKERS"), "number", "to literal digits, a half to the even side",
             "computed in DOUBLE", "ends moved outwards", round_even),
    Function(("SIGNBIT",), "number", "is it negative?", "computed in DOUBLE", "0 or 1", signbit),
)  # fmt: skip
