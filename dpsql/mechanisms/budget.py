"""From a query's (ε, δ) to noise for all its statistics: the two ways to split, and what each costs.

Noise and price come from the same objects: `Split.cost` prices the very noises that will be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.certified import root_up
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import RandomizedResponse

Noise = DiscreteLaplace | Gaussian | NoisyMax
Pure = DiscreteLaplace | NoisyMax  # ε-DP by itself
Drawn = Noise | RandomizedResponse


class Split(Protocol):
    """One mechanism for a whole query."""

    @property
    def name(self) -> str: ...

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        """A noise for each statistic."""

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        """About the variance of each of these noises, without making them, to compare candidates; 0 for choices."""

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        """What these noises cost for statistics of these sensitivities, together."""


@dataclass(frozen=True, slots=True)
class LaplaceSplit:
    """Equal shares of ε (Theorem SPLIT-1)."""

    epsilon: Fraction

    name = "laplace"

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        share = self.epsilon / max(1, len(sensitivities))
        return tuple(pure_noise(s, share) for s in sensitivities)

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        return [(0 if s.choice else 2) * (s.l1 * len(sensitivities) / self.epsilon) ** 2 for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        total = ZERO
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, Pure)
            total += noise.cost(sensitivity)  # Theorems LAP-1, CHOOSE-1 and COMP-1
        return total


@dataclass(frozen=True, slots=True)
class GaussianSplit:
    """One Gaussian mechanism for all statistics as one vector, each scaled to the same share of its norm.

    Choices are pure: each has an equal share of ε for itself, and the vector has the rest of ε and all of δ.
    """

    epsilon: Fraction
    delta: Fraction

    name = "gaussian"

    def unit(self, sensitivities: Sequence[Sensitivity]) -> Gaussian:
        """The noise for a vector of norm 1, beside the choices among these."""
        return _unit_noise(self._left(sensitivities), self.delta)

    def _left(self, sensitivities: Sequence[Sensitivity]) -> Fraction:
        count = max(1, len(sensitivities))
        return self.epsilon * (count - sum(s.choice for s in sensitivities)) / count

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        share = self.epsilon / max(1, len(sensitivities))
        added = [s for s in sensitivities if not s.choice]
        sigma = self.unit(sensitivities).sigma if added else Fraction(0)
        # Theorem GAUSS-3: statistic i gets σᵢ = σ · √m · Δᵢ, so that Σ (Δᵢ/σᵢ)² ≤ 1/σ².
        return tuple(
            NoisyMax.calibrate(s, share) if s.choice else Gaussian(sigma * root_up(len(added) * s.l2_squared))
            for s in sensitivities
        )

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        added = sum(not s.choice for s in sensitivities)
        sigma = self.unit(sensitivities).sigma if added else Fraction(0)
        return [Fraction(0) if s.choice else added * s.l2_squared * sigma**2 for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        squared, total = Fraction(0), ZERO
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            if isinstance(noise, NoisyMax):
                total += noise.cost(sensitivity)  # Theorem CHOOSE-1
                continue
            assert isinstance(noise, Gaussian)
            if sensitivity.l2_squared:
                squared += sensitivity.l2_squared / noise.sigma**2
        if squared:
            # Theorem GAUSS-3: the vector of all f/σᵢ has the squared norm Σ (Δᵢ/σᵢ)², and its noise is standard normal.
            total += Gaussian(Fraction(1)).cost(Sensitivity(squared, squared), self._left(sensitivities))
        return total  # Theorem COMP-1


def pure_noise(s: Sensitivity, epsilon: Fraction) -> Pure:
    """The ε-DP noise for a statistic, or for a choice."""
    return NoisyMax.calibrate(s, epsilon) if s.choice else DiscreteLaplace.calibrate(s, epsilon)


@lru_cache(maxsize=1024)
def _unit_noise(epsilon: Fraction, delta: Fraction) -> Gaussian:
    """The noise for a vector of norm 1: found by bisection, which is worth remembering."""
    return Gaussian.calibrate(Sensitivity(Fraction(1), Fraction(1)), epsilon, delta)
