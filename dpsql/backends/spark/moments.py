"""Functions of dates and timestamps in Spark's words, in UTC. Whoever isn't listed is refused.

Clocks are computed from microseconds since 1970, with whole numbers that both engines have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpsql.backends.spark.casts import cast
from dpsql.backends.spark.constants import double
from dpsql.backends.spark.expressions import Expressions, Spelling
from dpsql.backends.spark.values import Value, lacks
from dpsql.core.types import BIGINT, DATE, DOUBLE, TIMESTAMP, TIMESTAMPTZ, VARCHAR

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
_YEARS = 6_000_000  # no day is farther from year 0


def _day(v: Value) -> str:
    return cast(v, DATE).text


def _micros(v: Value) -> str:
    """Microseconds since 1970."""
    return f"UNIX_MICROS({cast(v, TIMESTAMPTZ).text})"


def _floored(x: str, unit: int) -> str:
    """x // unit, downwards."""
    return x if unit == 1 else f"(({x} - PMOD({x}, {unit})) div {unit})"


def _part(template: str, low: int, high: int) -> Spelling:
    """A whole number of a day; {0} is the day."""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        return Value(f"CAST({template.format(_day(x))} AS BIGINT)", BIGINT, low, high)

    return spelling


def _year(template: str) -> Spelling:
    """A whole number of a year, which is 1 to 9999 unless the moment was computed."""
    return _part(template, -_YEARS * 100, _YEARS * 100)


def _clock(unit: int, within: int, factor: int = 1) -> Spelling:
    """How many units of microseconds there are in the enclosing part."""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        if x.type.is_date:
            return Value(f"CASE WHEN {x.text} IS NOT NULL THEN CAST(0 AS BIGINT) END", BIGINT, 0, 0)
        count = f"(PMOD({_micros(x)}, {within}) div {unit})"
        high = within // unit * factor
        return Value(f"({count} * {factor})" if factor != 1 else count, BIGINT, 0, high)

    return spelling


def _century(years: int) -> str:
    return f"CASE WHEN YEAR({{0}}) > 0 THEN (YEAR({{0}}) - 1) div {years} + 1 ELSE YEAR({{0}}) div {years} - 1 END"


