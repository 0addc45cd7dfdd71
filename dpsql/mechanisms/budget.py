"""From a query's (ε, δ) to noise for all its statistics: the two ways to split, and what each costs.

Noise and price come from the same objects: `Split.cost` prices the very noises that will be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Protocol

from dpsql.accounting.cost import ZERO, Cost
from dpsql.analyze.sensitivity import Sensitivity
from dpsql.mechanisms.gaussian import Gaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.response import RandomizedResponse

Noise = DiscreteLaplace | Gaussian
Drawn = Noise | RandomizedResponse


class Split(Protocol):
    """One mechanism for a whole query."""

    @property
    def name(self) -> str: ...

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        """A noise for each statistic."""

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        """About the variance of each of these noises, without making them: to compare candidates."""

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        """What these noises cost for statistics of these sensitivities, together."""


@dataclass(frozen=True, slots=True)
class LaplaceSplit:
    """Equal shares of ε (Theorem SPLIT-1)."""

    epsilon: Fraction

    name = "laplace"

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        share = self.epsilon / max(1, len(sensitivities))
        return tuple(DiscreteLaplace.calibrate(s, share) for s in sensitivities)

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        return [2 * (s.l1 * len(sensitivities) / self.epsilon) ** 2 for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        total = ZERO
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, DiscreteLaplace)
            total += noise.cost(sensitivity)  # Theorems LAP-1 and COMP-1
        return total


@dataclass(frozen=True, slots=True)
class GaussianSplit:
    """One Gaussian mechanism for all statistics as one vector, each scaled to the same share of its norm."""

    epsilon: Fraction
    delta: Fraction
    unit: Gaussian  # the noise for a vector of norm 1

    name = "gaussian"

    @classmethod
    def calibrate(cls, epsilon: Fraction, delta: Fraction) -> GaussianSplit:
        return cls(epsilon, delta, _unit_noise(epsilon, delta))

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        # Theorem GAUSS-3: statistic i gets σᵢ = σ · √m · Δᵢ, so that Σ (Δᵢ/σᵢ)² ≤ 1/σ².
        count = len(sensitivities)
        return tuple(Gaussian(self.unit.sigma * root_up(count * s.l2_squared)) for s in sensitivities)

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        return [len(sensitivities) * s.l2_squared * self.unit.sigma**2 for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        squared = Fraction(0)
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, Gaussian)
            if sensitivity.l2_squared:
                squared += sensitivity.l2_squared / noise.sigma**2
        if not squared:
            return ZERO
        # Theorem GAUSS-3: the vector of all f/σᵢ has the squared norm Σ (Δᵢ/σᵢ)², and its noise is standard normal.
        return Gaussian(Fraction(1)).cost(Sensitivity(squared, squared), self.epsilon)


@lru_cache(maxsize=1024)
def _unit_noise(epsilon: Fraction, delta: Fraction) -> Gaussian:
    """The noise for a vector of norm 1: found by bisection, which is worth remembering."""
    return Gaussian.calibrate(Sensitivity(Fraction(1), Fraction(1)), epsilon, delta)


def root_up(x: Fraction) -> Fraction:
    """√x, rounded up by less than 2⁻⁴⁰ of itself."""
    if not x:
        return Fraction(0)
    shift = max(0, 100 - (x.numerator.bit_length() - x.denominator.bit_length()))
    shift += shift % 2
    scaled = -(-(x.numerator << shift) // x.denominator)
    root = isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << (shift // 2))
