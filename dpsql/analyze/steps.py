"""Stepped values: expressions that have few values over a bounded range, however many their argument has.

FLOOR, CEIL, ROUND and TRUNC have multiples of a power of ten, DATE_TRUNC and TIME_BUCKET the beginnings of intervals.
They are listed from the range alone; a row whose range is broken has another value, and is dropped (Theorem KEYS-2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil, floor, isfinite

from sqlglot import exp

from dpsql.analyze.domains import (
    MAX_IMPLIED,
    Domain,
    PublicEngine,
    day,
    distinct,
    identifier,
    quoted,
    typed,
)
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import VARCHAR
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import DIALECT, cast, data_type
from dpsql.sql.functions.clock import bucket_width
from dpsql.sql.functions.constants import constant_integer
from dpsql.sql.scalar import Scalar, scalar
from dpsql.sql.trees import copied, nodes_of

MAX_STEPS = 5_000_000  # of a series that is truncated
MAX_COMPUTED = 2_000_000  # values of a range that an expression is computed for
MAX_WORK = 500_000_000  # values of a range, times the characters of the expression that is computed for each
_SECONDS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}


def stepped(e: exp.Expr, known: Mapping[str, Scalar], total: Scalar, public: PublicEngine) -> Domain | None:
    """The values of an expression that rounds a number or a moment with a finite range; None for any other."""
    match e:
        case exp.Floor() | exp.Ceil() | exp.Round() | exp.Trunc():
            return _multiples(e, known, total, public)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _truncated(e, known, public)
        case exp.DateBin():
            return _buckets(e, known, public)
        case exp.Dayname() | exp.Monthname():
            return _names(e, known, public)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Computed:
    """An expression over one column, to be computed for each value in the column's range that meets the conditions.

    unit: of a timestamp, on whose beginnings expression and conditions rest.
    """

    total: Scalar
    column: Scalar
    unit: str | None
    conditions: Sequence[exp.Expr]


def image_of_range(e: Computed, public: PublicEngine) -> Domain | None:
    """The values that an expression has over the range of its column.

    None where the column has no finite range of whole numbers, decimals, days or units of time, where there are too
    many of these, or where they give more than MAX_IMPLIED values.
    """
    total, column = e.total, e.column
    (name,) = {c.name for c in nodes_of(total.sql, exp.Column)}
    listed = _series_of_moments(column, e.unit) if column.type.is_timestamp else _series_of_numbers(column)
    if listed is None or not total.type.is_key:
        return None
    series, count = listed
    length = sum(len(as_sql(one)) for one in (total.sql, *e.conditions))
    if count > MAX_COMPUTED or count * length > MAX_WORK:
        return None
    rows = exp.select(exp.alias_(exp.cast(series, data_type(column.type.sql)), name, quoted=True))
    query = exp.select(exp.alias_(copied(total.sql), "k")).distinct().from_(rows.subquery("q")).limit(MAX_IMPLIED + 2)
    for condition in e.conditions:
        query = query.where(copied(condition), copy=False)
    values = distinct(query, {}, total.type, _nulls(total.range), public)
    return Domain(values, "from all values of the range") if len(values) <= MAX_IMPLIED + 1 else None


def _series_of_moments(column: Scalar, unit: str | None) -> tuple[exp.Expr, int] | None:
    """Moments in each unit of a range, and how many there are."""
    ends = _moments(column.range)
    if ends is None or unit is None:
        return None
    step = unit if unit in _SECONDS else "DAY"
    count = int((ends[1] - ends[0]).total_seconds() / _SECONDS[step]) + 2
    return _unnested(_timestamp(_start(ends[0], step)), _timestamp(ends[1]), _interval("1", step)), count


def _series_of_numbers(column: Scalar) -> tuple[exp.Expr, int] | None:
    """The whole numbers, decimals or days of a range, and how many there are."""
    ends, kind = _places(column), column.type
    if ends is None:
        return None
    first, last = ends
    place = _unnested(exp.Literal.number(first), exp.Literal.number(last))
    if kind.is_date:
        place = exp.Add(this=cast(exp.Literal.string("0001-01-01"), "DATE"), expression=cast(place, "INTEGER"))
    elif kind.scale:
        step = cast(exp.Literal.string(f"1e-{kind.scale}"), f"DECIMAL(18, {kind.scale})")
        place = exp.Mul(this=cast(place, "DECIMAL(18, 0)"), expression=step)
    return place, last - first + 1


def _unnested(*ends: exp.Expr) -> exp.Expr:
    """The numbers or moments from one end to the other, a row for each."""
    return exp.func("unnest", exp.func("generate_series", *ends, dialect=DIALECT), dialect=DIALECT)


def _places(column: Scalar) -> tuple[int, int] | None:
    """The first and the last value of a column's range, as numbers of steps of its type."""
    low, high, kind = column.range.low, column.range.high, column.type
    if kind.is_date and isinstance(low, date) and isinstance(high, date):
        return day(low).toordinal() - 1, day(high).toordinal() - 1
    if (kind.is_integer or kind.is_decimal) and isinstance(low, Fraction) and isinstance(high, Fraction):
        steps = 10 ** (kind.scale or 0)
        first, last = ceil(low * steps), floor(high * steps)
        return (first, last) if -(10**18) < first <= last < 10**18 else None
    return None


