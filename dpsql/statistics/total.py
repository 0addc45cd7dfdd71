"""Sums of a value."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.arrays import minus, times
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Value
from dpsql.statistics.tally import Tally


@dataclass(frozen=True, slots=True)
class Sum:
    """Σ of the clipped value, on its grid; centred: of its distance to the middle of its range."""

    value: Value
    where: str | None
    centred: bool
    where_text: str = ""

    width = 1

    @property
    def centre(self) -> int:
        grid = self.value.grid
        return (grid.low + grid.high) // 2 if self.centred else 0

    @property
    def tallies(self) -> tuple[Tally, ...]:
        total = Tally("total", self.value.column, self.where)
        return (total, Tally("present", self.value.column, self.where)) if self.centred else (total,)

    @property
    def title(self) -> str:
        return f"{'centred sum' if self.centred else 'sum'} of {self.value.text}{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem SUM-1. A row adds at most its weight times the largest |integer − centre| of the grid, and nothing
        # where the value is NULL.
        grid = self.value.grid
        return unit.bounded(Fraction(grid.low - self.centre), Fraction(grid.high - self.centre))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [minus(tallies[0], times(tallies[1], self.centre)) if self.centred else tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        # A centred sum gives the total only together with the number of values: see strategy.py.
        kind = "distance" if self.centred else "total"
        return {Quantity(kind, self.value, self.where): (self.value.grid.step,)}
