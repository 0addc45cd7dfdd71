"""The discrete Gaussian (Canonne, Kamath, Steinke 2020): Gaussian noise that lives on the integers from the start."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpsql.core.cost import ZERO, Cost, least_delta
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.base import Budget
from dpsql.mechanisms.certified import (
    NEGLIGIBLE,
    NEGLIGIBLE_EXPONENT,
    SLACK,
    decimal,
    least,
    log2_floor,
    miss,
    precise,
    probability,
    require_approximate,
    root_up,
    upper_threshold,
)
from dpsql.mechanisms.gaussian_noise import mills, normal_deviations

_WIDE = 64  # from this σ on, sums over the integers are integrals with corrections
_ORDER = 20  # how many of them
_TINY = Fraction(1, 2**200)  # below this σ² floats would overflow, and `decimal` decides alone
_CHUNK = 2**15
_BITS = 32


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Integer noise with Pr[z] proportional to e^(−z²/2σ²); σ is in grid units. σ² = 0 is no noise at all."""

    sigma_squared: Fraction

    kind: ClassVar[str] = "discrete_gaussian"
    name: ClassVar[str] = "discrete Gaussian"
    pure: ClassVar[bool] = False
    excess: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if self.sigma_squared < 0:
            raise ValueError("the variance of noise can't be negative")
        if self.sigma_squared > sampler.LARGEST_SCALE**2:
            sampler.require_scale(sampler.LARGEST_SCALE + 1)

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction, delta: Fraction) -> DiscreteGaussian:
        """The least noise, to 40 bits of σ², whose certified delta at this sensitivity (in grid units) is enough."""
        require_approximate(epsilon, delta)
        if s.l2_squared == 0:
            return cls(Fraction(0))
        start = Fraction(2) ** log2_floor(s.l2_squared)
        # Theorem DGAUSS-1. The certificate is delta() of the very object that is returned.
        return cls(least(lambda squared: cls(squared).delta(s, epsilon) <= delta, start))

    @classmethod
    def calibrated(cls, s: Sensitivity, budget: Budget, part: Fraction) -> DiscreteGaussian:
        """The noise that a part of a budget buys: that of ρ, of δ for a single number, or of a vector's norm."""
        if s.single and part == 1 and budget.rho(part) is None:
            return _calibrated(s, budget.epsilon, budget.delta)
        return cls(cls.expected_variance(s, budget, part))

    @classmethod
    def expected_variance(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Fraction:
        """σ² of that noise, or hardly more for a single number."""
        rho = budget.rho(part)
        if rho is not None:
            return s.l2_squared / (2 * rho)  # Theorem DGAUSS-1(b)
        # Theorem DGAUSS-1(b): σᵢ² = σ²·Δᵢ²/partᵢ, so that Σ Δᵢ²/2σᵢ² is at most the ρ of a vector of norm 1.
        unit = _calibrated(Sensitivity(Fraction(1), Fraction(1)), budget.epsilon, budget.delta)
        return s.l2_squared / part * unit.sigma_squared

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
        out = np.zeros(n, dtype=np.int64)
        filled = 0 if self.sigma_squared else n
        while filled < n:
            found = _accepted(self.sigma_squared, min(_CHUNK, 3 * (n - filled) // 2 + 8))[: n - filled]
            out[filled : filled + len(found)] = found
            filled += len(found)
        return out

    def rho(self, s: Sensitivity) -> Fraction:
        """The zCDP parameter of adding this noise to every cell of a statistic of this sensitivity."""
        if s.l2_squared == 0:
            return Fraction(0)
        self._needs_noise()
        return s.l2_squared / (2 * self.sigma_squared)  # Theorem DGAUSS-1(b)

    def delta(self, s: Sensitivity, epsilon: Fraction) -> Fraction:
        """An upper bound on the smallest delta at this epsilon: tight for a single number, by way of ρ for vectors."""
        if epsilon < 0:
            raise ValueError("epsilon can't be negative")
        if s.l2_squared == 0:
            return Fraction(0)
        self._needs_noise()
        if s.single:
            # An integer moves by a whole number; by 1 where a bound is below that, which is more than it moves.
            return self._delta_of_shift(max(1, math.isqrt(math.floor(s.l2_squared))), epsilon)
        return least_delta(self.rho(s), epsilon)  # Theorems DGAUSS-1(b) and ZCDP-2

    def _delta_of_shift(self, shift: int, epsilon: Fraction) -> Fraction:
        # Theorem DGAUSS-1(c): Pr[Z ≥ t − Δ] − e^ε·Pr[Z ≥ t] at the first t where outcomes count for the one side.
        t = math.floor(epsilon * self.sigma_squared / shift + Fraction(shift, 2)) + 1
        with localcontext(precise()):
            first = self._upper(t - shift)
            if first <= NEGLIGIBLE:
                return NEGLIGIBLE
            exponent = decimal(epsilon - Fraction(t * t) / (2 * self.sigma_squared))
            second = exponent.exp() * (1 - SLACK) * _tail(self.sigma_squared, t)[0] / _whole(self.sigma_squared)[1]
            return probability(first - second)

    def _upper(self, t: int) -> Decimal:
        """An upper bound on Pr[Z ≥ t], at the precision of the current context."""
        point = t if t > 0 else 1 - t
        exponent = Fraction(point * point) / (2 * self.sigma_squared)
        if exponent > NEGLIGIBLE_EXPONENT:
            return Decimal(NEGLIGIBLE.numerator) / NEGLIGIBLE.denominator if t > 0 else Decimal(1)
        low, high = _tail(self.sigma_squared, point)
        least_whole, most_whole = _whole(self.sigma_squared)
        power = (-decimal(exponent)).exp()
        if t > 0:
            return power * (1 + SLACK) * high / least_whole
        return 1 - power * (1 - SLACK) * low / most_whole

    def cost(self, s: Sensitivity, epsilon: Fraction) -> Cost:
        """The (epsilon, delta) guarantee of adding this noise to every cell of a statistic of this sensitivity."""
        if s.l2_squared == 0:
            return ZERO  # the statistic is the same on all neighbours: any noise hides them, even none
        return Cost(epsilon, self.delta(s, epsilon))  # Theorem DGAUSS-1

    def event(self, s: Sensitivity) -> DiscreteNormal:
        """What was done, for accountants."""
        return DiscreteNormal(self.rho(s), (self, s) if s.single else None)

    @property
    def width(self) -> Fraction:
        """σ, nearly."""
        return root_up(self.sigma_squared)

    @property
    def written(self) -> str:
        """σ², as it is stored."""
        return str(self.sigma_squared)

    @classmethod
    def read(cls, written: str) -> DiscreteGaussian:
        """The noise of a stored σ²."""
        return cls(Fraction(written))

    def _needs_noise(self) -> None:
        if self.sigma_squared == 0:
            raise ValueError("no noise hides nothing: a statistic that a unit can move needs a positive variance")

    @property
    def variance(self) -> float:
        """σ², nearly, unless it is small; never more than that."""
        if self.sigma_squared >= 4:
            return float(self.sigma_squared)  # the rest is below 8π²σ⁴·e^(−2π²σ²)
        masses = [self.pmf(z) for z in range(41)]
        return 2 * math.fsum(z * z * p for z, p in enumerate(masses))

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, z: int) -> float:
        """Pr[Z = z], to the precision of a float."""
        if self.sigma_squared == 0:
            return float(z == 0)
        with localcontext(precise()):
            power = (-decimal(Fraction(z * z) / (2 * self.sigma_squared))).exp()
            return float(power / _whole(self.sigma_squared)[0])

    def tail(self, t: int) -> Fraction:
        """An upper bound on Pr[Z ≥ t], true to 19 digits above 10^-1000."""
        if self.sigma_squared == 0:
            return Fraction(int(t <= 0))
        with localcontext(precise()):
            return probability(self._upper(t))

    def threshold(self, p: Fraction) -> int:
        """The smallest integer t with Pr[Z ≥ t] ≤ p, never too small; 10^-1000 ≤ p < 1/2."""
        return upper_threshold(self.tail, p, normal_deviations(float(p)) * math.sqrt(self.sigma_squared))

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that all of so many independent draws satisfy |Z| ≤ t with at least this confidence."""
        return self.threshold(miss(confidence, cells) / 2) - 1  # Theorem LAP-2: it is symmetric


@dataclass(frozen=True, slots=True)
class DiscreteNormal:
    """A vector of integers got discrete Gaussian noise; alone: it is but one number, and this is its noise."""

    rho: Fraction
    alone: tuple[DiscreteGaussian, Sensitivity] | None = None

    @property
    def note(self) -> list[str]:
        return ["discrete_gaussian", str(2 * self.rho)]

    def beside(self, other: DiscreteNormal) -> DiscreteNormal:
        """Both vectors as one; one that no unit moves adds nothing."""
        if not self.rho or not other.rho:
            return self if self.rho else other
        return DiscreteNormal(self.rho + other.rho)

    def delta(self, epsilon: Fraction) -> Fraction:
        """The certified δ at this ε."""
        if self.alone is None:
            return least_delta(self.rho, epsilon)  # Theorems DGAUSS-1(b) and ZCDP-2
        noise, size = self.alone
        return noise.delta(size, epsilon)  # Theorem DGAUSS-1(c)


@lru_cache(maxsize=1024)
def _calibrated(s: Sensitivity, epsilon: Fraction, delta: Fraction) -> DiscreteGaussian:
    """Found by bisection, which is worth remembering."""
    return DiscreteGaussian.calibrate(s, epsilon, delta)


# ---------------------------------------------------------------- sums over the integers


@lru_cache(maxsize=256)
def _whole(squared: Fraction) -> tuple[Decimal, Decimal]:
    """Bounds on Σ e^(−z²/2σ²) over all integers z."""
    with localcontext(precise()):
        low, high = _tail(squared, 0)
        return (2 * low - 1) * (1 - SLACK), (2 * high - 1) * (1 + SLACK)


def _tail(squared: Fraction, t: int) -> tuple[Decimal, Decimal]:
    """Bounds on Σ e^(−z²/2σ²) over z ≥ t, in units of its first term, for t ≥ 0; at 60 digits."""
    # Theorem DGAUSS-1, "numbers": near sums end soon; of wide ones the corrections shrink fast.
    if squared < _WIDE**2 or 4 * t * t > squared**2:
        return _summed(squared, t)
    return _integrated(squared, t)


def _summed(squared: Fraction, t: int) -> tuple[Decimal, Decimal]:
    """Term by term: each is the one before times a ratio, and the ratios fall by a constant factor."""
    ratio = (-decimal((2 * t + 1) / (2 * squared))).exp()
    factor = (-decimal(1 / squared)).exp()
    term = total = Decimal(1)
    while True:
        term *= ratio
        rest = term / (1 - ratio)  # the terms from here on are below a geometric series
        if rest < total * SLACK:
            return total * (1 - SLACK), (total + rest) * (1 + SLACK)
        total += term
        ratio *= factor


def _integrated(squared: Fraction, t: int) -> tuple[Decimal, Decimal]:
    """Euler and Maclaurin: the integral from t on, half of the first term, and corrections by odd derivatives."""
    sigma = decimal(squared).sqrt()
    u = t / sigma
    hermite, sizes = [Decimal(1), u], [Decimal(1), u]
    for n in range(1, 2 * _ORDER):
        hermite.append(u * hermite[n] - n * hermite[n - 1])
        sizes.append(u * sizes[n] + n * sizes[n - 1])
    sum_ = Decimal("0.5")
    for k in range(1, _ORDER + 1):
        sum_ += _bernoulli(k) * hermite[2 * k - 1] / sigma ** (2 * k - 1)
    low, high = mills(u)
    # The remainder is at most the last coefficient times ∫|f^(2K)|, and |He_n| ≤ the same with all signs positive.
    integral = _moments(u, 2 * _ORDER, high)
    rest = abs(_bernoulli(_ORDER)) * integral * sigma ** (1 - 2 * _ORDER)
    return (sigma * low + sum_ - rest) * (1 - SLACK), (sigma * high + sum_ + rest) * (1 + SLACK)


def _moments(u: Decimal, n: int, mills_ratio: Decimal) -> Decimal:
    """∫ₓ≥ᵤ h(x)·e^(−(x²−u²)/2) dx, h being He_n with all signs positive."""
    integrals = [mills_ratio, Decimal(1)]  # of x^k: I_k = u^(k−1) + (k − 1)·I_(k−2)
    for k in range(2, n + 1):
        integrals.append(u ** (k - 1) + (k - 1) * integrals[k - 2])
    total = Decimal(0)
    for k in range(n // 2 + 1):
        coefficient = math.factorial(n) // (math.factorial(k) * math.factorial(n - 2 * k) * 2**k)
        total += coefficient * integrals[n - 2 * k]
    return total


@lru_cache(maxsize=1)
def _bernoullis() -> tuple[Fraction, ...]:
    """B_2k/(2k)! for k = 0, 1, …: the even coefficients of x/(e^x − 1)."""
    series: list[Fraction] = []
    for n in range(2 * _ORDER + 1):
        series.append(int(n == 0) - sum((c / math.factorial(n + 1 - i) for i, c in enumerate(series)), Fraction(0)))
    return tuple(series[::2])


def _bernoulli(k: int) -> Decimal:
    return decimal(_bernoullis()[k])


# ---------------------------------------------------------------- exact draws


def _accepted(squared: Fraction, n: int) -> sampler.Ints:
    """Those of n draws of a discrete Laplace that stay: with probability e^−γ, γ = (|y| − σ²/s)²/2σ², s its scale."""
    scale = _near_root(squared)
    proposed = sampler.discrete_laplace(scale, n)
    words = sampler._words(n, _BITS)
    kept, settled = _kept_in_floats(squared, scale, proposed, words)
    for i in np.flatnonzero(~settled):
        kept[i] = _kept(_gamma(squared, scale, int(proposed[i])), int(words[i]), _BITS)
    return proposed[kept]


def _near_root(squared: Fraction) -> Fraction:
    """About √(σ²), to ten bits or more: any positive scale is right, and this one keeps the most proposals."""
    shift = max(0, 10 - log2_floor(squared) // 2)
    return Fraction(max(1, math.isqrt(math.floor(squared * 4**shift))), 2**shift)


def _gamma(squared: Fraction, scale: Fraction, y: int) -> Fraction:
    return (abs(y) - squared / scale) ** 2 / (2 * squared)


def _kept_in_floats(
    squared: Fraction, scale: Fraction, proposed: sampler.Ints, words: sampler.Words
) -> tuple[sampler.Bools, sampler.Bools]:
    """Whether −ln U > γ, and for which lanes that holds on the whole interval of U."""
    if squared < _TINY:
        return np.zeros(len(words), dtype=np.bool_), np.zeros(len(words), dtype=np.bool_)
    eps = 2.0**-52
    size, centre, half = np.abs(proposed).astype(np.float64), float(squared / scale), float(1 / (2 * squared))
    with np.errstate(divide="ignore", invalid="ignore"):  # a word of zeros gives inf and nan, which settle nothing
        u = words * 2.0**-_BITS
        exponential = -np.log(u)
        # Theorem SAMPLE-1. −ln U is within 2^-bits/u of −ln u, plus the float errors.
        error = 2.0**-_BITS / u + eps * (sampler._ARGUMENT_ERROR + sampler._LOG_ERROR * exponential)
        # Theorem DGAUSS-1(a): the distance is off by ε·(|y| + σ²/s), and γ by what that makes of its square.
        distance = np.abs(size - centre)
        off = 2 * eps * (size + centre)
        gamma = distance * distance * half
        error += 2 * half * off * (2 * distance + off) + 8 * eps * gamma
        kept = exponential - error > gamma
        return kept, kept | (exponential + error < gamma)


def _kept(gamma: Fraction, k: int, bits: int) -> bool:
    """Whether one proposal is kept: its interval gets more bits until −ln U is above γ, or below, on all of it."""
    while True:
        k, bits = sampler._more(k), bits + 64
        if k == 0:
            continue
        with localcontext(sampler._context(bits)):
            low, high = map(Fraction, sampler._exponential(k, bits))
        if low > gamma:
            return True
        if high < gamma:
            return False
