"""Noises of the public toolbox alone, which no query uses.

Binomial noise (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006) is the sum of fair coins, less its mean. The truncated
geometric mechanism (Ghosh, Roughgarden, Sundararajan 2012) is for a count that has a public maximum.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.certified import (
    NEGLIGIBLE,
    NEGLIGIBLE_EXPONENT,
    SLACK,
    decimal,
    least_integer,
    miss,
    precise,
    probability,
    require_approximate,
    upper_threshold,
)
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

MOST = 2**30  # coins for one draw: 128 MB of random bits

_CHUNK = 2**17  # words of 64 coins at a time
_EXACT = 256  # below this, factorials are multiplied out
_LOG_SLACK = Decimal("1e-35")  # absolute, of ln Pr[B = k]: 60 digits, of which numbers up to 10^11 take 12
_STIRLING = [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400)]
_STIRLING += [(43867, 244188), (-174611, 125400), (77683, 5796), (-236364091, 1506960), (657931, 300)]


@dataclass(frozen=True, slots=True)
class Binomial:
    """Heads among `coins` fair coins, less half of them; an even number, so that the noise is of integers.

    For a single integer statistic. No coins are no noise at all.
    """

    coins: int

    def __post_init__(self) -> None:
        if self.coins < 0 or self.coins % 2:
            raise ValueError("the number of coins must be even, and can't be negative")
        if self.coins > MOST:
            raise OverflowError(
                f"binomial noise of more than {MOST:,} coins takes too long to draw; use the discrete Gaussian"
            )

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction, delta: Fraction) -> Binomial:
        """The least noise whose certified delta, for one number of this sensitivity, is at most delta."""
        require_approximate(epsilon, delta)
        if _shift(s) == 0:
            return cls(0)
        # Theorem BINOM-1: δ falls with the number of coins, and the certificate is delta() of what is returned.
        return cls(2 * least_integer(lambda pairs: cls(2 * pairs).delta(s, epsilon) <= delta))

    @property
    def name(self) -> str:
        return "binomial"

    def draw(self, n: int) -> sampler.Ints:
        """One independent draw for each of n cells."""
        words = -(-self.coins // 64)
        out = np.full(n, -self.coins // 2, dtype=np.int64)
        rows = max(1, _CHUNK // max(1, words))
        for start in range(0, n if words else 0, rows):
            part = out[start : start + rows]
            for first in range(0, words, _CHUNK):
                part += self._heads(len(part), first, min(words, first + _CHUNK))
        return out

    def _heads(self, n: int, first: int, end: int) -> npt.NDArray[np.int64]:
        """How many of n times the coins in these words fell heads."""
        bits = sampler._words(n * (end - first), 64).reshape(n, end - first)
        rest = self.coins - 64 * (end - 1)
        if rest < 64:  # the last word has more bits than coins are left
            bits = bits.copy()
            bits[:, -1] &= np.uint64(2**rest - 1)
        return np.asarray(np.bitwise_count(bits).sum(axis=1, dtype=np.int64))

    def delta(self, s: Sensitivity, epsilon: Fraction) -> Fraction:
        """An upper bound on the smallest delta at this epsilon, true to 19 digits above 10^-1000."""
        if epsilon < 0:
            raise ValueError("epsilon can't be negative")
        shift = _shift(s)
        if shift == 0:
            return Fraction(0)
        if shift > self.coins:
            return Fraction(1)  # the two have no outcome in common
        with localcontext(precise()):
            t = self._first(shift, decimal(epsilon))
            # Theorem BINOM-1: Pr[B ≥ t − Δ] − e^ε·Pr[B ≥ t] at the first t where outcomes count for the one side.
            second = self._power(t, decimal(epsilon)) * (1 - SLACK) * self._sum(t)[0] if t <= self.coins else 0
            return probability(self._upper(t - shift) - second)

    def _first(self, shift: int, epsilon: Decimal) -> int:
        """The least t with Pr[B = t − Δ] > e^ε·Pr[B = t], or one whose difference is too small to matter."""
        low, high = shift - 1, self.coins + 1  # Pr[B = t − Δ] is 0 at low; Pr[B = t] is 0 at high
        while high - low > 1:
            middle = (low + high) // 2
            above = self._log_mass(middle - shift) - self._log_mass(middle) > epsilon
            low, high = (low, middle) if above else (middle, high)
        return high

    def cost(self, s: Sensitivity, epsilon: Fraction) -> Cost:
        """The (epsilon, delta) guarantee of adding this noise to one number of this sensitivity."""
        return Cost(epsilon, self.delta(s, epsilon)) if _shift(s) else ZERO  # Theorem BINOM-1

    @property
    def variance(self) -> float:
        return self.coins / 4

    @property
    def std(self) -> float:
        return math.sqrt(self.variance)

    def pmf(self, z: int) -> Fraction:
        """Pr[Z = z], exactly."""
        heads = z + self.coins // 2
        return Fraction(math.comb(self.coins, heads), 2**self.coins) if 0 <= heads <= self.coins else Fraction(0)

    def tail(self, t: int) -> Fraction:
        """An upper bound on Pr[Z ≥ t], true to 19 digits above 10^-1000."""
        heads = t + self.coins // 2
        if heads <= 0 or heads > self.coins:
            return Fraction(int(heads <= 0))
        with localcontext(precise()):
            return probability(self._upper(heads))

    def threshold(self, p: Fraction) -> int:
        """The smallest integer t with Pr[Z ≥ t] ≤ p, never too small; 10^-1000 ≤ p < 1/2."""
        return upper_threshold(self.tail, p)

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that all of so many independent draws satisfy |Z| ≤ t with at least this confidence."""
        return self.threshold(miss(confidence, cells) / 2) - 1  # Theorem LAP-2: it is symmetric

    # ------------------------------------------------------------ numbers of heads, at 60 digits

    def _upper(self, heads: int) -> Decimal:
        """An upper bound on Pr[B ≥ heads]."""
        if 2 * heads <= self.coins:  # the smaller side is summed: Pr[B ≥ h] = 1 − Pr[B ≥ N + 1 − h]
            other = self.coins + 1 - heads
            if other > self.coins:
                return Decimal(1)
            return 1 - self._power(other, Decimal(0)) * (1 - SLACK) * self._sum(other)[0]
        if self._log_mass(heads) < -NEGLIGIBLE_EXPONENT:
            return Decimal(NEGLIGIBLE.numerator) / NEGLIGIBLE.denominator
        return (self._log_mass(heads) + _LOG_SLACK).exp() * (1 + SLACK) * self._sum(heads)[1]

    def _power(self, heads: int, epsilon: Decimal) -> Decimal:
        """A lower bound on e^ε·Pr[B = heads]."""
        return (self._log_mass(heads) + epsilon - _LOG_SLACK).exp()

    def _sum(self, heads: int) -> tuple[Decimal, Decimal]:
        """Bounds on Pr[B ≥ heads]/Pr[B = heads]."""
        term = total = Decimal(1)
        for k in range(heads, self.coins):
            ratio = Decimal(self.coins - k) / (k + 1)
            term *= ratio
            if ratio < 1 and (rest := term / (1 - ratio)) < total * SLACK:  # ratios fall: below a geometric series
                return total * (1 - SLACK), (total + rest) * (1 + SLACK)
            total += term
        return total * (1 - SLACK), total * (1 + SLACK)

    def _log_mass(self, heads: int) -> Decimal:
        """ln Pr[B = heads], off by less than 10^-35."""
        odd = _log_factorial(heads) + _log_factorial(self.coins - heads)
        return _log_factorial(self.coins) - odd - self.coins * Decimal(2).ln()


def _shift(s: Sensitivity) -> int:
    """How far one number moves: for several at once nothing is proved here."""
    if not s.single:
        raise ValueError("binomial noise is for a single number; use the discrete Gaussian for several")
    return max(1, math.floor(s.l1)) if s.l1 else 0  # an integer moves by a whole number, if it moves at all


def _log_factorial(n: int) -> Decimal:
    """ln n!, at the precision of the current context."""
    if n < _EXACT:
        return Decimal(math.factorial(n)).ln()
    x = Decimal(n)
    # Stirling's series: what is left out is smaller than the first term that is, below 10^-55 from n = 256 on.
    total = x * x.ln() - x + (2 * _PI * x).ln() / 2
    for k, (numerator, denominator) in enumerate(_STIRLING):
        total += Decimal(numerator) / denominator / x ** (2 * k + 1)
    return total


_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")


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
