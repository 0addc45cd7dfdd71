"""An answer as a table for notebooks: error bars beside the values, and below them all that is to be said."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsql.answer.columns import Shown, columns, sources
from dpsql.answer.render import CONFIDENCE
from dpsql.answer.text_table import SHORT, cost_text, more

if TYPE_CHECKING:
    from dpsql.answer.model import Answer


def html_table(answer: Answer) -> str:
    """The first rows as HTML. A ± says its interval when it is pointed at."""
    shown = columns(sources(answer, SHORT))
    head = "".join(_cell("th", c.header, c) for c in shown)
    rows = (
        "".join(_cell("td", c.cells[i], c, c.hints[i] if c.hints else "") for c in shown)
        for i in range(len(shown[0].cells) if shown else 0)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    notes = [more(answer, SHORT), *answer.notes, cost_text(answer)]
    said = "<br>".join(escape(note) for note in notes if note)
    return (
        f'<div style="overflow-x: auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p style="font-size: 0.9em; opacity: 0.8">{said}</p>'
    )


def _cell(tag: str, text: str, column: Shown, hint: str = "") -> str:
    side = "right" if column.right else "left"
    style = f"text-align: {side}; white-space: nowrap{'; opacity: 0.6' if column.noise else ''}"
    title = f' title="{escape(f"{CONFIDENCE:.0%}: {hint}")}"' if hint else ""
    return f'<{tag} style="{style}"{title}>{escape(text)}</{tag}>'
