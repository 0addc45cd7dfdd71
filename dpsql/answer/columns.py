"""An answer's columns as text for people: no more digits than the error leaves, dates as dates, thousands set apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from math import ceil, floor, inf, isfinite, log10
from typing import TYPE_CHECKING, Any

from dpsql.aggregates.count import Count
from dpsql.answer.interval_text import Interval, Kind, Writer, half_width, is_moment, kind_of, margins
from dpsql.answer.render import CONFIDENCE, cut_mark, plain_value, printable
from dpsql.core.errors import text_width
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
ELLIPSIS = "…"
HALF_WIDTHS, RANGES = f"± {CONFIDENCE:.0%}", f"{CONFIDENCE:.0%} interval"


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown of each value."""

    digits: int = 2  # of the smallest error in a column
    figures: int = 6  # of a number without an error
    gap: int = 3  # spaces between columns
    joined: bool = False  # ± in the column of its value
    units: bool = False  # thousands as k, millions as M, where the error is as large as that
    longest: int | None = None  # characters of a text


FULL = Style()
NARROW = (
    Style(digits=1, figures=4),
    Style(digits=1, figures=4, gap=2),
    Style(digits=1, figures=4, gap=2, joined=True),
    Style(digits=1, figures=4, gap=2, joined=True, units=True),
    Style(digits=1, figures=4, gap=2, joined=True, units=True, longest=24),
    Style(digits=1, figures=4, gap=2, joined=True, units=True, longest=12),
)
"""The wider first."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of text."""

    header: str
    cells: list[str]
    right: bool
    noise: bool = False  # a column of errors
    hints: list[str] | None = None  # what each row's interval is, in words
    ranges: bool = False  # both ends of intervals stand in it, not half their widths

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
    empty: list[str] | None  # what stands for each NULL: too few rows, or too much noise
    mark: str = ""  # what is cut of it, in words, where that exceeds its noise

    def shown(self, style: Style) -> list[Shown]:
        """The column as text, and behind it its errors if it has some.

        A value without one end of its interval reads "at least" or "at most": nobody takes a bound for an estimate.
        Where one interval of a column is lopsided, both ends of all of them are shown, under a heading of their own.
        """
        writer = _writer(self, style)
        ends = self.ends or [None] * len(self.values)
        kinds = ["none" if self.ends is None else kind_of(v, w) for v, w in zip(self.values, ends, strict=True)]
        nulls = self.empty or ["NULL"] * len(self.values)
        cells = [
            null if v is None else writer.interval(v, w) if kind in ONE_SIDED else _short(writer.say(v), style)
            for v, w, kind, null in zip(self.values, ends, kinds, nulls, strict=True)
        ]
        head = Shown(_short(printable(self.name), style), cells, any(map(_is_number, self.values)))
        if self.ends is None:
            return [head]
        ranges = "range" in kinds
        errors = [_error(v, w, kind, ranges, writer) for v, w, kind in zip(self.values, ends, kinds, strict=True)]
        hints = [self._hint(v, w, kind, writer) for v, w, kind in zip(self.values, ends, kinds, strict=True)]
        if style.joined:
            return [_joined(head, errors, hints, ranges)]
        mark = f" ({self.mark})" if self.mark else ""
        if errors and not any(errors):
            return [replace(head, header=head.header + mark, hints=hints)]
        return [
            replace(head, hints=[h if kind in ONE_SIDED else "" for h, kind in zip(hints, kinds, strict=True)]),
            Shown(f"{RANGES if ranges else HALF_WIDTHS}{mark}", errors, True, True, hints, ranges),
        ]

    def _hint(self, value: Any, interval: Interval, kind: Kind, writer: Writer) -> str:
        """An interval in words, for whoever points at it."""
        if interval is None or kind in ("none", "unknown"):
            return ""
        text = writer.interval(value, interval)
        return f"{text} (measured: {writer.say(value)})" if kind in ONE_SIDED else text


ONE_SIDED: tuple[Kind, ...] = ("at least", "at most")


def sources(answer: Answer, limit: int | None) -> list[Source]:
    """The answer's columns, or so many rows of them."""
    from dpsql.answer.model import values as python_values

    table = answer.table if limit is None else answer.table.slice(0, limit)
    names = Counter(answer.columns)
    intervals = answer.intervals(CONFIDENCE)
    found = []
    for i, name in enumerate(answer.columns):
        values = python_values(table.column(i))
        cells = intervals[name] if names[name] == 1 else None  # intervals go by name, which two columns may share
        ends = None if cells is None else cells[: len(values)]
        if ends is not None and _is_count(answer, i):
            ends = [_from_nothing(end) for end in ends]
        noisy = answer.origins[i] is not None or name in answer.missing or name in answer.ranks
        empty = _words_of_nulls(answer, i, values) if None in values and (ends is not None or i in answer.few) else None
        found.append(Source(name, values, ends, noisy, empty, cut_mark(answer, name)))
    return found


