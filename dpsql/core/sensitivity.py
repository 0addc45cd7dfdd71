"""How far one unit can move a vector of statistics, for either neighbour relation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Bounds on ‖f(D) − f(D')‖ over neighbours, for the whole vector of cells, in the statistic's own units.

    choice: of scores by which candidates are chosen; l1 is then the loss that Theorem CHOOSE-1 prices, and nothing of
    the scores themselves may leave. single: the vector is one number, so that l2_squared is its square.
    """

    l1: Fraction
    l2_squared: Fraction
    choice: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Contribution:
    """One unit's row weights over the groups: mass is their sum, peak the largest entry, groups how many aren't zero.

    Neighbours differ by all the rows of one unit (add/remove), or have one unit's rows replaced by others (replace).
    None: not bounded, because nothing that is measured needs it; to ask for it then is a bug and raises.
    """

    mass: Fraction | None
    peak: Fraction | None
    groups: Fraction | None
    keyed: bool = True  # released for several groups; False: one cell
    replace: bool = False

    def weighted(self, weight: int) -> Contribution:
        """The contribution counted in integer weights, where a whole row weighs `weight`."""
        mass, peak = self._rows
        return replace(self, mass=mass * weight, peak=peak * weight)

    def whole(self, weight: int) -> Contribution:
        """The contribution counted in whole rows, each of which weighed `weight`."""
        mass, peak = self._rows
        return replace(self, mass=mass / weight, peak=peak / weight)

    @property
    def _rows(self) -> tuple[Fraction, Fraction]:
        if self.mass is None or self.peak is None:
            raise AssertionError("nothing bounds one unit's rows")
        return self.mass, self.peak

    def bounded(self, low: Fraction, high: Fraction) -> Sensitivity:
        """Of one column per cell to which each row adds its weight times a number in [low, high], or nothing."""
        mass, peak = self._rows
        most = max(abs(low), abs(high))
        if not self.replace:
            # Theorem NORM-1: l1 ≤ mass · b, and ‖v‖₂² ≤ ‖v‖₁ · ‖v‖∞.
            return Sensitivity(mass * most, mass * peak * most**2, single=not self.keyed)
        if not self.keyed:
            # Theorem REPLACE-1: one number that moves from one end of its range to the other.
            reach = mass * (max(high, Fraction(0)) - min(low, Fraction(0)))
            return Sensitivity(reach, reach**2, single=True)
        # Theorem REPLACE-2: two vectors, apart by at most the sum of their norms; if both have one sign, then
        # ‖v − w‖₂² ≤ ‖v‖₂² + ‖w‖₂².
        one_sign = low >= 0 or high <= 0
        return Sensitivity(2 * mass * most, (2 if one_sign else 4) * mass * peak * most**2)

    def joint(self, span: Fraction) -> Sensitivity:
        """Of several columns per cell to which each row adds non-negative numbers that sum to its weight · span."""
        # Theorems JOINT-1 and REPLACE-2 (all entries have one sign).
        mass, peak = self._rows
        times = 2 if self.replace else 1
        return Sensitivity(times * mass * span, times * mass * peak * span**2)

    def single_cell(self, low: Fraction, high: Fraction) -> tuple[Fraction, bool]:
        """How far any one cell moves, to which rows add numbers in [low, high]; do all move in the same direction?"""
        # Theorem CHOOSE-1: a cell holds at most the peak of a unit's weights.
        _, peak = self._rows
        if self.replace:
            return peak * (max(high, Fraction(0)) - min(low, Fraction(0))), False
        return peak * max(abs(low), abs(high)), low >= 0 or high <= 0

    def ranks(self, levels: Fraction | int) -> Sensitivity:
        """The loss of choosing by rank, on so many levels, each of which looks at every row once.

        A part of a level is one whose choices have more noise.
        """
        # Theorem QUANTILE-1: scores aren't monotone, so twice the mass; under replace_one a unit leaves and one comes.
        mass, _ = self._rows
        loss = Fraction(levels) * 2 * mass * (2 if self.replace else 1)
        return Sensitivity(loss, loss**2, choice=True)

    @property
    def once_per_group(self) -> Contribution:
        """As if the unit had one whole row in each of its groups: mass is their number, and peak 1."""
        if self.groups is None:
            raise AssertionError("nothing bounds one unit's groups")
        return replace(self, mass=self.groups, peak=Fraction(1))

    @property
    def units(self) -> Sensitivity:
        """Of the number of distinct units per cell."""
        if self.groups is None:
            raise AssertionError("nothing bounds one unit's groups")
        # Theorems UNITS-1 and REPLACE-2; in one cell a replaced unit was in it or not, and is in it or not.
        times = Fraction(2) if self.replace and self.keyed else Fraction(1)
        return Sensitivity(times * self.groups, times * self.groups, single=not self.keyed)


def bounded_size(most: Fraction, unit: Contribution, *, columns: int, one_sign: bool) -> Sensitivity:
    """Of so many columns per cell, in which a unit's vector over all cells has an ℓ₁ norm of at most `most`.

    one_sign: within a column, no two entries of any units have different signs. Of a unit's rows nothing else is asked.
    """
    if not unit.keyed and columns == 1:
        # Theorem SIZE-1: one number; replaced, it moves from one end of [−most, most] to the other.
        reach = most * (1 if one_sign or not unit.replace else 2)
        return Sensitivity(reach, reach**2, single=True)
    # Theorem SIZE-1: ‖v‖₂ ≤ ‖v‖₁, and REPLACE-2 for two such vectors.
    if not unit.replace:
        return Sensitivity(most, most**2)
    return Sensitivity(2 * most, (2 if one_sign else 4) * most**2)
