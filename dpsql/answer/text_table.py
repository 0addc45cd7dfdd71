"""An answer as a table for people that fits the terminal. Programs get CSV, JSON, parquet or Arrow (render.py).

Where it is too wide, digits go first, then gaps and the ends of long texts; columns never do: what still doesn't fit is
turned round, a line for each column.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING

from dpsql.answer.columns import ELLIPSIS, FULL, INTERVALS, NARROW, Shown, Source, Style, columns, padded, sources
from dpsql.answer.render import CONFIDENCE, guarantee, printable
from dpsql.core.errors import text_width

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

SHORT = 50  # rows that a notebook or str() shows
MEANING = f"± with {CONFIDENCE:.0%} confidence"
BRACKETS = f"in brackets: {CONFIDENCE:.0%} intervals"
TURNED = Style(joined=True)


def text_table(answer: Answer, *, width: int | None = None, limit: int | None = None, colour: bool = False) -> str:
    """The table in lines no wider than this, where that can be; None: as wide as it is.

    limit: so many rows of it, and how many more there are. colour: with a terminal's codes.
    """
    found = sources(answer, limit)
    lines = list(_lines(columns(found), FULL, colour)) if width is None else _fitting(found, width, colour)
    lines += [more(answer, limit)] if more(answer, limit) else []
    return "\n".join(lines) + "\n"


def _fitting(found: Sequence[Source], width: int, colour: bool) -> list[str]:
    """The first style that fits; else columns become rows, else each row becomes a list of its own."""
    several = bool(found) and len(found[0].values) > 1  # of one row, rather a list than shortened names
    for style in (FULL, *(one for one in NARROW if several or one.longest is None)):
        shown = columns(found, style)
        if _width(shown, style) <= width:
            return [*_lines(shown, style, colour), *(_meanings(shown) if style.joined else [])]
    if not found or not found[0].values:
        return list(_lines(shown, NARROW[-1], colour))
    joined = columns(found, TURNED)
    meanings, shown = _meanings(joined), list(map(_single, joined))
    turned = _turned(shown)
    if len(turned) > 1 and _width(turned, TURNED) <= width:
        return [*_lines(turned, TURNED, colour, head=False), *meanings]
    return [*_records(shown, width, colour), *meanings]


def _meanings(shown: Sequence[Shown]) -> list[str]:
    """What stands beside values that have their errors in their column, a line each."""
    half_widths = any(column.hints and column.header.endswith(" ±") for column in shown)
    ranges = any(column.ranges for column in shown)
    return [MEANING] * half_widths + [BRACKETS] * ranges


def _single(column: Shown) -> Shown:
    """A column whose cells stand by themselves, without what aligns them and tells what they are."""
    header = column.header.removesuffix(INTERVALS if column.ranges else " ±")
    return replace(column, header=header, cells=[" ".join(cell.split()) for cell in column.cells])


def _width(shown: Sequence[Shown], style: Style) -> int:
    return sum(column.width for column in shown) + style.gap * (len(shown) - 1)


def _lines(shown: Sequence[Shown], style: Style, colour: bool, *, head: bool = True) -> Iterator[str]:
    gap, widths = " " * style.gap, [column.width for column in shown]
    if head:
        cells = [padded(c.header, w, c.right) for c, w in zip(shown, widths, strict=True)]
        yield gap.join(_styled(cell, colour, bold=True) for cell in cells).rstrip()
        yield "─" * _width(shown, style)
    for i in range(len(shown[0].cells) if shown else 0):
        cells = [padded(c.cells[i], w, c.right) for c, w in zip(shown, widths, strict=True)]
        row = [_styled(cell, colour and c.noise, dim=True) for cell, c in zip(cells, shown, strict=True)]
        yield gap.join(row).rstrip()


def _turned(shown: Sequence[Shown]) -> list[Shown]:
    """Rows as columns: the names first."""
    names = Shown("", [column.header for column in shown], False)
    return [names, *(Shown("", [c.cells[i] for c in shown], True) for i in range(len(shown[0].cells)))]


def _records(shown: Sequence[Shown], width: int, colour: bool) -> Iterator[str]:
    """Each row as a list of its columns."""
    names = max(text_width(column.header) for column in shown)
    for i in range(len(shown[0].cells)):
        title = f"── row {i + 1:,} "
        yield _styled(title + "─" * max(min(width, 60) - len(title), 0), colour, dim=True)
        for column in shown:
            yield f"{_styled(padded(column.header, names, False), colour, bold=True)}  {column.cells[i]}"


def _styled(text: str, colour: bool, *, bold: bool = False, dim: bool = False) -> str:
    if not colour:
        return text
    return f"\x1b[{1 if bold else 2 if dim else 0}m{text}\x1b[0m"


def more(answer: Answer, limit: int | None) -> str:
    """How many rows aren't shown, in words; nothing where all are."""
    hidden = answer.table.num_rows - limit if limit is not None else 0
    return f"{ELLIPSIS} {hidden:,} more rows" if hidden > 0 else ""


# ---------------------------------------------------------------- what is said beside the values


def cost_text(answer: Answer) -> str:
    """What it cost, in words."""
    if answer.receipt.reused and free(answer):
        return "cost nothing: a stored release"
    return f"cost {guarantee(answer.cost, up=True)}"


def free(answer: Answer) -> bool:
    """Did it cost nothing? A stored release may be one part of an answer, and what is cut another, which is paid."""
    return not any((answer.cost.epsilon, answer.cost.delta, answer.cost.rho))


def plain_table(answer: Answer) -> str:
    """For str(answer): the table and what is to be said of it, without colour, not too long and no wider than the
    terminal, where there is one.
    """
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = get_terminal_size().columns if terminal else None
    said = [*answer.notes, cost_text(answer)]
    return text_table(answer, width=width, limit=SHORT) + "\n".join(
        line if width is None else wrapped(line, width) for line in said
    )


def wrapped(text: str, width: int) -> str:
    """A remark in lines of a terminal that is so wide."""
    if text_width(text) <= width:
        return text
    return fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def short_text(answer: Answer) -> str:
    """For repr(answer): one line."""
    rows = answer.table.num_rows
    names = [printable(name) for name in answer.columns]
    few = [*names[:8], *([f"{len(names) - 8} more"] if len(names) > 8 else [])]
    return f"<Answer: {rows:,} row{'' if rows == 1 else 's'} of {', '.join(few)}; {cost_text(answer)}>"
