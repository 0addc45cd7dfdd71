"""A job: queries, what they may spend, their parameters, and the files that their answers become."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from dpsql.core.frozen import dataclass

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
