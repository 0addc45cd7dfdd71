"""Choosing instead of counting: report noisy max, which pays for the winner alone, whatever it was chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import log
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler

Scores = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_SAFE = 2**61  # scores and noise below this add up within 64 bits


@dataclass(frozen=True, slots=True)
class NoisyMax:
    """Each candidate's integer score gets one-sided geometric noise; the largest wins, ties go to the first.

    Scale is in the unit of the scores; scale 0 is no noise at all. A choice is priced by its loss, the `l1` of a
    sensitivity with `choice` set: what neighbours can move the scores, as Theorem CHOOSE-1 counts it.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        sampler.require_scale(self.scale)

    @classmethod
    def calibrate(cls, s: Sensitivity, epsilon: Fraction) -> NoisyMax:
        """The noise that makes a choice with this loss exactly epsilon-private."""
        if epsilon <= 0:
            raise ValueError("epsilon must be positive")
        return cls(s.l1 / epsilon)  # Theorem CHOOSE-1

    @property
    def name(self) -> str:
        return "noisy maximum"

    def cost(self, s: Sensitivity) -> Cost:
        """What a choice with this loss costs."""
        if not s.choice:
            raise AssertionError("a number that leaves needs noise that is added to it")
        if s.l1 == 0:
            return ZERO
        if self.scale == 0:
            raise ValueError("no noise hides nothing: a choice that a unit can move needs a positive scale")
        return Cost(s.l1 / self.scale)  # Theorem CHOOSE-1

    @property
    def variance(self) -> float:
        """Of one draw, about: to compare choices."""
        return float(self.scale**2)

    def pick(self, scores: Scores, factor: Fraction = Fraction(1)) -> int:
        """The place of the candidate that wins; factor: scores of this choice move by so much more."""
        return int(np.argmax(self._noisy(scores, factor)))  # the first of equals

    def top(self, scores: Scores, count: int) -> list[int]:
        """The places of the `count` largest noisy scores, the largest first; the price is for that many winners."""
        noisy = self._noisy(scores, Fraction(1))
        return [int(i) for i in np.argsort(-noisy, kind="stable")[:count]]

    def _noisy(self, scores: Scores, factor: Fraction) -> Scores:
        noise = sampler.geometric(self.scale * factor, len(scores))
        ends = (np.max(scores), np.min(scores), np.max(noise))
        if scores.dtype == object or max(abs(int(end)) for end in ends) >= _SAFE:
            return np.asarray(scores.astype(object) + noise.astype(object))
        return np.asarray(scores + noise)

    def worst(self, candidates: int, confidence: float) -> float:
        """How far below the best score the winner's is, at most, with this confidence.

        It lies t below only if one of the others' noise exceeds t, whatever the winner's own is (it isn't negative).
        """
        return float(self.scale) * log(max(2, candidates) / (1 - confidence))


def choose(
    scores: Sequence[int] | npt.NDArray[Any],
    sensitivity: int | Fraction,
    epsilon: int | str | Fraction,
    *,
    monotone: bool = False,
) -> int:
    """The exponential mechanism's job for any integer scores: the place of a nearly largest one, epsilon-DP.

    sensitivity: the most that one unit moves any score (the distance d(y, f(D)) of a general metric is such a score,
    with the sensitivity of f in that metric). monotone: a unit moves all scores in the same direction; half the noise.
    The scores must be integers: put others on a grid first, and round the sensitivity up. Charges no ledger.
    """
    numbers = np.asarray(scores)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError("choose needs at least one score")
    if numbers.dtype != object and not np.issubdtype(numbers.dtype, np.integer):
        raise TypeError("scores are integers: put them on a grid, and the sensitivity with them")
    if numbers.dtype == np.uint64 or numbers.dtype == object:
        numbers = np.array([index(n) for n in numbers], dtype=object)  # a TypeError for what is no integer
    else:
        numbers = numbers.astype(np.int64)
    distance, share = Fraction(sensitivity), Fraction(epsilon)
    if distance < 0 or share <= 0:
        raise ValueError("the sensitivity can't be negative, and epsilon must be positive")
    # Theorem CHOOSE-1: once the sensitivity where all scores move in one direction, else twice.
    loss = Sensitivity(distance * (1 if monotone else 2), Fraction(0), choice=True)
    return NoisyMax.calibrate(loss, share).pick(numbers)
