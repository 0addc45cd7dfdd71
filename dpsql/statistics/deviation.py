"""The median distance from the median: two choices by rank, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.arrays import Places
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.sampler import Scores
from dpsql.statistics.base import Integers, Making, Quantity, Spectrum, Tally, Value
from dpsql.statistics.ranks import below_each, rank_distance

_HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far from a chosen median half of the rows lie: the median is chosen first, then a distance from it."""

    value: Value
    where: str | None
    where_text: str = ""

    kinds = ("deviation",)
    width = 1
    tallies: tuple[Tally, ...] = ()

    @classmethod
    def of(cls, needs: Iterable[Quantity], making: Making) -> Iterator[Deviation]:
        for need in needs:
            if need.kind in cls.kinds:
                assert need.value is not None
                yield cls(need.value, need.where, making.where_text[need.where])

    @property
    def spectrum(self) -> Spectrum:
        return Spectrum(self.value.column, self.where)

    @property
    def title(self) -> str:
        return f"median distance of {self.value.text} from its median{self.where_text}"

    @property
    def points(self) -> int:
        return self.value.grid.span + 1

    @property
    def candidates(self) -> int:
        return 2 * self.points

    @property
    def reach(self) -> Fraction:
        return Fraction(1)

    def ranks(self, distance: float) -> float:
        return distance / _HALF.denominator  # a score is a distance of ranks in denominators; of either choice

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem MAD-1. Both choices look at every row once, so a unit loses 2 · mass in each.
        return unit.ranks(2)

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        raise AssertionError("a choice is no number that noise could be added to")

    def choose(self, noise: NoisyMax, values: Integers, counts: Integers, lengths: Places) -> list[Places]:
        """The chosen distance in each cell, in steps of the grid."""
        below = below_each(values, counts, lengths, self.value.grid.low, self.points, 1)
        # Theorem MAD-1: the scores of a median move by at most a unit's weight, whatever the value is a distance from.
        return [self._middle(noise, _folded(below, self._middle(noise, below)))]

    def _middle(self, noise: NoisyMax, below: Scores) -> Places:
        """A median in each cell, as a place on the grid."""
        first, end = np.zeros(len(below), dtype=np.int64), np.full(len(below), self.points)
        return noise.picks(rank_distance(below, first, end, first, _HALF), end, self.reach)

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("deviation", self.value, self.where): (self.value.grid.step,)}


def _folded(below: Scores, middle: Places) -> Scores:
    """How many rows are nearer than each distance to a place, cell by cell."""
    last = below.shape[1] - 1
    distances = np.arange(last + 1)[np.newaxis, :]
    above = np.minimum(middle[:, np.newaxis] + distances, last)
    under = np.maximum(middle[:, np.newaxis] - distances + 1, 0)
    cells = np.arange(len(below))[:, np.newaxis]
    found = below[cells, above] - below[cells, under]
    found[:, 0] = 0
    return np.asarray(found)
