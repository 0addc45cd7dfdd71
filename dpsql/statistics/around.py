"""The interval around a chosen value: how far its ends lie from it is one more choice by rank (Theorem QUANTILE-2)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, exp

import numpy as np
from numpy.typing import NDArray

from dpsql.core.arrays import Places, top
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.sampler import Scores

ENDS_SHARE = Fraction(1, 3)  # of the ε of a choice: for the ends of its interval; the rest is the value's own
MISS = 0.05  # how often an interval fails to hold the exact value, at most
RUNGS = 4  # distances from one doubling to the next
OUTER = Fraction(9, 10)  # from this share of the rows on, or up to 1 - it, there may be too few rows beyond
OPEN_PENALTY = 2.0  # noise scales by which an interval that is open to the end of the range must fit better

_SAFE = 2**60  # scores below this, and their noise, add up within 64 bits

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """Intervals, a row of each array for each cell, that grow from left to right."""

    under: Places
    over: Places
    scores: Scores
    valid: Flags  # False: the same interval as one before it


@dataclass(frozen=True, slots=True)
class Around:
    """Intervals around chosen places of a grid, one a cell, that hold the value at a share of the rows.

    Each candidate is a distance: its interval goes from so far below the place to so far above it, and ends where the
    grid does. For a share near 0 or 1 each distance is a second candidate, which is open to that end of the grid.
    """

    share: Fraction  # of the rows
    factor: Fraction  # of the choice's noise: by how much one row moves a score, and more where it gets less of ε
    weight: int  # the integer that stands for one whole row
    spare: int  # rows that limits may have cut, any of them on one side

    def choose(self, noise: NoisyMax, below: Scores, centre: Places) -> tuple[Places, Places]:
        """The first and the last place of each cell's interval.

        below: the weight of the rows below each place of the grid and below its end, a row of the array for each cell.
        """
        families = list(self._families(noise, below, centre))
        under, over, scores, valid = (
            np.hstack([getattr(one, name) for one in families]) for name in ("under", "over", "scores", "valid")
        )
        picked = noise.picks(scores[valid], valid.sum(axis=1), self.factor)
        order = np.argsort(~valid, axis=1, kind="stable")  # the valid ones first, in their order
        cells = np.arange(len(centre))
        place = order[cells, picked]
        return under[cells, place], over[cells, place]

    def depth(self, noise: NoisyMax, points: int) -> int:
        """By how many ranks, in the unit of scores, margins are to exceed what would just do.

        Theorem QUANTILE-2: then the interval that wins is too narrow with a probability of at most MISS.
        """
        closed = len(ladder(points))
        if not self._opens:
            return noise.lead(closed, MISS, self.factor)
        return self._penalty(noise) + noise.lead(closed * (1 + exp(-OPEN_PENALTY)), MISS, self.factor)

    def _penalty(self, noise: NoisyMax) -> int:
        return ceil(OPEN_PENALTY * float(noise.scale * self.factor))

    @property
    def _opens(self) -> bool:
        return not 1 - OUTER < self.share < OUTER

    def _families(self, noise: NoisyMax, below: Scores, centre: Places) -> Iterator[_Candidates]:
        last, depth = below.shape[1] - 2, self.depth(noise, below.shape[1] - 1)
        distances = ladder(last + 1)
        under = np.maximum(centre[:, None] - distances, 0)
        over = np.minimum(centre[:, None] + distances, last)
        lower, upper = self._margins(below, depth, under, over)
        whole = (under == 0) & (over == last)
        scores = _scores(np.minimum(lower, upper), depth)
        if not self._opens:
            yield _Candidates(under, over, scores, _up_to_first(whole))
        else:  # the whole range is the last of those that are open
            yield _Candidates(under, over, scores, ~whole)
            penalty = self._penalty(noise)
            if self.share >= OUTER:
                valid, over = _up_to_first(under == 0), np.full_like(over, last)
                yield _Candidates(under, over, _scores(lower, depth) - penalty, valid)
            else:
                valid, under = _up_to_first(over == last), np.zeros_like(under)
                yield _Candidates(under, over, _scores(upper, depth) - penalty, valid)

    def _margins(self, below: Scores, depth: int, under: Places, over: Places) -> tuple[Scores, Scores]:
        """By how many ranks each end lies beyond what would do for the exact value, were `spare` rows missing there.

        An end of the grid lies beyond any rank, whatever rows there are.
        """
        num, den, last = self.share.numerator, self.share.denominator, below.shape[1] - 2
        most = den * (top(below) + self.weight * (1 + self.spare)) + depth
        if most >= _SAFE:
            below = below.astype(object)
        beyond = max(_SAFE, 2 * most)
        cells, target = np.arange(len(below))[:, None], num * below[:, -1:]
        # Theorem QUANTILE-2: the exact value is within one row of the rank, and what limits cut moves it.
        lower = target - den * below[cells, under] - (num + (den - num) * self.spare) * self.weight
        upper = den * below[cells, over + 1] - target - (den - num + num * self.spare) * self.weight
        return np.where(under == 0, beyond, lower), np.where(over == last, beyond, upper)


def ladder(points: int) -> Places:
    """The distances that an end may have from a place of a grid of so many points: 0 to points - 1, fewer and fewer."""
    rungs = {0, points - 1}
    rungs |= {rung for i in range(RUNGS * points.bit_length()) if (rung := round(2 ** (i / RUNGS))) < points}
    return np.array(sorted(rungs), dtype=np.int64)


def _up_to_first(whole: Flags) -> Flags:
    """The candidates up to the first that reaches all that it can."""
    found = np.ones_like(whole)
    found[:, 1:] = ~whole[:, :-1]
    return found


def _scores(margin: Scores, depth: int) -> Scores:
    """Minus how far `depth` is from the margins between those of a candidate and of the one before it.

    Theorem QUANTILE-2: scores are made of margins by minima and maxima, and move no further than these do.
    """
    before = np.full_like(margin, depth)  # nothing is nearer than the first
    before[:, 1:] = margin[:, :-1]
    return np.asarray(np.minimum(0, np.minimum(margin - depth, depth - before)))
