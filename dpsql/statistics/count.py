"""Counts of rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Value
from dpsql.statistics.tally import Tally


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows there are (value None), or how many of them have a value."""

    value: Value | None
    where: str | None
    where_text: str = ""

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        if self.value is None:
            return (Tally("rows", None, self.where),)
        return (Tally("present", self.value.column, self.where),)

    @property
    def title(self) -> str:
        return f"count of {'rows' if self.value is None else self.value.text}{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem COUNT-1. A unit's rows add their weights to the cells, each row at most its own weight.
        return unit.bounded(Fraction(0), Fraction(1))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        kind = "rows" if self.value is None else "present"
        return {Quantity(kind, self.value, self.where): (Fraction(1),)}
