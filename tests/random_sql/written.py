"""What the grammar writes: texts for both sides, columns, private rows, results, queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

NUMBERS = ("int", "float", "decimal")


# ---------------------------------------------------------------- one text for both


def both(ours: str, plain: str, few: str | None = None) -> str:
    """A piece that reads differently for dpsql and for DuckDB; `few`: for DuckDB, where keys are selected privately."""
    return f"\x01{ours}\x02{plain}\x02{plain if few is None else few}\x03"


_PIECE = re.compile("\x01([^\x01-\x03]*)\x02([^\x01-\x03]*)\x02([^\x01-\x03]*)\x03")


def render(text: str, side: int) -> str:
    """The text for dpsql (1), for DuckDB (2), or for DuckDB without keys of one unit (3)."""
    while "\x01" in text:
        text = _PIECE.sub(lambda m: m[side], text)
    return text


# ---------------------------------------------------------------- what is written


@dataclass(frozen=True)
class Col:
    """A column that an expression may use."""

    sql: str
    kind: str  # int, float, decimal, text, bool, date
    public: bool = False  # a good key


@dataclass(frozen=True)
class Rows:
    """Private rows: what stands in FROM and WHERE, the columns, and the unit as DuckDB can name it."""

    source: str
    cols: tuple[Col, ...]
    unit: str
    where: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    named: bool = True  # the unit is a column that dpsql's text may name, too
    fan: int = 1  # no person has more of these rows

    @property
    def own(self) -> str:
        """The unit, as either text can name it."""
        return self.unit if self.named else both("PRIVACY_UNIT()", self.unit)

    def tagged(self, *tags: str) -> Rows:
        return replace(self, tags=self.tags | set(tags))

    def of(self, *kinds: str) -> list[Col]:
        return [c for c in self.cols if c.kind in kinds]

    def body(self, extra: Sequence[str] = ()) -> str:
        conditions = [*self.where, *extra]
        return f"FROM {self.source}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


@dataclass(frozen=True)
class Out:
    """A result column: its name and what it is, for the comparison."""

    name: str
    role: str  # key, count, whole (an exact sum), real (a sum of floats), ratio, spread, post


@dataclass(frozen=True)
class Table:
    """The text of a query over results, and its columns."""

    sql: str
    outs: tuple[Out, ...]
    tags: frozenset[str]


@dataclass(frozen=True)
class Query:
    """A query, what it uses, and how its answer is to be compared."""

    sql: str
    plain: str
    few: str  # DuckDB's, without keys of a single unit
    roles: tuple[str, ...]
    tags: frozenset[str]
    ordered: bool = False
    expect: str = "same"  # same: as DuckDB or refused; refused: always; anything: only no crash

    def __str__(self) -> str:
        return self.sql
