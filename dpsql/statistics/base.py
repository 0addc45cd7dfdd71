"""What a statistic promises, and the integers that the backend counts and adds up for each group, before any noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from dpsql.core.arrays import Integers, Places
from dpsql.core.frozen import dataclass
from dpsql.core.grid import Grid
from dpsql.core.sensitivity import Contribution, Sensitivity

if TYPE_CHECKING:
    from dpsql.mechanisms.noisy_max import NoisyMax


__all__ = ["Choice", "Clip", "Integers", "Making", "Quantity", "Statistic", "Value", "power_sum"]


@dataclass(frozen=True, slots=True)
class Value:
    """An aggregated expression: its column in the statement, its grid, and whether it may be NULL."""

    column: str
    grid: Grid
    nullable: bool
    text: str = field(compare=False)  # for explain: x and (x) are one value


@dataclass(frozen=True, slots=True)
class Clip:
    """Moves a unit's own number of rows or values in a cell, or their sum, into [low, high]."""

    kind: Literal["rows", "present", "total"]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact number per cell that an aggregate needs: rows, present, total, distinct (of a value), units, clipped, …

    With u = (x − L)/(U − L) also first (Σu), second (Σu²) and moment: Σ of a power of it, or, over the rows that have
    a second value, too, of a product of powers of both. Or a value that is chosen: of the kinds in choices.py.
    """

    kind: str
    value: Value | None = None
    where: str | None = None
    clip: Clip | None = None
    at: Fraction | None = None
    second: Value | None = None
    powers: tuple[int, int] = (0, 0)


def power_sum(x: Value, where: str | None, i: int, y: Value | None = None, j: int = 0) -> Quantity:
    """Σ uⁱ·vʲ over the rows that have x (and y), by its one name: what is the same number is the same quantity."""
    if x == y:
        return power_sum(x, where, i + j)
    if y is not None and j == 0 and not y.nullable:
        return power_sum(x, where, i)
    if y is not None and i == 0 and not x.nullable:
        return power_sum(y, where, j)
    if y is not None:
        first, other = sorted(((x, i), (y, j)), key=lambda one: one[0].column)
        return Quantity("moment", first[0], where, second=other[0], powers=(first[1], other[1]))
    if i == 0:
        return Quantity("present", x, where) if x.nullable else Quantity("rows", None, where)
    if i > 2:
        return Quantity("moment", x, where, powers=(i, 0))
    return Quantity("first" if i == 1 else "second", x, where)


class Statistic(Protocol):
    """Integer columns per cell that get noise together: one sensitivity, one noise scale, one grid."""

    @property
    def width(self) -> int:
        """How many integer columns."""

    @property
    def tallies(self) -> tuple[Tally, ...]:
        """What the backend must count."""

    @property
    def title(self) -> str:
        """What is measured, in words."""

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        """How far one unit moves all columns of all cells together, in integers of the grid."""

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        """The integer columns from the backend's tallies."""

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        """Which quantities are linear in the columns, and how."""


@dataclass(frozen=True, slots=True)
class Making:
    """What a choice is made with, beside its quantities."""

    where_text: Mapping[str | None, str]  # FILTERs in words
    single: bool  # in one cell, under replace_one
    weight: int  # the integer that stands for one whole row
    candidates: int  # that there may be in one cell


@runtime_checkable
class Choice(Statistic, Protocol):
    """Values that are chosen, by a score that rests on how often each value occurs; the scores never leave."""

    @classmethod
    def of(cls, needs: Iterable[Quantity], making: Making) -> Iterator[Choice]:
        """The choices that tell those of these quantities that are of its kind."""

    @property
    def spectrum(self) -> Spectrum:
        """What the backend must count."""

    @property
    def points(self) -> int:
        """How many different values may be chosen."""

    @property
    def candidates(self) -> int:
        """Of one cell: how many draws of noise."""

    @property
    def reach(self) -> Fraction:
        """The largest factor by which a choice's noise is scaled."""

    def ranks(self, distance: float) -> float:
        """By how many rows (in integer weights) the rank is off, at most, if the noise is within this distance."""

    def choose(self, noise: NoisyMax, values: Integers, counts: Integers, lengths: Places) -> list[Places]:
        """The choices in several cells, an array for each column.

        values, counts: which values occur in each cell and how often, cell after cell; lengths: so many in each.
        """


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
