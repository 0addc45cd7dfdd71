"""A database of its own for questions about names and types: nothing but the relations that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dpsql.core.frozen import dataclass

Arrow = Any


@dataclass(frozen=True, slots=True)
class Relation:
    """A table to make: its schema and name, its columns with their types, and its rows."""

    schema: str
    name: str
    columns: tuple[tuple[str, str], ...]
    rows: Sequence[Sequence[object]] = ()


class SmallDatabase(Protocol):
    """It reads no file, nobody writes to it, and a statement takes seconds at most. Thread-safe."""

    def run(self, sql: str) -> Arrow:
        """The rows of one SELECT as an Arrow table; EngineError where the engine refuses it or it has too many."""

    def close(self) -> None:
        """Let go of it."""
