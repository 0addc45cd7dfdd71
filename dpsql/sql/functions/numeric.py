"""Numbers: rounding, roots, powers, logarithms and tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range, Value, float_outward, from_ends
from dpsql.core.types import DOUBLE, INTEGER, MAX_DIGITS, TINYINT, Type, decimal, integer_for
from dpsql.sql.functions.arithmetic import mirrored, toward_zero
from dpsql.sql.functions.base import (
    Function,
    Scalar,
    Scope,
    arguments,
    binary,
    boolean,
    call,
    cast_node,
    ends,
    mismatch,
    needs,
    number,
    only,
    wrap,
)
from dpsql.sql.functions.casts import align, as_double, as_number, convert
from dpsql.sql.functions.constants import constant_integer, constant_number, literal_as
from dpsql.sql.refuse import ends_to_name, refuse, shown

MAX_BUCKETS = 9_000  # of WIDTH_BUCKET


def absolute(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = as_number(scope(node.this), node.this)
    if s.type.is_unsigned:
        return s
    s = mirrored(s)
    return Scalar(call("abs", s.sql), s.type, s.range.abs(), s.hard.abs() if s.type.limits else None)


def sign(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = as_number(scope(node.this), node.this)
    whole = Range(Fraction(-1), Fraction(1), s.nullable, s.range.why)
    return Scalar(call("sign", s.sql), TINYINT, whole.intersect(s.range.monotone(_sign)), whole.with_nullable(True))


def _sign(v: Value) -> Fraction:
    assert isinstance(v, Fraction)
    return Fraction((v > 0) - (v < 0))


def rounding(node: exp.Expr, scope: Scope) -> Scalar:
    """ROUND(x) and ROUND(x, digits): a half goes away from zero."""
    only(node, "this", "decimals")
    s = as_number(scope(node.this), node.this)
    digits = 0 if node.args.get("decimals") is None else constant_integer(node.args["decimals"], "digits", -40, 40)
    return _rounded(
        s, "round", digits, node.args.get("decimals") is not None, s.range.rounded(digits), s.hard.rounded(digits)
    )


def truncate(node: exp.Expr, scope: Scope) -> Scalar:
    """TRUNC(x) and TRUNC(x, digits): towards zero."""
    only(node, "this", "decimals", "expression")
    s = as_number(scope(node.this), node.this)
    place = node.args.get("decimals") or node.args.get("expression")
    digits = 0 if place is None else constant_integer(place, "digits", -40, 40)
    unit = Fraction(10) ** -digits
    known, hard = (r.monotone(lambda v: toward_zero(v / unit) * unit) for r in (s.range, s.hard))  # type: ignore[operator]  # numbers only
    return _rounded(s, "trunc", digits, place is not None, known, hard)


def _rounded(s: Scalar, name: str, digits: int, given: bool, known: Range, hard: Range) -> Scalar:
    place = (number(digits),) if given else ()
    if s.type.is_integer:
        if digits >= 0:
            return s
        size = integer_for(*ends(hard.hull(s.hard)))
        if size is None or len(str(size.limits and int(size.limits[1]))) <= -digits:
            return Scalar(call(name, convert(s, DOUBLE).sql, number(digits)), DOUBLE, known)
        return Scalar(call(name, convert(s, size).sql, number(digits)), size, known, hard)
    if s.type.is_decimal:
        width, scale = s.type.width or 0, s.type.scale or 0
        if digits < 0 and name == "round":
            width = max(width, width - scale + 1)
        to = decimal(width, min(scale, max(digits, 0)))
        if width > MAX_DIGITS or -digits >= width - scale or not to.holds(*ends(hard)):
            return Scalar(call(name, convert(s, DOUBLE).sql, number(digits)), DOUBLE, known)
        return Scalar(call(name, s.sql, *place), to, known, hard)
    return Scalar(call(name, s.sql, *place), s.type, known)


def step(name: str, toward: Callable[[Fraction], int]) -> Callable[[exp.Expr, Scope], Scalar]:
    """FLOOR or CEIL: DOUBLE for integers, as in DuckDB; a DECIMAL keeps its width and loses its scale."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this")
        s = as_number(scope(node.this), node.this)

        def whole(v: Value) -> Fraction:
            assert isinstance(v, Fraction)
            return Fraction(toward(v))

        known, hard = s.range.monotone(whole), s.hard.monotone(whole)
        if s.type.is_decimal:
            to = decimal(s.type.width or 0, 0)
            if to.holds(*ends(hard)) and (s.type.scale or s.type.width) != 0:
                return Scalar(call(name, s.sql), to, known, hard)
            s = convert(s, DOUBLE)
        if s.type.is_integer:
            s = convert(s, DOUBLE)
        return Scalar(call(name, s.sql), s.type, known)

    return rule


