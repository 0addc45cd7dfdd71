"""What a request may ask for besides its SQL: each option of its kind, and never who asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from dpsql.core.errors import ServerError
from dpsql.options import REMOVED, Request
from dpsql.remote.wire import read_parameters

Options = Mapping[str, Any]

_NUMBER, _LIMIT = (str, int, float, Fraction), (int, str)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "max_rows": _LIMIT,
    "max_rows_per_group": _LIMIT,
    "max_groups": _LIMIT,
    "mechanism": (str,),
    "fresh": (bool,),
    "accuracy": _NUMBER,
    "confidence": (int, float),
    "params": (list, tuple, dict),
}
assert _KINDS.keys() == {f.name for f in fields(Request)}


def checked_options(options: Options) -> dict[str, Any]:
    """The options of a request that were said, each of its kind; who asks is never one of them."""
    for name, value in options.items():
        if name in REMOVED:
            continue
        if name not in _KINDS:
            hint = "who asks is known by the token" if name in ("analyst", "name", "user", "role") else None
            raise _bad(f"{name!r} isn't an option of a query", hint or f"known are {', '.join(_KINDS)}")
        wrong = isinstance(value, bool) and bool not in _KINDS[name]
        if value is not None and (wrong or not isinstance(value, _KINDS[name])):
            raise _bad(f"the option {name} can't be {type(value).__name__}", "see /openapi.json for what it may be")
    said = {name: value for name, value in options.items() if value is not None}
    if "params" in said:
        try:
            said["params"] = read_parameters(said["params"])
        except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError):
            raise _bad("a parameter isn't a value", 'write a date as {"date": "2024-01-31"}') from None
    return said


def _bad(message: str, hint: str) -> ServerError:
    return ServerError(message, code="bad-request", hint=hint)
