"""A quote as HTML, for notebooks: what its text says, in tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dpsql.explain.facts import as_dict
from dpsql.explain.relation_text import response_head, response_rows
from dpsql.explain.text import LEFT, LEFT_RESPONSES, NO_OUTPUT, NOT_MEASURED, head, measured, outputs, release_head
from dpsql.quote.model import Quote

LABEL = 10  # columns of a text that a word at its beginning takes


def html_quote(quote: Quote) -> str:
    """All that print(quote) says."""
    facts = as_dict(quote)
    pieces = [_labelled(head(quote, facts))]
    for release in facts["releases"]:
        pieces.append(_labelled(release_head(release, len(facts["releases"]) > 1)))
        rows = measured(release)
        pieces.append(_table(rows, LEFT) if rows else f"<p>measured: {escape(NOT_MEASURED)}</p>")
    for table in facts["responses"]:
        pieces.append(_labelled(response_head(table, len(facts["responses"]) > 1)))
        pieces.append(_table(response_rows(table), LEFT_RESPONSES))
    columns = [(NO_OUTPUT if name is None else name, lines) for name, lines in outputs(facts)]
    pieces.append(_rows((escape(name), "<br>".join(map(escape, lines))) for name, lines in columns))
    return f'<div style="overflow-x: auto">{"".join(pieces)}</div>'


def _labelled(lines: Iterable[str]) -> str:
    """Lines with a word in front as a table; those without one go on with the line before."""
    rows: list[tuple[str, str]] = []
    for line in lines:
        label, text = (line[:LABEL].strip(), line[LABEL:]) if line[LABEL - 1 : LABEL] in ("", " ") else ("", line)
        if rows and line.startswith(" "):
            rows[-1] = rows[-1][0], f"{rows[-1][1]}<br>{escape(text)}"
        else:
            rows.append((escape(label), escape(text)))
    return _rows(rows)


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    side = 'style="text-align: left; vertical-align: top"'
    cells = (f"<tr><th {side}>{label}</th><td {side}>{text}</td></tr>" for label, text in rows)
    return f"<table>{''.join(cells)}</table>"


def _table(rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        sides = ("left" if i in left else "right" for i in range(len(cells)))
        written = (f'<{tag} style="text-align: {s}">{escape(c)}</{tag}>' for c, s in zip(cells, sides, strict=True))
        return f"<tr>{''.join(written)}</tr>"

    return f"<table><thead>{row(rows[0], 'th')}</thead><tbody>{''.join(row(r, 'td') for r in rows[1:])}</tbody></table>"
