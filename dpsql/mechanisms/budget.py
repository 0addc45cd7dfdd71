"""From a query's budget to noise for all its statistics: one way to split, for every mechanism and either accountant.

Noise and price come from the same objects: `Split.cost` prices the very noises that will be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol, cast

from dpsql.core.cost import ZERO_RHO, Conversion, Cost, pure_epsilon, rounded
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.base import Budget, Event, Mechanism, Noise, Pure, Vector
from dpsql.mechanisms.noisy_max import NoisyMax

AnyNoise = Noise | NoisyMax  # what a statistic gets: noise that is added, or a choice


class Shared(Budget, Protocol):
    """A budget that is shared out between choices, which are pure, and one vector of all other statistics."""

    def vector(self, parts: Sequence[Fraction]) -> tuple[Budget, list[Fraction]]:
        """What the vector may spend whose statistics have these parts of the whole, and each one's part of that."""

    def price(self, events: Sequence[Event], left: Fraction, pure: bool) -> Cost:
        """What these cost together; left: the ε that is left for what isn't pure; pure: all are."""


@dataclass(frozen=True, slots=True)
class BasicBudget:
    """ε and δ: equal shares of ε, and all of δ for what needs it (Theorem SPLIT-1)."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def pure(self, part: Fraction) -> Fraction:
        return self.epsilon * part

    def rho(self, part: Fraction) -> Fraction | None:
        return None

    def vector(self, parts: Sequence[Fraction]) -> tuple[Budget, list[Fraction]]:
        whole = sum(parts, Fraction(0))
        return BasicBudget(self.epsilon * whole, self.delta), [part / whole for part in parts]

    def price(self, events: Sequence[Event], left: Fraction, pure: bool) -> Cost:
        epsilon = sum((e.epsilon for e in events if isinstance(e, Pure)), Fraction(0))
        vector = together(events)
        if vector is None or not vector.rho:
            return Cost(epsilon)  # Theorem COMP-1
        return Cost(epsilon + left, vector.delta(left))  # Theorem COMP-1


@dataclass(frozen=True, slots=True)
class ZcdpBudget:
    """ε as it was asked for, which means a ρ by the ledger's conversion: equal shares of that."""

    epsilon: Fraction
    conversion: Conversion

    @property
    def delta(self) -> Fraction:
        return self.conversion.delta

    @property
    def whole(self) -> Fraction:
        return self.conversion.rho(self.epsilon)

    def pure(self, part: Fraction) -> Fraction:
        return pure_epsilon(rounded(self.whole * part, up=False))  # Theorem ZCDP-1

    def rho(self, part: Fraction) -> Fraction | None:
        return self.whole * part

    def vector(self, parts: Sequence[Fraction]) -> tuple[Budget, list[Fraction]]:
        return self, list(parts)

    def price(self, events: Sequence[Event], left: Fraction, pure: bool) -> Cost:
        rho = sum((e.rho for e in events), Fraction(0))  # Theorem COMP-2
        if not pure:  # what each pure one costs is short already
            rho = rounded(rho, up=True)
        if not rho:
            return ZERO_RHO
        if rho > self.whole:
            raise AssertionError("the noise costs more than it was calibrated to")
        return Cost(self.epsilon, self.conversion.delta, rho)  # Theorem ZCDP-2


@dataclass(frozen=True, slots=True)
class Split:
    """One mechanism for a whole query, beside the choices in it, and what it may spend.

    parts: of each statistic, positive and at most 1 together; None: equal ones.
    """

    budget: Shared
    mechanism: type[Mechanism]
    parts: tuple[Fraction, ...] | None = None

    @property
    def name(self) -> str:
        return self.mechanism.kind

    @property
    def noise(self) -> type[Noise]:
        """The mechanism, where it adds noise to statistics (Theorem RR-1 has rows that are randomised instead)."""
        if not hasattr(self.mechanism, "calibrated"):
            raise AssertionError(f"{self.name} adds no noise to statistics")
        return cast(type[Noise], self.mechanism)

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[AnyNoise, ...]:
        """A noise for each statistic."""
        budget, parts = self._vector(sensitivities)
        # Theorems SPLIT-1 and GAUSS-3: each choice has its share, and the vector's entries have their parts.
        return tuple(
            NoisyMax.calibrate(s, self.budget.pure(share))
            if s.choice
            else self.noise.calibrated(s, budget, next(parts))
            for s, share in zip(sensitivities, self._shares(len(sensitivities)), strict=True)
        )

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        """About the variance of each of these noises, without making them, to compare candidates; 0 for choices."""
        budget, parts = self._vector(sensitivities)
        return [
            Fraction(0) if s.choice else self.noise.expected_variance(s, budget, next(parts)) for s in sensitivities
        ]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Mechanism]) -> Cost:
        """What these noises cost for statistics of these sensitivities, together."""
        events = [noise.event(s) for s, noise in zip(sensitivities, noises, strict=True)]
        return self.budget.price(events, self._vector(sensitivities)[0].epsilon, self.mechanism.pure)

    def _vector(self, sensitivities: Sequence[Sensitivity]) -> tuple[Budget, Iterator[Fraction]]:
        shares = zip(sensitivities, self._shares(len(sensitivities)), strict=True)
        budget, parts = self.budget.vector([share for s, share in shares if not s.choice])
        return budget, iter(parts)

    def _shares(self, count: int) -> tuple[Fraction, ...]:
        if self.parts is None:
            return (Fraction(1, max(1, count)),) * count
        if not all(self.parts) or sum(self.parts) > 1:
            raise AssertionError("shares are positive and no more than the whole")
        return self.parts


def budget_of(epsilon: Fraction, delta: Fraction, conversion: Conversion | None) -> Shared:
    """What a query may spend; conversion: what ε means in ρ, under zero-concentrated accounting."""
    return BasicBudget(epsilon, delta) if conversion is None else ZcdpBudget(epsilon, conversion)


def together(events: Sequence[Event]) -> Vector | None:
    """All events that aren't pure as one vector; None if there are none."""
    found: Vector | None = None
    for event in events:
        if not isinstance(event, Pure):
            found = event if found is None else found.beside(event)
    return found
