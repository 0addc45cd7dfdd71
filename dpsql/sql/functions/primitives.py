"""What total forms are made of: the closed list that a backend must be able to write.

A total form (Scalar.sql) is a tree of columns, constants, the OPERATORS below, casts to types of core/types.py, and
calls of the PRIMITIVES below, by these names. It is no engine's text: each backend says in one table how it writes each
of them (backends/duckdb/dialect.py), and a query that needs one that a backend lacks is refused before it is paid for.

What is listed here as given is what the rules see to: a primitive is only called with arguments of these types and
inside of these bounds, and there no engine may fail (Theorem TOTAL-1). NULL gives NULL unless it says otherwise. Where
ranges don't depend on it (the last digit of SIN, the letters of UPPER), an engine may have its own way.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Primitive:
    """A function that total forms call."""

    given: str  # its arguments
    gives: str  # the type of its value
    means: str


_AS_GIVEN = "the type of its first argument"
_MOMENT = "DATE, TIMESTAMP or TIMESTAMPTZ"
_TAMED = f"{_MOMENT} within 100,000 years of year 0"
_PLACES = "text, BIGINT within ±2^31 once or twice"
_PATTERN = "text, and literals that Constants.accepts"


def _angle(means: str) -> Primitive:
    return Primitive("DOUBLE", "DOUBLE", f"{means}; NaN where there is none")


def _part(means: str, given: str = _MOMENT) -> Primitive:
    return Primitive(given, "BIGINT", f"{means}; NULL of an infinite moment")


PRIMITIVES: Mapping[str, Primitive] = {
    # numbers
    "abs": Primitive("a number whose type holds -x", _AS_GIVEN, "the distance from 0"),
    "sign": Primitive("a number", "TINYINT", "-1, 0 or 1"),
    "round": Primitive("a number and literal digits", _AS_GIVEN, "rounded; of a DECIMAL, one of so many digits"),
    "trunc": Primitive("a number and literal digits", _AS_GIVEN, "cut towards 0; of a DECIMAL, one of so many digits"),
    "floor": Primitive("DOUBLE, FLOAT or DECIMAL", _AS_GIVEN, "the next whole number below; a DECIMAL loses its scale"),
    "ceil": Primitive("DOUBLE, FLOAT or DECIMAL", _AS_GIVEN, "the next whole number above; a DECIMAL loses its scale"),
    "even": Primitive("DOUBLE", "DOUBLE", "the next even number away from 0"),
    "round_even": Primitive("DOUBLE and literal digits", "DOUBLE", "rounded, a half to the even side"),
    "sqrt": Primitive("DOUBLE from 0", "DOUBLE", "the square root"),
    "cbrt": Primitive("DOUBLE", "DOUBLE", "the cube root"),
    "exp": Primitive("DOUBLE", "DOUBLE", "e to the x; infinite where it is too large"),
    "ln": Primitive("DOUBLE above 0", "DOUBLE", "the natural logarithm"),
    "log2": Primitive("DOUBLE above 0", "DOUBLE", "the logarithm to 2"),
    "log10": Primitive("DOUBLE above 0", "DOUBLE", "the logarithm to 10"),
    "log": Primitive("a literal base above 1, DOUBLE above 0", "DOUBLE", "the logarithm to the base"),
    "pow": Primitive("DOUBLE, DOUBLE", "DOUBLE", "x to the y; NaN where it isn't real"),
    "pi": Primitive("nothing", "DOUBLE", "3.14159…"),
    "degrees": Primitive("DOUBLE", "DOUBLE", "radians in degrees"),
    "radians": Primitive("DOUBLE", "DOUBLE", "degrees in radians"),
    "sin": _angle("the sine"), "cos": _angle("the cosine"), "tan": _angle("the tangent"), "cot": _angle("1/tan"),
    "asin": _angle("the inverse of sin"), "acos": _angle("the inverse of cos"), "atan": _angle("the inverse of tan"),
    "atan2": Primitive("DOUBLE, DOUBLE", "DOUBLE", "the angle of the point (second, first)"),
    "sinh": _angle("the hyperbolic sine"), "cosh": _angle("the hyperbolic cosine"),
    "tanh": _angle("the hyperbolic tangent"), "asinh": _angle("the inverse of sinh"),
    "acosh": _angle("the inverse of cosh"), "atanh": _angle("the inverse of tanh"),
    "gcd": Primitive("BIGINT or HUGEINT above its least, twice", _AS_GIVEN, "the greatest common divisor, from 0"),
    "bit_count": Primitive("an integer of up to 64 bits", "TINYINT", "how many bits are set"),
    "xor": Primitive("integers of one type, twice", _AS_GIVEN, "bits that one of both has"),
    "signbit": Primitive("DOUBLE", "BOOLEAN", "is it negative? of -0.0, too"),
    "isnan": Primitive("FLOAT, DOUBLE or a moment", "BOOLEAN", "is it NaN?"),
    "isinf": Primitive("FLOAT, DOUBLE or a moment", "BOOLEAN", "is it infinite?"),
    "isfinite": Primitive("FLOAT, DOUBLE or a moment", "BOOLEAN", "is it neither NaN nor infinite?"),
    "least": Primitive("values of one type", _AS_GIVEN, "the smallest that isn't NULL; NaN is above all numbers"),
    "greatest": Primitive("values of one type", _AS_GIVEN, "the largest that isn't NULL; NaN is above all numbers"),
    # texts
    "lower": Primitive("text", "VARCHAR", "in lower case"),
    "upper": Primitive("text", "VARCHAR", "in upper case"),
    "reverse": Primitive("text", "VARCHAR", "backwards"),
    "strip_accents": Primitive("text", "VARCHAR", "without accents"),
    "trim": Primitive("text, or also literal characters", "VARCHAR", "without blanks, or these, at both ends"),
    "ltrim": Primitive("text, or also literal characters", "VARCHAR", "without them at the beginning"),
    "rtrim": Primitive("text, or also literal characters", "VARCHAR", "without them at the end"),
    "length": Primitive("text", "BIGINT", "how many characters"),
    "strlen": Primitive("text", "BIGINT", "how many bytes of UTF-8"),
    "bit_length": Primitive("text", "BIGINT", "how many bits of UTF-8"),
    "length_grapheme": Primitive("text", "BIGINT", "how many characters as one sees them"),
    "left": Primitive("text, BIGINT within ±2^31", "VARCHAR", "the first n characters; all but the last -n"),
    "right": Primitive("text, BIGINT within ±2^31", "VARCHAR", "the last n characters; all but the first -n"),
    "substring": Primitive(_PLACES, "VARCHAR", "from a place (1 is the first), so many"),
    "left_grapheme": Primitive("text, BIGINT within ±2^31", "VARCHAR", "left, in characters as one sees them"),
    "right_grapheme": Primitive("text, BIGINT within ±2^31", "VARCHAR", "right, in characters as one sees them"),
    "substring_grapheme": Primitive(_PLACES, "VARCHAR", "substring, in such characters"),
    "replace": Primitive("text and two literals", "VARCHAR", "each occurrence of the first literal by the second"),
    "translate": Primitive("text and two literals", "VARCHAR", "character by character"),
    "lpad": Primitive("text, a literal length up to 1,000, a literal", "VARCHAR", "filled up, or cut, to that length"),
    "rpad": Primitive("text, a literal length up to 1,000, a literal", "VARCHAR", "filled up, or cut, to that length"),
    "concat": Primitive("texts", "VARCHAR", "one after the other; NULLs are skipped, and it never is NULL"),
    "concat_ws": Primitive("a literal and texts", "VARCHAR", "texts with the literal between them; NULLs are skipped"),
    "split_part": Primitive("text, a literal, a literal number", "VARCHAR", "one part; '' where there is none"),
    "starts_with": Primitive("text, text", "BOOLEAN", "does it begin with the second?"),
    "suffix": Primitive("text, text", "BOOLEAN", "does it end with the second?"),
    "contains": Primitive("text, text", "BOOLEAN", "is the second in it?"),
    "strpos": Primitive("text, text", "BIGINT", "the first place of the second, from 1; 0 where it isn't"),
    "ascii": Primitive("text", "INTEGER", "the number of the first character; 0 of ''"),
    "unicode": Primitive("text", "INTEGER", "the number of the first character; -1 of ''"),
    "regexp_matches": Primitive(_PATTERN, "BOOLEAN", "is the pattern found?"),
    "regexp_full_match": Primitive(_PATTERN, "BOOLEAN", "does the pattern match the whole text?"),
    "regexp_extract": Primitive(_PATTERN, "VARCHAR", "the first match, or a group of it; '' where there is none"),
    "regexp_replace": Primitive(_PATTERN, "VARCHAR", "the first match, or all of them, replaced"),
    # moments, in UTC
    "year": _part("the year"), "quarter": _part("1 to 4"), "month": _part("1 to 12"), "day": _part("1 to 31"),
    "dayofyear": _part("1 to 366"), "dayofweek": _part("0 to 6 from Sunday"), "isodow": _part("1 to 7 from Monday"),
    "hour": _part("0 to 23"), "minute": _part("0 to 59"), "second": _part("0 to 59"),
    "millisecond": _part("the seconds in thousandths"), "microsecond": _part("the seconds in millionths"),
    "nanosecond": _part("the seconds in billionths"), "decade": _part("the year over 10"),
    "century": _part("the century"), "millennium": _part("the millennium"), "era": _part("1, or 0 before Christ"),
    "week": _part("1 to 53 by ISO", _TAMED), "isoyear": _part("the year of the ISO week", _TAMED),
    "yearweek": _part("isoyear · 100 + week", _TAMED),
    "epoch": Primitive(_MOMENT, "DOUBLE", "seconds since 1970; NULL of an infinite moment"),
    "epoch_ms": Primitive(f"{_TAMED}, or BIGINT within 3·10^15", "BIGINT, or TIMESTAMP", "milliseconds since 1970"),
    "epoch_us": Primitive("TIMESTAMP within 100,000 years of year 0", "BIGINT", "microseconds since 1970"),
    "epoch_ns": Primitive("TIMESTAMP from 1700 to 2200", "BIGINT", "nanoseconds since 1970"),
    "to_timestamp": Primitive("DOUBLE within 3·10^12", "TIMESTAMPTZ", "so many seconds after 1970"),
    "julian": Primitive(_TAMED, "DOUBLE", "the Julian day, counted from midnight"),
    "dayname": Primitive(_MOMENT, "VARCHAR", "the name of the day; NULL of an infinite moment"),
    "monthname": Primitive(_MOMENT, "VARCHAR", "the name of the month; NULL of an infinite moment"),
    "last_day": Primitive(_TAMED, "DATE", "the last day of its month"),
    "date_trunc": Primitive(f"a literal part, {_TAMED}", "TIMESTAMP, or TIMESTAMPTZ", "the beginning of its part"),
    "date_diff": Primitive(f"a literal part, {_TAMED} twice", "BIGINT", "how many boundaries of parts lie between"),
    "date_sub": Primitive(f"a literal part, {_TAMED} twice", "BIGINT", "how many full parts fit between"),
    "time_bucket": Primitive(f"a literal INTERVAL, {_TAMED}", "the moment's type", "the beginning of its interval"),
    "timezone": Primitive(f"a literal that Constants.accepts, {_TAMED}", "TIMESTAMP, or TIMESTAMPTZ", "AT TIME ZONE"),
    "try_strptime": Primitive("text, a literal that Constants.accepts", "TIMESTAMP", "read by the format, or NULL"),
    "strftime": Primitive(f"{_TAMED}, a literal that Constants.accepts", "VARCHAR", "written by the format"),
}  # fmt: skip

_COMPARED = "of values of one type; NaN equals NaN and is above all numbers, texts compare byte by byte"
_EXACT = "in a type that holds every result, so that it never overflows"

OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.Cast: "to a type that holds the value: it never fails; a number is rounded to a neighbour",
    exp.TryCast: "NULL where the type doesn't hold the value",
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), f"of numbers {_EXACT}, or of a tame DATE and days or an INTERVAL"),
    exp.Neg: _EXACT,
    exp.Div: "of FLOAT or DOUBLE, the divisor NULL where it is 0",
    exp.IntDiv: "of integers, towards 0, the divisor NULL where it is 0",
    exp.Mod: "of numbers of one type, with the sign of the first, the divisor NULL where it is 0",
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseNot), "of integers of one type"),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In), _COMPARED),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), f"{_COMPARED}; NULL is a value like others"),
    **dict.fromkeys((exp.And, exp.Or, exp.Not, exp.Is), "with three values, as SQL has it"),
    **dict.fromkeys((exp.Case, exp.If, exp.Coalesce, exp.Nullif), "values of one type"),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), "a literal pattern with % and _"),
    exp.DPipe: "texts one after the other; NULL where one is",
}
