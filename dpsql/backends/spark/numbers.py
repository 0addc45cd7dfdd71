"""Functions of numbers in Spark's words. Whoever isn't listed is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dpsql.backends.spark.casts import cast
from dpsql.backends.spark.constants import double, whole
from dpsql.backends.spark.expressions import Expressions, Spelling
from dpsql.backends.spark.values import Value, common, in_type, lacks, negative, spark_type, type_for, value
from dpsql.core.types import BOOLEAN, DOUBLE, TINYINT, decimal

EXACT = 22  # powers of ten that are doubles


def _of_double(name: str) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        return Value(f"{name}({_double(x)})", DOUBLE)

    return spelling


def _double(v: Value) -> str:
    return cast(v, DOUBLE).text


def _absolute(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    if not x.type.is_integer:
        return Value(_size(x), x.type)
    assert x.low is not None and x.high is not None and x.size is not None
    least = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    kind = type_for(x.low, x.size, x.type)
    return Value(_size(in_type(x, kind)), kind, least, x.size, x.each)


def _size(x: Value) -> str:
    if not spark_type(x.type).startswith("DECIMAL"):
        return f"ABS({x.text})"
    return f"CASE WHEN {x.text} < 0 THEN {negative(x)} ELSE {x.text} END"


def _sign(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    zero = double(0.0).text if x.type.is_float else "0"
    text = f"CASE WHEN {x.text} > {zero} THEN 1 WHEN {x.text} < {zero} THEN -1 WHEN {x.text} = {zero} THEN 0 END"
    if x.type.is_float:  # NaN has no sign
        text = f"CASE WHEN isnan({x.text}) THEN 0 ELSE {text} END"
    return value(f"CAST({text} AS TINYINT)", TINYINT, -1, 1)


def _whole(name: str) -> Spelling:
    """FLOOR and CEIL of a DOUBLE stay doubles, -0.0 included: Spark's own give BIGINT, and cut what is larger."""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        if x.type.is_decimal:
            to = decimal(x.type.width or 0, 0)
            return Value(f"CAST({name}({x.text}) AS {spark_type(to)})", to)
        if not x.type.is_float:
            raise lacks(f"{name} of {x.type.sql}")
        inner = _double(x)
        text = _floor(inner) if name == "FLOOR" else f"(- {_floor(f'(- {inner})')})"
        bounds = (x.low, x.high)
        return Value(text if x.type == DOUBLE else f"CAST({text} AS FLOAT)", x.type, *bounds)

    return spelling


def _rounded(write: Expressions, arguments: Sequence[Value]) -> Value:
    """ROUND, a half away from 0. Of a DOUBLE to digits, by way of a product, as DuckDB has it."""
    x, *digits = arguments
    places = digits[0].low if digits else 0
    assert places is not None
    if x.type.is_decimal and places >= 0:
        scale = min(x.type.scale or 0, places)
        to = decimal(x.type.width or 0, scale)
        return Value(f"CAST(ROUND({x.text}, {places}) AS {spark_type(to)})", to)
    if x.type == DOUBLE:
        return Value(_to_digits(x.text, places, _nearest), DOUBLE)
    if x.type.is_integer and places < 0:
        return _to_tens(x, 10**-places)
    raise lacks(f"ROUND of {x.type.sql} to {places} digits", "round to whole numbers, or store a DECIMAL")


