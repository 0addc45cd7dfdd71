"""What limits may have cut of a release, as far as released counts of units tell it (Theorem CUT-1).

A noisy table holds it beside its numbers. It is made of noisy counts and public numbers alone (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import exp, inf, log

from dpsql.core.frozen import dataclass

STEPS = 50  # of a bisection


@dataclass(frozen=True, slots=True)
class Clipping:
    """What one limit may have cut in all cells together, as a distribution.

    Amounts are rows, groups or sizes, as the limit is. points: weights that add up to 1, each with an amount.
    times: a cell had at most so many times what it kept, with high probability. Amounts of an unknown clipping (no
    points) may be anything.
    """

    about: float  # expected
    kept: float  # about what all units kept
    times: float
    points: tuple[tuple[float, float], ...] = ()

    @property
    def known(self) -> bool:
        return bool(self.points)

    @property
    def share(self) -> float:
        """The part that is cut, about."""
        return self.about / (self.about + self.kept) if self.about else 0.0

    def at_most(self, confidence: float, noise: float = 0.0) -> float:
        """By how much an interval for a number with noise must grow so that it holds what was cut, too.

        noise: half of the interval's width for the noise alone, in the unit of the amounts. Infinite if nothing is
        known.
        """
        return _at_most(self.points, confidence, noise) if self.points else inf


@lru_cache(maxsize=1024)
def _at_most(points: tuple[tuple[float, float], ...], confidence: float, noise: float) -> float:
    """x − noise, where Pr[cut + Laplace noise > x] is what the interval leaves above it."""
    left = (1 - confidence) / 2
    scale = max(noise, 1e-12) / log(1 / (2 * left))
    low, high = 0.0, max(amount for _, amount in points) + 2 * noise
    for _ in range(STEPS):
        x = (low + high) / 2
        if sum(weight * _above((x - amount) / scale) for weight, amount in points) > left:
            low = x
        else:
            high = x
    return max(high - noise, 0.0)


def _above(x: float) -> float:
    """Pr[Z > x] of a Laplace variable of scale 1."""
    return exp(-min(x, 700)) / 2 if x > 0 else 1 - exp(max(x, -700)) / 2


UNKNOWN = Clipping(0.0, 0.0, inf)
"""Of a limit of which no count of units tells anything."""


@dataclass(frozen=True, slots=True)
class ClippingBias:
    """What the limits of a release may have cut of its cells.

    rows: of rows that are counted and added up, by one limit after the other. units: of units in a cell, where each may
    be in so many groups; None: nothing. sizes: where units are bounded by their size (Theorem SIZE-1), how much of an
    aggregate's sum counts as one row; None: they are bounded by rows. counted: do rows have a part in the size?
    values: of different values, where these have a limit of their own; None: they are cut as rows are. left_out: of
    the values that this limit leaves, by one on groups; None: nothing.
    """

    rows: tuple[Clipping, ...] = ()
    units: Clipping | None = None
    sizes: Mapping[int, float] | None = None
    counted: bool = True
    values: Clipping | None = None
    left_out: Clipping | None = None

    @property
    def cuts(self) -> bool:
        """May anything have been cut?"""
        return any(not one.known or one.points[-1][1] > 0 for one in self._all)

    @property
    def known(self) -> bool:
        """Is something known of all limits?"""
        return all(one.known for one in self._all)

    @property
    def _all(self) -> tuple[Clipping, ...]:
        return (*self.rows, *(one for one in (self.units, self.values) if one is not None))

    def of(self, aggregates: tuple[int, ...]) -> ClippingBias:
        """The same for some of the aggregates, in this order."""
        if self.sizes is None:
            return self
        sizes = {i: self.sizes[a] for i, a in enumerate(aggregates) if a in self.sizes}
        return replace(self, sizes=sizes)
