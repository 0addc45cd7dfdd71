"""Choosing instead of counting: report noisy max, which pays for the winner alone, whatever it was chosen from."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log
from typing import ClassVar

import numpy as np

from dpsql.core.arrays import Places, first_largest
from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.base import Pure
from dpsql.mechanisms.sampler import Scores, added


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Each candidate's integer score gets one-sided geometric noise; the largest wins, ties go to the first.

    Scale is in the unit of the scores; scale 0 is no noise at all. A choice is priced by its loss, the `l1` of a
    sensitivity with `choice` set: what neighbours can move the scores, as Theorem CHOOSE-1 counts it.
    """

    scale: Fraction

    kind: ClassVar[str] = "choice"
    name: ClassVar[str] = "noisy maximum"
    pure: ClassVar[bool] = True

    def __post_init__(self) -> None:
        sampler.require_scale(self.scale)

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction) -> NoisyMax:
        """The noise that makes a choice with this loss exactly epsilon-private."""
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        return cls(s.l1 / epsilon)  # Theorem CHOOSE-1

    def cost(self, s: Sensitivity) -> Cost:
        """What a choice with this loss costs."""
        if not s.choice:
            raise AssertionError("a number that leaves needs noise that is added to it")
        if s.l1 == 0:
            return ZERO
        if self.scale == 0:
            raise ValueError("no noise hides nothing: a choice that a unit can move needs a positive scale")
        return Cost(s.l1 / self.scale)  # Theorem CHOOSE-1

    def event(self, s: Sensitivity) -> Pure:
        """What was done, for accountants."""
        return Pure(self.cost(s).epsilon)

    @property
    def width(self) -> Fraction:
        """The scale."""
        return self.scale

    @property
    def written(self) -> str:
        """The scale, as it is stored."""
        return str(self.scale)

    @classmethod
    def read(cls, written: str) -> NoisyMax:
        """The noise of a stored scale."""
        return cls(Fraction(written))

    @property
    def variance(self) -> float:
        """Of one draw, about: to compare choices."""
        return float(self.scale**2)

    def pick(self, scores: Scores, factor: Fraction = Fraction(1)) -> int:
        """The place of the candidate that wins; factor: scores of this choice move by so much more."""
        return int(self.picks(scores, np.array([len(scores)]), factor)[0])

    def picks(self, scores: Scores, lengths: Places, factor: Fraction = Fraction(1)) -> Places:
        """The winner's place in each of several choices, whose candidates lie one after the other: so many in each.

        Each candidate of each choice has a draw of its own.
        """
        return first_largest(self._noisy(scores, factor), lengths)

    def top(self, scores: Scores, count: int) -> list[int]:
        """The places of the `count` largest noisy scores, the largest first; the price is for that many winners."""
        noisy = self._noisy(scores, Fraction(1))
        return [int(i) for i in np.argsort(-noisy, kind="stable")[:count]]

    def _noisy(self, scores: Scores, factor: Fraction) -> Scores:
        noise = sampler.geometric(self.scale * factor, len(scores))
        return added(scores, noise)

    def worst(self, candidates: int, confidence: float) -> float:
        """How far below the best score the winner's is, at most, with this confidence.

        It lies t below only if one of the others' noise exceeds t, whatever the winner's own is (it isn't negative).
        """
        return float(self.scale) * log(max(2, candidates) / (1 - confidence))

    def lead(self, candidates: float, miss: float, factor: Fraction = Fraction(1)) -> int:
        """By how much one score must exceed those of so many candidates for none of them to win, but with chance miss.

        Theorem CHOOSE-1: a candidate that is r behind is ahead with a^r/(1 + a), a = exp(-1/scale).
        """
        scale = float(self.scale * factor)
        return ceil(scale * log(candidates / miss / (1 + exp(-1 / scale)))) if scale else 0
