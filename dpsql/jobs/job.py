"""A job: queries, what they may spend, their parameters, and the files that their answers become.

Values of a job's parameters: each has its declared type, whoever gave it, and a text that a file's name can hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, assert_never

from dpsql.core.errors import PolicyError, nearest
from dpsql.core.frozen import dataclass
from dpsql.policy.reader import exact_decimal, show

Kind = Literal["date", "timestamp", "text", "integer", "number", "boolean"]
KINDS: tuple[Kind, ...] = ("date", "timestamp", "text", "integer", "number", "boolean")

OncePer = Literal["parameters", "data"]
ONCE_PER: tuple[OncePer, ...] = ("parameters", "data")
"""What one release is: one for all values of the parameters, or one for these and each version of the data."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter: its type, and its value where none is given (None: one must be)."""

    name: str
    kind: Kind
    default: Any = None


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query: its SQL with {name} for parameters, and the names of the files that it becomes."""

    name: str
    sql: str
    outputs: tuple[str, ...]
    options: Mapping[str, Any]
    """What it asks for besides its SQL, by the names of `Request`; empty where the job has one total."""
    intervals: bool
    receipt: bool


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A job as its file says. Nothing of it has been priced."""

    name: str
    folder: Path
    """What output names are relative to."""
    queries: tuple[Query, ...]
    parameters: Mapping[str, Parameter]
    total: Mapping[str, Any] | None = None
    """What all queries together ask for, as one batch; None: each query says for itself."""
    policy: Path | None = None
    analyst: str | None = None
    once_per: OncePer = "parameters"


_INTEGER = re.compile(r"-?[0-9]{1,100}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NAMED = re.compile(r"\{([^{}]*)\}")
_IN_A_NAME = re.compile(r"[\w+-][\w+.-]{0,99}")

EXAMPLES: Mapping[Kind, str] = {
    "date": "2026-11-16",
    "timestamp": "2026-11-16T08:30:00",
    "text": "Bern",
    "integer": "7",
    "number": "0.5",
    "boolean": "true",
}


def typed(declared: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """A value of its type for each declared parameter: the given one, read if it is a text, or the default."""
    for name in given:
        if name not in declared:
            near = nearest(name, tuple(declared))
            hint = f"did you mean {near}?" if near else f"the job's parameters: {', '.join(declared) or 'none'}"
            raise _refused(f"the job has no parameter {name}", hint)
    found = {}
    for name, one in declared.items():
        value = given.get(name, one.default)
        if value is None:
            raise _refused(f"the job needs a value for {name}", f"--param {name}={EXAMPLES[one.kind]}")
        found[name] = value_of(one.kind, value, name)
    return found


def value_of(kind: Kind, value: Any, name: str) -> Any:
    """The value as its type has it; a text is read as one of that type."""
    try:
        found = _read(kind, value)
    except ValueError:  # no such day
        found = None
    if found is None:
        raise _refused(f"parameter {name}: {show(value)} is no {kind}", f"for instance {name}={EXAMPLES[kind]}")
    return found


def _read(kind: Kind, value: Any) -> Any:
    text = value if isinstance(value, str) else None
    match kind:
        case "date":
            if text is not None:
                return date.fromisoformat(text) if _DATE.fullmatch(text) else None
            return value if isinstance(value, date) and not isinstance(value, datetime) else None
        case "timestamp":
            if text is not None:
                return datetime.fromisoformat(text)
            return value if isinstance(value, datetime) else None
        case "text":
            return text
        case "integer":
            if text is not None:
                return int(text) if _INTEGER.fullmatch(text) else None
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case "number":
            return exact_decimal(value) if text is not None or isinstance(value, int | float | Decimal) else None
        case "boolean":
            return {"true": True, "false": False}.get(text) if text is not None else _flag(value)
        case _:
            assert_never(kind)


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def named(template: str, values: Mapping[str, Any], where: str) -> str:
    """A file's name with the values of its {parameters}: nothing that could lead to another folder."""

    def put(found: re.Match[str]) -> str:
        if found[1] not in values:
            near = nearest(found[1], tuple(values))
            hint = f"did you mean {{{near}}}?" if near else f'declare it: [params] {found[1]} = "date"'
            raise _refused(f"{where}: there is no parameter {{{found[1]}}}", hint)
        text = told(values[found[1]])
        if not _IN_A_NAME.fullmatch(text):
            hint = "letters, digits, _, + and - can be in a file's name, and dots that it doesn't begin with"
            raise _refused(f"{where}: {show(text)} can't be in a file's name", hint)
        return text

    return _NAMED.sub(put, template)


def told(value: Any) -> str:
    """A value as a text, for names of files and for logs."""
    if isinstance(value, datetime):
        return value.strftime("%Y%m%dT%H%M%S" + ("%f" if value.microsecond else "") + "%z")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refused(message: str, hint: str) -> PolicyError:
    return PolicyError(message, code="job-parameter", hint=hint)
