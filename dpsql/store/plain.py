"""Facts and the errors of an answer's columns as JSON and back, infinite ends among them: JSON has no such numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from dpsql.answer.intervals import Between, Error, Floats, Origin, Simulated, Slopes
from dpsql.core.arrays import column

Json = Any

_KEY = "dpsql number"
_NUMBERS = ("inf", "-inf", "nan")


def to_json(facts: Json) -> str:
    """Facts as JSON that every reader takes: {"dpsql number": "inf"} stands for infinity."""
    return json.dumps(_plain(facts), allow_nan=False)


def from_json(text: str | bytes) -> Json:
    """The facts of `to_json`, and of earlier versions' JSON."""
    return json.loads(text, object_hook=_number)


def _plain(value: Any) -> Json:
    match value:
        case float():
            return float(value) if isfinite(value) else {_KEY: str(float(value))}
        case Mapping():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _:
            return value


def _number(found: dict[str, Any]) -> Any:
    return float(found[_KEY]) if found.keys() == {_KEY} and found[_KEY] in _NUMBERS else found


Arrow = Any


def pack_error(error: Error | None) -> tuple[Json, list[Floats]]:
    """An error as JSON, and the numbers of its rows."""
    match error:
        case None:
            return None, []
        case Origin():
            return [list(error.releases), error.aggregate], []
        case Slopes():
            aggregates = sorted(error.slopes)
            told, numbers = pack_error(error.instead)
            facts = {"releases": list(error.releases), "slopes": aggregates, "unit": error.unit, "instead": told}
            return facts, [*(error.slopes[a] for a in aggregates), *numbers]
        case Simulated():
            return {"tails": len(error.low)}, [*error.low, *error.high]
        case Between():
            facts = {"between": error.confidence} | ({} if error.moment == "number" else {"moment": error.moment})
            return facts, [error.low, error.high]


def unpack_error(found: Json, table: Arrow, first: int) -> tuple[Error | None, int]:
    """The error of a stored answer, whose numbers begin in this column; and the column after them."""
    if found is None:
        return None, first
    if isinstance(found, list):
        return Origin(tuple(found[0]), found[1]), first
    if "slopes" in found:
        slopes = {aggregate: _numbers(table, first + i) for i, aggregate in enumerate(found["slopes"])}
        instead, last = unpack_error(found["instead"], table, first + len(slopes))
        assert instead is None or isinstance(instead, Simulated)
        return Slopes(tuple(found["releases"]), slopes, found["unit"], instead), last
    if "tails" in found:
        ends = [_numbers(table, first + i) for i in range(2 * found["tails"])]
        return Simulated(np.stack(ends[: found["tails"]]), np.stack(ends[found["tails"] :])), first + len(ends)
    low, high = _numbers(table, first), _numbers(table, first + 1)
    return Between(low, high, found["between"], found.get("moment", "number")), first + 2


def with_numbers(table: Arrow, numbers: list[Floats]) -> Arrow:
    """An answer's table with the numbers of its errors behind it."""
    for i, one in enumerate(numbers):
        table = table.append_column(f"dpsql error {i}", column(one))
    return table


def _numbers(table: Arrow, place: int) -> Floats:
    return np.array(table.column(place).to_pylist(), dtype=np.float64)
