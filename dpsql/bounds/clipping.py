"""From a histogram's tail to a limit, and to what a limit cuts (Theorems LIMITS-1 and CUT-1; post-processing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from dpsql.aggregates.clipping_bias import UNKNOWN, Clipping
from dpsql.bounds.tails import Floats, Tail

CUT_FEAR = 2.0  # what is cut may be twice the noise of one cell before it counts as much
NARROW_WEIGHT = 1.0  # of a narrow interval, beside a small error
UPPER = 0.95  # the share of the curves that the upper estimate of a cut covers while limits are compared
LARGEST_WITH = 0.99  # probability that nobody has more than what cells are bounded by
LEAST_NOISE = 1e-9  # of a limit of 1: no noise has no logarithm
POINTS = np.r_[np.linspace(0, 0.9, 13)[1:], 1 - np.geomspace(0.1, 0.001, 40)[1:], 1.0]  # shares of a distribution
SPREAD = (-np.sqrt(3), 0.0, np.sqrt(3))  # three points of a normal distribution, with their weights
SPREAD_WEIGHTS = np.array([1 / 6, 2 / 3, 1 / 6])

Amounts = Callable[[Floats], Floats]
"""What is cut of one unit that has so much."""


def choose_limit(
    tail: Tail, limits: Sequence[float], noise_per_unit: float, unseen: float = 0.0, enough: float = inf
) -> float:
    """The limit with the least expected log error plus log width, of a cell that loses all that is cut.

    limits: to choose from, ascending. noise_per_unit: the scale of one cell's noise for a limit of 1, in units of what
    the histogram counts. unseen: the least limit where nothing can be told from noise. enough: nothing is cut where
    all units together may have so much.
    """
    tops = np.asarray(limits, dtype=np.float64)
    middles = tail.ladder.middles
    cuts, weights = _cuts(tail, np.maximum(middles - tops[:, None], 0.0))
    if enough < inf:
        cuts = np.minimum(cuts, np.maximum(enough - np.minimum(middles, tops[:, None]) @ tail.mean, 0.0))
    scale = tops * max(noise_per_unit, LEAST_NOISE)
    error = weights @ np.log(np.hypot(cuts / CUT_FEAR, np.sqrt(2) * scale))
    least = error + NARROW_WEIGHT * np.log(3 * scale)  # where nothing were cut
    best, lowest = 0, np.inf
    for place in np.argsort(least):  # most limits needn't be looked at any closer
        if least[place] >= lowest:
            break
        value = error[place] + NARROW_WEIGHT * np.log(3 * scale[place] + _quantile(cuts[:, place], weights) / 2)
        if value < lowest:
            best, lowest = int(place), value
    if not tail.clear:
        best = max(best, min(int(np.searchsorted(tops, unseen)), len(tops) - 1))
    return float(tops[best])


def clipping_of(tail: Tail, limit: float, amounts: Amounts | None = None) -> Clipping:
    """What a limit cuts, with each unit at the top of its bucket. amounts: of one unit; None: all above the limit."""
    if not tail.clear:
        return UNKNOWN
    cut = amounts if amounts is not None else lambda has: np.maximum(has - limit, 0.0)
    cuts, weights = _cuts(tail, cut(tail.ladder.tops)[None])
    middles = tail.ladder.middles
    about = float(tail.mean @ cut(middles))
    left, over = (float(tail.mean @ each) for each in (np.minimum(middles, limit), np.maximum(middles - limit, 0.0)))
    times = max(1.0, tail.largest(LARGEST_WITH) / limit)
    # Amounts may be other than what units have (chances to be left out); the part that is cut is the same.
    kept = left * about / over if over > 0 and about > 0 else left
    return Clipping(about, max(kept, 1.0), times, _points(cuts[:, 0], weights))


def _cuts(tail: Tail, excess: Floats) -> tuple[Floats, Floats]:
    """What each limit cuts in all on three points of each curve, since counts in a tail vary as Poisson's do.

    excess: [limit, bucket], of one unit. Returns [point, limit] and the points' weights.
    """
    varying = tail.units.copy()
    varying[:, : tail.start] = 0
    cut, deviation = tail.units @ excess.T, np.sqrt(varying @ (excess**2).T)
    points = np.maximum(cut[:, None] + np.array(SPREAD)[:, None] * deviation[:, None], 0.0)
    return points.reshape(-1, len(excess)), np.outer(tail.weights, SPREAD_WEIGHTS).ravel()


def _quantile(cuts: Floats, weights: Floats) -> float:
    """What is cut at most, for the share UPPER of the curves."""
    order = np.argsort(cuts)
    reached = np.cumsum(weights[order])
    return float(cuts[order[min(int(np.searchsorted(reached, UPPER)), len(order) - 1)]])


def _points(cuts: Floats, weights: Floats) -> tuple[tuple[float, float], ...]:
    """A distribution in few points, ascending; each stands for a part of it at that part's upper end."""
    order = np.argsort(cuts)
    amounts, reached = cuts[order], np.cumsum(weights[order])
    ranks = np.minimum(np.searchsorted(reached, POINTS * reached[-1]), len(amounts) - 1)
    parts = np.diff(np.r_[0.0, POINTS])
    return tuple((float(w), float(a)) for w, a in zip(parts, amounts[ranks], strict=True))
