"""Admission: may this price still be paid? One class for each accountant. Also how often a query fits, and the tightest
figure for what was released.

Analysts choose the next query and its ε after they have seen answers, so the rule must be a privacy
filter (valid under full adaptivity), not just a composition theorem for prices fixed beforehand.

The tightest figure, by numerical composition of privacy loss distributions, is for display only. Composing everything
and then deciding is not a filter: it holds for queries that were fixed beforehand, not for ones chosen after earlier
answers (THEORY, COMP-2). So no admission ever looks at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, Protocol

from dpsql.core.cost import ZERO, ZERO_RHO, Conversion, Cost, rounded, show_rounded, split_delta
from dpsql.core.errors import BudgetError
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.base import Event, Mechanism, Pure
from dpsql.mechanisms.budget import together

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


INSTALL = "install dpsql[accounting] for the tightest figure (PLD)"
KINDS = ("laplace", "gaussian")
SLOWEST = 200  # different mechanisms: more would keep people waiting


def recorded(measured: Sequence[tuple[Sensitivity, Mechanism]]) -> list[list[str]]:
    """The noises of a release as a ledger notes them: Laplace with its ε, Gaussian with (Δ₂/σ)²."""
    return [noise.event(sensitivity).note for sensitivity, noise in measured]


def is_installed() -> bool:
    """Whether dp-accounting is there; it is imported only when a figure is asked for."""
    return find_spec("dp_accounting") is not None


def composed(notes: Sequence[Mapping[str, object]], delta: Fraction) -> float | None:
    """ε of all these releases together at this δ; None where a release lacks what is needed, or there are too many."""
    events = _composed(notes)
    if events is None or delta <= 0 or len(events) > SLOWEST:
        return None
    if not events:
        return 0.0
    from dp_accounting.pld import common, privacy_loss_distribution

    whole: Any = None
    for (kind, size), times in events.items():
        if kind == "laplace":
            # Randomized response dominates every mechanism that is ε-DP.
            one = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(size), 0.0)
            )
        else:
            one = privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=float(size) ** -0.5)
        several = one.self_compose(times) if times > 1 else one
        whole = several if whole is None else whole.compose(several)
    return float(whole.get_epsilon_for_delta(float(delta)))


def _composed(notes: Sequence[Mapping[str, object]]) -> Counter[tuple[str, Fraction]] | None:
    events: Counter[tuple[str, Fraction]] = Counter()
    for note in notes:
        noises = note.get("noises")
        if not isinstance(noises, list):
            return None
        for kind, size in noises:
            if kind not in KINDS:
                return None  # unsupported, never nothing
            if Fraction(size):
                events[kind, Fraction(size)] += 1
    return events
