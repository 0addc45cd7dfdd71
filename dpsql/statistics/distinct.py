"""Counts of distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Tally, Value


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many different values the rows of a cell have; each unit brings in so many at most, over all cells."""

    value: Value
    where: str | None
    most: int  # values of one unit
    weight: int  # the integer that stands for one whole row: values have no weights
    where_text: str = ""
    limited: bool = False  # is `most` a limit of its own, and not that on rows?

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally("distinct", self.value.column, self.where),)

    @property
    def title(self) -> str:
        return f"count of distinct values of {self.value.text}, at most {self.most:,} per unit{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem DISTINCT-1. Adding a unit raises each cell's number by at most its capacity there and lowers none;
        # capacities have the mass and peak of the unit's rows, or a limit of their own for both.
        return self._capacity(unit).bounded(Fraction(0), Fraction(1))

    def single_cell(self, unit: Contribution) -> tuple[Fraction, bool]:
        """How far any one cell moves; do all move in the same direction?"""
        # Theorem DISTINCT-1: by at most the capacity in that cell, which is at most the peak.
        return self._capacity(unit).single_cell(Fraction(0), Fraction(1))

    def _capacity(self, unit: Contribution) -> Contribution:
        """The bounds on one unit's capacities in all cells, in values."""
        whole = unit.whole(self.weight)
        return replace(whole, mass=Fraction(self.most), peak=Fraction(self.most)) if self.limited else whole

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("distinct", self.value, self.where): (Fraction(1),)}
