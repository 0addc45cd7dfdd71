"""Ranges to propose for a column: from its 99.9th percentile, since the greatest value may be one typing error.

A range as wide as the worst typing error would make the noise of every sum that much larger. What lies outside is
clipped by queries; how much it is, and how large, is for the steward's terminal and never for the policy. Ends are
round: the fewer digits a number read off rows has, the less it tells of them. Questions about rows are trees, and are
asked in one way. Trusted: what is found is not private.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.backends.base import Backend
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import Table

SHARE_OUTSIDE = Fraction(1, 1000)
"""Of a column's values, what may lie beyond each end of its range."""
FEW_OUTSIDE, SHARE_OF_FEW = 5, Fraction(1, 100)
"""In tables of a few thousand rows a thousandth is next to nobody: there so many values may, but at most this share."""
UNKNOWN = re.compile(r"-9|-?9{2,}|-1")
"""Numbers by which people write that they don't know a number."""
SHARE_UNKNOWN = Fraction(1, 20)
"""Of a column's values, what may be such a number. Of more, only the steward can say what it means."""

Numbers = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Ranged:
    """A column with an order. value: its values as queries see them. count: of its rows that aren't NULL and finite."""

    name: str
    type: Type
    value: exp.Expr
    count: int
    least: Any
    greatest: Any

    @property
    def usable(self) -> bool:
        """Has it values, and are its ends ones that Python has?"""
        return bool(self.count) and not any(isinstance(end, str) for end in (self.least, self.greatest))


@dataclass(frozen=True, slots=True)
class Range:
    """A range to propose, and for the steward alone what lies outside of it. unknown: numbers that mean "unknown"."""

    low: Any
    high: Any
    least: Any
    greatest: Any
    below: int
    above: int
    unknown: Numbers = ()

    @property
    def outside(self) -> int:
        """How many rows lie outside."""
        return self.below + self.above


def outside_each_end(count: int) -> int:
    """How many of `count` values may lie beyond each end of a range: a thousandth, or the few that a typo takes."""
    return max(int(count * SHARE_OUTSIDE), min(int(count * SHARE_OF_FEW), FEW_OUTSIDE))


def finite(value: exp.Expr, type_: Type) -> exp.Expr | None:
    """The condition under which a value is one that a range can hold; None: always."""
    if type_.is_float or type_.is_date or type_.is_timestamp:
        return call("isfinite", value)
    return None


def in_order(value: exp.Expr, type_: Type) -> exp.Expr:
    """A value as Python can fetch it: a time stamp with a zone as the same moment in UTC, without one."""
    if not type_.has_zone:
        return value
    moment = call("make_timestamp", call("epoch_us", value))
    return exp.Case(ifs=[exp.If(this=call("isfinite", value), true=moment)])


def ranges(backend: Backend, table: Table, columns: Sequence[Ranged]) -> Mapping[str, Range]:
    """A range for each column that has values, by its name."""
    usable = [column for column in columns if column.usable]
    ends = dict(_percentiles(backend, table, usable, {}))
    unknown = {column.name: _unknown_ends(column, ends[column.name]) for column in usable}
    suspects = [column for column in usable if unknown[column.name]]
    without = dict(_percentiles(backend, table, suspects, unknown))
    shares = dict(_shares(backend, table, suspects, unknown))
    for column in suspects:
        name = column.name
        few = shares[name] <= SHARE_UNKNOWN and None not in without[name]
        apart = _apart(ends[name], without[name]) if few else ()
        unknown[name] = tuple(number for number in unknown[name] if number in apart)
        low, high = ends[name]
        ends[name] = (without[name][0] if low in apart else low, without[name][1] if high in apart else high)
    rounded = {column.name: _rounded(column, *ends[column.name]) for column in usable}
    return {
        column.name: Range(*rounded[column.name], column.least, column.greatest, below, above, unknown[column.name])
        for column, below, above in _outside(backend, table, usable, rounded)
    }