def _is_count(answer: Answer, column: int) -> bool:
    """Does a column show a number of rows, values or units as it was measured? The exact number is no less than 0."""
    from dpsql.answer.intervals import Origin

    origin = answer.origins[column]
    if not isinstance(origin, Origin):
        return False
    steps = [noisy.step for noisy in answer.noisy if noisy.step.name in origin.releases]
    return bool(steps) and all(step.calls[origin.aggregate].function == Count.name for step in steps)


def _from_nothing(interval: Interval) -> Interval:
    """An interval of a count without an upper end: "at least 0" says as much as "at least -66", and is no riddle."""
    if interval is None or is_moment(interval):
        return interval
    low, high = interval
    return (max(low, 0.0), high) if high == inf and isfinite(low) else interval


def _words_of_nulls(answer: Answer, column: int, values: Sequence[Any]) -> list[str] | None:
    """What stands for a NULL in each row of a column; None where it is NULL."""
    from dpsql.answer.hidden import FEW, nulls

    if column in answer.few:
        rows = answer.few[column]
        return [FEW if i in rows else "NULL" for i in range(len(values))]
    words = nulls(answer, column)
    return None if words is None else words[: len(values)]


def columns(found: Sequence[Source], style: Style = FULL) -> list[Shown]:
    """Columns of text, each that has noise of its own followed by its errors."""
    return [one for source in found for one in source.shown(style)]


def _joined(head: Shown, errors: Sequence[str], hints: list[str], ranges: bool) -> Shown:
    """A column with its errors in it: 835 ± 11; of lopsided intervals both ends: 835 (810 to 920)."""
    left = max((text_width(cell) for cell, error in zip(head.cells, errors, strict=True) if error), default=0)
    cells = []
    for value, error in zip(head.cells, errors, strict=True):
        behind = f" ({error})" if ranges else f" ± {error}"
        cells.append(padded(value, left, True) + (behind if error else ""))
    sign = "" if cells and not any(errors) else INTERVALS if ranges else " ±"
    return replace(head, header=f"{head.header}{sign}", cells=cells, right=False, hints=hints, ranges=ranges)


INTERVALS = f" ({CONFIDENCE:.0%})"  # behind the name of a column with its intervals in it


def _writer(source: Source, style: Style) -> Writer:
    """How the values and the intervals of a column are written."""
    halves = margins(source.values, source.ends)
    decimals = None if source.ends is None else _decimals(source.values, halves, style)
    unit, sign = _unit(halves) if style.units else (1.0, "")
    return Writer(_say(source, style, decimals, (unit, sign)), decimals, unit)


def _say(source: Source, style: Style, decimals: int | None, units: tuple[float, str]) -> Callable[[Any], str]:
    """How the values of a column are written: alike. Thousands are set apart in what was measured, not in keys."""
    noisy, (unit, sign) = source.noisy, units
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


def _unit(halves: Sequence[float]) -> tuple[float, str]:
    """The largest unit that the smallest error has ten of."""
    return next(((unit, sign) for unit, sign in UNITS if halves and min(halves) >= 10 * unit), (1.0, ""))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _decimals(values: Sequence[Any], halves: Sequence[float], style: Style) -> int | None:
    """Decimals to show: as many as the smallest error has digits, 0 for integers; None without an error to go by."""
    if any(isinstance(v, int) for v in values):
        return 0
    return min(max(style.digits - 1 - floor(log10(min(halves))), 0), 15) if halves else None


def _number(value: float, decimals: int | None, noisy: bool, style: Style) -> str:
    comma = "," if noisy else ""
    if not isfinite(value):
        return "unknown" if noisy else str(value)
    if decimals is not None:
        return f"{value:{comma}.{decimals}f}"
    if 10**style.figures <= abs(value) < 1e15:
        return f"{value:{comma}.0f}"
    return f"{value:{comma}.{style.figures}g}"


def _error(value: Any, interval: Interval, kind: Kind, ranges: bool, writer: Writer) -> str:
    """What stands in the column of errors; nothing where the value itself says it."""
    if kind == "unknown":
        return "unknown"
    if kind not in ("half width", "range"):
        return ""
    half = None if ranges else half_width(value, interval)
    return writer.interval(value, interval) if half is None else _rounded_up(half, writer.say)


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
