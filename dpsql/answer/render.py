"""An answer as CSV, JSON, parquet or Arrow, for programs; text_table.py is for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any

from dpsql.answer.interval_text import Interval, is_moment
from dpsql.answer.outgoing import outgoing
from dpsql.core.cost import Cost, show_rounded

if TYPE_CHECKING:
    from dpsql.answer.model import Answer

CONFIDENCE = 0.95
LARGEST_EXACT = 2**53  # JSON readers keep integers up to here


def guarantee(cost: Cost, *, up: bool) -> str:
    """ε = 0.5, and δ where there is one."""
    text = f"ε = {show_rounded(cost.epsilon, up=up)}"
    return f"{text}, δ = {show_rounded(cost.delta, up=up)}" if cost.delta else text


def range_lines(answer: Answer) -> list[str]:
    """The automatic bounds that an answer rests on."""
    from dpsql.explain.text import range_text

    lines = []
    for one in answer.ranges:
        if one.get("derived"):
            lines.append(_derived_line(one))
            continue
        text = f"{one['column']} is clipped to {range_text(one)}, its automatic bounds (release {one['release'][:8]})"
        if not one["found"]:
            text += "\nno range was found for so little: these bounds are fixed, and the answer means little"
        lines.append(text)
    return lines


def _derived_line(one: Mapping[str, Any]) -> str:
    """The range of a value that the query computes."""
    from dpsql.explain.text import range_text

    text = range_text(one)
    if not one["found"]:
        given = "which the policy gives" if one["named"] else "which some rows can have; the answer means little"
        return f"no narrower range was found for {one['column']}: its values are clipped to {text}, {given}"
    return f"values of {one['column']} are clipped to {text}, a range that was found automatically"


def cut_lines(answer: Answer) -> list[str]:
    """What limits and ranges cut, about, and what isn't known of it."""
    marked = [f"{name} is {mark}: more than its noise" for name in answer.columns if (mark := cut_mark(answer, name))]
    return [*marked, *answer.cut_notes]


def cut_mark(answer: Answer, name: str) -> str:
    """Say "low by about 4%" where what is cut of a column exceeds its noise."""
    facts = answer.cut.get(name)
    if facts is None or not facts["exceeds_noise"]:
        return ""
    by = facts["low_by"]
    return f"{'low' if by > 0 else 'high'} by about {abs(by):.{0 if abs(by) >= 0.01 else 1}%}"


def encode(answer: Answer, format_: str, ends: float | None = None) -> bytes:
    """The answer as the bytes of a file in one of output.FORMATS.

    ends: the confidence at which CSV, parquet and Arrow get low and high columns; None: without them.
    """
    match format_:
        case "csv":
            return as_csv(answer, ends).encode()
        case "json":
            return (json.dumps(as_json(answer), ensure_ascii=False, allow_nan=False) + "\n").encode()
        case "table":
            from dpsql.answer.text_table import text_table

            return text_table(answer).encode()
        case "parquet":
            import pyarrow.parquet as pq

            sink = BytesIO()
            pq.write_table(_without_intervals(outgoing(answer, ends)), sink)
            return sink.getvalue()
        case "arrow":
            import pyarrow as pa

            sink = BytesIO()
            table = outgoing(answer, ends)
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            return sink.getvalue()
        case "png" | "svg" | "html":
            from dpsql.answer.plot import charts_of, encode_chart

            return encode_chart(charts_of(answer), format_)
        case _:
            raise ValueError(f"unknown format {format_}")


def encode_all(answers: Sequence[Answer], format_: str, ends: float | None = None) -> bytes:
    """One answer as it is; those of a batch as a JSON list, or with an empty line between them."""
    if len(answers) == 1:
        return encode(answers[0], format_, ends)
    if format_ == "json":
        return (json.dumps([as_json(a) for a in answers], ensure_ascii=False, allow_nan=False) + "\n").encode()
    return b"\n".join(encode(a, format_, ends) for a in answers)


def _without_intervals(table: Any) -> Any:
    """The table with texts in the place of months, days and nanoseconds together, which parquet has no type for."""
    import pyarrow as pa

    from dpsql.backends.choose import as_texts

    for i, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            table = table.set_column(i, field.name, pa.array(as_texts(table.column(i)), pa.string()))
    return table


# ---------------------------------------------------------------- for programs


def as_json(answer: Answer) -> dict[str, Any]:
    """Dates as ISO text, integers past 2⁵³ and decimals as text, null for what isn't finite.

    An interval is null where nothing is known; of a bound, the other end is null: [19600.0, null] is "at least 19,600".
    """
    intervals = {name: cells for name, cells in answer.intervals(CONFIDENCE).items() if cells is not None}
    return {
        "columns": answer.columns,
        "rows": [[_json(value) for value in row] for row in answer.rows],
        "intervals": {name: [_ends(cell) for cell in cells] for name, cells in intervals.items()},
        **({"cut": {name: _json(dict(facts)) for name, facts in answer.cut.items()}} if answer.cut else {}),
        **({"ranks": {name: _up(off) for name, off in answer.ranks.items()}} if answer.ranks else {}),
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
            **({"cut": list(answer.cut_notes)} if answer.cut_notes else {}),
            **({"ranges": [dict(one) for one in answer.ranges]} if answer.ranges else {}),
        },
    }


def _ends(interval: Interval) -> list[Any] | None:
    known = interval is not None and (is_moment(interval) or any(map(isfinite, interval)))
    return list(map(_json, interval)) if known and interval is not None else None


def _up(off: float) -> int | None:
    return ceil(off) if isfinite(off) else None


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
            return plain_value(value)


def as_csv(answer: Answer, ends: float | None = None) -> str:
    """RFC 4180 with plain line ends; NULL is an empty field and an empty text is quoted. ends: as for `encode`."""
    from dpsql.answer.model import values

    table = outgoing(answer, ends)
    rows = zip(*map(values, table.columns), strict=True)
    lines = [",".join(map(_quoted, table.column_names))]
    lines += [",".join("" if value is None else _quoted(plain_value(value)) for value in row) for row in rows]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    if text == "" or text != text.strip() or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def plain_value(value: Any) -> str:
    """A value as programs read it."""
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


def printable(text: str) -> str:
    """On one line and without control characters: a text from a query must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
