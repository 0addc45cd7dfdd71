"""Sums of which one unit's total is bounded, instead of its rows and their values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity, bounded_total
from dpsql.statistics.base import Integers, Quantity, Value
from dpsql.statistics.tally import Most, Tally


@dataclass(frozen=True, slots=True)
class BoundedSum:
    """Σ of the clipped value, on its grid, each unit's part scaled down to at most a given Σ|x| over all groups."""

    value: Value
    where: str | None
    total: int  # the most that one unit adds in all groups together, in integers of the grid
    peak: int | None  # and in one of them; None: nothing but the total bounds it
    weight: int  # the integer that stands for a row that is not scaled down
    where_text: str = ""

    width = 1

    @property
    def signed(self) -> bool:
        """Can values of both signs meet?"""
        return self.value.grid.low < 0 < self.value.grid.high

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally("total", self.value.column, self.where, most=Most(self.total, self.peak, self.signed)),)

    @property
    def title(self) -> str:
        return f"sum of {self.value.text}, bounded by a unit's total{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem TOTALS-1. In integer weights a unit adds at most total · weight, and to one group peak · weight.
        most = Fraction(self.total * self.weight)
        peak = most if self.peak is None else min(most, Fraction(self.peak * self.weight))
        return bounded_total(most, peak, unit, one_sign=not self.signed)

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("total", self.value, self.where): (self.value.grid.step,)}
