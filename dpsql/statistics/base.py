"""What a statistic promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from dpsql.analyze.sensitivity import Contribution, Sensitivity
from dpsql.statistics.exact import Integers
from dpsql.statistics.grid import Grid
from dpsql.statistics.tally import Spectrum, Tally

if TYPE_CHECKING:
    from dpsql.mechanisms.noisy_max import NoisyMax

__all__ = ["CHOSEN", "UNWEIGHTED", "Choice", "Clip", "Integers", "Quantity", "Statistic", "Value"]


@dataclass(frozen=True, slots=True)
class Value:
    """An aggregated expression: its column in the statement, its grid, and whether it may be NULL."""

    column: str
    grid: Grid
    nullable: bool
    text: str  # for explain


@dataclass(frozen=True, slots=True)
class Clip:
    """Moves a unit's own number of rows or values in a cell, or their sum, into [low, high]."""

    kind: Literal["rows", "present", "total"]
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact number per cell that an aggregate needs: rows, present, total, distinct (of a value), units, clipped, …

    Or a value that is chosen: quantile (at a share of the rows), least, greatest.
    """

    kind: str
    value: Value | None = None
    where: str | None = None
    clip: Clip | None = None
    at: Fraction | None = None


CHOSEN = ("quantile", "least", "greatest")
UNWEIGHTED = ("units", "clipped", "distinct", *CHOSEN)
"""Quantities that row weights don't scale."""


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


@runtime_checkable
class Choice(Statistic, Protocol):
    """Values that are chosen, by a score that rests on how often each value occurs; the scores never leave."""

    @property
    def spectrum(self) -> Spectrum:
        """What the backend must count."""

    @property
    def candidates(self) -> int:
        """Of one cell."""

    @property
    def reach(self) -> Fraction:
        """The largest factor by which a choice's noise is scaled."""

    def ranks(self, distance: float) -> float:
        """By how many rows (in integer weights) the rank is off, at most, if the noise is within this distance."""

    def choose(self, noise: NoisyMax, values: Integers, counts: Integers) -> list[int]:
        """The choices in one cell, one for each column."""