def _multiples(e: exp.Expr, known: Mapping[str, Scalar], total: Scalar, public: PublicEngine) -> Domain | None:
    import pyarrow as pa

    place = e.args.get("decimals") or (e.args.get("expression") if isinstance(e, exp.Trunc) else None)
    digits = 0 if place is None else constant_integer(place, "digits", -40, 40)
    unit = Fraction(10) ** -digits
    low, high = total.range.low, total.range.high
    if not isinstance(low, Fraction) or not isinstance(high, Fraction) or not total.type.is_numeric:
        return None
    first, last = ceil(low / unit), floor(high / unit)
    if last - first < MAX_IMPLIED:  # rounding may move the value at an end of a range over the next step
        ends = [round(v / unit) for v in _corners(known, total, public)]
        first, last = min(first, *ends, first), max(last, *ends, last)
    if not 0 <= last - first < MAX_IMPLIED or max(abs(first), abs(last)) >= 2**53:
        return None
    written = [str(Decimal(i).scaleb(-digits)) for i in range(first, last + 1)]
    query = exp.select(exp.alias_(typed(identifier("k"), total.type), "k")).from_("steps")
    values = distinct(query, {"steps": pa.table({"k": written})}, total.type, _nulls(total.range), public)
    step = "whole numbers" if unit == 1 else f"multiples of {Decimal(1).scaleb(-digits):f}"
    return Domain(values, f"{step}, {_shown(first * unit)} to {_shown(last * unit)}")


def _corners(known: Mapping[str, Scalar], total: Scalar, public: PublicEngine) -> list[Fraction]:
    """What the engine makes of an expression where its columns are at the ends of their ranges."""
    import pyarrow as pa

    names = sorted({c.name for c in nodes_of(total.sql, exp.Column)})
    ranges = [known[n].range for n in names]
    if len(names) > 3 or not all(isinstance(r.low, Fraction) and isinstance(r.high, Fraction) for r in ranges):
        return []
    points = list(product(*((_written(r.low), _written(r.high)) for r in ranges)))
    table = pa.table({n: [p[i] for p in points] for i, n in enumerate(names)})
    columns = [exp.alias_(typed(identifier(n), known[n].type), n, quoted=True) for n in names]
    inner = exp.Subquery(this=exp.select(*columns).from_("corners"), alias=exp.TableAlias(this=quoted("q")))
    value = cast(total.sql.copy(), "DOUBLE")
    query = exp.select(exp.alias_(value, "k")).from_(inner)
    found = public.table(query, {"corners": table}).column("k").to_pylist()
    return [Fraction(v) for v in found if v is not None and isfinite(v)]


def _written(value: object) -> str:
    """A number as a text from which a double, a decimal or an integer of it is read."""
    assert isinstance(value, Fraction)
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


def _shown(value: Fraction) -> str:
    return f"{Decimal(value.numerator) / value.denominator:,f}" if value.denominator > 1 else f"{value.numerator}"


