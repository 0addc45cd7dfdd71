"""An answer's columns as text for people: no more digits than the error leaves, dates as dates, thousands set apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from dpsql.answer.render import CONFIDENCE, cut_mark, plain_value, printable
from dpsql.core.errors import text_width
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

Interval = tuple[float, float] | None
UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown of each value."""

    digits: int = 2  # of the smallest error in a column
    figures: int = 6  # of a number without an error
    gap: int = 3  # spaces between columns
    joined: bool = False  # ± in the column of its value
    ranges: bool = True  # the interval of a value that there is too little for
    units: bool = False  # thousands as k, millions as M, where the error is as large as that
    longest: int | None = None  # characters of a text


FULL = Style()
NARROW = (
    Style(digits=1, figures=4),
    Style(digits=1, figures=4, gap=2),
    Style(digits=1, figures=4, gap=2, joined=True, ranges=False),
    Style(digits=1, figures=4, gap=2, joined=True, ranges=False, units=True),
    Style(digits=1, figures=4, gap=2, joined=True, ranges=False, units=True, longest=24),
    Style(digits=1, figures=4, gap=2, joined=True, ranges=False, units=True, longest=12),
)
"""The wider first."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of text."""

    header: str
    cells: list[str]
    right: bool
    noise: bool = False  # a ± column
    hints: list[str] | None = None  # the interval behind each ±, in words

    @property
    def width(self) -> int:
        """How many columns of a terminal it takes."""
        return max(map(text_width, [self.header, *self.cells]))


@dataclass(frozen=True, slots=True)
class Source:
    """A column before it is text."""

    name: str
    values: list[Any]
    ends: list[Interval] | None  # its intervals
    noisy: bool  # measured, and not a key
    few: bool  # NULL is an average of next to nothing
    mark: str = ""  # what is cut of it, in words, where that exceeds its noise

    def shown(self, style: Style) -> list[Shown]:
        """The column as text, and its ± if it has one."""
        say = _say(self, style)
        cells = ["too few" if self.few and v is None else _short(say(v), style) for v in self.values]
        head = Shown(_short(printable(self.name), style), cells, any(map(_is_number, self.values)))
        if self.ends is None:
            return [head]
        ends = [None if v is None and not style.ranges else w for v, w in zip(self.values, self.ends, strict=True)]
        errors = [_error(v, w, say) for v, w in zip(self.values, ends, strict=True)]
        hints = ["" if w is None else f"{say(w[0])} to {say(w[1])}" for w in self.ends]
        if style.joined:
            return [_joined(head, errors, hints)]
        mark = f" ({self.mark})" if self.mark else ""
        return [head, Shown(f"± {CONFIDENCE:.0%}{mark}", errors, True, True, hints)]


def sources(answer: Answer, limit: int | None) -> list[Source]:
    """The answer's columns, or so many rows of them."""
    from dpsql.answer.intervals import Origin
    from dpsql.answer.model import values as python_values

    table = answer.table if limit is None else answer.table.slice(0, limit)
    names = Counter(answer.columns)
    intervals = answer.intervals(CONFIDENCE)
    found = []
    for i, name in enumerate(answer.columns):
        values = python_values(table.column(i))
        cells = intervals[name] if names[name] == 1 else None  # intervals go by name, which two columns may share
        ends = None if cells is None else cells[: len(values)]
        noisy = answer.origins[i] is not None or name in answer.missing or name in answer.ranks
        few = ends is not None and isinstance(answer.origins[i], Origin)
        found.append(Source(name, values, ends, noisy, few, cut_mark(answer, name)))
    return found


def columns(found: Sequence[Source], style: Style = FULL) -> list[Shown]:
    """Columns of text, each that has noise of its own followed by its ±."""
    return [one for source in found for one in source.shown(style)]


def _joined(head: Shown, errors: Sequence[str], hints: list[str]) -> Shown:
    """A column with its errors in it: 835 ± 11."""
    left, right = max(map(text_width, head.cells), default=0), max(map(text_width, errors), default=0)
    cells = []
    for value, error in zip(head.cells, errors, strict=True):
        behind = "" if not error else f" ({error})" if " to " in error else f" ± {error}"
        cells.append(padded(value, left, True) + padded(behind, right + 3, False))
    return replace(head, header=f"{head.header} ±", cells=[c.rstrip() for c in cells], right=False, hints=hints)


