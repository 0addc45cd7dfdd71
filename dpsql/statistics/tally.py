"""The integers that the backend counts and adds up for each group, before any noise."""

from __future__ import annotations

from typing import Literal

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Most:
    """What one unit may add to a sum, in the integers of its grid: Σ|x| over all groups, and in any one of them."""

    total: int
    peak: int | None = None  # None: no more than the total
    signed: bool = False  # may values of both signs meet in one group?


@dataclass(frozen=True, slots=True)
class Tally:
    """Over the rows of a group where `where` (a boolean column, or None for all rows) is TRUE:

    rows: how many there are; present: how many have a value; total: the sum of the values (integers on their grid);
    units: how many distinct units they belong to; distinct: how many different values they have. clip: for each unit by
    itself, moved into these bounds and then added up; a unit without such a row adds nothing. most: of a total whose
    rows have a weight of their own, which keeps each unit within these bounds (Theorem TOTALS-1).
    votes: for each unit with a row there, 2^bits divided by the root of the number of groups that it is in.
    """

    kind: Literal["rows", "present", "total", "units", "distinct", "votes"]
    value: str | None = None
    where: str | None = None
    clip: tuple[int, int] | None = None
    most: Most | None = None
    bits: int | None = None  # of votes


@dataclass(frozen=True, slots=True)
class Spectrum:
    """For each cell and each integer of a value on its grid: how many rows have it, in integer weights.

    Only over the rows where `where` (a boolean column, or None for all rows) is TRUE and the value is there.
    """

    value: str
    where: str | None = None
