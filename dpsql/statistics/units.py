"""Counts of distinct units."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity
from dpsql.statistics.tally import Tally


@dataclass(frozen=True, slots=True)
class Units:
    """How many distinct units have a row in the cell; where each unit has one row, that is the number of rows."""

    where: str | None
    where_text: str = ""
    rows: bool = False

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally("rows" if self.rows else "units", None, self.where),)

    @property
    def title(self) -> str:
        return f"count of distinct units{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem UNITS-1. A unit adds 1 to each of the cells that it is in, and it is in at most `groups` of them.
        return unit.units

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("units", None, self.where): (Fraction(1),)}
