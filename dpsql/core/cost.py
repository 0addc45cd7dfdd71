"""What a release costs, as exact numbers."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

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
