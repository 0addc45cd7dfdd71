"""Which groups are there: no aggregate that SQL can call, but what a list of groups asks of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np

from dpsql.aggregates.base import Arrow, Call, Rational, Recipe, Spread
from dpsql.aggregates.noisy import ReleaseFacts
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.base import Quantity

COLUMN = "present"  # of a noisy table: TRUE for the groups that are there
STRAY = Fraction(1, 20)  # at most the chance that any group without rows is taken for one that is there
MISS = Fraction(1, 20)  # at most the chance that a group which is large enough is missed


class Present(Recipe):
    """Is the group there? Where the noisy number of its units, or of its rows, is more than noise explains.

    The number that it must exceed is the call's `at`; it is public, and fixed before anything is measured.
    """

    name = "PRESENT"
    takes = "anything"
    starred = True
    clips = "nothing"
    tells_presence = True

    def counted_of(self, call: Call) -> Quantity:
        """What is counted in each group: units, or rows where their number is measured anyway."""
        return Quantity("units" if call.units else "rows", None, None)

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (self.counted_of(call),)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        return [{self.counted_of(call): Fraction(1)}]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        import pyarrow as pa

        # Theorem PRESENT-1: a noisy number is compared with a public one.
        return pa.array(noisy[self.counted_of(call)].floats > float(max(call.at, default=Fraction(0))))

    def decides(self, call: Call) -> dict[Quantity, Fraction]:
        """It is a yes or no, by this number."""
        return {self.counted_of(call): Fraction(1)}

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        nothing = np.full(len(noisy[self.counted_of(call)].numerators), np.nan)  # a yes or no has no interval
        return Spread(nothing, [(self.counted_of(call), nothing)])


PRESENT = Present()
AGGREGATES = (PRESENT,)


def least(terms: Sequence[tuple[Any, Any]], cells: int) -> Fraction:
    """What noise alone exceeds in any of so many empty groups with a chance of at most STRAY (Theorem PRESENT-1)."""
    return Fraction(_exceeded(terms, STRAY / max(1, cells)))


def _exceeded(terms: Sequence[tuple[Any, Any]], chance: Fraction) -> float:
    """What the noise exceeds, to one side, with at most this chance: it is symmetric."""
    return float(half_width(terms, float(1 - 2 * chance))) if terms else 0.0


def terms_of(step: ReleaseFacts, call: Call) -> list[tuple[Any, Any]]:
    """The noise of the number by which presence is told: each draw with its weight."""
    linear = step.estimates[PRESENT.counted_of(call)]
    drawn = [(float(weight), step.measurements[place[0]].noise) for place, weight in linear.terms]
    assert not any(isinstance(noise, NoisyMax) for _, noise in drawn), "what is counted isn't chosen"
    return drawn


def large_enough(step: ReleaseFacts, call: Call) -> int:
    """The size from which on a group is missed with a chance of at most MISS."""
    return floor(float(max(call.at, default=Fraction(0))) + _exceeded(terms_of(step, call), MISS)) + 1


def note(step: ReleaseFacts, call: Call, groups: str) -> str:
    """How a list of groups was made, and how small a group it may miss, in words; groups: what they are."""
    what, size = "units" if call.units else "rows", large_enough(step, call)
    shown = f"{float(max(call.at)):,.1f}".removesuffix(".0")
    return (
        f"{groups} are there if their noisy number of {what} is above {shown}: one with at least {size:,} {what} is "
        f"missed with a chance of at most {float(MISS):.0%}, smaller ones may be missing"
    )
