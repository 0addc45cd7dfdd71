"""Numbers that are never too small: probabilities at 60 digits, rounded up, and searches that end in a certificate."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from math import ceil, isqrt

# Upper bounds on probabilities go no lower than this: further down, a fraction's digits would be all it is.
NEGLIGIBLE = Fraction(1, 10**1000)
NEGLIGIBLE_EXPONENT = 2400  # e^-2400 < 10^-1042

SLACK = Decimal("1e-45")  # relative; rounding errors of the few hundred operations at 60 digits stay below 1e-55

SHORT = 40  # bits of what a search for the least noise returns


def precise() -> Context:
    """The context in which tails are computed."""
    return Context(prec=60)


def decimal(x: Fraction) -> Decimal:
    """x at the precision of the current context."""
    return Decimal(x.numerator) / x.denominator


def rounded_up(p: Decimal) -> Fraction:
    """p rounded up to 20 significant digits, so that a ledger's fractions stay short."""
    return Fraction(Context(prec=20, rounding=ROUND_CEILING).plus(p))


def probability(p: Decimal) -> Fraction:
    """An upper bound on a probability, rounded up to 20 digits, neither below 10^-1000 nor above 1."""
    return min(Fraction(1), max(NEGLIGIBLE, rounded_up(p)))


def miss(confidence: float, cells: int) -> Fraction:
    """The probability with which each of so many independent cells may miss for all to hold with this confidence."""
    if not 0 < confidence < 1:
        raise ValueError("confidence must lie strictly between 0 and 1")
    if cells < 1:
        raise ValueError("at least one cell is needed")
    with localcontext(precise()) as context:
        context.prec += len(str(cells))
        # Theorem LAP-2. (1 − p)^cells ≥ confidence, that is p ≤ 1 − confidence^(1/cells).
        return Fraction(1 - (Decimal(confidence).ln() / cells).exp())


def require_approximate(epsilon: Fraction, delta: Fraction) -> None:
    """Raises unless noise can be calibrated to these."""
    if epsilon < 0:
        raise ValueError("epsilon can't be negative")
    if not NEGLIGIBLE <= delta < 1:
        raise ValueError("delta must lie between 10^-1000 and 1")


def least(enough: Callable[[Fraction], bool], start: Fraction) -> Fraction:
    """The least x > 0 of 40 significant bits that is enough; start is any positive number to begin from.

    The x that is returned was itself asked for: where `enough` isn't monotone it is still enough, if not the least.
    """
    above = start
    while not enough(above):
        above *= 2
    while enough(above / 2):
        above /= 2
    step = above / Fraction(2) ** SHORT
    below, over = 2 ** (SHORT - 1), 2**SHORT  # in steps: below isn't enough, over is
    while over - below > 1:
        middle = (below + over) // 2
        below, over = (below, middle) if enough(middle * step) else (middle, over)
    return Fraction(over * step)


def least_integer(enough: Callable[[int], bool], near: int = 1) -> int:
    """The least integer above 0 that is enough, where all larger ones are; 0 is taken not to be.

    near: where it is looked for first. It is quick where that is near.
    """
    over = near = max(1, near)
    while not enough(over):
        over = near + max(1, 2 * (over - near))
    below, step = (near, 0) if over > near else (near - 1, 1)
    while step and below > 0 and enough(below):
        over, step = below, 2 * step
        below = max(0, over - step)
    while over - below > 1:
        middle = (below + over) // 2
        below, over = (below, middle) if enough(middle) else (middle, over)
    return over


def upper_threshold(tail: Callable[[int], Fraction], p: Fraction, near: float = 1) -> int:
    """The smallest integer t ≥ 1 whose tail Pr[Z ≥ t] is at most p, never too small; 10^-1000 ≤ p < 1/2.

    near: about where that is.
    """
    if not NEGLIGIBLE <= p < Fraction(1, 2):
        raise ValueError("the probability must lie between 10^-1000 and 1/2")
    return least_integer(lambda t: tail(t) <= p, ceil(near))  # as p < 1/2 and the noise is symmetric, 0 isn't enough


def log2_floor(x: Fraction) -> int:
    """⌊log₂ x⌋, or one less."""
    return x.numerator.bit_length() - x.denominator.bit_length() - 1


def root_up(x: Fraction) -> Fraction:
    """√x, rounded up by less than 2⁻⁴⁰ of itself."""
    if not x:
        return Fraction(0)
    shift = max(0, 100 - (x.numerator.bit_length() - x.denominator.bit_length()))
    shift += shift % 2
    scaled = -(-(x.numerator << shift) // x.denominator)
    root = isqrt(scaled)
    return Fraction(root + (root * root < scaled), 1 << (shift // 2))
