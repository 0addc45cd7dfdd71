"""How often a query fits: into what is left, and with the same noise into a whole account of either accountant."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.accounting.filters import Basic, Filter, Zcdp
from dpsql.core.cost import Cost, rounded
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.base import Event, Mechanism, Pure
from dpsql.mechanisms.budget import together

Measured = tuple[Sensitivity, Mechanism]


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
    threshold = price.parts if price.rho is not None else price.delta - _own_delta(price, measured)
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
    rho = sum((rounded(event.rho, up=True) for event in _events(measured)), Fraction(0))
    return Cost(Fraction(0), threshold, rho, threshold)


def basic_price(account: Basic, measured: Sequence[Measured], threshold: Fraction) -> Cost:
    """What these noises subtract from a basic account; those that need δ where it is the share that their ε has."""
    events = _events(measured)
    pure = sum((event.epsilon for event in events if isinstance(event, Pure)), Fraction(0))
    vector = together(events)
    if vector is None or not vector.rho:
        return Cost(pure, threshold)
    low, high = Fraction(1, 10**9), Fraction(1)
    # Theorem GAUSS-2 (or that of the noise at hand): the least ε, nearly, whose δ is no more than its share.
    while vector.delta(high) > account.share(high) and high < 10**13:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if vector.delta(middle) <= account.share(middle) else (middle, high)
    return Cost(pure + high, account.share(high) + threshold)


def _own_delta(price: Cost, measured: Sequence[Measured]) -> Fraction:
    """What of a basic price's δ is the noise's own."""
    vector = together(_events(measured))
    return Fraction(0) if vector is None or not vector.rho else min(price.delta, vector.delta(price.epsilon))


def _events(measured: Sequence[Measured]) -> list[Event]:
    return [noise.event(sensitivity) for sensitivity, noise in measured]
