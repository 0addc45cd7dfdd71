"""The truncated geometric mechanism (Ghosh, Roughgarden, Sundararajan 2012): for a count that has a public maximum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.certified import miss
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

LARGEST = 2**62  # a count below it and its noise add up within 64 bits


@dataclass(frozen=True, slots=True)
class TruncatedGeometric:
    """Discrete Laplace noise on counts of 0 to `maximum`; what falls out of these bounds becomes the nearest bound."""

    noise: DiscreteLaplace
    maximum: int

    def __post_init__(self) -> None:
        if not 0 <= self.maximum <= LARGEST:
            raise ValueError("the maximum of a count can't be negative, nor above 2^62")

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction, maximum: int) -> TruncatedGeometric:
        """The noise that makes counts of this sensitivity epsilon-private."""
        return cls(DiscreteLaplace.calibrate(s, epsilon), maximum)

    @property
    def name(self) -> str:
        return "truncated geometric"

    def released(self, counts: sampler.Ints) -> sampler.Ints:
        """Each count with a draw of its own, within the bounds. A count beyond them is taken for the nearest bound."""
        clipped = np.clip(counts, 0, self.maximum)
        # Theorem TGEOM-1: what is clipped after noise was added is post-processing.
        return np.asarray(np.clip(clipped + self.noise.draw(len(counts)), 0, self.maximum), dtype=np.int64)

    def cost(self, s: Sensitivity) -> Cost:
        """What it costs to release counts of this sensitivity: as much as without bounds."""
        return self.noise.cost(s)  # Theorem TGEOM-1

    def pmf(self, count: int, outcome: int) -> float:
        """Pr[outcome] for a true count."""
        if not 0 <= count <= self.maximum:
            raise ValueError("a count lies between 0 and its maximum")
        if not 0 <= outcome <= self.maximum:
            return 0.0
        low, high = outcome == 0, outcome == self.maximum
        if low and high:
            return 1.0
        # Theorem TGEOM-1: a bound gets all that lies beyond it, a^d/(1 + a) at the distance d.
        return self._beyond(abs(outcome - count)) if low or high else self.noise.pmf(outcome - count)

    def _beyond(self, distance: int) -> float:
        """Pr[Z ≥ distance]."""
        return float(self.noise.tail(distance))

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that so many counts, whatever they are, are all off by at most t with this confidence."""
        allowed = miss(confidence, cells)
        both = self.noise.threshold(allowed / 2) - 1  # a miss to either side, where both fit between the bounds
        if 2 * both + 2 <= self.maximum:
            return both
        # Theorem TGEOM-1, "error": past the middle a count can miss to one side only.
        least = max(0, -(-(self.maximum - 1) // 2))
        one = self.noise.threshold(allowed) - 1 if allowed < Fraction(1, 2) else 0
        return min(both, max(least, one), self.maximum)

    def mean_error(self, count: int) -> float:
        """E|outcome − count| for a true count: less than without bounds, and the least near a bound."""
        rate = self.noise.rate
        # E|Z| = 2a/(1 − a²), of which a bound at the distance d saves Σ_{j ≥ 1} Pr[Z ≥ d + j] = a^(d+1)/(1 − a²).
        left = math.expm1(-rate * count) + math.expm1(-rate * (self.maximum - count))
        return math.exp(-rate) * left / math.expm1(-2 * rate)
