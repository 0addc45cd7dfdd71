"""Dates and timestamps (UTC).

Where DuckDB could leave its calendar and raise, dates beyond 100,000 years, infinities among them, are NULL (TOTAL-1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range, Value
from dpsql.core.types import BIGINT, DATE, DOUBLE, INTEGER, INTERVAL, TIMESTAMP, TIMESTAMPTZ, VARCHAR
from dpsql.sql.dialect import constants
from dpsql.sql.functions.base import (
    Function,
    Scalar,
    Scope,
    arguments,
    between_or_null,
    binary,
    call,
    cast_node,
    mismatch,
    number,
    only,
)
from dpsql.sql.functions.casts import as_text, convert
from dpsql.sql.functions.constants import constant_text, literal_as
from dpsql.sql.functions.lengths import LONGEST_LITERAL, cut
from dpsql.sql.refuse import offsets, refuse, shown

_FIRST, _LAST = "100000-01-01 (BC)", "100000-01-01"
_MOST_DAYS = 36_500_000  # 100,000 years
LONGEST_FORMAT = 200  # characters


@dataclass(frozen=True, slots=True)
class Part:
    """A date part: its names, its range by itself, and how it follows from a date's range."""

    name: str
    aliases: tuple[str, ...]
    low: int | None
    high: int | None
    of: Callable[[date], int] | None = None  # rises with the date
    within_year: Callable[[date], int] | None = None  # rises with the date inside one year


