"""What is known of a value before any row is read: its least and greatest value, and whether it can be NULL.

Theorem RANGE-1: a range only chooses the clip; the clip at run time makes the bound true. So a range that data or
rounding breaks costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql.core.frozen import dataclass

Value = Fraction | date | datetime
_End = Fraction | float  # ±inf on an open side


@dataclass(frozen=True, slots=True)
class Range:
    """low ≤ value ≤ high whenever the value is neither NULL, NaN nor infinite; None: no bound on that side."""

    low: Value | None = None
    high: Value | None = None
    nullable: bool = True
    why: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and _before(self.high, self.low):
            raise ValueError(f"empty range: [{self.low}, {self.high}]")

    @classmethod
    def of(
        cls,
        low: int | float | Decimal | Value | None,
        high: int | float | Decimal | Value | None,
        nullable: bool = True,
        why: Iterable[str] = (),
    ) -> Range:
        """A range from plain numbers or dates."""
        return cls(_value(low), _value(high), nullable, tuple(why))

    @property
    def is_finite(self) -> bool:
        return self.low is not None and self.high is not None

    @property
    def magnitude(self) -> Fraction:
        """The largest absolute value of a finite range of numbers."""
        low, high = self._numbers()
        if isinstance(low, float) or isinstance(high, float):
            raise ValueError("an open range has no magnitude")
        return max(abs(low), abs(high))

    @property
    def span(self) -> Fraction:
        """high - low of a finite range: in days for dates, in microseconds for timestamps."""
        if self.low is None or self.high is None:
            raise ValueError("an open range has no span")
        if isinstance(self.low, Fraction) and isinstance(self.high, Fraction):
            return self.high - self.low
        gap = _key(self.high) - _key(self.low)
        if isinstance(self.low, datetime):
            return Fraction((gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds)
        return Fraction(gap.days)

    def contains(self, value: Value) -> bool:
        return not (
            (self.low is not None and _before(value, self.low)) or (self.high is not None and _before(self.high, value))
        )

    # What changes besides the bounds

    def with_nullable(self, nullable: bool) -> Range:
        return replace(self, nullable=nullable)

    def because(self, *why: str) -> Range:
        """The range with these reasons added to its own, each of them once."""
        return replace(self, why=tuple(dict.fromkeys((*self.why, *why))))

    def open(self) -> Range:
        """No bounds; NULL where this is NULL."""
        return Range(nullable=self.nullable)

    # Arithmetic: NULL if either is NULL

    def neg(self) -> Range:
        low, high = self._numbers()
        return self._with(-high, -low)

    def add(self, other: Range) -> Range:
        (a, b), (c, d) = self._numbers(), other._numbers()
        return self._join(other, a + c, b + d)

    def sub(self, other: Range) -> Range:
        return self.add(other.neg())

    def mul(self, other: Range) -> Range:
        products = [_times(x, y) for x in self._numbers() for y in other._numbers()]
        return self._join(other, min(products), max(products))

    def div(self, other: Range) -> Range:
        """self / other where other isn't 0; the caller says what 0 does to nullable."""
        low, high = other._numbers()
        if low < 0 < high or (low == 0 and high == 0):
            return self._join(other, -math.inf, math.inf)
        return self.mul(replace(other, low=_closed(_inverse(high, -1)), high=_closed(_inverse(low, 1))))

    def mod(self, other: Range) -> Range:
        """The remainder that has the sign of self and is no larger than either."""
        (a, b), (c, d) = self._numbers(), other._numbers()
        zero, top = Fraction(0), _larger(_larger(c, -c), _larger(d, -d))
        low, high = (a if a < zero else zero), _larger(b, zero)
        return self._join(other, _larger(low, -top), high if high < top else top)

    def abs(self) -> Range:
        low, high = self._numbers()
        if low >= 0:
            return self
        if high <= 0:
            return self.neg()
        return self._with(Fraction(0), _larger(-low, high))

    def rounded(self, digits: int = 0) -> Range:
        """To digits after the point; a half goes outwards on either side, since engines disagree about halves."""
        unit = Fraction(10) ** -digits
        half = Fraction(1, 2)
        return self.monotone(
            lambda v: math.ceil(_number(v) / unit - half) * unit, lambda v: math.floor(_number(v) / unit + half) * unit
        )

    def monotone(
        self, rise: Callable[[Value], Value | None], rise_high: Callable[[Value], Value | None] | None = None
    ) -> Range:
        """Both ends through a function that never falls (`rise_high` for the upper one, if it rounds another way)."""
        low = None if self.low is None else rise(self.low)
        high = None if self.high is None else (rise_high or rise)(self.high)
        return replace(self, low=low, high=high)

    # Several values

    def hull(self, *others: Range) -> Range:
        """One of these, we don't know which."""
        ranges = (self, *others)
        lows, highs = [r.low for r in ranges], [r.high for r in ranges]
        return Range(
            None if None in lows else _least(lows),
            None if None in highs else _greatest(highs),
            any(r.nullable for r in ranges),
            _reasons(ranges),
        )

    def excludes(self, other: Range) -> bool:
        """Has no value a place in both?"""
        return any(
            a is not None and b is not None and _before(b, a)
            for a, b in ((self.low, other.high), (other.low, self.high))
        )

    def intersect(self, other: Range) -> Range:
        """Both hold at once. Where they contradict each other this one stands: a filter that no promised row passes."""
        lows = [v for v in (self.low, other.low) if v is not None]
        highs = [v for v in (self.high, other.high) if v is not None]
        low, high = _greatest(lows), _least(highs)
        if low is not None and high is not None and _before(high, low):
            return self
        return Range(low, high, self.nullable and other.nullable, _reasons((self, other)))

    @staticmethod
    def least(ranges: list[Range]) -> Range:
        """The smallest of the values that aren't NULL."""
        lows, highs = [r.low for r in ranges], [r.high for r in ranges]
        # An argument that is never NULL always takes part; one that can be NULL only bounds together with all others.
        sure = [r.high for r in ranges if not r.nullable and r.high is not None]
        top = None if None in highs else _greatest(highs)
        return Range(
            None if None in lows else _least(lows),
            _least([v for v in (*sure, top) if v is not None]),
            all(r.nullable for r in ranges),
            _reasons(ranges),
        )

    @staticmethod
    def greatest(ranges: list[Range]) -> Range:
        """The largest of the values that aren't NULL."""
        lows, highs = [r.low for r in ranges], [r.high for r in ranges]
        sure = [r.low for r in ranges if not r.nullable and r.low is not None]
        bottom = None if None in lows else _least(lows)
        return Range(
            _greatest([v for v in (*sure, bottom) if v is not None]),
            None if None in highs else _greatest(highs),
            all(r.nullable for r in ranges),
            _reasons(ranges),
        )

    def clip(self, low: Value, high: Value) -> Range:
        """Every value moved into [low, high]."""

        def inside(v: Value) -> Value:
            return min(max(v, low, key=_key), high, key=_key)

        first, last = low if self.low is None else self.low, high if self.high is None else self.high
        return replace(self, low=inside(first), high=inside(last))

    # Inside

    def _numbers(self) -> tuple[_End, _End]:
        low: _End = -math.inf if self.low is None else _number(self.low)
        high: _End = math.inf if self.high is None else _number(self.high)
        return low, high

    def _with(self, low: _End, high: _End) -> Range:
        return replace(self, low=_closed(low), high=_closed(high))

    def _join(self, other: Range, low: _End, high: _End) -> Range:
        return Range(_closed(low), _closed(high), self.nullable or other.nullable, _reasons((self, other)))


