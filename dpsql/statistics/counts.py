"""Counts of rows and of distinct units; votes for keys, by which keys that aren't public are found with less noise.

Votes are what a unit's groups share out between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Tally, Value


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


@dataclass(frozen=True, slots=True)
class Votes:
    """The votes for a cell: a unit that is in t cells has 2^bits/√t for each of them, rounded down."""

    bits: int

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return (Tally("votes", bits=self.bits),)

    @property
    def title(self) -> str:
        return "votes of units, 1/√t for each of t groups"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        if unit.groups is None:
            raise AssertionError("nothing bounds one unit's groups")
        # Theorem KEYW-1: ‖v‖₂² = t·w² ≤ 4^bits, and ‖v‖₁ = t·w ≤ √(t·4^bits). Theorem REPLACE-2: two of one sign.
        times = 2 if unit.replace else 1
        l2_squared = 4**self.bits
        return Sensitivity(Fraction(times * (isqrt(int(unit.groups) * l2_squared))), Fraction(times * l2_squared))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("votes"): (Fraction(1, 2**self.bits),)}
