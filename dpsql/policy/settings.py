"""[engine] and [backend] of a policy: which engine reads private rows, and what it may take of the machine."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

from dpsql.core.frozen import dataclass

Untested: TypeAlias = Literal["warn", "refuse"]
BackendKind: TypeAlias = Literal["duckdb", "spark"]


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Which engine reads private rows, and where it is; DuckDB is in this process.

    skewed: whether some units have so many groups that one task had better not see all of them.
    """

    kind: BackendKind = "duckdb"
    url: str | None = None
    skewed: bool = False


@dataclass(frozen=True, slots=True)
class Duration:
    """A time limit, and how it was written."""

    seconds: Fraction
    text: str


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The limits of the engine that reads private rows. A query past one of them fails and stays charged.

    timeout: for all statements of a query together. memory, spill: as DuckDB writes sizes. threads: None is one for
    each processor. folder: for what doesn't fit into memory; None is the system's temporary folder.
    """

    timeout: Duration = Duration(Fraction(1800), "30m")
    memory: str = "75%"
    threads: int | None = None
    spill: str = "64GB"
    folder: Path | None = None
    untested: Untested = "warn"

    @property
    def spills(self) -> bool:
        """May anything be written to disk?"""
        return re.match(r"[0.]+\D", self.spill) is None
