"""Admission: may this price still be paid? One class for each accountant.

Analysts choose the next query and its ε after they have seen answers, so the rule must be a privacy
filter (valid under full adaptivity), not just a composition theorem for prices fixed beforehand.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from dpsql.core.cost import ZERO, ZERO_RHO, Conversion, Cost, rounded, show_rounded, split_delta
from dpsql.core.errors import BudgetError
from dpsql.core.frozen import dataclass

SMALLEST_EPSILON = Fraction(1, 10**6)
"""No query can ask for less, so less than this is nothing."""


class Filter(Protocol):
    """Sums of prices against a total. `spent` is always the plain sum of all prices, field by field."""

    @property
    def total(self) -> Cost: ...

    @property
    def nothing(self) -> Cost:
        """The sum of no prices."""

    @property
    def conversion(self) -> Conversion | None:
        """What a query's ε means in ρ; None where it is ε that is spent."""

    def share(self, epsilon: Fraction) -> Fraction:
        """The δ that a query of this ε may take when it names none."""

    def admits(self, spent: Cost, price: Cost) -> bool:
        """Whether a release at this price keeps everything released so far within the totals; exact."""

    def shown(self, spent: Cost) -> Cost:
        """The guarantee that this much spent amounts to."""

    def remaining(self, spent: Cost) -> Cost:
        """What is left; nothing (not less) when the steward lowered the totals below what was spent."""

    def fits(self, left: Cost, price: Cost) -> Fraction:
        """The largest ε of a query like this one that what is left can pay."""

    def times(self, left: Cost, price: Cost) -> int | None:
        """How many such prices what is left can pay; None: any number, because it costs nothing."""


@dataclass(frozen=True, slots=True)
class Basic:
    """Σε ≤ ε_total and Σδ ≤ δ_total."""

    epsilon: Fraction
    delta: Fraction

    name = "basic"

    @property
    def total(self) -> Cost:
        return Cost(self.epsilon, self.delta)

    @property
    def nothing(self) -> Cost:
        return ZERO

    @property
    def conversion(self) -> Conversion | None:
        return None

    def share(self, epsilon: Fraction) -> Fraction:
        return self.delta * min(Fraction(1), epsilon / self.epsilon)

    def admits(self, spent: Cost, price: Cost) -> bool:
        # Theorem COMP-1: the two sums are a fully adaptive filter. Equality is admitted.
        after = spent + price
        return after.epsilon <= self.epsilon and after.delta <= self.delta

    def shown(self, spent: Cost) -> Cost:
        return spent

    def remaining(self, spent: Cost) -> Cost:
        return Cost(max(self.epsilon - spent.epsilon, Fraction(0)), max(self.delta - spent.delta, Fraction(0)))

    def fits(self, left: Cost, price: Cost) -> Fraction:
        if price.delta > left.delta:
            # Both shrink together: by default a query's δ is proportional to its ε.
            return min(left.epsilon, price.epsilon * left.delta / price.delta)
        return left.epsilon

    def times(self, left: Cost, price: Cost) -> int | None:
        return _times(((left.epsilon, price.epsilon), (left.delta, price.delta)))