@dataclass(frozen=True, slots=True)
class Curve:
    """A rising function of one DOUBLE. Below its domain it is NULL; `floor` is the least value it can have."""

    name: str
    function: Callable[[float], float]
    below: str | None = None  # the greatest number outside the domain
    floor: Fraction | None = None

    def __call__(self, node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this")
        return self.of(as_double(scope(node.this), node.this))

    def of(self, s: Scalar) -> Scalar:
        sql, nullable = s.sql, s.nullable
        low, high = ends(s.range)
        if self.below is not None:
            # GREATEST maps NULL and everything below the domain to one number, and NULLIF takes that number out.
            edge = exp.Neg(this=_TINY.copy()) if self.below == "-5e-324" else exp.Literal.number(self.below)
            sql, nullable = exp.Nullif(this=call("greatest", sql, edge), expression=edge.copy()), True
        bottom, top = float_outward(self.function, low, high)
        if self.floor is not None:
            bottom, top = max(bottom, self.floor), max(top, self.floor)
        return Scalar(call(self.name, sql), DOUBLE, from_ends(bottom, top, s.range).with_nullable(nullable))


_TINY = exp.Literal.number("5e-324")
_LN = Curve("ln", math.log, below="0")
_LOG10 = Curve("log10", math.log10, below="0")
_LOG2 = Curve("log2", math.log2, below="0")
_SQRT = Curve("sqrt", math.sqrt, below="-5e-324", floor=Fraction(0))
_CBRT = Curve("cbrt", math.cbrt)
_EXP = Curve("exp", math.exp, floor=Fraction(0))
_DEGREES = Curve("degrees", math.degrees)
_RADIANS = Curve("radians", math.radians)


def logarithm(node: exp.Expr, scope: Scope) -> Scalar:
    """LOG(x) is LOG10(x); LOG(base, x) needs a constant base. sqlglot reads LOG2(x) as LOG(2, x)."""
    only(node, "this", "expression")
    if node.args.get("expression") is None:
        return _LOG10.of(as_double(scope(node.this), node.this))
    base = constant_number(node.this)
    if base is None or base <= 1:
        raise refuse(
            SQLError,
            f"the base of {shown(node)} must be a number literal above 1",
            node.this,
            code="literal-needed",
            hint="write LN(x), LOG10(x), LOG2(x) or LOG(3, x)",
        )
    s = as_double(scope(node.expression), node.expression)
    if base in (2, 10):
        return (_LOG2 if base == 2 else _LOG10).of(s)
    ratio = float(base)
    to_base = Curve("ln", lambda v: math.log(v) / math.log(ratio), below="0").of(s)
    return Scalar(call("log", exp.Literal.number(repr(ratio)), to_base.sql.expressions[0]), DOUBLE, to_base.range)


def power(node: exp.Expr, scope: Scope) -> Scalar:
    """x ^ y in DOUBLE; a result that isn't real is NaN, one that is too large is infinite."""
    only(node, "this", "expression")
    a, b = as_double(scope(node.this), node.this), as_double(scope(node.expression), node.expression)
    nullable = a.nullable or b.nullable
    why = tuple(dict.fromkeys((*a.range.why, *b.range.why)))
    known = Range(nullable=nullable, why=why)
    exponent = constant_number(node.expression)
    low, high = ends(a.range)
    if exponent is not None and exponent.denominator == 1 and 0 <= exponent <= 64:
        known = a.range.with_nullable(nullable)
        if exponent == 0:
            known = Range(Fraction(1), Fraction(1), nullable)
        elif exponent % 2:
            known = known.monotone(lambda v: v ** int(exponent))  # type: ignore[operator]  # numbers only
        else:
            known = known.abs().monotone(lambda v: v ** int(exponent))  # type: ignore[operator]  # numbers only
    elif low is not None and low >= 0:
        known = _real_power(low, high, b.range, nullable, why)
    return Scalar(call("pow", a.sql, b.sql), DOUBLE, known)


def _real_power(low: Fraction, high: Fraction | None, exponent: Range, nullable: bool, why: tuple[str, ...]) -> Range:
    """x^y of a base that isn't negative: monotone in x and in y, so largest and smallest at corners."""
    y_low, y_high = ends(exponent)
    floor = Range(Fraction(0), None, nullable, why)
    if high is None or y_low is None or y_high is None or (low == 0 and y_low < 0):
        return floor
    corners = [_corner(x, float(y)) for x in (low, high) for y in (y_low, y_high)]
    return from_ends(max(min(c[0] for c in corners), Fraction(0)), max(c[1] for c in corners), floor)


def _corner(x: Fraction, y: float) -> tuple[Fraction | float, Fraction | float]:
    """x^y, a little too low and a little too high (a falling power is the inverse of a rising one)."""
    low, high = float_outward(lambda v: max(v, 0.0) ** abs(y), x, x)
    if y >= 0:
        return low, high
    return (0.0 if isinstance(high, float) else 1 / high, math.inf if low <= 0 or isinstance(low, float) else 1 / low)


def test_of(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """ISNAN, ISINF, ISFINITE: tests that no value can fail."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (argument,) = arguments(node, 1)
        s = scope(argument)
        s = convert(s, DOUBLE) if s.is_null else s
        if not (s.type.is_numeric or s.type.is_date or s.type.is_timestamp):
            raise mismatch(
                argument,
                f"{shown(argument)} is {s.type}, not a number",
                "use it on numbers and dates; x IS NULL works on every type",
            )
        if s.type.is_numeric:
            s = convert(s, DOUBLE) if not s.type.is_float else s
        return boolean(call(name, s.sql), s)

    return rule


def clip(node: exp.Expr, scope: Scope) -> Scalar:
    """CLIP(x, low, high): moved into [low, high]; NULL and NaN are NULL, and so are infinities of numbers."""
    x, low_node, high_node = arguments(node, 3)
    s = scope(x)
    if s.type.is_date or s.type.is_timestamp:
        return _clip_moments(node, s, scope)
    s = as_number(s, x)
    low, high = constant_number(low_node), constant_number(high_node)
    if low is None or high is None or low > high:
        raise _no_ends(node, s)
    parts = align([s, scope(low_node), scope(high_node)], [x, low_node, high_node])
    value, bottom, top = (p.sql for p in parts)
    to = parts[0].type
    inside = call("least", call("greatest", value, bottom), top)
    test = call("isfinite", value) if to.is_float else exp.Not(this=exp.Is(this=wrap(value), expression=exp.Null()))
    label = f"CLIP(…, {shown(low_node)}, {shown(high_node)})"
    known = parts[0].range.clip(low, high).with_nullable(s.nullable or to.is_float).because(label)
    hard = parts[0].hard.clip(low, high) if not to.is_float else None
    return Scalar(exp.Case(ifs=[exp.If(this=test, true=inside)]), to, known, hard)


def _clip_moments(node: exp.Expr, s: Scalar, scope: Scope) -> Scalar:
    """CLIP of a date or a time stamp; one that is infinite is moved, too."""
    _, *end_nodes = arguments(node, 3)
    bottom, top = (_moment(end, scope, s.type) for end in end_nodes)
    low, high = (None if end is None else end.range.low for end in (bottom, top))
    if bottom is None or top is None or low is None or high is None or Range(low).excludes(Range(high=high)):
        raise _no_ends(node, s)
    inside = call("least", call("greatest", s.sql, bottom.sql), top.sql)
    there = exp.Not(this=exp.Is(this=wrap(s.sql), expression=exp.Null()))
    label = f"CLIP(…, {', '.join(map(shown, end_nodes))})"
    return Scalar(exp.Case(ifs=[exp.If(this=there, true=inside)]), s.type, s.range.clip(low, high).because(label))


def _moment(node: exp.Expr, scope: Scope, to: Type) -> Scalar | None:
    """A literal of a date or a time stamp, or a text that is read as one, in this type; None for all else."""
    end = scope(node)
    text, known = end.text, end.range
    if text is None:
        if node.find(exp.Column) is not None or not isinstance(known.low, date) or known.low != known.high:
            return None
        text = str(known.low)
    return literal_as(scope(exp.Literal.string(text)), to, node)


def _no_ends(node: exp.Expr, s: Scalar) -> SQLError:
    """Ends that are no literals, or in the wrong order."""
    bottom, top, meaning = ends_to_name(s.range, s.type)
    kind = "number" if s.type.is_numeric else "date"
    return refuse(
        SQLError,
        f"CLIP needs two {kind} literals, the smaller one first",
        node,
        code="literal-needed",
        hint=f"write CLIP({shown(arguments(node, 3)[0])}, {bottom}, {top}){meaning}",
    )


def width_bucket(node: exp.Expr, scope: Scope) -> Scalar:
    """WIDTH_BUCKET(x, low, high, n): 1 to n in equal steps from low on, 0 below low, n + 1 from high on."""
    low, high, count = width_buckets(node)
    s = as_double(scope(node.this), node.this)

    def bucket(v: Value) -> Fraction:  # in doubles, as DuckDB computes it
        assert isinstance(v, Fraction)
        if v < low or v >= high:
            return Fraction(0 if v < low else count + 1)
        return Fraction(min(math.floor((float(v) - float(low)) * count / float(high - low)), count - 1) + 1)

    whole = Range(Fraction(0), Fraction(count + 1), s.nullable, s.range.why)
    sql = bucket_of(s.sql, low, high, count)
    return Scalar(sql, INTEGER, whole.intersect(s.range.monotone(bucket)), whole.with_nullable(True))


def bucket_of(x: exp.Expr, low: Fraction, high: Fraction, count: int) -> exp.Expr:
    """The bucket of a double; NaN is above all numbers."""
    bottom, top, width = (cast_node(exp.Literal.string(repr(float(v))), DOUBLE, True) for v in (low, high, high - low))
    steps = binary(exp.Div, binary(exp.Mul, binary(exp.Sub, x, bottom), number(count)), width)
    inside = call("least", call("floor", steps), number(count - 1))
    return exp.Case(
        ifs=[
            exp.If(this=exp.Is(this=wrap(x), expression=exp.Null()), true=exp.Null()),
            exp.If(this=binary(exp.LT, x, bottom), true=number(0)),
            exp.If(this=binary(exp.GTE, x, top), true=number(count + 1)),
        ],
        default=binary(exp.Add, cast_node(inside, INTEGER, True), number(1)),
    )


def width_buckets(node: exp.Expr) -> tuple[Fraction, Fraction, int]:
    """The literal ends and number of WIDTH_BUCKET's buckets."""
    only(node, "this", "min_value", "max_value", "num_buckets")
    needs(node, "this", "min_value", "max_value", "num_buckets")
    low, high = (constant_number(node.args[end]) for end in ("min_value", "max_value"))
    if low is None or high is None or low >= high or max(abs(low), abs(high)) > 10**100:
        hint = f"write WIDTH_BUCKET({shown(node.this)}, 0, 100, 10)"
        raise refuse(
            SQLError,
            "WIDTH_BUCKET needs two number literals, the smaller one first",
            node,
            code="literal-needed",
            hint=hint,
        )
    return low, high, constant_integer(node.args["num_buckets"], "number of buckets", 1, MAX_BUCKETS)


def pi(node: exp.Expr, scope: Scope) -> Scalar:
    value = Fraction(math.pi)
    return Scalar(call("pi"), DOUBLE, Range(value, value, nullable=False))


_WIDE = "computed in a type that holds every result of its types, else in DOUBLE"
_AS_IS = "total in DuckDB"
_DOMAIN = "NULL outside its domain"

FUNCTIONS: tuple[Function, ...] = (
    Function(("ABS",), "number", "absolute value", _WIDE, "distance from 0", absolute, (exp.Abs,)),
    Function(("SIGN",), "number", "-1, 0 or 1", _AS_IS, "-1 to 1", sign, (exp.Sign,)),
    Function(("ROUND",), "number", "to literal digits", _WIDE, "ends rounded outwards", rounding, (exp.Round,)),
    Function(("TRUNC",), "number", "towards zero, to literal digits", _WIDE, "ends cut", truncate, (exp.Trunc,)),
    Function(("FLOOR",), "number", "next whole number below", _WIDE, "floor of the ends", step("floor", math.floor),
             (exp.Floor,)),
    Function(("CEIL", "CEILING"), "number", "next whole number above", _WIDE, "ceil of the ends", step("ceil",
             math.ceil), (exp.Ceil,)),
    Function(("SQRT",), "number", "square root", _DOMAIN, "root of the ends", _SQRT, (exp.Sqrt,)),
    Function(("CBRT",), "number", "cube root", _AS_IS, "root of the ends", _CBRT, (exp.Cbrt,)),
    Function(("EXP",), "number", "e to the x", _AS_IS, "exp of the ends", _EXP, (exp.Exp,)),
    Function(("LN",), "number", "natural logarithm", _DOMAIN, "ln of the ends", _LN, (exp.Ln,)),
    Function(("LOG", "LOG10", "LOG2"), "number", "logarithm to 10, 2 or a literal base", _DOMAIN, "log of the ends",
             logarithm, (exp.Log,)),
    Function(("POWER", "POW", "^", "**"), "number", "x to the y", _AS_IS, "corners, if x isn't negative", power,
             (exp.Pow,)),
    Function(("DEGREES",), "number", "radians to degrees", _AS_IS, "ends", _DEGREES, (exp.Degrees,)),
    Function(("RADIANS",), "number", "degrees to radians", _AS_IS, "ends", _RADIANS, (exp.Radians,)),
    Function(("PI",), "number", "3.14159…", _AS_IS, "itself", pi, (exp.Pi,)),
    Function(("ISNAN",), "number", "is it NaN?", _AS_IS, "0 or 1", test_of("isnan"), (exp.IsNan,)),
    Function(("ISINF",), "number", "is it infinite?", _AS_IS, "0 or 1", test_of("isinf"), (exp.IsInf,)),
    Function(("ISFINITE",), "number", "is it an ordinary number?", _AS_IS, "0 or 1", test_of("isfinite")),
    Function(("WIDTH_BUCKET",), "number", "which of n equal steps between literal bounds",
             "0 below them, n + 1 above", "buckets of the ends", width_bucket, (exp.WidthBucket,), width_buckets),
    Function(("CLIP",), "number", "moved into literal bounds, of numbers or of dates",
             "NULL for NULL, NaN and infinite numbers", "the bounds", clip),
)  # fmt: skip
