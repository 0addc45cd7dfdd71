"""Intervals as text for people: a half width, a range, or a bound where there is no 95% interval on one side.

No text is narrower than the interval, and none names an infinite end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from math import ceil, floor, inf, isfinite, isnan, log10
from typing import Any, Literal

from dpsql.core.frozen import dataclass

Interval = tuple[Any, Any] | None  # of numbers, or of dates or times
Kind = Literal["none", "unknown", "half width", "range", "at least", "at most"]

LOPSIDED = 0.1  # of its width: what the sides of an interval may differ by, and still be shown as one half width
ROUNDED = 0.2  # of its distance from the value is how far an end may be rounded away from it
DIGITS = 2  # that an end keeps of its own


def ends_of(interval: Interval) -> tuple[float, float]:
    """Both ends; infinite where an end isn't known."""
    if interval is None:
        return -inf, inf
    low, high = interval
    return -inf if isnan(low) else low, inf if isnan(high) else high


def kind_of(value: Any, interval: Interval) -> Kind:
    """What stands for the error of a value; "none" where there is no value to be off."""
    if value is None:
        return "none"
    if is_moment(interval):
        return "range"
    low, high = ends_of(interval)
    if isfinite(low) and isfinite(high):
        return "range" if half_width(value, interval) is None else "half width"
    if isfinite(low) or isfinite(high):
        return "at least" if isfinite(low) else "at most"
    return "unknown"


def is_moment(interval: Interval) -> bool:
    """Is it an interval of dates or times?"""
    return interval is not None and isinstance(interval[0], date)


def half_width(value: Any, interval: Interval) -> float | None:
    """The longer side of an interval that is about alike on both sides; None: it isn't."""
    low, high = ends_of(interval)
    if not isfinite(high - low):
        return None
    below, above = float(value) - low, high - float(value)
    alike = LOPSIDED * (high - low) + _rounding(value)
    inside = min(below, above) >= -_rounding(value)
    return max(below, above) if inside and abs(below - above) <= alike else None


def _rounding(value: Any) -> float:
    """How far the sides may differ because the value was rounded: the interval is around the unrounded one."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) else 0.0
    return 1.0 if isinstance(value, int) else 0.0


def margins(values: Sequence[Any], ends: Sequence[Interval] | None) -> list[float]:
    """How far off the values of a column may be: half of each interval, or the side that is known; none that is 0."""
    found = []
    for value, interval in zip(values, ends or (), strict=False):
        if is_moment(interval):
            continue
        low, high = ends_of(interval)
        if value is not None and isfinite(high - low):
            found.append((high - low) / 2)
        elif value is not None and isfinite(low) != isfinite(high):
            found.append(_margin(value, low if isfinite(low) else high))
    return [margin for margin in found if margin > 0 and isfinite(margin)]


# ---------------------------------------------------------------- ends, rounded outward


@dataclass(frozen=True, slots=True)
class Writer:
    """How the ends of a column's intervals are written: as its values are, and no more digits than they mean."""

    say: Callable[[Any], str]  # a value of the column
    decimals: int | None  # of its values; None: as many as each needs
    unit: float = 1.0  # thousands or millions, where they are written so

    def interval(self, value: Any, interval: Interval) -> str:
        """The text of an interval: "19,600 to 22,100", "at least 19,600", "at most 22,100" or "unknown"."""
        if interval is not None and is_moment(interval):
            return f"{self.say(interval[0])} to {self.say(interval[1])}"
        low, high = ends_of(interval)
        match isfinite(low), isfinite(high):
            case True, True:
                slack = _slack(value, low), _slack(value, high)
                if min(slack) < self._least:
                    slack = 0.0, 0.0  # where one end has decimals, both have
                return f"{self.end(low, slack[0], up=False)} to {self.end(high, slack[1], up=True)}"
            case True, False:
                return f"at least {self.end(low, _slack(value, low), up=False)}"
            case False, True:
                return f"at most {self.end(high, _slack(value, high), up=True)}"
            case _:
                return "unknown"

    def end(self, end: float, slack: float, *, up: bool) -> str:
        """An end, rounded outward by no more than the slack where that has digits before the point."""
        step = self._step(end, slack)
        if not (step > 0 and isfinite(end / step)):
            return self.say(end)
        steps = (ceil if up else floor)(round(end / step, 6))
        if not isfinite(rounded := float(steps) * step + 0.0) or self.unit > 1:  # never -0
            return self.say(end if not isfinite(rounded) else rounded)
        text = f"{rounded:,.{min(max(-floor(log10(step) + 1e-9), 0), 15)}f}"
        return text.rstrip("0").rstrip(".") if self.decimals is None and "." in text else text

    @property
    def _least(self) -> float:
        """What ends are rounded to at least, if not as values are: not to 11 beside values like 20.8."""
        return 1.0 if self.decimals == 0 else 10.0

    def _step(self, end: float, slack: float) -> float:
        """A power of ten: what an end is rounded to."""
        finest = self.unit if self.unit > 1 else 0.0 if self.decimals is None else 10.0**-self.decimals
        coarse = _power(slack) if slack > 0 and isfinite(slack) else 0.0
        if finest:
            return coarse if coarse >= max(finest, self._least) else finest
        return coarse if coarse or not end else _power(end) * 1e-5


def _margin(value: Any, end: float) -> float:
    return 0.0 if value is None else abs(float(value) - end)


def _slack(value: Any, end: float) -> float:
    """How far an end may be rounded away from its value: it stays about as near, and keeps digits of its own."""
    return min(ROUNDED * _margin(value, end), _power(end) / 10 ** (DIGITS - 1) if end else inf)


def _power(size: float) -> float:
    """The power of ten of its first digit."""
    return 10.0 ** floor(log10(abs(size)))