PARTS: tuple[Part, ...] = (
    Part("year", ("y", "years", "yr", "yrs"), None, None, of=lambda d: d.year),
    Part("isoyear", (), None, None, of=lambda d: d.isocalendar().year),
    Part("decade", ("decades", "dec", "decs"), None, None, of=lambda d: d.year // 10),
    Part("century", ("centuries", "cent", "cents", "c"), None, None, of=lambda d: (d.year + 99) // 100),
    Part("millennium", ("millennia", "mil", "mils", "millenium"), None, None, of=lambda d: (d.year + 999) // 1000),
    Part("era", (), 0, 1),
    Part("quarter", ("quarters",), 1, 4, within_year=lambda d: (d.month + 2) // 3),
    Part("month", ("months", "mon", "mons"), 1, 12, within_year=lambda d: d.month),
    Part("week", ("weeks", "w", "weekofyear"), 1, 53),
    Part("yearweek", (), None, None, of=lambda d: d.isocalendar().year * 100 + d.isocalendar().week),
    Part("day", ("days", "d", "dayofmonth"), 1, 31),
    Part("doy", ("dayofyear",), 1, 366, within_year=lambda d: d.timetuple().tm_yday),
    Part("dow", ("dayofweek", "weekday"), 0, 6),
    Part("isodow", (), 1, 7),
    Part("hour", ("hours", "h", "hr", "hrs"), 0, 23),
    Part("minute", ("minutes", "m", "min", "mins"), 0, 59),
    Part("second", ("seconds", "s", "sec", "secs"), 0, 59),
    Part("millisecond", ("milliseconds", "ms", "msec", "msecs"), 0, 59_999),
    Part("microsecond", ("microseconds", "us", "usec", "usecs"), 0, 59_999_999),
    Part("epoch", (), None, None),
)
_BY_NAME = {name: part for part in PARTS for name in (part.name, *part.aliases)}
_FUNCTION = {"doy": "dayofyear", "dow": "dayofweek"}
_CLOCK = {"hour", "minute", "second", "millisecond", "microsecond"}
_NOT_TRUNCATED = {"isodow", "dow", "doy", "era", "epoch", "yearweek"}
_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}


def part_of(node: exp.Expr, around: exp.Expr) -> Part:
    """The date part that an argument names."""
    inner = node.unnest()
    name = inner.name if isinstance(inner, exp.Var | exp.Identifier) else None
    if isinstance(inner, exp.Column) and not inner.table:
        name = inner.name
    if name is None:
        name = constant_text(node, "a date part")
    part = _BY_NAME.get(name.lower())
    if part is None:
        close = nearest(name, [p.name for p in PARTS])
        hint = f"did you mean {close}?" if close else "parts: " + ", ".join(p.name for p in PARTS)
        place = node if offsets(node) else around
        raise refuse(SQLError, f"unknown date part {name.lower()}", place, code="unknown-part", hint=hint)
    return part


def as_moment(s: Scalar, node: exp.Expr) -> Scalar:
    """A DATE, a TIMESTAMP or a TIMESTAMPTZ."""
    if s.type in (DATE, TIMESTAMP, TIMESTAMPTZ):
        return s
    if s.type.is_timestamp:
        return convert(s, TIMESTAMP)
    if s.is_null:
        return convert(s, TIMESTAMP)
    way = f"write CAST({shown(node)} AS DATE)" if s.type.is_text else "use a DATE or TIMESTAMP, or STRPTIME on a text"
    raise mismatch(node, f"{shown(node)} is {s.type}, not a date", way)


def tame(s: Scalar) -> Scalar:
    """NULL beyond 100,000 years: no function of the calendar can leave DuckDB's range from there."""
    low, high = (cast_node(exp.Literal.string(edge), s.type, True) for edge in (_FIRST, _LAST))
    return replace(s, sql=between_or_null(s.sql, low, high), range=s.range.with_nullable(True))


def take(s: Scalar, part: Part) -> Scalar:
    known = Range(nullable=True, why=s.range.why)  # infinities have no parts
    low, high = s.range.low, s.range.high
    if part.name == "epoch":
        known = s.range.monotone(epoch).with_nullable(True)
        return Scalar(call("epoch", s.sql), DOUBLE, known)
    if part.of is not None:
        rise = part.of
        known = s.range.monotone(lambda v: Fraction(rise(v)) if isinstance(v, date) else None).with_nullable(True)
    elif part.name in _CLOCK and s.type.is_date:
        known = Range(Fraction(0), Fraction(0), why=s.range.why)
    elif part.within_year is not None and isinstance(low, date) and isinstance(high, date) and low.year == high.year:
        known = Range(Fraction(part.within_year(low)), Fraction(part.within_year(high)), why=s.range.why)
    elif part.low is not None and part.high is not None:
        known = Range(Fraction(part.low), Fraction(part.high))
    hard = None if part.low is None or part.high is None else Range(Fraction(part.low), Fraction(part.high))
    if part.name in ("week", "yearweek", "isoyear"):
        s = tame(s)
    return Scalar(call(_FUNCTION.get(part.name, part.name), s.sql), BIGINT, known, hard)


def epoch(v: Value) -> Fraction | None:
    if not isinstance(v, date):
        return None
    moment = v if isinstance(v, datetime) else datetime(v.year, v.month, v.day)
    gap = moment - datetime(1970, 1, 1)
    return Fraction(gap.days * 86_400 + gap.seconds) + Fraction(gap.microseconds, 1_000_000)


def extract(node: exp.Expr, scope: Scope) -> Scalar:
    """EXTRACT(part FROM x)."""
    only(node, "this", "expression")
    return take(as_moment(scope(node.expression), node.expression), part_of(node.this, node))


def date_part(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE_PART('part', x)."""
    part, x = arguments(node, 2)
    constant_text(part, "a date part")
    return take(as_moment(scope(x), x), part_of(part, node))


def named(part: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """YEAR(x), MONTH(x) and their like."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (x,) = arguments(node, 1)
        return take(as_moment(scope(x), x), _BY_NAME[part])

    return rule


def name_of(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """DAYNAME, MONTHNAME."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this", "abbreviated")
        s = as_moment(scope(node.this), node.this)
        return Scalar(call(name, s.sql), VARCHAR, Range(nullable=True))

    return rule


def last_day(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this")
    s = as_moment(scope(node.this), node.this)
    known = convert(s, DATE).range.monotone(_month_end).with_nullable(True)
    return Scalar(call("last_day", tame(s).sql), DATE, known)


def _month_end(v: Value) -> date | None:
    assert isinstance(v, date)
    if (v.year, v.month) == (9999, 12):
        return date(9999, 12, 31)
    following = date(v.year + v.month // 12, v.month % 12 + 1, 1)
    return following - timedelta(days=1)


def truncate(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE_TRUNC('part', x): a TIMESTAMP, of a DATE too, as in DuckDB."""
    only(node, "this", "unit")
    part = part_of(node.args["unit"], node)
    if part.name in _NOT_TRUNCATED:
        raise refuse(
            SQLError,
            f"DATE_TRUNC can't cut to {part.name}",
            node,
            code="unknown-part",
            hint="cut to day, week or month",
        )
    s = as_moment(scope(node.this), node.this)
    to = s.type if s.type.has_zone else TIMESTAMP
    known = s.range.monotone(lambda v: _floor(v, part.name)).with_nullable(True)
    return Scalar(call("date_trunc", exp.Literal.string(part.name), tame(s).sql), to, known)


def _floor(v: Value, part: str) -> datetime | None:
    assert isinstance(v, date)
    moment = v if isinstance(v, datetime) else datetime(v.year, v.month, v.day)
    try:
        if part in ("week", "isoyear"):
            day = datetime(moment.year, moment.month, moment.day)
            if part == "isoyear":
                day = datetime.combine(date.fromisocalendar(moment.isocalendar().year, 1, 1), datetime.min.time())
            return day - timedelta(days=day.weekday())
        if part in _MICROSECONDS:
            since = moment - datetime(1, 1, 1)
            return moment - since % timedelta(microseconds=_MICROSECONDS[part])
        if part in ("month", "quarter"):
            return datetime(moment.year, (moment.month - 1) // _MONTHS[part] * _MONTHS[part] + 1, 1)
        years = _MONTHS[part] // 12
        return datetime(moment.year // years * years, 1, 1)
    except (ValueError, OverflowError):
        return None


def difference(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE_DIFF('part', start, end): how many boundaries lie between them. sqlglot puts the end first."""
    only(node, "this", "expression", "unit", "date_part_boundary")
    return _gap(node, "date_diff", node.args["unit"], node.expression, node.this, scope)


def whole_difference(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE_SUB('part', start, end): how many full parts fit between them."""
    part, start, end = arguments(node, 3)
    return _gap(node, "date_sub", part, start, end, scope)


def _gap(node: exp.Expr, name: str, unit: exp.Expr, start: exp.Expr, end: exp.Expr, scope: Scope) -> Scalar:
    part = part_of(unit, node)
    if part.name not in _MICROSECONDS and part.name not in _MONTHS:
        raise refuse(
            SQLError,
            f"{shown(node)} can't count in {part.name}",
            unit,
            code="unknown-part",
            hint="count days, months, years",
        )
    moments = [scope(start), scope(end)]
    for i, (s, n) in enumerate(((moments[0], start), (moments[1], end))):
        if s.text is not None:
            other = moments[1 - i].type
            moments[i] = literal_as(s, other if other.is_date or other.is_timestamp else TIMESTAMP, n)
    a, b = as_moment(moments[0], start), as_moment(moments[1], end)
    if a.type != b.type:
        to = TIMESTAMPTZ if a.type.has_zone or b.type.has_zone else TIMESTAMP
        a, b = convert(a, to), convert(b, to)
    low = _count(part.name, a.range.high, b.range.low, -1)
    high = _count(part.name, a.range.low, b.range.high, 1)
    known = Range(low, high, why=a.range.because(*b.range.why).why)
    return Scalar(call(name, exp.Literal.string(part.name), tame(a).sql, tame(b).sql), BIGINT, known)


def _count(part: str, start: Value | None, end: Value | None, outward: int) -> Fraction | None:
    """Parts from start to end, one more outwards: boundaries crossed and full parts differ by less than that."""
    if not isinstance(start, date) or not isinstance(end, date):
        return None
    if part == "day" and not isinstance(start, datetime) and not isinstance(end, datetime):
        return Fraction((end - start).days)
    if part in _MONTHS:
        months = (end.year - start.year) * 12 + end.month - start.month
        exact = Fraction(months, _MONTHS[part])
    else:
        a, b = epoch(start), epoch(end)
        assert a is not None and b is not None
        exact = (b - a) * 1_000_000 / _MICROSECONDS[part]
    return Fraction(math.floor(exact) + 1 if outward > 0 else math.ceil(exact) - 1)


def days(node: exp.Expr, a: Scalar, b: Scalar) -> Scalar:
    """date - date is a number of days; date ± n is a date."""
    minus = isinstance(node, exp.Sub)
    if minus and a.text is not None and b.type.is_date:
        a = literal_as(a, DATE, node.this)
    if minus and b.text is not None and a.type.is_date:
        b = literal_as(b, DATE, node.expression)
    if minus and a.type.is_date and b.type.is_date:
        low = _count("day", b.range.high, a.range.low, -1)
        high = _count("day", b.range.low, a.range.high, 1)
        known = Range(low, high, a.nullable or b.nullable, a.range.because(*b.range.why).why)
        limit = Fraction(2**33)
        return Scalar(binary(exp.Sub, a.sql, b.sql), BIGINT, known, Range(-limit, limit))
    if not minus and b.type.is_date and a.type.is_integer:
        a, b = b, a
    if a.type.is_date and b.type.is_integer:
        count = convert(b, INTEGER)
        guarded = between_or_null(count.sql, number(-_MOST_DAYS), number(_MOST_DAYS))
        step = b.range.neg() if minus else b.range
        known = Range(_plus_days(a.range.low, step.low), _plus_days(a.range.high, step.high), why=a.range.why)
        return Scalar(binary(type(node), tame(a).sql, guarded), DATE, known)
    raise mismatch(
        node,
        f"{shown(node)} combines {a.type} and {b.type}",
        "count with DATE_DIFF('day', start, end), or shift with x + INTERVAL 30 DAY",
    )


def _plus_days(day: Value | None, step: Value | None) -> date | None:
    if not isinstance(day, date) or not isinstance(step, Fraction):
        return None
    try:
        return day + timedelta(days=int(step))
    except OverflowError:
        return None


def shift(node: exp.Expr, scope: Scope) -> Scalar:
    """date ± INTERVAL literal: a TIMESTAMP, of a DATE too, as in DuckDB."""
    minus = isinstance(node, exp.Sub)
    moment, interval = node.this, node.expression.unnest()
    if not isinstance(interval, exp.Interval) and not minus:
        moment, interval = node.expression, node.this.unnest()
    if isinstance(node, exp.Mul) or not isinstance(interval, exp.Interval):
        what = f"{shown(node)}: an INTERVAL can only be added to a date or taken from it"
        raise refuse(SQLError, what, node, code="unsupported-expression", hint="write d + INTERVAL 30 DAY")
    text, months, span = interval_literal(interval)
    s = as_moment(scope(moment), moment)
    to = s.type if s.type.has_zone else TIMESTAMP
    sign = -1 if minus else 1
    known = s.range.monotone(lambda v: shifted(v, sign * months, sign * span)).with_nullable(True)
    operator = exp.Sub if minus else exp.Add
    return Scalar(binary(operator, tame(s).sql, cast_node(exp.Literal.string(text), INTERVAL, True)), to, known)


def add(node: exp.Expr, scope: Scope) -> Scalar:
    """DATE_ADD(x, INTERVAL …) is x + INTERVAL …"""
    only(node, "this", "expression")
    return shift(exp.Add(this=node.this.copy(), expression=node.expression.copy()), scope)


def interval_literal(node: exp.Interval) -> tuple[str, int, timedelta]:
    """A constant interval: as text, its months, and the rest of it."""
    amount, unit = node.this, node.args.get("unit")
    inner = amount.unnest() if isinstance(amount, exp.Expr) else None
    if not isinstance(inner, exp.Literal | exp.Neg):
        raise refuse(
            SQLError, "an INTERVAL must be a constant", node, code="literal-needed", hint="write INTERVAL 30 DAY"
        )
    sign = ""
    while isinstance(inner, exp.Neg):
        sign, inner = ("" if sign else "-"), inner.this.unnest()
    text = f"{sign}{inner.name} {unit.name if isinstance(unit, exp.Var) else ''}".strip()
    found = constants().interval(text)
    if found is None:
        raise refuse(SQLError, f"'{text}' isn't an INTERVAL", node, code="bad-literal", hint="write INTERVAL 30 DAY")
    months, whole_days, micros = found
    if abs(months) > 1_200_000 or abs(whole_days) > _MOST_DAYS or abs(micros) > _MOST_DAYS * 86_400_000_000:
        raise refuse(
            SQLError,
            f"'{text}' is longer than 100,000 years",
            node,
            code="bad-literal",
            hint="write a shorter INTERVAL",
        )
    return text, months, timedelta(days=whole_days, microseconds=micros)


def shifted(v: Value, months: int, span: timedelta) -> datetime | None:
    assert isinstance(v, date)
    moment = v if isinstance(v, datetime) else datetime(v.year, v.month, v.day)
    try:
        total = moment.year * 12 + moment.month - 1 + months
        first = moment.replace(year=total // 12, month=total % 12 + 1, day=1)
        end = _month_end(first.date())
        assert end is not None
        return first.replace(day=min(moment.day, end.day)) + span
    except (ValueError, OverflowError):
        return None


def parse(node: exp.Expr, scope: Scope) -> Scalar:
    """STRPTIME(x, 'format') as TRY_STRPTIME: NULL where it doesn't fit."""
    if isinstance(node, exp.StrToTime):
        only(node, "this", "format")
        x, layout = node.this, node.args["format"]
    else:
        x, layout = arguments(node, 2)
    s = as_text(scope(x), x)
    text = constant_text(layout, "a date format")
    if not constants().accepts("try_strptime", text) or len(text) > LONGEST_FORMAT:
        raise refuse(
            SQLError,
            f"'{text}' isn't a date format that can be used here",
            layout,
            code="bad-pattern",
            hint="write it like '%Y-%m-%d %H:%M:%S'; time zones aren't supported",
        )
    # A text that doesn't fit is copied into a message that nobody reads: no more of it than a date could need.
    source = s.sql if s.longest is not None and s.longest <= LONGEST_LITERAL else cut(s.sql, LONGEST_LITERAL)
    return Scalar(call("try_strptime", source, exp.Literal.string(text)), TIMESTAMP, Range(nullable=True))


def write(node: exp.Expr, scope: Scope) -> Scalar:
    """STRFTIME(x, 'format')."""
    only(node, "this", "format")
    s = as_moment(scope(node.this), node.this)
    text = constant_text(node.args["format"], "a date format")
    if not constants().accepts("strftime", text) or len(text) > LONGEST_FORMAT:
        raise refuse(
            SQLError,
            f"'{text}' isn't a date format",
            node.args["format"],
            code="bad-pattern",
            hint="write it like '%Y-%m'",
        )
    return Scalar(call("strftime", tame(s).sql, exp.Literal.string(text)), VARCHAR, Range(nullable=True))


_INF = "infinite dates are NULL"
_TAME = "dates beyond 100,000 years are NULL"
_LITERAL = "the format is a literal, checked first; NULL where it doesn't fit"

FUNCTIONS: tuple[Function, ...] = (
    Function(("EXTRACT",), "date", "a part of a date", _INF, "the part's own, or from the date's", extract,
             (exp.Extract,)),
    Function(("DATE_PART", "DATEPART"), "date", "a part of a date", _INF, "the part's own, or from the date's",
             date_part),
    Function(("YEAR",), "date", "the year", _INF, "from the date's", named("year"), (exp.Year,)),
    Function(("QUARTER",), "date", "1 to 4", _INF, "1 to 4", named("quarter"), (exp.Quarter,)),
    Function(("MONTH",), "date", "1 to 12", _INF, "1 to 12", named("month"), (exp.Month,)),
    Function(("WEEK", "WEEKOFYEAR"), "date", "ISO week", _TAME, "1 to 53", named("week"), (exp.Week, exp.WeekOfYear)),
    Function(("DAY", "DAYOFMONTH"), "date", "day of the month", _INF, "1 to 31", named("day"), (exp.Day,
             exp.DayOfMonth)),
    Function(("DAYOFYEAR",), "date", "day of the year", _INF, "1 to 366", named("doy"), (exp.DayOfYear,)),
    Function(("DAYOFWEEK",), "date", "Sunday is 0", _INF, "0 to 6", named("dow"), (exp.DayOfWeek,)),
    Function(("WEEKDAY",), "date", "Sunday is 0", _INF, "0 to 6", named("dow")),
    Function(("ISODOW",), "date", "Monday is 1", _INF, "1 to 7", named("isodow"), (exp.DayOfWeekIso,)),
    Function(("HOUR",), "date", "the hour", _INF, "0 to 23", named("hour"), (exp.Hour,)),
    Function(("MINUTE",), "date", "the minute", _INF, "0 to 59", named("minute"), (exp.Minute,)),
    Function(("SECOND",), "date", "the second", _INF, "0 to 59", named("second"), (exp.Second,)),
    Function(("MILLISECOND",), "date", "seconds in thousandths", _INF, "0 to 59,999", named("millisecond")),
    Function(("MICROSECOND",), "date", "seconds in millionths", _INF, "0 to 59,999,999", named("microsecond")),
    Function(("ISOYEAR",), "date", "year of the ISO week", _TAME, "from the date's", named("isoyear")),
    Function(("YEARWEEK",), "date", "ISO year and week", _TAME, "from the date's", named("yearweek")),
    Function(("DECADE",), "date", "year / 10", _INF, "from the date's", named("decade")),
    Function(("CENTURY",), "date", "the century", _INF, "from the date's", named("century")),
    Function(("MILLENNIUM",), "date", "the millennium", _INF, "from the date's", named("millennium")),
    Function(("ERA",), "date", "1, or 0 before Christ", _INF, "0 to 1", named("era")),
    Function(("EPOCH",), "date", "seconds since 1970", _INF, "from the date's", named("epoch"), (exp.TimeToUnix,)),
    Function(("DAYNAME",), "date", "name of the day", _INF, "none", name_of("dayname"), (exp.Dayname,)),
    Function(("MONTHNAME",), "date", "name of the month", _INF, "none", name_of("monthname"), (exp.Monthname,)),
    Function(("LAST_DAY",), "date", "last day of the month", _TAME, "from the date's", last_day, (exp.LastDay,)),
    Function(("DATE_TRUNC", "DATETRUNC"), "date", "cut to a literal part", _TAME, "ends cut", truncate,
             (exp.TimestampTrunc, exp.DateTrunc)),
    Function(("DATE_DIFF", "DATEDIFF"), "date", "boundaries between two dates", _TAME, "from both ranges", difference,
             (exp.DateDiff,)),
    Function(("DATE_SUB", "DATESUB"), "date", "full parts between two dates", _TAME, "from both ranges",
             whole_difference),
    Function(("DATE_ADD",), "date", "date plus a literal INTERVAL", _TAME, "ends moved", add, (exp.DateAdd,)),
    Function(("STRPTIME", "TRY_STRPTIME"), "date", "text to TIMESTAMP, by its first 1,000 characters", _LITERAL, "none",
             parse, (exp.StrToTime,)),
    Function(("STRFTIME",), "date", "TIMESTAMP to text", _TAME, "none", write, (exp.TimeToStr,)),
)  # fmt: skip