def _epoch(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    if x.type.has_zone:  # DuckDB adds seconds and fraction there, which rounds otherwise
        raise lacks("EPOCH of a TIMESTAMPTZ", "write EPOCH(CAST(x AS TIMESTAMP))")
    if x.type.is_date:
        return Value(f"(CAST(UNIX_DATE({x.text}) AS DOUBLE) * {double(86_400.0).text})", DOUBLE)
    return Value(f"(CAST({_micros(x)} AS DOUBLE) / {double(1e6).text})", DOUBLE)


def _since(factor: int) -> Spelling:
    """Whole microseconds since 1970, or nanoseconds. (DuckDB rounds milliseconds, and no rule says how.)"""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        text = _micros(x) if factor == 1 else f"({_micros(x)} * {factor})"
        return Value(text, BIGINT, -(2**63), 2**63 - 1)

    return spelling


def _named(format_: str) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        if x.low is None:
            raise lacks("the name of a day or month that may be after the year 9999", "write DAYOFWEEK or MONTH")
        return Value(f"DATE_FORMAT({cast(x, TIMESTAMP).text}, '{format_}')", VARCHAR)

    return spelling


def _last_day(write: Expressions, arguments: Sequence[Value]) -> Value:
    (x,) = arguments
    return Value(f"LAST_DAY({_day(x)})", DATE, x.low, x.high)


def _truncated(write: Expressions, arguments: Sequence[Value]) -> Value:
    part, x = arguments
    kind = x.type if x.type.has_zone else TIMESTAMP
    if part.constant not in (*_UNITS, "day", "week", "month", "quarter", "year"):
        raise lacks(f"DATE_TRUNC to {part.constant}", "cut to year, quarter, month, week, day, hour, minute or second")
    text = f"DATE_TRUNC('{part.constant}', {cast(x, TIMESTAMPTZ).text})"
    return Value(text if kind.has_zone else f"CAST({text} AS TIMESTAMP_NTZ)", kind, x.low, x.high)


def _boundaries(part: str, x: Value) -> str | None:
    """The number of the part that a moment is in."""
    if part in _UNITS:
        return _floored(_micros(x), _UNITS[part])
    days = f"CAST(UNIX_DATE({_day(x)}) AS BIGINT)"
    year = f"CAST(YEAR({_day(x)}) AS BIGINT)"
    if part == "quarter" and x.low is None:
        raise lacks("DATE_DIFF in quarters of a moment that may be before Christ", "count months, or years")
    return {
        "day": days,
        "month": f"({year} * 12 + MONTH({_day(x)}))",
        "quarter": f"({year} * 4 + QUARTER({_day(x)}))",
        "year": year,
        "decade": f"({year} div 10)",
        "century": f"({year} div 100)",
        "millennium": f"({year} div 1000)",
    }.get(part)


def _difference(write: Expressions, arguments: Sequence[Value]) -> Value:
    part, start, end = arguments
    if part.constant == "week":  # seven days, whatever weekday they begin on
        days = [f"CAST(UNIX_DATE({_day(v)}) AS BIGINT)" for v in (end, start)]
        return Value(f"(({days[0]} - {days[1]}) div 7)", BIGINT, -(2**33), 2**33)
    first, last = (_boundaries(part.constant or "", v) for v in (start, end))
    if first is None or last is None:
        raise lacks(
            f"DATE_DIFF in {part.constant}", "count decades, years, quarters, months, weeks, days, hours or less"
        )
    return Value(f"({last} - {first})", BIGINT, -(2**63), 2**63 - 1)


def _full_parts(write: Expressions, arguments: Sequence[Value]) -> Value:
    part, start, end = arguments
    unit = {**_UNITS, "day": 86_400_000_000, "week": 604_800_000_000}.get(part.constant or "")
    if unit is None:
        raise lacks(f"DATE_SUB in {part.constant}", "count full weeks, days, hours or less; or DATE_DIFF")
    return Value(f"(({_micros(end)} - {_micros(start)}) div {unit})", BIGINT, -(2**63), 2**63 - 1)


_DIGITS = {"%m": ("MONTH", 2), "%d": ("DAY", 2), "%j": ("DAYOFYEAR", 3)}
_CLOCK = {"%H": ("HOUR", 2), "%M": ("MINUTE", 2), "%S": ("SECOND", 2)}


def _formatted(write: Expressions, arguments: Sequence[Value]) -> Value:
    """Put together of its parts: no format of one engine is one of the other's."""
    x, layout = arguments
    assert layout.constant is not None
    if x.low is None:
        raise lacks("STRFTIME of a moment that may be after the year 9999", "format the column itself")
    pieces = []
    for piece in re.findall(r"%.|[^%]+", layout.constant, re.DOTALL):
        if piece == "%Y":
            pieces.append(f"LPAD(CAST(YEAR({_day(x)}) AS STRING), 4, '0')")
        elif piece in _DIGITS or piece in _CLOCK:
            name, width = {**_DIGITS, **_CLOCK}[piece]
            of = _day(x) if piece in _DIGITS else cast(x, TIMESTAMP).text
            pieces.append(f"LPAD(CAST({name}({of}) AS STRING), {width}, '0')")
        elif piece[0] == "%" and piece != "%%":
            raise lacks(f"{piece} in STRFTIME", "there are %Y, %m, %d, %j, %H, %M and %S")
        else:
            pieces.append(write.text("%" if piece == "%%" else piece).text)
    return Value(f"CONCAT({', '.join(pieces) or repr('')})", VARCHAR)


_ISO_YEAR = "EXTRACT(YEAROFWEEK FROM {0})"

MOMENTS: Mapping[str, Spelling] = {
    "year": _year("YEAR({0})"),
    "quarter": _part("QUARTER({0})", 1, 4),
    "month": _part("MONTH({0})", 1, 12),
    "day": _part("DAY({0})", 1, 31),
    "dayofyear": _part("DAYOFYEAR({0})", 1, 366),
    "dayofweek": _part("(DAYOFWEEK({0}) - 1)", 0, 6),
    "isodow": _part("(WEEKDAY({0}) + 1)", 1, 7),
    "hour": _clock(3_600_000_000, 86_400_000_000),
    "minute": _clock(60_000_000, 3_600_000_000),
    "second": _clock(1_000_000, 60_000_000),
    "millisecond": _clock(1_000, 60_000_000),
    "microsecond": _clock(1, 60_000_000),
    "nanosecond": _clock(1, 60_000_000, 1_000),
    "decade": _year("(YEAR({0}) div 10)"),
    "century": _year(_century(100)),
    "millennium": _year(_century(1000)),
    "era": _part("CASE WHEN YEAR({0}) > 0 THEN 1 WHEN YEAR({0}) <= 0 THEN 0 END", 0, 1),
    "week": _part("WEEKOFYEAR({0})", 1, 53),
    "isoyear": _year(_ISO_YEAR),
    "yearweek": _year(
        f"({_ISO_YEAR} * 100 + CASE WHEN {_ISO_YEAR} > 0 THEN WEEKOFYEAR({{0}}) ELSE - WEEKOFYEAR({{0}}) END)"
    ),
    "epoch": _epoch,
    "epoch_us": _since(1),
    "epoch_ns": _since(1_000),
    "dayname": _named("EEEE"),
    "monthname": _named("MMMM"),
    "last_day": _last_day,
    "date_trunc": _truncated,
    "date_diff": _difference,
    "date_sub": _full_parts,
    "strftime": _formatted,
}
