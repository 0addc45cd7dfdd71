"""Ranges to propose for a column: from its 99.9th percentile, since the greatest value may be one typing error.

A range as wide as the worst typing error would make the noise of every sum that much larger. What lies outside is
clipped by queries; how much it is, and how large, is for the steward's terminal and never for the policy.
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
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import Table
from dpsql.steward.look import call, count_if, literal, look, of, table_node
from dpsql.steward.rounding import outwards

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
