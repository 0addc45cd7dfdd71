"""Votes for keys: what a unit's groups share out between them, so that keys which aren't public are found with less."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity
from dpsql.statistics.tally import Tally


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
