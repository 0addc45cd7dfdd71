"""Discrete Laplace noise, also called the geometric mechanism: pure ε, optimal for counts."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.base import Budget, Pure
from dpsql.mechanisms.certified import NEGLIGIBLE, NEGLIGIBLE_EXPONENT, SLACK, decimal, miss, precise, rounded_up


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """Integer noise with Pr[z] proportional to e^(−|z|/scale); scale is in grid units. Scale 0 is no noise at all."""

    scale: Fraction

    kind: ClassVar[str] = "laplace"
    name: ClassVar[str] = "discrete Laplace"
    pure: ClassVar[bool] = True
    excess: ClassVar[float] = 3.0

    def __post_init__(self) -> None:
        sampler.require_scale(self.scale)

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction) -> DiscreteLaplace:
        """The noise that makes a statistic of this sensitivity (in grid units) exactly epsilon-private."""
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        return cls(s.l1 / epsilon)  # Theorem LAP-1

    @classmethod
    def calibrated(cls, s: Sensitivity, budget: Budget, part: Fraction) -> DiscreteLaplace:
        """The noise that a part of a budget buys."""
        return cls.calibrate(s, budget.pure(part))

    @classmethod
    def expected_variance(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Fraction:
        """About the variance of that noise: of the continuous one."""
        return 2 * (s.l1 / budget.pure(part)) ** 2

    @classmethod
    def best_share(cls, s: Sensitivity, unit: Fraction, budget: Budget) -> float:
        """Which share of a budget gives the least total error, up to a factor."""
        size = float(s.l1 * unit)
        return math.pow(size, 2 / 3) if budget.rho(Fraction(1)) is None else size  # Theorem SPLIT-2

    @classmethod
    def deviations(cls, p: float) -> float:
        """About how many standard deviations are exceeded with this probability, to one side."""
        return math.log(1 / (2 * p)) / math.sqrt(2)

    def draw(self, n: int) -> sampler.Ints:
        """One independent draw for each of n cells."""
        return sampler.discrete_laplace(self.scale, n)

    def cost(self, s: Sensitivity) -> Cost:
        """What it costs to add this noise to every cell of a statistic of this sensitivity."""
        if s.l1 == 0:
            return ZERO  # the statistic is the same on all neighbours: any noise hides them, even none
        if self.scale == 0:
            raise ValueError("no noise hides nothing: a statistic that a unit can move needs a positive scale")
        return Cost(s.l1 / self.scale)  # Theorem LAP-1

    def event(self, s: Sensitivity) -> Pure:
        """What was done, for accountants."""
        return Pure(self.cost(s).epsilon)

    @property
    def width(self) -> Fraction:
        """The scale."""
        return self.scale

    @property
    def written(self) -> str:
        """The scale, as it is stored."""
        return str(self.scale)

    @classmethod
    def read(cls, written: str) -> DiscreteLaplace:
        """The noise of a stored scale."""
        return cls(Fraction(written))

    @property
    def variance(self) -> float:
        # 2a/(1 − a)² with a = e^(−x), in a form that loses no digits for x near 0.
        x = self.rate
        return 2 * math.exp(-x) / math.expm1(-x) ** 2

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    @property
    def rate(self) -> float:
        """1/scale, cut off where e^(−1/scale) is 0 in floats anyway."""
        return float(1 / self.scale) if self.scale > Fraction(1, 10_000) else 10_000.0

    def pmf(self, z: int) -> float:
        """Pr[Z = z]."""
        x = self.rate
        return math.tanh(x / 2) * math.exp(-x * abs(z))

    def tail(self, t: int) -> Fraction:
        """An upper bound on Pr[Z ≥ t], true to 19 digits above 10^-1000."""
        with localcontext(precise()):
            if t >= 1:
                if self.scale == 0:
                    return Fraction(0)
                if t >= NEGLIGIBLE_EXPONENT * self.scale:
                    return NEGLIGIBLE
                return max(NEGLIGIBLE, rounded_up(self._upper_half(t) * (1 + SLACK)))
            if self.scale == 0 or 1 - t >= NEGLIGIBLE_EXPONENT * self.scale:
                return Fraction(1)
            return min(Fraction(1), rounded_up(1 - self._upper_half(1 - t) * (1 - SLACK)))

    def _upper_half(self, t: int) -> Decimal:
        """a^t/(1 + a): Pr[Z ≥ t] for t ≥ 1."""
        return (-decimal(t / self.scale)).exp() / (1 + self._a())

    def _a(self) -> Decimal:
        """e^(−1/scale), or 0 where 1 + a couldn't tell."""
        return (-decimal(1 / self.scale)).exp() if NEGLIGIBLE_EXPONENT * self.scale > 1 else Decimal(0)

    def threshold(self, p: Fraction) -> int:
        """The smallest integer t with Pr[Z ≥ t] ≤ p, never too small; 10^-1000 ≤ p < 1/2."""
        if not NEGLIGIBLE <= p < Fraction(1, 2):
            raise ValueError("the probability must lie between 10^-1000 and 1/2")
        t = 1
        if self.scale > 0:
            with localcontext(precise()):
                t = max(1, math.floor(-decimal(self.scale) * (decimal(p) * (1 + self._a())).ln()))
        # The logarithm is only where to start looking; what counts is the tail's own upper bound.
        while self.tail(t) > p:
            t += 1
        return t

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that all of so many independent draws satisfy |Z| ≤ t with at least this confidence."""
        # Theorem LAP-2. |Z| > t means Z ≥ t + 1 or −Z ≥ t + 1, two disjoint events of one probability.
        return self.threshold(miss(confidence, cells) / 2) - 1

    def laplace_within(self, confidence: float, cells: int = 1) -> float:
        """The textbook bound ln(cells/(1 − confidence))·scale: continuous noise and a union bound over cells."""
        return math.log(cells / (1 - confidence)) * float(self.scale)
