"""What a release costs, as exact numbers; and zero-concentrated DP: what ρ fits into (ε, δ), what ε a ρ amounts to, and
what Laplace noise costs in ρ.

Each conversion is the certified value of an explicit formula at a parameter that a search in floats proposed: a bad
search would cost accuracy, never validity. Everything is rounded against whoever spends.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import exp, log, log1p, tanh

from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """A true (ε, δ) guarantee; rho and parts are what a zcdp ledger subtracts (rho is None under basic accounting).

    parts is what thresholds took of δ; the rest of it, under zcdp, is the conversion's, which is paid for once.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    parts: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        # Theorem COMP-1: sequential composition adds.
        if (self.rho is None) != (other.rho is None):
            raise ValueError("costs of two accountants don't add")
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta, rho, self.parts + other.parts)

    def times(self, n: int) -> Cost:
        """What n releases of this price cost."""
        return Cost(n * self.epsilon, n * self.delta, None if self.rho is None else n * self.rho, n * self.parts)

    def within(self, most: Cost) -> bool:
        """Is it no more than this, in every respect?"""
        rho = (self.rho or 0) <= (most.rho or 0)
        return self.epsilon <= most.epsilon and self.delta <= most.delta and rho and self.parts <= most.parts


ZERO = Cost(Fraction(0))
ZERO_RHO = Cost(Fraction(0), rho=Fraction(0))

_DIGITS = 20


def rounded(value: Fraction, *, up: bool) -> Fraction:
    """To 20 significant digits, so that a ledger's sums stay short: prices go up, totals go down."""
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def show_rounded(value: Fraction, *, up: bool, digits: int = 8) -> str:
    """A short decimal for people: prices are rounded up, what is left is rounded down."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    exponent = quotient.adjusted() if quotient else 0
    return format(quotient, "f" if -7 < exponent < 16 else "e")


# ---------------------------------------------------------------- ρ and ε

_SLACK = Fraction(1, 10**30)
"""Relative: far above the rounding errors of a dozen operations at 60 digits, of which at most 25 cancel."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Between ρ and ε at the one δ that a ledger sets aside for it."""

    delta: Fraction

    def rho(self, epsilon: Fraction) -> Fraction:
        """The largest ρ, rounded down, such that ρ-zCDP implies (ε, δ)-DP."""
        return _rho(epsilon, self.delta)

    def epsilon(self, rho: Fraction) -> Fraction:
        """The least ε, rounded up, such that ρ-zCDP implies (ε, δ)-DP; 0 for ρ = 0."""
        return _epsilon(rho, self.delta)

    def affords(self, rho: Fraction) -> Fraction:
        """The largest ε, rounded down to 8 digits, that costs no more than this ρ; 0 where there is none."""
        if rho <= 0:
            return Fraction(0)
        epsilon = _short(_epsilon(rho, self.delta), ROUND_HALF_EVEN)
        while epsilon > Fraction(1, 10**9) and self.rho(epsilon) > rho:
            epsilon = _short(epsilon * (1 - Fraction(1, 10**8)), ROUND_FLOOR)
        return epsilon if epsilon > Fraction(1, 10**9) else Fraction(0)


@lru_cache(maxsize=4096)
def least_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The least δ, rounded up and at least 10^-1000, such that ρ-zCDP implies (ε, δ)-DP; 0 for ρ = 0."""
    if rho < 0 or epsilon < 0:
        raise ValueError("neither rho nor epsilon can be negative")
    if rho == 0:
        return Fraction(0)
    r, e = float(rho), float(epsilon)
    # Theorem ZCDP-2, solved for δ: ln δ = β·(αρ − ε + ln(1 − 1/α)) − ln α for any β = α − 1 > 0.
    beta = _best(lambda b: -(b * ((1 + b) * r - e - log1p(1 / b)) - log1p(b)))
    with localcontext(Context(prec=60)):
        b = Decimal(beta)
        parts = (b * (1 + b) * _decimal(rho), -b * _decimal(epsilon), -b * ((1 + b) / b).ln(), -(1 + b).ln())
        ln_delta = sum(parts, Decimal(0)) + sum(map(abs, parts), Decimal(0)) * _decimal(_SLACK)
        return min(Fraction(1), rounded(Fraction(max(ln_delta, Decimal(-2302)).exp()) * (1 + _SLACK), up=True))


def split_delta(delta: Fraction) -> tuple[Fraction, Fraction]:
    """The policy's δ, split once and for all: for the conversion, and for the parts that thresholds take."""
    return delta / 2, delta - delta / 2