def float_outward(function: Callable[[float], float], low: Fraction | None, high: Fraction | None) -> tuple[_End, _End]:
    """A rising float function over [low, high], each end moved a few units in the last place outwards."""
    return _outward(function, low, -math.inf), _outward(function, high, math.inf)


def _outward(function: Callable[[float], float], end: Fraction | None, direction: float) -> _End:
    if end is None:
        return direction
    try:
        value = function(math.nextafter(float(end), direction))
    except (OverflowError, ValueError):
        return direction
    for _ in range(4):
        value = math.nextafter(value, direction)
    return direction if math.isinf(value) or math.isnan(value) else Fraction(value)


def from_ends(low: _End, high: _End, like: Range) -> Range:
    """A range with these ends (±inf: open) and everything else as in `like`."""
    return like._with(low, high)


def _value(value: int | float | Decimal | Value | None) -> Value | None:
    if value is None or isinstance(value, date | Fraction):
        return value
    return Fraction(value)


def _number(value: Value) -> Fraction:
    if not isinstance(value, Fraction):
        raise TypeError(f"{value!r} is not a number")
    return value


def _key(value: Value) -> Any:
    """Ordered among its kind; a date beside a timestamp is its midnight."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def _before(a: Value, b: Value) -> bool:
    return bool(_key(a) < _key(b))


def _least(values: Iterable[Value | None]) -> Value | None:
    return min((v for v in values if v is not None), key=_key, default=None)


def _greatest(values: Iterable[Value | None]) -> Value | None:
    return max((v for v in values if v is not None), key=_key, default=None)


def _reasons(ranges: Iterable[Range]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for r in ranges for reason in r.why))


def _times(x: _End, y: _End) -> _End:
    return Fraction(0) if x == 0 or y == 0 else x * y  # 0 times an open side: the values themselves are finite


def _inverse(x: _End, direction: int) -> _End:
    if x == 0:
        return direction * math.inf
    return Fraction(0) if isinstance(x, float) else 1 / x


def _larger(x: _End, y: _End) -> _End:
    return x if x > y else y


def _closed(end: _End) -> Fraction | None:
    return None if isinstance(end, float) else end
