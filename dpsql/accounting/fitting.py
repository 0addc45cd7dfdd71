"""How often a query fits: into what is left, and with the same noise into a whole account of either accountant."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.filters import Basic, Filter, Zcdp
from dpsql.core.cost import ZERO, Cost, rounded
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.core.zcdp import pure_rho
from dpsql.mechanisms.budget import Noise
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.response import RandomizedResponse

Measured = tuple[Sensitivity, Noise | RandomizedResponse]


@dataclass(frozen=True, slots=True)
class Fits:
    """How many more such queries what is left can pay, and how many a whole account holds under each accountant.

    None: any number of them, because they cost nothing (or, for an accountant: it can't pay for this at all).
    """

    more: int | None
    whole: dict[str, int | None]


def fitting(account: Filter, left: Cost, price: Cost, measured: Sequence[Measured]) -> Fits:
    """Count how often this price, and this very noise under the other accountant, can be paid."""
    total = account.total
    threshold = price.parts if price.rho is not None else price.delta - _gaussian_delta(price, measured)
    whole: dict[str, int | None] = {}
    basic = Basic(total.epsilon, total.delta)
    own = account.times(total, price)
    if isinstance(account, Zcdp):
        whole["basic"] = basic.times(basic.total, basic_price(basic, measured, threshold)) if own is not None else None
        whole["zcdp"] = own
    else:
        whole["basic"] = own
        if total.delta:
            zcdp = Zcdp(total.epsilon, total.delta)
            whole["zcdp"] = zcdp.times(zcdp.total, zcdp_price(measured, threshold))
    return Fits(account.times(left, price), whole)


def zcdp_price(measured: Sequence[Measured], threshold: Fraction) -> Cost:
    """What these noises subtract from a zcdp account (Theorems ZCDP-1, GAUSS-1)."""
    rho = Fraction(0)
    for sensitivity, noise in measured:
        if isinstance(noise, Gaussian):
            rho += rounded(noise.rho(sensitivity), up=True)
        else:
            rho += pure_rho(noise.cost(sensitivity).epsilon)
    return Cost(Fraction(0), threshold, rho, threshold)


def basic_price(account: Basic, measured: Sequence[Measured], threshold: Fraction) -> Cost:
    """What these noises subtract from a basic account; Gaussian noise where its δ is the share that its ε has."""
    pure = sum((n.cost(s) for s, n in measured if not isinstance(n, Gaussian)), ZERO)
    squared = sum((s.l2_squared / n.sigma**2 for s, n in measured if isinstance(n, Gaussian) and n.sigma), Fraction(0))
    if not squared:
        return Cost(pure.epsilon, threshold)
    one, vector = Gaussian(Fraction(1)), Sensitivity(squared, squared)
    low, high = Fraction(1, 10**9), Fraction(1)
    # Theorem GAUSS-2: the least ε, nearly, whose δ is no more than its share.
    while one.delta(vector, high) > account.share(high) and high < 10**13:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if one.delta(vector, middle) <= account.share(middle) else (middle, high)
    return Cost(pure.epsilon + high, account.share(high) + threshold)


def _gaussian_delta(price: Cost, measured: Sequence[Measured]) -> Fraction:
    """What of a basic price's δ is the noise's own."""
    squared = sum((s.l2_squared / n.sigma**2 for s, n in measured if isinstance(n, Gaussian) and n.sigma), Fraction(0))
    if not squared:
        return Fraction(0)
    return min(price.delta, Gaussian(Fraction(1)).delta(Sensitivity(squared, squared), price.epsilon))
