"""What is asked of the data, and what plain DuckDB knows of it: truths, and what each unit has in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import duckdb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Kind = Literal["count", "sum", "avg", "var", "distinct", "median"]

FUNCTIONS: Mapping[Kind, str] = {
    "count": "COUNT(*)",
    "sum": "SUM({})",
    "avg": "AVG({})",
    "var": "VAR_POP({})",
    "distinct": "COUNT(DISTINCT {})",
    "median": "MEDIAN({})",
}


@dataclass(frozen=True, slots=True)
class Range:
    """The declared range of a column; the truth is of values clipped to it, which is what an answer estimates."""

    least: float
    most: float

    @property
    def size(self) -> float:
        return self.most - self.least

    @property
    def magnitude(self) -> float:
        return max(abs(self.least), abs(self.most))

    def clipped(self, column: str) -> str:
        """SQL of the clipped column; NULL stays NULL, which LEAST and GREATEST would leave out."""
        low, high = f"WHEN {column} < {self.least} THEN {self.least}", f"WHEN {column} > {self.most} THEN {self.most}"
        return f"CASE {low} {high} ELSE {column} END"


@dataclass(frozen=True, slots=True)
class Column:
    """One aggregate: its name in the answer, its kind, and the column that it is of (none for a count of rows)."""

    name: str
    kind: Kind
    of: str = ""


N, S, A, V = Column("n", "count"), Column("s", "sum", "v"), Column("a", "avg", "v"), Column("q", "var", "v")


@dataclass(frozen=True, slots=True)
class Question:
    """SELECT key, columns FROM source WHERE condition GROUP BY key; kept is a FILTER that all columns share."""

    columns: tuple[Column, ...]
    key: str = ""
    source: str = "t"
    condition: str = ""
    kept: str = ""
    unit: str = "id"

    @property
    def sql(self) -> str:
        """What is asked of dpsql."""
        suffix = f" FILTER (WHERE {self.kept})" if self.kept else ""
        parts = [f"{FUNCTIONS[c.kind].format(c.of)}{suffix} AS {c.name}" for c in self.columns]
        where = f" WHERE {self.condition}" if self.condition else ""
        grouped = f" GROUP BY {self.key}" if self.key else ""
        return f"SELECT {', '.join([self.key] * bool(self.key) + parts)} FROM {self.source}{where}{grouped}"

    @property
    def conditions(self) -> str:
        """WHERE and FILTER together, as a clause of the truth's SQL."""
        found = " AND ".join(f"({text})" for text in (self.condition, self.kept) if text)
        return f" WHERE {found}" if found else ""

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that are added up, each once."""
        return tuple(dict.fromkeys(c.of for c in self.columns if c.kind in ("sum", "avg", "var")))


@dataclass(frozen=True, eq=False)
class Facts:
    """What plain DuckDB knows of a question: truths by cell, and the rows and sums of each unit in each cell."""

    keys: tuple[Any, ...]
    truths: Mapping[str, Floats]
    """By column; NaN where a cell has no truth (an average of no rows)."""
    unit: Integers
    """Of each pair of a unit and a cell: the unit's index."""
    cell: Integers
    rows: Floats
    counts: Mapping[str, Floats] = field(repr=False)
    """By value: how many of the pair's rows have one."""
    sums: Mapping[str, Floats] = field(repr=False)
    squares: Mapping[str, Floats] = field(repr=False)
    """Of distances from the middle of the range."""

    @cached_property
    def rows_per_unit(self) -> Floats:
        return np.asarray(np.bincount(self.unit, self.rows), float)

    def added(self, weights: Floats) -> Floats:
        """The pairs' weights added up by cell."""
        return np.asarray(np.bincount(self.cell, weights, minlength=len(self.keys)), float)


def facts(plain: duckdb.DuckDBPyConnection, question: Question, ranges: Mapping[str, Range]) -> Facts:
    """The truths of a question, and what its reference is computed from."""
    key = question.key or "1"
    truths, keys = _truths(plain, question, ranges)
    parts = [f"{question.unit}, {key}, COUNT(*)"]
    for value in question.values:
        x, middle = ranges[value].clipped(value), (ranges[value].least + ranges[value].most) / 2
        parts.append(f"COUNT({value}), COALESCE(SUM({x}), 0), COALESCE(SUM(({x} - {middle}) ^ 2), 0)")
    text = f"SELECT {', '.join(parts)} FROM {question.source}{question.conditions} GROUP BY {question.unit}, {key}"
    table = plain.sql(text).to_arrow_table()
    read = [table.column(i).to_numpy(zero_copy_only=False) for i in range(table.num_columns)]
    places = {k: i for i, k in enumerate(keys)}
    cell = np.array([places[k] for k in table.column(1).to_pylist()], int)
    numbers = [np.asarray(column, float) for column in read[2:]]
    unit = np.unique(read[0], return_inverse=True)[1]
    counts, sums, squares = (dict(zip(question.values, numbers[first::3], strict=True)) for first in (1, 2, 3))
    return Facts(keys, truths, unit, cell, numbers[0], counts, sums, squares)


def _truths(
    plain: duckdb.DuckDBPyConnection, question: Question, ranges: Mapping[str, Range]
) -> tuple[dict[str, Floats], tuple[Any, ...]]:
    key = question.key or "1"
    shown = {
        c.of: ranges[c.of].clipped(c.of) if c.of in ranges and c.kind != "distinct" else c.of for c in question.columns
    }
    parts = [FUNCTIONS[c.kind].format(shown[c.of]) for c in question.columns]
    text = f"SELECT {key}, {', '.join(parts)} FROM {question.source}{question.conditions} GROUP BY {key} ORDER BY 1"
    found: Sequence[tuple[Any, ...]] = plain.sql(text).fetchall()
    columns = {
        c.name: np.array([np.nan if row[1 + i] is None else float(row[1 + i]) for row in found])
        for i, c in enumerate(question.columns)
    }
    return columns, tuple(row[0] for row in found)
