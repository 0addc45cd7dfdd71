"""The integers that the backend counts and adds up for each group, before any noise."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import Any, Literal

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """Over the rows of a group where `where` (a boolean column, or None for all rows) is TRUE:

    rows: how many there are; present: how many have a value; total: the sum of the values (integers on their grid);
    units: how many distinct units they belong to; distinct: how many different values they have. clip: for each unit by
    itself, moved into these bounds and then added up; a unit without such a row adds nothing.
    votes: for each unit with a row there, 2^bits divided by the root of the number of groups that it is in.
    """

    kind: Literal["rows", "present", "total", "units", "distinct", "votes"]
    value: str | None = None
    where: str | None = None
    clip: tuple[int, int] | None = None
    bits: int | None = None  # of votes


@dataclass(frozen=True, slots=True)
class SizePart:
    """One term of a unit's size: so much for each row that a tally counts, or for each 1 of Σ|x| that it adds up.

    Below 0 for rows with a value where those without are counted: all of these parts together aren't.
    """

    tally: Tally
    factor: int
    signed: bool = False  # may the values of a total have both signs?


@dataclass(frozen=True, slots=True)
class UnitTotal:
    """Σ|x| of one unit's values, before they are put on their grid: an aggregate over the rows of the release."""

    value: str  # the column whose integers they are on the grid
    where: str | None  # of the rows that pass this FILTER
    total: Any  # an expression
    step: Fraction  # of the grid
    exact: bool  # the values are on the grid already


@dataclass(frozen=True, slots=True)
class Size:
    """What one unit's rows add up to in a release, and the most that its weight leaves of that (Theorem SIZE-1).

    totals: of the sums in it, by which lists name the units that may be above it (Theorem INDEX-5).
    """

    most: int
    parts: tuple[SizePart, ...]
    totals: tuple[UnitTotal, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """For each cell and each integer of a value on its grid: how many rows have it, in integer weights.

    Only over the rows where `where` (a boolean column, or None for all rows) is TRUE and the value is there.
    """

    value: str
    where: str | None = None
