"""An answer as bars in the terminal, each with its 95% interval; for `dpsql demo` alone.

Whoever asks for a chart gets one of plotext's or altair's (answer/plot.py), or is told what to install. The demo isn't
asked: it runs in an installation without extras, before anybody knows what these are, and is to show error bars there.
"""

from __future__ import annotations

import shutil
from math import isfinite
from typing import TYPE_CHECKING, Any

from dpsql.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpsql.answer.columns import Source
    from dpsql.answer.model import Answer

    Interval = tuple[float, float] | None

MOST = 40  # bars
LONGEST = 30  # characters of keys
CONFIDENCE = 0.95


def bars(answer: Answer, width: int | None = None) -> str:
    """A line for each row: its keys, a bar as long as the first number with an error, and that number."""
    from dpsql.answer.columns import sources
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
    numbers = _numbers(sources(answer, MOST)[place])
    label, number = max(map(len, labels)), max(map(len, numbers))
    room = (width or shutil.get_terminal_size().columns) - label - number - 4
    spans = [_span(value, one) for value, one in zip(values, ends, strict=True)]
    drawn = _drawn(spans, max(room, 10))
    lines = [f"{a:<{label}}  {bar}  {n:>{number}}" for a, bar, n in zip(labels, drawn, numbers, strict=True)]
    more = [f"… {len(answer.rows) - MOST:,} more rows"] if len(answer.rows) > MOST else []
    meaning = f"{printable(name)}; ▒ is where the exact one lies with {CONFIDENCE:.0%}"
    meaning += "" if all(ended for _, _, ended in spans) else ", ▶ has no bound above"
    return "\n".join([meaning, *lines, *more, ""])


def _numbers(source: Source) -> list[str]:
    """The numbers with as many digits as their errors leave, and bounds as such."""
    from dpsql.answer.columns import FULL

    return ["" if v is None else cell for v, cell in zip(source.values, source.shown(FULL)[0].cells, strict=True)]


def _span(value: Any, interval: Interval) -> tuple[float, float, bool]:
    """From where to where the exact value may lie, and whether that has an end above; about the value, if unknown."""
    from dpsql.answer.interval_text import ends_of

    low, high = ends_of(interval)
    if isfinite(low) and isfinite(high):
        return low, high, True
    middle = 0.0 if value is None else float(value)
    if isfinite(low):
        return low, max(low, middle), False
    return min(middle, high), high if isfinite(high) else middle, True


def _drawn(spans: Sequence[tuple[float, float, bool]], room: int) -> list[str]:
    """Bars from 0 (what lies below isn't drawn), all to one scale; an arrow where one has no end."""
    top = max((high for _, high, _ in spans), default=0.0)
    found = []
    for low, high, ended in spans:
        full, end = (round(max(x, 0.0) / top * (room - 2)) if top > 0 else 0 for x in (low, high))
        bar = "█" * full + "▒" * max(end - full, int(high > 0)) + ("" if ended else "▶")
        found.append(bar.ljust(room)[:room])
    return found
