"""Numbers and moments: epochs, Julian days, buckets, dates from their parts, time zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range, Value
from dpsql.core.types import BIGINT, DATE, DOUBLE, INTERVAL, TIMESTAMP, TIMESTAMPTZ, VARCHAR, Type
from dpsql.sql.dialect import constants
from dpsql.sql.functions.base import (
    Function,
    Scalar,
    Scope,
    arguments,
    between_or_null,
    call,
    cast_node,
    ends,
    mismatch,
    number,
    only,
)
from dpsql.sql.functions.casts import as_double, convert
from dpsql.sql.functions.constants import constant_text
from dpsql.sql.functions.dates import Part, as_moment, epoch, interval_literal, shifted, take, tame
from dpsql.sql.refuse import offsets, refuse, shown

_MOST_SECONDS = 3_000_000_000_000  # within 100,000 years of 1970
_JULIAN = 1_721_425  # the Julian day of the day before 0001-01-01
_FIRST_NS, _LAST_NS = "1700-01-01", "2200-01-01"  # what fits into 64 bits of nanoseconds, and a little less
_ANY_ZONE = timedelta(days=1)  # no zone was ever farther from UTC


def since_epoch(name: str, scale: int, *, first: str | None = None, last: str | None = None) -> Callable[..., Scalar]:
    """EPOCH_US and EPOCH_NS: whole numbers since 1970."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (x,) = arguments(node, 1)
        return _since(name, scale, as_moment(scope(x), x), first, last)

    return rule