def _truncated(e: exp.Expr, known: Mapping[str, Scalar], public: PublicEngine) -> Domain | None:
    """DATE_TRUNC of a date or timestamp with a finite range: every step of the range, truncated."""
    unit, inner = e.args["unit"].name.upper(), scalar(e.this, known)
    ends = _moments(inner.range)
    if ends is None:
        return None
    step = unit if unit in _SECONDS else "DAY"
    steps = (ends[1] - ends[0]).total_seconds() / _SECONDS[step]
    if steps > MAX_STEPS or (step != "DAY" and steps >= MAX_IMPLIED):
        return None
    moment = exp.cast(exp.column(quoted("moment")), data_type(inner.type.sql))
    truncated = type(e)(**{**e.args, "this": moment})
    return _of_series(
        truncated, (_timestamp(_start(ends[0], step)), ends[1]), ("1", step), inner, f"each {unit.lower()}", public
    )


def _names(e: exp.Expr, known: Mapping[str, Scalar], public: PublicEngine) -> Domain | None:
    """DAYNAME or MONTHNAME of any moment: those of the days of one year. None where a range says which there can be."""
    ends = _moments(scalar(e.this, known).range)
    if ends is not None and (ends[1] - ends[0]).days < MAX_COMPUTED:
        return None
    moment = exp.column(quoted("moment"))
    named = type(e)(**{**e.args, "this": moment})
    begin, nulls = cast(exp.Literal.string("2000-01-01"), "TIMESTAMP"), scalar(e.this, known).range
    values = _listed(named, _unnested(begin, _timestamp(datetime(2000, 12, 31)), _interval("1", "DAY")))
    return Domain(distinct(values, {}, VARCHAR, _nulls(nulls), public), "all names")


def _start(moment: datetime, step: str) -> datetime:
    """The beginning of the step that a moment is in, so that a series from there meets the last step of a range."""
    begin = moment.replace(microsecond=0)
    if step != "SECOND":
        begin = begin.replace(second=0)
    if step in ("DAY", "HOUR"):
        begin = begin.replace(minute=0)
    return begin.replace(hour=0) if step == "DAY" else begin


def _buckets(e: exp.Expr, known: Mapping[str, Scalar], public: PublicEngine) -> Domain | None:
    """TIME_BUCKET of a date or timestamp with a finite range: the first bucket and those that follow."""
    text, months, span = bucket_width(e)
    inner = scalar(e.expression, known)
    ends = _moments(inner.range)
    least = span.total_seconds() or months * 28 * 86_400
    if ends is None or (ends[1] - ends[0]).total_seconds() / least > MAX_IMPLIED:
        return None
    moment = exp.cast(exp.column(quoted("moment")), data_type(inner.type.sql))
    first = type(e)(this=e.this.copy(), expression=_timestamp(ends[0]))
    width = (str(months), "MONTH") if months else (str(int(span.total_seconds() * 1_000_000)), "MICROSECOND")
    bucket = type(e)(this=e.this.copy(), expression=moment)
    return _of_series(bucket, (first, ends[1]), width, inner, f"each {text.lower()}", public)


def _of_series(
    value: exp.Expr,
    ends: tuple[exp.Expr, datetime],
    step: tuple[str, str],
    inner: Scalar,
    why: str,
    public: PublicEngine,
) -> Domain | None:
    """The different values of an expression over the moments of a series."""
    series = _unnested(ends[0], _timestamp(ends[1]), _interval(*step))
    values = distinct(_listed(value, series), {}, inner.type, _nulls(inner.range), public)
    return Domain(values, f"{why} of the range") if len(values) <= MAX_IMPLIED else None


def _listed(value: exp.Expr, series: exp.Expr) -> exp.Select:
    """An expression over the moments of a series, as k."""
    source = exp.Subquery(
        this=exp.select(exp.alias_(series, "moment", quoted=True)),
        alias=exp.TableAlias(this=exp.to_identifier("s")),
    )
    return exp.select(exp.alias_(value, "k")).from_(source)


def _moments(known: Range) -> tuple[datetime, datetime] | None:
    if not isinstance(known.low, date) or not isinstance(known.high, date):
        return None
    low, high = (v if isinstance(v, datetime) else datetime(v.year, v.month, v.day) for v in (known.low, known.high))
    return low, high


def _interval(amount: str, unit: str) -> exp.Expr:
    return exp.Interval(this=exp.Literal.string(amount), unit=exp.Var(this=unit))


def _timestamp(value: datetime) -> exp.Expr:
    return cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")


def _nulls(known: Range) -> Sequence[None]:
    return [None] if known.nullable else []
