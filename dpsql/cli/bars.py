"""An answer as bars in the terminal, each with its 95% interval; for `dpsql demo` alone.

Whoever asks for a chart gets one of plotext's or altair's (answer/plot.py), or is told what to install. The demo isn't
asked: it runs in an installation without extras, before anybody knows what these are, and is to show error bars there.
"""

from __future__ import annotations

import shutil
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from dpsql.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.answer.model import Answer

    Interval = tuple[float, float] | None

MOST = 40  # bars
LONGEST = 30  # characters of keys
CONFIDENCE = 0.95


def bars(answer: Answer, width: int | None = None) -> str:
    """A line for each row: its keys, a bar as long as the first number with an error, and that number."""
    from dpsql.answer.render import printable

    intervals = answer.intervals(CONFIDENCE)
    name = next((n for n in answer.columns if intervals[n] is not None), None)
    rows = answer.rows[:MOST]
    if name is None or not rows:
        raise DataError(
            "there is nothing to draw: the answer has no number with error bars",
            code="no-plot",
            hint="ask for a number in each group: SELECT key, COUNT(*) … GROUP BY key",
        )
    place = answer.columns.index(name)
    keys = [i for i, n in enumerate(answer.columns) if intervals[n] is None]
    labels = [printable(" ".join("NULL" if row[i] is None else str(row[i]) for i in keys))[:LONGEST] for row in rows]
    values, ends = [row[place] for row in rows], (intervals[name] or [])[: len(rows)]
    numbers = _numbers(values, ends)
    label, number = max(map(len, labels)), max(map(len, numbers))
    room = (width or shutil.get_terminal_size().columns) - label - number - 4
    drawn = _drawn([_span(value, one) for value, one in zip(values, ends, strict=True)], max(room, 10))
    lines = [f"{a:<{label}}  {bar}  {n:>{number}}" for a, bar, n in zip(labels, drawn, numbers, strict=True)]
    more = [f"… {len(answer.rows) - MOST:,} more rows"] if len(answer.rows) > MOST else []
    return "\n".join([f"{printable(name)}; ▒ is where the exact one lies with {CONFIDENCE:.0%}", *lines, *more, ""])


def _numbers(values: Sequence[Any], ends: Sequence[Interval]) -> list[str]:
    """The numbers with as many digits as their errors leave."""
    halves = [
        (one[1] - one[0]) / 2 for one in ends if one is not None and isfinite(one[1] - one[0]) and one[1] > one[0]
    ]
    digits = max(1 - floor(log10(min(halves))), 0) if halves else 3
    digits = 0 if any(isinstance(value, int) for value in values) else min(digits, 9)
    return ["" if value is None else f"{value:,.{digits}f}" for value in values]


def _span(value: Any, interval: Interval) -> tuple[float, float]:
    if interval is not None and all(map(isfinite, interval)):
        return interval
    return (0.0, 0.0) if value is None else (float(value), float(value))


def _drawn(spans: Sequence[tuple[float, float]], room: int) -> list[str]:
    """Bars from 0 (what lies below isn't drawn), all to one scale."""
    top = max((high for _, high in spans), default=0.0)
    found = []
    for low, high in spans:
        full, end = (round(max(x, 0.0) / top * room) if top > 0 else 0 for x in (low, high))
        found.append(("█" * full + "▒" * max(end - full, int(high > 0))).ljust(room)[-room:])
    return found