def _since(name: str, scale: int, s: Scalar, first: str | None = None, last: str | None = None) -> Scalar:
    def count(v: Value) -> Fraction | None:
        seconds = epoch(v)
        return None if seconds is None else Fraction(seconds * scale // 1)

    known = s.range.monotone(count).with_nullable(True)
    s = s if name == "epoch_ms" else convert(s, TIMESTAMP)  # of a DATE, they may raise from statistics alone
    if first is None or last is None:
        sql = tame(s).sql
    else:
        edges = [cast_node(exp.Literal.string(edge), s.type, True) for edge in (first, last)]
        sql = between_or_null(s.sql, edges[0], edges[1])
    return Scalar(call(name, sql), BIGINT, known)


def from_epoch(node: exp.Expr, scope: Scope) -> Scalar:
    """TO_TIMESTAMP(seconds); EPOCH_MS of a moment is a number, and of a number a moment."""
    only(node, "this", "scale")
    scale = node.args.get("scale")
    s = scope(node.this)
    if scale is None:
        seconds = as_double(s, node.this)
        return _moment("to_timestamp", seconds, TIMESTAMPTZ, 1)
    if scale.name != "3":
        raise refuse(SQLError, f"unknown function {shown(node)}", node, code="unknown-function", hint="use EPOCH_MS")
    if s.type.is_integer:
        return _moment("epoch_ms", convert(s, BIGINT), TIMESTAMP, 1_000)
    return _since("epoch_ms", 1_000, as_moment(s, node.this))


def _moment(name: str, s: Scalar, to: Type, scale: int) -> Scalar:
    edge = _MOST_SECONDS * scale
    sql = call(name, between_or_null(s.sql, number(-edge), number(edge)))
    low, high = (None if v is None else _after_epoch(v / scale) for v in ends(s.range))
    near = timedelta(seconds=1)
    return Scalar(sql, to, Range(_moved(low, -near), _moved(high, near), why=s.range.why))


def _after_epoch(seconds: Fraction) -> datetime | None:
    try:
        return datetime(1970, 1, 1) + timedelta(seconds=int(seconds))
    except OverflowError:
        return None


def julian(node: exp.Expr, scope: Scope) -> Scalar:
    """The Julian day, noon to noon counted from midnight, as DuckDB does."""
    (x,) = arguments(node, 1)
    s = as_moment(scope(x), x)

    def day(v: Value) -> Fraction | None:
        seconds = epoch(v)
        return None if seconds is None else seconds / 86_400 + date(1970, 1, 1).toordinal() + _JULIAN

    low, high = ends(s.range.monotone(day))
    slack = Fraction(1, 1_000_000)  # of a double with seven digits before the point
    known = Range(None if low is None else low - slack, None if high is None else high + slack, why=s.range.why)
    return Scalar(call("julian", tame(s).sql), DOUBLE, known)


def nanosecond(node: exp.Expr, scope: Scope) -> Scalar:
    (x,) = arguments(node, 1)
    return take(as_moment(scope(x), x), Part("nanosecond", (), 0, 59_999_999_999))


def bucket(node: exp.Expr, scope: Scope) -> Scalar:
    """TIME_BUCKET(INTERVAL '3 days', x): the start of the interval that x is in; of a DATE a DATE."""
    text, months, span = bucket_width(node)
    s = as_moment(scope(node.expression), node.expression)
    low, high = s.range.low, s.range.high
    start = shifted(low, -months, -span) if isinstance(low, date) else None
    bottom: Value | None = start.date() if start is not None and s.type.is_date else start
    known = Range(bottom, high, why=s.range.why)
    constant = cast_node(exp.Literal.string(text), INTERVAL, True)
    return Scalar(call("time_bucket", constant, tame(s).sql), s.type, known)


def bucket_width(node: exp.Expr) -> tuple[str, int, timedelta]:
    """A literal width: months, or days and smaller units."""
    only(node, "this", "expression")
    width = node.this.unnest()
    if not isinstance(width, exp.Interval):
        hint = "write TIME_BUCKET(INTERVAL '3 days', x)"
        raise refuse(SQLError, "the width of a TIME_BUCKET is a constant", node.this, code="literal-needed", hint=hint)
    text, months, span = interval_literal(width)
    if not ((months > 0 and not span) or (months == 0 and span > timedelta(0))):
        what = "the width of a TIME_BUCKET is a positive number of months, or of days and smaller units"
        place = width if offsets(width) else node  # sqlglot splits a literal, and loses its place
        raise refuse(SQLError, what, place, code="bad-literal", hint="write INTERVAL '3 days' or INTERVAL '1 month'")
    return text, months, span


def make_date(node: exp.Expr, scope: Scope) -> Scalar:
    """MAKE_DATE(year, month, day): NULL where there is no such day, or the year isn't 1 to 9999."""
    only(node, "year", "month", "day")
    parts = []
    for key in ("year", "month", "day"):
        part = node.args.get(key)
        s = scope(part) if part is not None else None
        if part is None or s is None or not (s.type.is_integer or s.is_null):
            hint = "write MAKE_DATE(year, month, day) with whole numbers"
            raise mismatch(part or node, "MAKE_DATE takes a year, a month and a day", hint)
        parts.append(convert(s, BIGINT))
    texts = [
        cast_node(between_or_null(p.sql, number(1), number(top)), VARCHAR, True)
        for p, top in zip(parts, (9999, 12, 31), strict=True)
    ]
    dash = exp.Literal.string("-")
    text: exp.Expr = call("lpad", texts[0], number(4), exp.Literal.string("0"))
    for piece in (dash, texts[1], dash, texts[2]):
        text = exp.DPipe(this=text, expression=piece.copy(), safe=True)
    low, high = ends(parts[0].range)
    first = None if low is None else date(int(min(max(low, Fraction(1)), Fraction(9999))), 1, 1)
    last = None if high is None else date(int(min(max(high, Fraction(1)), Fraction(9999))), 12, 31)
    return Scalar(cast_node(exp.Paren(this=text), DATE, False), DATE, Range(first, last, why=parts[0].range.why))


def at_time_zone(node: exp.Expr, scope: Scope) -> Scalar:
    """x AT TIME ZONE 'Europe/Berlin': local time of a TIMESTAMPTZ, or the moment at which a clock there shows x."""
    zone = zone_of(node)
    s = as_moment(scope(node.this), node.this)
    to = TIMESTAMP if s.type.has_zone else TIMESTAMPTZ
    if s.type.is_date:
        s = convert(s, TIMESTAMP)
    low, high = (_moved(v, d) for v, d in ((s.range.low, -_ANY_ZONE), (s.range.high, _ANY_ZONE)))
    sql = call("timezone", exp.Literal.string(zone), tame(s).sql)
    return Scalar(sql, to, Range(low, high, why=s.range.why))


def zone_of(node: exp.Expr) -> str:
    """A literal time zone that there is."""
    only(node, "this", "zone")
    zone = constant_text(node.args["zone"], "a time zone")
    if not constants().accepts("timezone", zone):
        hint = "write it like 'Europe/Berlin', 'America/New_York' or 'UTC'"
        raise refuse(SQLError, f"'{zone}' isn't a time zone", node.args["zone"], code="bad-literal", hint=hint)
    return zone


def _moved(v: Value | None, by: timedelta) -> datetime | None:
    if not isinstance(v, date):
        return None
    try:
        return (v if isinstance(v, datetime) else datetime(v.year, v.month, v.day)) + by
    except OverflowError:
        return None


_TAME = "dates beyond 100,000 years are NULL"
_FAR = "NULL farther than 95,000 years from 1970"

FUNCTIONS: tuple[Function, ...] = (
    Function(("TO_TIMESTAMP", "EPOCH_MS"), "date", "seconds since 1970 as a moment; milliseconds, both ways", _FAR,
             "ends", from_epoch, (exp.UnixToTime,)),
    Function(("EPOCH_US",), "date", "microseconds since 1970", _TAME, "from the date's",
             since_epoch("epoch_us", 1_000_000)),
    Function(("EPOCH_NS",), "date", "nanoseconds since 1970", "NULL outside of 1700 to 2200", "from the date's",
             since_epoch("epoch_ns", 1_000_000_000, first=_FIRST_NS, last=_LAST_NS)),
    Function(("JULIAN",), "date", "Julian day", _TAME, "from the date's", julian),
    Function(("NANOSECOND",), "date", "seconds in billionths", "infinite dates are NULL", "0 to 59,999,999,999",
             nanosecond),
    Function(("TIME_BUCKET",), "date", "start of its literal INTERVAL", _TAME, "from the date's", bucket,
             (exp.DateBin,), bucket_width),
    Function(("MAKE_DATE",), "date", "date of year, month and day", "NULL where there is no such day", "its years",
             make_date, (exp.DateFromParts,)),
    Function(("AT TIME ZONE",), "date", "in a literal time zone", _TAME, "a day around the date's", at_time_zone,
             (exp.AtTimeZone,), zone_of),
)  # fmt: skip
