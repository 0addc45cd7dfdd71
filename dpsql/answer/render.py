"""An answer as a table for people, or as CSV, JSON, parquet or Arrow for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO, StringIO
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any

from dpsql.core.cost import Cost, show_rounded
from dpsql.core.frozen import dataclass

if TYPE_CHECKING:
    from rich.table import Table

    from dpsql.answer.model import Answer

Interval = tuple[float, float] | None
SHORT = 50  # rows that a notebook or str() shows
CONFIDENCE = 0.95
LARGEST_EXACT = 2**53  # JSON readers keep integers up to here


def guarantee(cost: Cost, *, up: bool) -> str:
    """ε = 0.5, and δ where there is one."""
    text = f"ε = {show_rounded(cost.epsilon, up=up)}"
    return f"{text}, δ = {show_rounded(cost.delta, up=up)}" if cost.delta else text


def range_lines(answer: Answer) -> list[str]:
    """The automatic bounds that an answer rests on."""
    from dpsql.explain.show import range_text

    lines = []
    for one in answer.ranges:
        text = f"{one['column']} is clipped to {range_text(one)}, its automatic bounds (release {one['release'][:8]})"
        if not one["found"]:
            text += "\nno range was found for so little: these bounds are fixed, and the answer means little"
        lines.append(text)
    return lines


def cut_lines(answer: Answer) -> list[str]:
    """What intervals don't speak of: an estimate of it, where one was asked for."""
    from dpsql.quote.cut_estimate import lines

    if answer.clipping is None:
        if not answer.limits:
            return []
        few = [*answer.limits[:3], *([f"{len(answer.limits) - 3} more"] if len(answer.limits) > 3 else [])]
        return [f"± is the noise alone; not in it is what these cut: {', '.join(few)} (--clipping estimates that)"]
    return lines(answer.clipping) or ["no limit and no range cuts anything"]


def encode(answer: Answer, format_: str) -> bytes:
    """The answer as the bytes of a file in one of output.FORMATS."""
    match format_:
        case "csv":
            return as_csv(answer).encode()
        case "json":
            return (json.dumps(as_json(answer), ensure_ascii=False, allow_nan=False) + "\n").encode()
        case "table":
            return _text(answer, None).encode()
        case "parquet":
            import pyarrow.parquet as pq

            sink = BytesIO()
            pq.write_table(answer.to_arrow(), sink)
            return sink.getvalue()
        case "arrow":
            import pyarrow as pa

            sink = BytesIO()
            table = answer.to_arrow()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            return sink.getvalue()
        case _:
            raise ValueError(f"unknown format {format_}")


def encode_all(answers: Sequence[Answer], format_: str) -> bytes:
    """One answer as it is; those of a batch as a JSON list, or with an empty line between them."""
    if len(answers) == 1:
        return encode(answers[0], format_)
    if format_ == "json":
        return (json.dumps([as_json(a) for a in answers], ensure_ascii=False, allow_nan=False) + "\n").encode()
    return b"\n".join(encode(a, format_) for a in answers)


# ---------------------------------------------------------------- for programs


def as_json(answer: Answer) -> dict[str, Any]:
    """Dates as ISO text, integers past 2⁵³ and decimals as text, null for what isn't finite."""
    intervals = {name: cells for name, cells in answer.intervals(CONFIDENCE).items() if cells is not None}
    return {
        "columns": answer.columns,
        "rows": [[_json(value) for value in row] for row in answer.rows],
        "intervals": {
            name: [None if cell is None else [_json(end) for end in cell] for cell in cells]
            for name, cells in intervals.items()
        },
        **({"ranks": {name: ceil(off) for name, off in answer.ranks.items()}} if answer.ranks else {}),
        "cost": {
            "epsilon": float(answer.cost.epsilon),
            "delta": float(answer.cost.delta),
            "rho": None if answer.cost.rho is None else float(answer.cost.rho),
        },
        "receipt": {
            "id": answer.receipt.id,
            "time": answer.receipt.time,
            "epsilon": str(answer.receipt.cost.epsilon),
            "delta": str(answer.receipt.cost.delta),
            "reused": answer.receipt.reused,
            **({"engine": answer.receipt.untested, "untested": True} if answer.receipt.untested else {}),
            **({"notes": list(answer.notes)} if answer.notes else {}),
            **({"limits": list(answer.limits)} if answer.limits else {}),
            **({"ranges": [dict(one) for one in answer.ranges]} if answer.ranges else {}),
        },
        **({} if answer.clipping is None else {"clipping": [dict(one) for one in answer.clipping]}),
    }


def _json(value: Any) -> Any:
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= LARGEST_EXACT else str(value)
        case float():
            return value if isfinite(value) else None
        case dict():
            return {str(key): _json(inner) for key, inner in value.items()}
        case list():
            return [_json(inner) for inner in value]
        case Decimal() if not value.is_finite():
            return None
        case _:
            return _plain(value)


def as_csv(answer: Answer) -> str:
    """RFC 4180 with plain line ends; NULL is an empty field and an empty text is quoted."""
    lines = [",".join(map(_quoted, answer.columns))]
    lines += [",".join("" if value is None else _quoted(_plain(value)) for value in row) for row in answer.rows]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if text == "" or text != text.strip() or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(sep="T")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case list() | dict():
            return json.dumps(_json(value), ensure_ascii=False)
        case _:
            return str(value)


