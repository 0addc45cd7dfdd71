"""Facts as JSON and back, infinite ends among them: JSON has no number for these."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

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