def _percentiles(
    backend: Backend, table: Table, columns: Sequence[Ranged], without: Mapping[str, Numbers]
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Each column's least and greatest value after what may lie outside; without: numbers to pass over."""
    asked: list[exp.Expr] = []
    for column in columns:
        beyond = outside_each_end(column.count)
        for place in (beyond, column.count - 1 - beyond):
            share = Fraction(2 * place + 1, 2 * column.count)  # the middle of the value's step: no rounding moves it
            quantile = call("quantile_disc", in_order(column.value, column.type), literal(float(share)))
            asked.append(of(quantile, _kept(column, without.get(column.name, ()))))
    if not asked:
        return
    found = look(backend, exp.select(*asked).from_(table_node(table)))
    for place, column in enumerate(columns):
        yield column.name, (found[2 * place], found[2 * place + 1])


def _kept(column: Ranged, unknown: Numbers) -> exp.Expr | None:
    """The condition under which a value counts; None: always."""
    there = finite(column.value, column.type)
    conditions = [there] if there is not None else []
    conditions += [exp.NEQ(this=column.value.copy(), expression=literal(number)) for number in unknown]
    return exp.and_(*conditions) if conditions else None


def _unknown_ends(column: Ranged, ends: tuple[Any, Any]) -> Numbers:
    """Those ends of a range that may mean "unknown"."""
    if not column.type.is_numeric:
        return ()
    return tuple(end for end in dict.fromkeys(ends) if UNKNOWN.fullmatch(f"{Decimal(str(end)).normalize():f}"))


def _apart(ends: tuple[Any, Any], without: tuple[Any, Any]) -> Numbers:
    """Those ends that lie further from all other values than these lie from each other, and negative ones of others."""
    (low, high), (least, greatest) = ends, without
    span = greatest - least
    far = [low] if low < least and (least - low > span or least >= 0 > low) else []
    return (*far, high) if high - greatest > span else tuple(far)


def _shares(
    backend: Backend, table: Table, columns: Sequence[Ranged], unknown: Mapping[str, Numbers]
) -> Iterator[tuple[str, Fraction]]:
    """Which share of each column's values are numbers that may mean "unknown"."""
    listed = [[literal(number) for number in unknown[c.name]] for c in columns]
    asked = [count_if(exp.In(this=c.value.copy(), expressions=n)) for c, n in zip(columns, listed, strict=True)]
    if asked:
        found = look(backend, exp.select(*asked).from_(table_node(table)))
        yield from ((c.name, Fraction(int(n), c.count)) for c, n in zip(columns, found, strict=True))


def _rounded(column: Ranged, low: Any, high: Any) -> tuple[Any, Any]:
    if column.type.is_date or column.type.is_timestamp:
        low, high = _with_neighbours(column, low, high)
    return outwards(low, high, column.type, column.name)


def _with_neighbours(column: Ranged, low: Any, high: Any) -> tuple[Any, Any]:
    """Days that are near belong to a range: nobody adds days up, and a month outside has no row in an answer."""
    near = max((high - low) / 10, timedelta(days=31))
    low = column.least if low - column.least <= near else low
    high = column.greatest if column.greatest - high <= near else high
    return low, high


def _outside(
    backend: Backend, table: Table, columns: Sequence[Ranged], rounded: Mapping[str, tuple[Any, Any]]
) -> Iterator[tuple[Ranged, int, int]]:
    """How many rows of each column lie below its range, and how many above."""
    asked: list[exp.Expr] = []
    for column in columns:
        value, condition = in_order(column.value, column.type), finite(column.value, column.type)
        for end, compare in zip(rounded[column.name], (exp.LT, exp.GT), strict=True):
            beyond = compare(this=value.copy(), expression=_end(end))
            asked.append(count_if(exp.and_(condition.copy(), beyond) if condition is not None else beyond))
    if not asked:
        return
    found = [int(number) for number in look(backend, exp.select(*asked).from_(table_node(table)))]
    for place, column in enumerate(columns):
        yield column, found[2 * place], found[2 * place + 1]


def _end(end: Any) -> exp.Expr:
    if isinstance(end, datetime):
        return exp.cast(exp.Literal.string(end.isoformat(sep=" ")), "TIMESTAMP")
    if isinstance(end, date):
        return exp.cast(exp.Literal.string(end.isoformat()), "DATE")
    return literal(end)


def outwards(low: Any, high: Any, type_: Type, name: str = "") -> tuple[Any, Any]:
    """A range that holds both, with round ends: the fewer digits, the less it tells of the rows."""
    if isinstance(low, datetime) or isinstance(high, datetime):
        first, last = _dates(low.date(), high.date())
        return datetime(first.year, first.month, first.day), datetime(last.year, last.month, last.day, 23, 59, 59)
    if isinstance(low, date):
        return _dates(low, high)
    if type_.is_integer and (known := _calendar(name)) and known[0] <= low and high <= known[1]:
        return known
    least, most = Decimal(str(low)), Decimal(str(high))
    if least == most and not _is_year(name):
        least, most = _around(least)
    if type_.is_integer and most - least <= 10:
        return int(least), int(most)
    step = _step((most - least) or abs(most))
    if type_.is_integer:
        step = max(step, Decimal(1))
    bottom, top = (least // step) * step, -((-most) // step) * step
    if least < 0 and bottom > least:  # // rounds towards zero
        bottom -= step
    if most > 0 and top < most:
        top += step
    return _plain(bottom), _plain(top)


def _step(span: Decimal) -> Decimal:
    """1, 2 or 5 times a power of ten: the least that is a tenth of the span or more."""
    if not span:
        return Decimal(1)
    rough = span / 10
    power = Decimal(1).scaleb(rough.adjusted())
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def _around(constant: Decimal) -> tuple[Decimal, Decimal]:
    """A range for a column of one value: in a range of that value alone every answer would be the value."""
    if not constant:
        return Decimal(0), Decimal(1)
    return min(constant, Decimal(0)), max(constant, Decimal(0))


def _is_year(name: str) -> bool:
    return name.lower().rpartition("_")[2] == "year"


def _calendar(name: str) -> tuple[int, int] | None:
    word = name.lower().rpartition("_")[2]
    return {"month": (1, 12), "day": (1, 31), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}.get(word)


def _dates(low: date, high: date) -> tuple[date, date]:
    if (high - low).days > 730:
        return date(low.year, 1, 1), date(high.year, 12, 31)
    following = date(high.year + high.month // 12, high.month % 12 + 1, 1) if high.year < 9999 else high
    return date(low.year, low.month, 1), date.fromordinal(following.toordinal() - 1)


def _plain(number: Decimal) -> int | Decimal:
    return int(number) if number == number.to_integral_value() else number.normalize()


def look(backend: Backend, query: exp.Select) -> tuple[Any, ...]:
    """The one row of a question; the steward may see the engine's own words."""
    try:
        return backend.look(query)
    except EngineError as error:
        raise DataError(
            f"the data can't be read: {error}", code="unreadable", hint="see the sources of the policy"
        ) from None


def table_node(table: Table) -> exp.Table:
    """A table as the engine knows it."""
    return exp.Table(this=exp.to_identifier(table.name.lower(), quoted=True))


def column_node(name: str) -> exp.Column:
    """A column by its name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def literal(value: object) -> exp.Expr:
    """A number as a literal; with a sign as the negation of one, as the engine's own parser writes it."""
    text = f"{value:f}" if not isinstance(value, int | float) else repr(value)
    if text.startswith("-"):
        return exp.Neg(this=exp.Literal.number(text[1:]))
    return exp.Literal.number(text)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function of the engine's."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def not_null(value: exp.Expr) -> exp.Expr:
    """The condition that there is a value."""
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))


def count_if(condition: exp.Expr) -> exp.Expr:
    """How many rows meet a condition."""
    return of(exp.Count(this=exp.Star()), condition)


def of(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """An aggregate of the rows that meet a condition; None: of all."""
    return aggregate if condition is None else exp.Filter(this=aggregate, expression=exp.Where(this=condition))