# ---------------------------------------------------------------- for people


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of text."""

    header: str
    cells: list[str]
    right: bool
    noise: bool  # a ± column


def columns(answer: Answer, limit: int | None) -> list[Shown]:
    """The answer's columns as text, each that has noise of its own followed by its ±."""
    from dpsql.answer.intervals import Origin
    from dpsql.answer.model import values as python_values

    table = answer.to_arrow() if limit is None else answer.to_arrow().slice(0, limit)
    names = Counter(answer.columns)
    intervals = answer.intervals(CONFIDENCE)
    shown = []
    for i, name in enumerate(answer.columns):
        values = python_values(table.column(i))
        found = intervals[name] if names[name] == 1 else None  # intervals go by name, which two columns may share
        widths = found[: len(values)] if found is not None else None
        digits = _digits(values, widths)
        numeric = any(_is_number(v) for v in values)
        few = isinstance(answer.origins[i], Origin) and widths is not None  # an average of next to nothing
        cells = ["too few" if few and v is None else _cell(v, digits) for v in values]
        shown.append(Shown(printable(name), cells, numeric, False))
        if widths is not None:
            cells = [_error(v, w, digits) for v, w in zip(values, widths, strict=True)]
            shown.append(Shown(f"± {CONFIDENCE:.0%}", cells, True, True))
    return shown


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _digits(values: Sequence[Any], widths: Sequence[Interval] | None) -> int | None:
    """Decimals to show: two digits of the smallest error, 0 for integers; None where there is no error to go by."""
    if widths is None:
        return None
    if any(isinstance(v, int) for v in values):
        return 0
    halves = [(w[1] - w[0]) / 2 for w in widths if w is not None and isfinite(w[1] - w[0]) and w[1] > w[0]]
    return min(max(1 - floor(log10(min(halves))), 0), 15) if halves else None


def _cell(value: Any, digits: int | None) -> str:
    match value:
        case None:
            return "NULL"
        case float():
            return _number(value, digits)
        case _:
            return printable(_plain(value))


def _number(value: float, digits: int | None) -> str:
    if not isfinite(value):
        return str(value)
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"


def _error(value: Any, interval: Interval, digits: int | None) -> str:
    if interval is None:
        return "" if value is None else "unknown"
    low, high = interval
    if value is not None and isfinite(high - low):
        below, above = float(value) - low, high - float(value)
        rounding = 1.0 if isinstance(value, int) else 1e-6 * (high - low)  # the interval is around the unrounded value
        if abs(below - above) <= rounding:
            return _number(_up(max(below, above), digits), digits)
    return f"{_number(low, digits)} to {_number(high, digits)}"


def _up(width: float, digits: int | None) -> float:
    """Rounded up: what is shown is no narrower than what is true."""
    if digits is None:
        return width
    scale = 10.0**digits
    return ceil(round(width * scale, 6)) / scale


def printable(text: str) -> str:
    """On one line and without control characters: a text from a query must not steer a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def terminal_table(answer: Answer) -> str:
    """With colour."""
    return _text(answer, None, colour=True)


def plain_table(answer: Answer) -> str:
    """For str(answer): without colour, and not too long."""
    return _text(answer, SHORT).rstrip("\n")


def _text(answer: Answer, limit: int | None, *, colour: bool = False) -> str:
    from rich.console import Console
    from rich.measure import Measurement

    table = _table(columns(answer, limit))
    sink = StringIO()
    console = Console(
        file=sink, force_terminal=colour, no_color=None if colour else True, width=10_000, legacy_windows=False
    )
    # As wide as it needs to be: a terminal wraps, an ellipsis would hide digits.
    width = Measurement.get(console, console.options, table).maximum
    console.print(table, width=width, soft_wrap=False, overflow="ignore", no_wrap=True, crop=False)
    lines = [line.rstrip() for line in sink.getvalue().splitlines()]
    lines += [_more(answer, limit)] if _more(answer, limit) else []
    return "\n".join(lines) + "\n"


def _table(shown: Sequence[Shown]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in shown:
        table.add_column(
            Text(column.header),
            justify="right" if column.right else "left",
            style="dim" if column.noise else "",
            no_wrap=True,
        )
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _cost(answer: Answer) -> str:
    return "cost nothing: a stored release" if answer.receipt.reused else f"cost {guarantee(answer.cost, up=True)}"


def _more(answer: Answer, limit: int | None) -> str:
    hidden = answer.to_arrow().num_rows - limit if limit is not None else 0
    return f"… {hidden:,} more rows" if hidden > 0 else ""


def html_table(answer: Answer) -> str:
    """For notebooks."""
    from html import escape

    shown = columns(answer, SHORT)

    def cell(tag: str, text: str, column: Shown) -> str:
        style = f"text-align: {'right' if column.right else 'left'}{'; opacity: 0.6' if column.noise else ''}"
        return f'<{tag} style="{style}">{escape(text)}</{tag}>'

    head = "".join(cell("th", c.header, c) for c in shown)
    body = "".join(
        f"<tr>{''.join(cell('td', text, c) for text, c in zip(row, shown, strict=True))}</tr>"
        for row in zip(*(c.cells for c in shown), strict=True)
    )
    notes = " · ".join(n for n in (_more(answer, SHORT), _cost(answer)) if n)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(notes)}</p>"
