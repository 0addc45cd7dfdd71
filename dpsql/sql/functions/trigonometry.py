"""Angles and hyperbolas, in DOUBLE. Outside of its domain a function is NaN, which counts as NULL in a sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range, float_outward, from_ends
from dpsql.core.types import DOUBLE
from dpsql.sql.functions.base import Function, Scalar, Scope, call, ends, only
from dpsql.sql.functions.casts import as_double

_ONE = Fraction(1)
_PI = Fraction(math.nextafter(math.pi, math.inf))  # not below what any function of angles gives
_HALF_PI = Fraction(math.nextafter(math.pi / 2, math.inf))


@dataclass(frozen=True, slots=True)
class Wave:
    """A function of one DOUBLE whose range is that of its name, whatever its argument is."""

    name: str
    values: Range

    def __call__(self, node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this")
        s = as_double(scope(node.this), node.this)
        return Scalar(call(self.name, s.sql), DOUBLE, self.values.with_nullable(s.nullable).because(*s.range.why))


@dataclass(frozen=True, slots=True)
class Branch:
    """A monotone function of one DOUBLE on a domain, with the values it can have there."""

    name: str
    function: Callable[[float], float]
    domain: Range
    values: Range
    falling: bool = False

    def __call__(self, node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this")
        s = as_double(scope(node.this), node.this)
        return Scalar(call(self.name, s.sql), DOUBLE, self._range(s.range))

    def _range(self, argument: Range) -> Range:
        whole = self.values.with_nullable(argument.nullable).because(*argument.why)
        low, high = ends(argument.intersect(self.domain))
        if low is not None and high is not None and low > high:
            return whole  # nowhere in the domain: always NaN
        sign = -1 if self.falling else 1
        bottom, top = float_outward(lambda v: sign * self.function(v), low, high)
        if self.falling:
            bottom, top = -top, -bottom
        return from_ends(bottom, top, whole).intersect(whole).with_nullable(argument.nullable)


def cosh(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = as_double(scope(node.this), node.this)
    low, high = ends(s.range.abs())
    bottom, top = float_outward(math.cosh, low, high)
    known = from_ends(max(bottom, _ONE), max(top, _ONE), s.range).with_nullable(s.nullable)
    return Scalar(call("cosh", s.sql), DOUBLE, known)


def atan2(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "expression")
    y, x = as_double(scope(node.this), node.this), as_double(scope(node.expression), node.expression)
    return Scalar(call("atan2", y.sql, x.sql), DOUBLE, Range(-_PI, _PI, y.nullable or x.nullable))


_ALL = Range()
_UNIT = Range(-_ONE, _ONE)
_TURN = Range(-_HALF_PI, _HALF_PI)
_AS_IS = "total in DuckDB"
_NAN = "NaN outside its domain"

FUNCTIONS: tuple[Function, ...] = (
    Function(("SIN",), "number", "sine", _AS_IS, "-1 to 1", Wave("sin", _UNIT), (exp.Sin,)),
    Function(("COS",), "number", "cosine", _AS_IS, "-1 to 1", Wave("cos", _UNIT), (exp.Cos,)),
    Function(("TAN",), "number", "tangent", _AS_IS, "none", Wave("tan", _ALL), (exp.Tan,)),
    Function(("COT",), "number", "cotangent", _AS_IS, "none", Wave("cot", _ALL), (exp.Cot,)),
    Function(("ASIN",), "number", "angle of a sine", _NAN, "asin of the ends", Branch("asin", math.asin, _UNIT, _TURN),
             (exp.Asin,)),
    Function(("ACOS",), "number", "angle of a cosine", _NAN, "acos of the ends", Branch("acos", math.acos, _UNIT,
             Range(Fraction(0), _PI), falling=True), (exp.Acos,)),
    Function(("ATAN",), "number", "angle of a tangent", _AS_IS, "atan of the ends", Branch("atan", math.atan, _ALL,
             _TURN), (exp.Atan,)),
    Function(("ATAN2",), "number", "angle of a point (y, x)", _AS_IS, "-π to π", atan2, (exp.Atan2,)),
    Function(("SINH",), "number", "hyperbolic sine", _AS_IS, "sinh of the ends", Branch("sinh", math.sinh, _ALL, _ALL),
             (exp.Sinh,)),
    Function(("COSH",), "number", "hyperbolic cosine", _AS_IS, "cosh of the ends, from 1", cosh, (exp.Cosh,)),
    Function(("TANH",), "number", "hyperbolic tangent", _AS_IS, "tanh of the ends", Branch("tanh", math.tanh, _ALL,
             _UNIT), (exp.Tanh,)),
    Function(("ASINH",), "number", "inverse of SINH", _AS_IS, "asinh of the ends", Branch("asinh", math.asinh, _ALL,
             _ALL), (exp.Asinh,)),
    Function(("ACOSH",), "number", "inverse of COSH", _NAN, "acosh of the ends, from 0", Branch("acosh", math.acosh,
             Range(_ONE, None), Range(Fraction(0), None)), (exp.Acosh,)),
    Function(("ATANH",), "number", "inverse of TANH", _NAN, "atanh of the ends", Branch("atanh", math.atanh, _UNIT,
             _ALL), (exp.Atanh,)),
)  # fmt: skip
