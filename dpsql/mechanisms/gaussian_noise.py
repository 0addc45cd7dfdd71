"""Gaussian noise on the grid: a true normal, rounded. Rounding after adding to a grid value is post-processing."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.base import Budget
from dpsql.mechanisms.certified import (
    NEGLIGIBLE,
    SLACK,
    decimal,
    least,
    log2_floor,
    miss,
    precise,
    probability,
    require_approximate,
    root_up,
    rounded_up,
    upper_threshold,
)

# A normal exceeds 70 with probability below 10^-1000, and a bound that small is as good as any.
_FAR = 70

_ROOT_TWO_PI = Decimal("2.50662827463100050241576528481104525300698674060993831662992357634229")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """N(0, sigma²) rounded to the nearest integer; sigma is in grid units. Sigma 0 is no noise at all."""

    sigma: Fraction

    kind: ClassVar[str] = "gaussian"
    name: ClassVar[str] = "Gaussian"
    pure: ClassVar[bool] = False
    excess: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        sampler.require_scale(self.sigma)

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction, delta: Fraction) -> Gaussian:
        """The least noise, to 40 bits, whose certified delta at this sensitivity (in grid units) is at most delta."""
        require_approximate(epsilon, delta)
        if s.l2_squared == 0:
            return cls(Fraction(0))

        start = Fraction(2) ** (log2_floor(s.l2_squared) // 2)
        # Theorem GAUSS-2. The certificate is delta() of the very object that is returned.
        return cls(least(lambda sigma: cls(sigma).delta(s, epsilon) <= delta, start))

    @classmethod
    def calibrated(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Gaussian:
        """The noise that a part of a budget buys: that of ρ, or of the square of a vector's norm."""
        rho = budget.rho(part)
        if rho is not None:
            return cls(root_up(s.l2_squared / (2 * rho)))  # Theorem GAUSS-1
        # Theorem GAUSS-3: statistic i gets σᵢ = σ·Δᵢ/√partᵢ, so that Σ (Δᵢ/σᵢ)² ≤ 1/σ².
        return cls(_unit_noise(budget.epsilon, budget.delta).sigma * root_up(s.l2_squared / part))

    @classmethod
    def expected_variance(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Fraction:
        """About the variance of that noise: σ², for roots that aren't rounded."""
        rho = budget.rho(part)
        if rho is not None:
            return s.l2_squared / (2 * rho)
        return s.l2_squared / part * _unit_noise(budget.epsilon, budget.delta).sigma ** 2

    @classmethod
    def best_share(cls, s: Sensitivity, unit: Fraction, budget: Budget) -> float:
        """Which share of a budget gives the least total error, up to a factor."""
        return math.sqrt(s.l2_squared) * float(unit)  # Theorem SPLIT-2

    @classmethod
    def deviations(cls, p: float) -> float:
        """About how many standard deviations are exceeded with this probability, to one side."""
        return normal_deviations(p)

    def draw(self, n: int) -> sampler.Ints:
        """One independent draw for each of n cells."""
        return sampler.rounded_normal(self.sigma, n)

    def rho(self, s: Sensitivity) -> Fraction:
        """The zCDP parameter of adding this noise to every cell of a statistic of this sensitivity."""
        if s.l2_squared == 0:
            return Fraction(0)
        self._needs_noise()
        return s.l2_squared / (2 * self.sigma**2)  # Theorem GAUSS-1

    def delta(self, s: Sensitivity, epsilon: Fraction) -> Fraction:
        """An upper bound on the smallest delta at this epsilon; it is tight to about 20 digits down to 10^-1000."""
        if epsilon < 0:
            raise ValueError("epsilon can't be negative")
        if s.l2_squared == 0:
            return Fraction(0)
        self._needs_noise()
        with localcontext(precise()):
            # Theorem GAUSS-2. With r = Δ₂/σ, a = ε/r − r/2 and b = ε/r + r/2: δ = Q(a) − e^ε·Q(b), which grows with r.
            r = decimal(s.l2_squared / self.sigma**2).sqrt() * (1 + SLACK)
            ratio = decimal(epsilon) / r
            blur = (ratio + r) * SLACK
            a, b = ratio - r / 2, ratio + r / 2 + blur
            if a - blur >= _FAR:
                return NEGLIGIBLE  # δ ≤ Q(a)
            if a + blur <= -_FAR:
                return Fraction(1)
            # e^ε·φ(b) = φ(a) since b² − a² = 2ε: the second term is φ(a)·M(b), where M = Q/φ. Nothing overflows.
            upper = _upper_tail(a - blur)
            lower = _density(abs(a) + blur) * (1 - SLACK) * mills(b)[0]
            return probability(upper - lower)

    def cost(self, s: Sensitivity, epsilon: Fraction) -> Cost:
        """The (epsilon, delta) guarantee of adding this noise to every cell of a statistic of this sensitivity."""
        if s.l2_squared == 0:
            return ZERO  # the statistic is the same on all neighbours: any noise hides them, even none
        return Cost(epsilon, self.delta(s, epsilon))  # Theorem GAUSS-2

    def event(self, s: Sensitivity) -> Normal:
        """What was done, for accountants."""
        if s.l2_squared == 0:
            return Normal(Fraction(0))  # the statistic is the same on all neighbours
        self._needs_noise()
        return Normal(s.l2_squared / self.sigma**2)

    @property
    def width(self) -> Fraction:
        """σ."""
        return self.sigma

    @property
    def written(self) -> str:
        """σ, as it is stored."""
        return str(self.sigma)

    @classmethod
    def read(cls, written: str) -> Gaussian:
        """The noise of a stored σ."""
        return cls(Fraction(written))

    def _needs_noise(self) -> None:
        if self.sigma == 0:
            raise ValueError("no noise hides nothing: a statistic that a unit can move needs a positive sigma")

    @property
    def variance(self) -> float:
        """Of the rounded noise: sigma² + 1/12, nearly, unless sigma is small."""
        if self.sigma >= 2:
            return float(self.sigma**2) + 1 / 12  # the rest is below e^(−2π²σ²)·8σ²
        root = float(self.sigma) * math.sqrt(2)
        # E[Z²] = Σ (2t − 1)·Pr[|Z| ≥ t]
        return sum((2 * t - 1) * math.erfc((t - 0.5) / root) for t in range(1, 80)) if root else 0.0

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def tail(self, t: int) -> Fraction:
        """An upper bound on Pr[Z ≥ t], true to 19 digits above 10^-1000."""
        if self.sigma == 0:
            return Fraction(int(t <= 0))
        with localcontext(precise()):
            # The rounded normal is at least t when the normal itself is at least t − 1/2.
            x = decimal((t - Fraction(1, 2)) / self.sigma)
            if x > _FAR:
                return NEGLIGIBLE
            if x < -_FAR:
                return Fraction(1)
            return probability(_upper_tail(x - abs(x) * SLACK))

    def threshold(self, p: Fraction) -> int:
        """The smallest integer t with Pr[Z ≥ t] ≤ p, never too small; 10^-1000 ≤ p < 1/2."""
        return upper_threshold(self.tail, p, normal_deviations(float(p)) * float(self.sigma))

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that all of so many independent draws satisfy |Z| ≤ t with at least this confidence."""
        # Theorem LAP-2, which needs no more than symmetry and independence.
        return self.threshold(miss(confidence, cells) / 2) - 1


@dataclass(frozen=True, slots=True)
class Normal:
    """A vector of this squared norm got standard normal noise (Theorem GAUSS-3: in units of each entry's σ)."""

    squared: Fraction

    @property
    def rho(self) -> Fraction:
        return self.squared / 2  # Theorem GAUSS-1

    @property
    def note(self) -> list[str]:
        return ["gaussian", str(self.squared)]

    def beside(self, other: Normal) -> Normal:
        """Both vectors as one."""
        return Normal(self.squared + other.squared)

    def delta(self, epsilon: Fraction) -> Fraction:
        """The certified δ at this ε."""
        return Gaussian(Fraction(1)).delta(Sensitivity(self.squared, self.squared), epsilon)


@lru_cache(maxsize=1024)
def _unit_noise(epsilon: Fraction, delta: Fraction) -> Gaussian:
    """The noise for a vector of norm 1: found by bisection, which is worth remembering."""
    return Gaussian.calibrate(Sensitivity(Fraction(1), Fraction(1)), epsilon, delta)


def normal_deviations(p: float) -> float:
    """Which multiple of its deviation a normal exceeds with this probability."""
    from statistics import NormalDist

    return -NormalDist().inv_cdf(p) if p > 1e-300 else 37.0


def classic_sigma(sensitivity: Fraction | int | str, epsilon: Fraction | int | str, delta: Fraction | str) -> Fraction:
    """√(2 ln(1.25/δ))·Δ₂/ε, rounded up: the formula of Dwork and Roth (2014, appendix A), for comparison only.

    It holds for ε < 1, and is more than the analytic σ (Theorem GAUSS-2), which nothing in dpsql does without.
    """
    size, share, miss_ = Fraction(sensitivity), Fraction(epsilon), Fraction(delta)
    if size < 0 or not 0 < share < 1 or not NEGLIGIBLE <= miss_ < 1:
        raise ValueError("the classic formula is for 0 < ε < 1, 10^-1000 ≤ δ < 1 and no negative sensitivity")
    with localcontext(precise()):
        root = (2 * (Decimal("1.25") / decimal(miss_)).ln()).sqrt()
        return rounded_up(root * decimal(size / share) * (1 + SLACK))


def _density(x: Decimal) -> Decimal:
    """The standard normal density φ, to 50 digits."""
    return (-x * x / 2).exp() / _ROOT_TWO_PI


def _upper_tail(x: Decimal) -> Decimal:
    """An upper bound on Q(x) = Pr[N ≥ x]."""
    if x < 0:
        return 1 - _density(x) * (1 - SLACK) * mills(-x)[0]
    return _density(x) * (1 + SLACK) * mills(x)[1]


def mills(x: Decimal) -> tuple[Decimal, Decimal]:
    """Lower and upper bounds on Q(x)/φ(x) for x ≥ 0."""
    if x < 3:
        # Q(x) = 1/2 − φ(x)·(x + x³/3 + x⁵/(3·5) + …), all terms positive; at most 3 of the 60 digits cancel.
        term = total = x
        n = 1
        while term > total * Decimal("1e-60"):  # from here on terms shrink at least by half, so the rest is as small
            n += 2
            term *= x * x / n
            total += term
        ratio = 1 / (2 * _density(x)) - total
        return ratio * (1 - SLACK), ratio * (1 + SLACK)
    # Laplace's continued fraction 1/(x + 1/(x + 2/(x + …))) of positive terms: successive convergents enclose it.
    depth = 64
    while True:
        low, high = sorted((_convergent(x, depth), _convergent(x, depth + 1)))
        if high - low <= low * SLACK:
            return low * (1 - SLACK), high * (1 + SLACK)
        depth *= 2


def _convergent(x: Decimal, depth: int) -> Decimal:
    value = x
    for k in range(depth, 0, -1):
        value = x + k / value
    return 1 / value