@dataclass(frozen=True, slots=True)
class Zcdp:
    """Σρ ≤ ρ_total and Σδ of the thresholding parts ≤ δ_parts, where δ_total = δ_conv + δ_parts, split once."""

    epsilon: Fraction
    delta: Fraction

    name = "zcdp"

    @property
    def conversion(self) -> Conversion:
        return Conversion(split_delta(self.delta)[0])

    @property
    def total(self) -> Cost:
        return Cost(self.epsilon, self.delta, self.conversion.rho(self.epsilon), split_delta(self.delta)[1])

    @property
    def nothing(self) -> Cost:
        return ZERO_RHO

    def share(self, epsilon: Fraction) -> Fraction:
        share = min(Fraction(1), self.conversion.rho(epsilon) / _rho(self.total))
        return rounded(self.total.parts * share, up=False)

    def admits(self, spent: Cost, price: Cost) -> bool:
        # Theorem COMP-2: both sums are a fully adaptive filter for approximate zCDP. Equality is admitted.
        after, total = spent + price, self.total
        return _rho(after) <= _rho(total) and after.parts <= total.parts

    def shown(self, spent: Cost) -> Cost:
        # Theorem ZCDP-2: Σρ is this ε at δ_conv; thresholds add theirs. Nothing spent is nothing at all.
        rho, conversion = _rho(spent), self.conversion
        epsilon = conversion.epsilon(rho)
        if rho <= conversion.rho(self.epsilon):  # the way back rounds up, and the total is a guarantee, too
            epsilon = min(epsilon, self.epsilon)
        delta = (conversion.delta if rho else Fraction(0)) + spent.parts
        return Cost(epsilon, delta, rho, spent.parts)

    def remaining(self, spent: Cost) -> Cost:
        """ε: of the largest query that still fits; δ: what thresholds may still take."""
        total = self.total
        rho = max(_rho(total) - _rho(spent), Fraction(0))
        parts = max(total.parts - spent.parts, Fraction(0))
        epsilon = self.epsilon if rho == _rho(total) else self.conversion.affords(rho)
        return Cost(epsilon, parts, rho, parts)

    def fits(self, left: Cost, price: Cost) -> Fraction:
        if price.parts > left.parts:
            # By default a query's δ for selection is proportional to its ρ.
            return min(left.epsilon, self.conversion.affords(_rho(price) * left.parts / price.parts))
        return left.epsilon

    def times(self, left: Cost, price: Cost) -> int | None:
        return _times(((_rho(left), _rho(price)), (left.parts, price.parts)))


def make_filter(accountant: str, epsilon: Fraction, delta: Fraction) -> Filter:
    """The accountant of this name."""
    match accountant:
        case "basic":
            return Basic(epsilon, delta)
        case "zcdp":
            return Zcdp(epsilon, delta)
        case _:
            raise ValueError(f"unknown accountant {accountant!r}")


def refusal(filter_: Filter, spent: Cost, price: Cost, who: str = "") -> BudgetError:
    """The error for a price that was not admitted. It depends on the price and the ledger alone.

    who: the analyst whose quota it is; "" for the whole account.
    """
    total, left = filter_.total, filter_.remaining(spent)
    fits = filter_.fits(left, price)
    takes = price.parts if price.rho is not None else price.delta
    costs = _figures(price, takes, with_delta=takes > 0, up=True)
    rest = _figures(left, left.delta, with_delta=total.delta > 0 or takes > 0, up=False)
    message = f"the query costs {costs}, and {rest} is left" + (f" of the quota of {who}" if who else "")
    hints = []
    if fits >= SMALLEST_EPSILON:
        most = f", with delta at most {show_rounded(left.delta, up=False)}" if takes > left.delta else ""
        hints.append(f"the largest epsilon that fits is {show_rounded(fits, up=False)}{most}")
    if takes > left.delta and left.epsilon >= SMALLEST_EPSILON:
        # Which of the two a query needs is for calibrate to say; --delta 0 is refused there where keys are selected.
        noise = "" if price.rho is not None else "Laplace noise and "
        hints.append(
            f"without delta (--delta 0: {noise}public keys only) it is {show_rounded(left.epsilon, up=False)}"
            if hints
            else f"delta is used up: without it (--delta 0: {noise}public keys only) the largest epsilon that fits is "
            f"{show_rounded(left.epsilon, up=False)}"
        )
    if not hints and who:
        hints = [f"nothing more can be paid from the quota of {who}: `dpsql budget` shows each analyst's"]
    hint = "\n".join(hints) or "nothing more can be paid from this account: `dpsql budget --history` shows each release"
    error = BudgetError(message, code="analyst-quota" if who else "budget-exhausted", hint=hint)
    error.fits = fits if fits >= SMALLEST_EPSILON else None
    return error


def _rho(cost: Cost) -> Fraction:
    if cost.rho is None:
        raise ValueError("a price without rho can't be paid from a zcdp account")
    return cost.rho


def _times(pairs: tuple[tuple[Fraction, Fraction], ...]) -> int | None:
    counts = [left // price for left, price in pairs if price]
    return min(counts) if counts else None


def _figures(cost: Cost, delta: Fraction, *, with_delta: bool, up: bool) -> str:
    text = f"epsilon = {show_rounded(cost.epsilon, up=up)}"
    if cost.rho is not None:
        text += f" (rho = {show_rounded(cost.rho, up=up)})"
    if not with_delta:
        return text
    return f"{text}, delta = {show_rounded(delta, up=up)}" + (" for thresholds" if cost.rho is not None else "")