def _short(x: Fraction, rounding: str) -> Fraction:
    """To 8 significant digits."""
    return Fraction(Context(prec=8, rounding=rounding).divide(Decimal(x.numerator), Decimal(x.denominator)))


@lru_cache(maxsize=4096)
def _rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    if epsilon <= 0 or not 0 < delta < 1:
        raise ValueError("epsilon must be positive and delta between 0 and 1")
    e, ln_delta = float(epsilon), _log(delta)
    # Theorem ZCDP-2: with β = α − 1, every β > 0 gives a valid ρ = (ε + (ln δ + ln α)/β − ln(1 − 1/α))/α.
    beta = _best(lambda b: (e + (ln_delta + log1p(b)) / b + log1p(1 / b)) / (1 + b))
    with localcontext(Context(prec=60)):
        b = Decimal(beta)
        value = (_decimal(epsilon) + (_decimal(delta).ln() + (1 + b).ln()) / b + ((1 + b) / b).ln()) / (1 + b)
        size = (_decimal(epsilon) + (abs(_decimal(delta).ln()) + (1 + b).ln()) / b + ((1 + b) / b).ln()) / (1 + b)
        rho = Fraction(value) - Fraction(size) * _SLACK
    if rho <= 0:
        raise ValueError("no ρ fits into so small an epsilon and delta")
    return rounded(rho, up=False)


@lru_cache(maxsize=4096)
def _epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    if rho < 0 or not 0 < delta < 1:
        raise ValueError("rho can't be negative, and delta lies between 0 and 1")
    if rho == 0:
        return Fraction(0)
    r, ln_delta = float(rho), _log(delta)
    # Theorem ZCDP-2, solved for ε: αρ + ln(1 − 1/α) − (ln δ + ln α)/β.
    beta = _best(lambda b: -((1 + b) * r - log1p(1 / b) - (ln_delta + log1p(b)) / b))
    with localcontext(Context(prec=60)):
        b = Decimal(beta)
        parts = ((1 + b) * _decimal(rho), ((1 + b) / b).ln(), _decimal(delta).ln() / b, (1 + b).ln() / b)
        value = parts[0] - parts[1] - parts[2] - parts[3]
        epsilon = Fraction(value) + Fraction(sum(map(abs, parts), Decimal(0))) * _SLACK
    return rounded(max(epsilon, Fraction(1, 10**300)), up=True)


def _best(f: Callable[[float], float]) -> float:
    """About where f is largest, over 10^-13 to 10^13 on a logarithmic scale."""
    places = [i / 4 for i in range(-120, 121)]
    middle = max(places, key=lambda x: f(exp(x)))
    low, high = middle - 0.25, middle + 0.25
    for _ in range(60):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (a, high) if f(exp(a)) < f(exp(b)) else (low, b)
    return exp((low + high) / 2)


def _log(x: Fraction) -> float:
    """ln x, also where x is no float."""
    return log(x.numerator) - log(x.denominator)


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


# ---------------------------------------------------------------- pure ε in ρ


@lru_cache(maxsize=4096)
def pure_rho(epsilon: Fraction) -> Fraction:
    """What an ε-DP mechanism costs in ρ: ε·tanh(ε/2), rounded up."""
    if epsilon < 0:
        raise ValueError("epsilon can't be negative")
    if epsilon == 0:
        return Fraction(0)
    if epsilon > 1000:
        return rounded(epsilon, up=True)  # tanh ≤ 1
    with localcontext(Context(prec=60)):
        small = (-_decimal(epsilon)).exp()
        value = Fraction(_decimal(epsilon) * (1 - small) / (1 + small))  # Theorem ZCDP-1
    return rounded(value * (1 + _SLACK), up=True)


@lru_cache(maxsize=4096)
def pure_epsilon(rho: Fraction) -> Fraction:
    """The ε, to 44 bits and rounded down, at which an ε-DP mechanism costs at most this ρ."""
    if rho <= 0:
        raise ValueError("rho must be positive")
    r = float(rho)
    low, high = 0.0, r + 1e-300
    while high * tanh(high / 2) < r:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * tanh(middle / 2) <= r else (low, middle)
    epsilon = Fraction(low)
    while pure_rho(epsilon) > rho:  # the certificate is for the very number that is returned
        epsilon *= 1 - Fraction(1, 2**44)
        epsilon = Fraction(float(epsilon))
    return epsilon