def _truncated(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, *digits = arguments
    places = digits[0].low if digits else 0
    assert places is not None
    if x.type == DOUBLE:
        return Value(_to_digits(x.text, places, _towards_zero), DOUBLE)
    if x.type.is_decimal and 0 <= places < (x.type.scale or 0):
        to = decimal(x.type.width or 0, places)
        rest = f"({x.text} % CAST('1E-{places}' AS DECIMAL({places + 1},{places})))"
        return Value(f"CAST(({x.text} - {rest}) AS {spark_type(to)})", to)
    raise lacks(f"TRUNC of {x.type.sql}" + (f" to {places} digits" if digits else ""))


def _to_digits(x: str, places: int, whole: Callable[[str], str]) -> str:
    """A double to so many digits: times a power of ten and back, or, where that is too large, the number itself."""
    if places == 0:
        return whole(x)
    if abs(places) > EXACT:
        raise lacks(f"{places} digits", f"write at most {EXACT}")
    ten = double(10.0 ** abs(places)).text
    found = f"({whole(f'({x} * {ten})')} / {ten})" if places > 0 else f"({whole(f'({x} / {ten})')} * {ten})"
    return f"CASE WHEN ABS({found}) < {double(float('inf')).text} THEN {found} ELSE {x} END"


def _to_tens(x: Value, ten: int) -> Value:
    """An integer to the nearest multiple, half of one away from 0."""
    if x.size is None or x.size > 2**63 or ten > 10**18:
        raise lacks(f"ROUND of {x.type.sql} to tens", "cast it to BIGINT")
    kind = type_for(-x.size - ten, x.size + ten, x.type)
    number, power = in_type(x, kind).text, whole(ten)
    half = f"CASE WHEN {number} < 0 THEN {whole(-ten // 2).text} ELSE {whole(ten // 2).text} END"
    times = f"(({number} + {half}) div {power.text})"
    text = f"(CAST({times} AS {spark_type(kind)}) * {in_type(power, kind).text})"
    return Value(text, kind, -x.size - ten, x.size + ten)


def _nearest(x: str) -> str:
    """The nearest whole double, of two as near the one away from 0; NaN and infinities pass."""
    half = double(0.5).text
    away = f"CASE WHEN {x} < {double(0.0).text} THEN {x} - {half} ELSE {x} + {half} END"
    return f"CASE WHEN ABS({x} - RINT({x})) = {half} THEN {away} ELSE RINT({x}) END"


def _floor(x: str) -> str:
    """The next whole double below; NaN and infinities, which have none, pass."""
    return f"CASE WHEN RINT({x}) > {x} THEN RINT({x}) - {double(1.0).text} ELSE RINT({x}) END"


def _towards_zero(x: str) -> str:
    """A double without its fraction, its sign kept: of -0.5, -0.0."""
    return f"CASE WHEN {x} < {double(0.0).text} THEN (- {_floor(f'(- {x})')}) ELSE {_floor(x)} END"


def _log2(write: Expressions, arguments: Sequence[Value]) -> Value:
    """A power of two has a whole logarithm: the quotient of two others would be 29.000000000000004 of 2^29."""
    x = _double(arguments[0])
    quotient = f"(LN({x}) / LN({double(2.0).text}))"
    near = f"RINT{quotient}"
    return Value(f"CASE WHEN POWER({double(2.0).text}, {near}) = {x} THEN {near} ELSE {quotient} END", DOUBLE)


def _log10(write: Expressions, arguments: Sequence[Value]) -> Value:
    return Value(f"LOG10({_double(arguments[0])})", DOUBLE)


def _power(write: Expressions, arguments: Sequence[Value]) -> Value:
    return Value(f"POWER({_double(arguments[0])}, {_double(arguments[1])})", DOUBLE)


def _square_root(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    bounds = (1, x.high) if x.low is not None and x.low >= 1 else (None, None)
    return Value(f"SQRT({_double(x)})", DOUBLE, *bounds)


def _is_nan(write: Expressions, arguments: Sequence[Value]) -> Value:
    return _asked(arguments[0], "isnan({0})", "FALSE")


def _is_infinite(write: Expressions, arguments: Sequence[Value]) -> Value:
    return _asked(arguments[0], f"(ABS({{0}}) = {double(float('inf')).text})", "FALSE")


def _is_finite(write: Expressions, arguments: Sequence[Value]) -> Value:
    return _asked(arguments[0], f"(ABS({{0}}) < {double(float('inf')).text})", "TRUE")


def _asked(x: Value, test: str, of_moments: str) -> Value:
    """NULL of NULL; no moment that a source holds here is infinite (Theorem SCAN-1, On Spark)."""
    if x.low is None and not x.type.is_numeric:
        raise lacks(f"ISFINITE and ISINF of a computed {x.type.sql}", "ask it of the column itself")
    told = test.format(x.text) if x.type.is_float else of_moments
    return value(f"CASE WHEN {x.text} IS NOT NULL THEN {told} END", BOOLEAN)


def _signbit(write: Expressions, arguments: Sequence[Value]) -> Value:
    """Told by the text: -0.0 is no less than 0.0. NaN has no sign here."""
    (x,) = arguments
    return value(f"(CAST({x.text} AS STRING) LIKE '-%')", BOOLEAN)


def _bit_count(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    if x.type.is_unsigned or x.type.bits > 64:
        raise lacks(f"BIT_COUNT of {x.type.sql}")
    mask = f"({x.text} & {2**x.type.bits - 1})" if x.type.bits < 32 else x.text
    if x.type.name == "INTEGER":
        mask = f"(CAST({x.text} AS BIGINT) & 4294967295)"
    return value(f"CAST(BIT_COUNT({mask}) AS TINYINT)", TINYINT, 0, 64)


def _exclusive_or(write: Expressions, arguments: Sequence[Value]) -> Value:
    kind = common(arguments)
    if kind.is_unsigned or not kind.is_integer or kind.bits > 64:
        raise lacks(f"XOR of {kind.sql}")
    a, b = (in_type(v, kind).text for v in arguments)
    return value(f"({a} ^ {b})", kind)


def _pi(write: Expressions, arguments: Sequence[Value]) -> Value:
    return Value("PI()", DOUBLE, 3, 4)


def _times(factor: float) -> Spelling:
    """A double times a constant, as DuckDB has it: Spark divides by 180 first, which rounds otherwise."""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        return Value(f"(CAST({arguments[0].text} AS DOUBLE) * CAST('{factor!r}' AS DOUBLE))", DOUBLE)

    return spelling


NUMBERS: Mapping[str, Spelling] = {
    "abs": _absolute,
    "sign": _sign,
    "round": _rounded,
    "trunc": _truncated,
    "floor": _whole("FLOOR"),
    "ceil": _whole("CEIL"),
    "sqrt": _square_root,
    "cbrt": _of_double("CBRT"),
    "exp": _of_double("EXP"),
    "ln": _of_double("LN"),
    "log2": _log2,
    "log10": _log10,
    "pow": _power,
    "pi": _pi,
    "degrees": _times(180 / math.pi),
    "radians": _times(math.pi / 180),
    "bit_count": _bit_count,
    "xor": _exclusive_or,
    "signbit": _signbit,
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": _is_finite,
    "least": lambda write, arguments: write.chosen("LEAST", arguments),
    "greatest": lambda write, arguments: write.chosen("GREATEST", arguments),
}
