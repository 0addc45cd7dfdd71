"""An answer on its way from a server to a session far away: a table in Arrow, and beside it what is said of it.

Intervals travel as they are at 95%, infinite ends among them. All of it has left already (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpsql.accounting.account import Receipt
from dpsql.answer.intervals import Between, Error
from dpsql.answer.model import Answer
from dpsql.core.cost import Cost
from dpsql.core.parameters import Constant, Parameters
from dpsql.store.archive import from_bytes, to_bytes
from dpsql.store.plain import from_json, pack_error, to_json, unpack_error, with_numbers

MEDIA = "application/vnd.dpsql.answers"
CONFIDENCE = 0.95
KEY = b"dpsql.answer"
FORMAT = 1


def pack(answers: Sequence[Answer]) -> bytes:
    """Answers as the bytes of one reply: each with its length before it."""
    parts = [_packed(answer) for answer in answers]
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def unpack(content: bytes) -> list[Answer]:
    """The answers of a reply; ValueError where it isn't one."""
    found: list[Answer] = []
    place = 0
    while place < len(content):
        size = int.from_bytes(content[place : place + 8], "big")
        part = content[place + 8 : place + 8 + size]
        if len(part) != size:
            raise ValueError("the reply was cut off")
        found.append(_unpacked(part))
        place += 8 + size
    return found


def _packed(answer: Answer) -> bytes:
    ends = answer.intervals(CONFIDENCE)
    names = answer.columns
    errors = [
        pack_error(origin if isinstance(origin, Between) else _between(ends[name]))
        for name, origin in zip(names, answer.origins, strict=True)
    ]
    receipt = answer.receipt
    said: dict[str, Any] = {
        "format": FORMAT,
        "origins": [told for told, _ in errors],
        "cost": _cost(answer.cost),
        "receipt": {"id": receipt.id, "time": receipt.time, "cost": _cost(receipt.cost), "reused": receipt.reused}
        | {"untested": receipt.untested, "paid": None if receipt.paid is None else _cost(receipt.paid)},
        "ranges": [dict(one) for one in answer.ranges],
        "limits": list(answer.limits),
        "cut": {name: dict(facts) for name, facts in answer.cut.items()},
        "cut_notes": list(answer.cut_notes),
        "missing": dict(answer.missing),
        "ranks": dict(answer.ranks),
        "notes": list(answer.notes),
        "few": [[place, list(rows)] for place, rows in answer.few.items()],
        "about": dict(answer.about),
    }
    table = with_numbers(answer.table, [one for _, numbers in errors for one in numbers])
    return to_bytes(table.replace_schema_metadata({KEY: to_json(said)}))


def _unpacked(part: bytes) -> Answer:
    whole = from_bytes(part)
    said = from_json(whole.schema.metadata[KEY])
    if said["format"] != FORMAT:
        raise ValueError("the server's answers have another format: upgrade the older of the two")
    visible = len(said["origins"])
    origins: list[Error | None] = []
    place = visible
    for found in said["origins"]:
        error, place = unpack_error(found, whole, place)
        origins.append(error)
    given = said["receipt"]
    paid = None if given["paid"] is None else _to_cost(given["paid"])
    receipt = Receipt(
        given["id"], given["time"], _to_cost(given["cost"]), "released", given["reused"], given["untested"], paid
    )
    return Answer(
        whole.select(range(visible)).replace_schema_metadata(None),
        (),
        tuple(origins),
        None,
        _to_cost(said["cost"]),
        receipt,
        tuple(said["ranges"]),
        tuple(said["limits"]),
        said["cut"],
        tuple(said["cut_notes"]),
        said["missing"],
        said["ranks"],
        left_out=tuple(said["notes"]),  # all of them, in their order
        few={place: tuple(rows) for place, rows in said.get("few", ())},
        about=said["about"],
    )


def _between(cells: Sequence[tuple[float, float] | None] | None) -> Between | None:
    if cells is None:
        return None
    low, high = (np.array([np.nan if c is None else float(c[i]) for c in cells]) for i in (0, 1))
    return Between(low, high, CONFIDENCE)


def _cost(cost: Cost) -> list[str | None]:
    """Exact numbers, as text."""
    rho = None if cost.rho is None else str(cost.rho)
    return [str(cost.epsilon), str(cost.delta), rho, str(cost.parts)]


def _to_cost(found: Sequence[str | None]) -> Cost:
    epsilon, delta, rho, parts = (None if one is None else Fraction(one) for one in found)
    assert epsilon is not None and delta is not None and parts is not None
    return Cost(epsilon, delta, rho, parts)


# ---------------------------------------------------------------- parameters

_MOMENTS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "time": time.fromisoformat,
}


def sent_parameters(values: Parameters) -> Any:
    """Parameters as JSON: what JSON has no type for is an object with its kind."""
    if values.by_name:
        return {name: _sent(bound) for name, bound in values.named}
    return [_sent(bound) for bound in values.placed]


def _sent(bound: Constant | tuple[Constant, ...]) -> Any:
    if isinstance(bound, tuple):
        return [_sent(one) for one in bound]
    match bound.kind:
        case "text":
            return bound.text
        case "null":
            return None
        case "boolean":
            return bound.text.lower() == "true"
        case kind:
            return {kind: bound.text}


def read_parameters(written: Any) -> Any:
    """The values that JSON stands for; ValueError where an object isn't one of a kind and a text."""
    if isinstance(written, list):
        return [_value(one) for one in written]
    return {name: _value(one) for name, one in written.items()}


def _value(written: Any) -> Any:
    if isinstance(written, list):
        return [_value(one) for one in written]
    if not isinstance(written, dict):
        return written
    ((kind, text),) = written.items()
    if kind == "number":
        number = Decimal(text)
        return int(number) if text.lstrip("+-").isdigit() else number
    return _MOMENTS[kind](text)
