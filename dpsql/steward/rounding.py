"""Ranges with round ends: the fewer digits a number read off rows has, the less it tells of them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from dpsql.core.types import Type


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