def _say(source: Source, style: Style) -> Callable[[Any], str]:
    """How the values of a column are written: alike. Thousands are set apart in what was measured, not in keys."""
    noisy, decimals = source.noisy, _decimals(source.values, source.ends, style)
    unit, sign = _unit(source.ends) if style.units else (1.0, "")
    moments = [v for v in source.values if isinstance(v, datetime)]
    days = bool(moments) and all(v.time() == time(0) for v in moments)
    minutes = all(v.second == v.microsecond == 0 for v in moments)

    def say(value: Any) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return plain_value(value)
            case int() | float() | Decimal() if sign:
                return f"{float(value) / unit:,.0f}{sign}"
            case float():
                return _number(value, decimals, noisy, style)
            case int() if noisy:
                return f"{value:,}"
            case Decimal() if noisy and value.is_finite():
                return f"{value:,f}" if decimals is None else f"{value:,.{decimals}f}"
            case datetime() if days:
                return value.date().isoformat()
            case datetime():
                return value.isoformat(sep=" ", timespec="minutes" if minutes else "auto")
            case _:
                return printable(plain_value(value))

    return say


def _unit(ends: Sequence[Interval] | None) -> tuple[float, str]:
    """The largest unit that the smallest error has ten of."""
    halves = _halves(ends)
    return next(((unit, sign) for unit, sign in UNITS if halves and min(halves) >= 10 * unit), (1.0, ""))


def _halves(ends: Sequence[Interval] | None) -> list[float]:
    """Half the widths of intervals."""
    return [(w[1] - w[0]) / 2 for w in ends or () if w is not None and isfinite(w[1] - w[0]) and w[1] > w[0]]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _decimals(values: Sequence[Any], ends: Sequence[Interval] | None, style: Style) -> int | None:
    """Decimals to show: as many as the smallest error has digits, 0 for integers; None without an error to go by."""
    if ends is None:
        return None
    if any(isinstance(v, int) for v in values):
        return 0
    halves = _halves(ends)
    return min(max(style.digits - 1 - floor(log10(min(halves))), 0), 15) if halves else None


def _number(value: float, decimals: int | None, noisy: bool, style: Style) -> str:
    comma = "," if noisy else ""
    if not isfinite(value):
        return str(value)
    if decimals is not None:
        return f"{value:{comma}.{decimals}f}"
    if 10**style.figures <= abs(value) < 1e15:
        return f"{value:{comma}.0f}"
    return f"{value:{comma}.{style.figures}g}"


def _error(value: Any, interval: Interval, say: Callable[[Any], str]) -> str:
    if interval is None:
        return "" if value is None else "unknown"
    low, high = interval
    if value is not None and isfinite(high - low):
        below, above = float(value) - low, high - float(value)
        rounding = 1.0 if isinstance(value, int) else 1e-6 * (high - low)  # the interval is around the unrounded value
        if abs(below - above) <= rounding:
            return _rounded_up(max(below, above), say)
    return f"{say(low)} to {say(high)}"


def _rounded_up(width: float, say: Callable[[Any], str]) -> str:
    """What is shown is no narrower than what is true."""
    text = say(width)
    if text[-1:].isalpha():  # in units
        return say(width + next(unit for unit, sign in UNITS if text.endswith(sign)) / 2)
    places = len(text.partition(".")[2])
    if "e" in text or float(text.replace(",", "")) >= width:
        return text
    scale = 10.0**places
    return say(ceil(round(width * scale, 6)) / scale)


def _short(text: str, style: Style) -> str:
    """A text cut to the style's length, with an ellipsis in place of the rest."""
    if style.longest is None or text_width(text) <= style.longest:
        return text
    while text_width(text) >= style.longest:
        text = text[:-1]
    return text + ELLIPSIS


def padded(text: str, width: int, right: bool) -> str:
    """A text with spaces before or behind it, so wide."""
    space = " " * max(width - text_width(text), 0)
    return space + text if right else text + space
