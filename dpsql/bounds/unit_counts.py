"""Released counts of units as plain numbers: what choices and intervals are made of (Theorem POST-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, sqrt

import numpy as np

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy, ReleaseFacts
from dpsql.bounds.tails import Ladder, Tail, fit
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.plan.nodes import Release
from dpsql.statistics.strategy import Linear

FALSE_ALARM = 0.001  # the chance that a count of units outside of a range is noise alone, and passes for units


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """Noisy counts of units: one for each bucket of a histogram, or a single one. noise: the scale b in each."""

    counts: tuple[float, ...]
    noise: float

    def tail(self, ladder: Ladder) -> Tail:
        """The curves through a histogram. Where a promise bounds what units have, no unit is in a bucket behind it."""
        behind = (0.0,) * (ladder.buckets - len(self.counts))
        return fit((*self.counts, *behind), self.noise, ladder)

    @property
    def single(self) -> float:
        """A single count; 0 where that may be noise alone, with a chance of FALSE_ALARM."""
        (units,) = self.counts
        return units if units > self.noise * log(1 / (2 * FALSE_ALARM)) else 0.0

    def combined(self, others: Sequence[UnitCounts]) -> UnitCounts:
        """Several histograms of the same rows as one: each count the mean with weights 1/b²."""
        if not others or len(self.counts) == 1:
            return self
        every = (self, *others)
        weights = np.array([c.noise**-2 for c in every])
        weights /= weights.sum()
        counts = weights @ np.array([c.counts for c in every])
        return UnitCounts(tuple(counts.tolist()), sqrt(float(weights**2 @ np.array([c.noise**2 for c in every]))))


Tables = Mapping[Release, UnitCounts]
"""The counts of units that were released, by what they count."""


def counts_of(noisy: Noisy) -> UnitCounts:
    """The counts of a released table of units."""
    noise = noise_in(noisy.step)
    numbers = noisy.estimate(_counted(noisy.step)).floats
    if noisy.cells is None:
        return UnitCounts(tuple(numbers.tolist()), noise)
    buckets = noisy.cells.column(0).to_pylist()
    by_bucket = {bucket: float(n) for bucket, n in zip(buckets, numbers, strict=True) if bucket is not None}
    return UnitCounts(tuple(by_bucket.get(b, 0.0) for b in range(max(by_bucket) + 1)), noise)


def noise_in(step: ReleaseFacts) -> float:
    """The scale of the noise of each count, in units."""
    ((place, weight),) = _counted(step).terms
    return float(_laplace(step.measurements[place[0]].noise).scale * abs(weight))


def is_histogram(noisy: Noisy) -> bool:
    """Has each count one Laplace noise of its own? The curves know the tail of no other."""
    laplace = all(isinstance(m.noise, DiscreteLaplace) for m in noisy.step.measurements)
    return laplace and len(_counted(noisy.step).terms) == 1


def _counted(step: ReleaseFacts) -> Linear:
    """The one count of a histogram, as its columns tell it."""
    (call,) = step.calls
    (need,) = RECIPES[call.function].needs(call)
    return step.estimates[need]


def _laplace(noise: object) -> DiscreteLaplace:
    assert isinstance(noise, DiscreteLaplace)
    return noise
