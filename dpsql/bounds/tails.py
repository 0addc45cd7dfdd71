"""What units have beyond what a noisy histogram shows: curves for its tail, each weighed by how well it fits.

A histogram counts units in half octaves of how much they have: rows, groups, or a size. Noise of scale b hides the thin
buckets, and what lies there decides what a limit cuts. So some 600 curves are drawn through the last bucket that can be
seen, each with a weight: a prior times how well the noisy buckets fit it. What a limit cuts is then a distribution.

Everything here is a pure function of noisy counts and public numbers: post-processing (Theorems LIMITS-1 and POST-1).
All thresholds are in units of b. Each constant stands on a plateau: half or twice of it changes little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsql.core.frozen import dataclass

Floats = NDArray[np.float64]

CLEAR_BUCKET = 20.0  # noise scales: a bucket of so many is known well enough for a tail to start there
CLEAR_GROUP = 7.0  # noise scales of evidence from which on a window of buckets holds units for sure,
EVIDENCE_PER_BUCKET = 0.6  # more for each bucket that it lies farther off,
EVIDENCE_PER_WIDTH = 1.0  # and for each bucket that the window is wider
WINDOWS = (1, 2, 4, 8)  # buckets

STEEPNESS = (0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 12.0, 20.0)  # -slope of log(units above T) by log T, at the start
BENDS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # 0 a power law, 0.25 near a lognormal, 1 exponential, 2 Gaussian, 4 a cap
HEAVY_BEND = 0.5  # curves of no more bend are heavy: they may also end, or be capped
POWER_LAW_PRIOR = 0.5  # of each power law; of other curves 1
ENDS = (2, 4, 6, 8, 11, 14)  # a heavy curve may end after so many buckets: no unit has more
CAPS = range(1, 15)  # or have a cap after so many buckets: units that would have more have just that
ENDED_PRIOR, CAPPED_PRIOR = 0.3, 0.3  # of a heavy curve's prior
NOTHING_PRIOR = 0.3  # of "no unit lies behind the start"
REACH = 9  # a curve ends so many buckets, and as many as lie below its start, behind its start
LEAST_UNITS = 0.5  # a curve ends where it expects fewer units in all
LEVELS = (-1.5, -0.5, 0.5, 1.5)  # noise scales: what the bucket where the tail starts may really hold
KEPT_WEIGHT = 0.999  # of all: the curves with the least weights are left out, as long as the others have so much


@dataclass(frozen=True, slots=True)
class Ladder:
    """Buckets in half octaves. Bucket i holds what is above top i − 1, up to top i; the last one also what is above.

    whole: of whole numbers, the tops are 1, 2, 3, 4, 6, 8, 11, 16, …; else they are 1, √2, 2, 2√2, …
    """

    buckets: int
    whole: bool

    @property
    def tops(self) -> Floats:
        """The largest amount of each bucket."""
        return _tops(self)

    @property
    def middles(self) -> Floats:
        """The amount half-way between the ends of each bucket."""
        tops = self.tops
        if not self.whole:
            return np.asarray(tops * (1 + 2**-0.5) / 2)
        return np.asarray((np.r_[1.0, tops[:-1] + 1] + tops) / 2)


ROWS = Ladder(40, True)
"""Of numbers of rows and of groups: up to 2^20."""
SIZES = Ladder(64, False)
"""Of sizes that are no whole numbers: over 32 octaves."""


@lru_cache(maxsize=8)
def _tops(ladder: Ladder) -> Floats:
    if not ladder.whole:
        return np.asarray(2.0 ** (np.arange(ladder.buckets) / 2))
    return np.asarray(np.unique(np.round(2.0 ** (np.arange(ladder.buckets + 1) / 2)))[: ladder.buckets])


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """A noisy histogram and the weighed curves through it: what units have, as far as it tells.

    units: for each curve the units that it has in each bucket; below `start` these are the noisy counts. clear: does
    any window of buckets stand out of the noise? If none does, nothing that is read off this is evidence.
    """

    ladder: Ladder
    noise: float
    start: int
    clear: bool
    weights: Floats  # of the curves; their sum is 1
    units: Floats  # [curve, bucket]

    @property
    def mean(self) -> Floats:
        """The units expected in each bucket."""
        return np.asarray(self.weights @ self.units)

    def largest(self, probability: float) -> float:
        """What the unit with the most has at most, with this probability."""
        heaviest = np.where(self.units > 0, np.arange(self.ladder.buckets), 0).max(axis=1)
        order = np.argsort(heaviest)
        rank = int(np.searchsorted(np.cumsum(self.weights[order]), probability))
        return float(self.ladder.tops[heaviest[order[min(rank, len(order) - 1)]]])


# ---------------------------------------------------------------- curves


@lru_cache(maxsize=128)
def _curves(ladder: Ladder, start: int) -> tuple[Floats, Floats]:
    """Units in the buckets from `start` on, relative to the first of them, a row a curve; and each log prior.

    The units above an amount T fall as exp(−steep · ((T/T₀)^bend − 1)/bend), where T₀ is the lower end of the start.
    """
    ends = _ends(ladder, start)
    steep, bend = (x.ravel()[:, None] for x in np.meshgrid(STEEPNESS, BENDS, indexing="ij"))
    height = np.where(bend == 0, np.log(ends), (ends**bend - 1) / np.where(bend == 0, 1, bend))
    above = np.exp(-np.minimum(steep * height, 700))
    first = np.maximum(above[:, :1] - above[:, 1:2], 1e-300)
    units, beyond = (above[:, :-1] - above[:, 1:]) / first, above[:, -1] / first[:, 0]
    prior, heavy = np.where(bend[:, 0] == 0, POWER_LAW_PRIOR, 1.0), bend[:, 0] <= HEAVY_BEND
    whole = units.copy()
    whole[:, REACH + start + 1 :] = 0
    curves, priors = [whole], [prior * np.where(heavy, 1 - ENDED_PRIOR - CAPPED_PRIOR, 1.0)]
    for last in (e for e in ENDS if e < units.shape[1]):
        curves.append(_ended(units[heavy], last))
        priors.append(prior[heavy] * ENDED_PRIOR / len(ENDS))
    for last in (c for c in CAPS if c < units.shape[1]):
        capped = _ended(units[heavy], last)
        capped[:, last] += units[heavy][:, last + 1 :].sum(axis=1) + beyond[heavy]
        curves.append(capped)
        priors.append(prior[heavy] * CAPPED_PRIOR / len(CAPS))
    all_priors = np.concatenate(priors)
    nothing = np.eye(1, units.shape[1])
    log = np.log(np.r_[all_priors / all_priors.sum() * (1 - NOTHING_PRIOR), NOTHING_PRIOR])
    return np.concatenate([*curves, nothing]), log


def _ends(ladder: Ladder, start: int) -> Floats:
    """The ends of the buckets from `start` on, relative to where the first of them begins."""
    tops = ladder.tops
    if ladder.whole:
        behind = (tops[start:] + 0.5) / (tops[start - 1] + 0.5) if start else np.sqrt(2 * tops + 1)
    else:
        behind = tops[start:] / (tops[start] / np.sqrt(2))
    return np.asarray(np.r_[1.0, behind])


def _ended(units: Floats, last: int) -> Floats:
    """Curves without the buckets behind this one."""
    ended = units.copy()
    ended[:, last + 1 :] = 0
    return ended


# ---------------------------------------------------------------- the fit


def fit(counts: Sequence[float], noise: float, ladder: Ladder) -> Tail:
    """The tail of a noisy histogram. counts: its buckets; noise: the scale of the Laplace noise in each."""
    return _fit(tuple(counts), noise, ladder)


@lru_cache(maxsize=64)
def _fit(counts: tuple[float, ...], noise: float, ladder: Ladder) -> Tail:
    noisy = np.array(counts)
    start, evidence = _start(noisy / noise)
    for _ in range(4):
        weights, units = _weighed(noisy, noise, ladder, start)
        farther = _group_above(noisy[start:], weights @ units, noise)
        if farther == 0:
            break
        start += farther
    seen = np.tile(np.maximum(noisy[:start], 0.0), (len(weights), 1))
    return Tail(ladder, noise, start, evidence >= CLEAR_GROUP, weights, np.concatenate([seen, units], axis=1))


def _start(scaled: Floats) -> tuple[int, float]:
    """The bucket at which the tail starts: the last clear one, or else the strongest; and the evidence that it holds
    units, in noise scales."""
    evidence, start = -np.inf, 0
    for width in WINDOWS:
        sums = np.convolve(scaled, np.ones(width), "valid")
        strength = sums - EVIDENCE_PER_WIDTH * (width - 1) - 0.7 * np.arange(len(sums))
        best = int(strength.argmax())
        if strength[best] > evidence:
            evidence, start = float(strength[best]), best + int(scaled[best : best + width].argmax())
    clear = np.flatnonzero(scaled >= CLEAR_BUCKET)
    if len(clear):  # a bucket that is clear is evidence by itself, however far up it lies
        return int(clear[-1]), max(evidence, CLEAR_BUCKET)
    return start, evidence


def _weighed(noisy: Floats, noise: float, ladder: Ladder, start: int) -> tuple[Floats, Floats]:
    """The weights of the curves from the bucket `start` on, and their units in it and behind it."""
    relative, log_prior = _curves(ladder, start)
    levels = np.maximum(noisy[start] + noise * np.array(LEVELS), 0.3 * noise)
    units = (levels[:, None, None] * relative).reshape(-1, ladder.buckets - start)
    units = np.where(np.cumsum(units[:, ::-1], axis=1)[:, ::-1] < LEAST_UNITS, 0.0, units)
    spread = np.sqrt(noise**2 + units / 2)  # of Laplace noise, and of real counts around a curve
    log = (-np.abs(noisy[start:] - units) / spread - np.log(spread)).sum(axis=1) + np.tile(log_prior, len(levels))
    weights = np.exp(log - log.max())
    order = np.argsort(-weights)
    reached = np.cumsum(weights[order]) / weights.sum()
    kept = order[: int(np.searchsorted(reached, KEPT_WEIGHT)) + 1]
    return weights[kept] / weights[kept].sum(), units[kept]


def _group_above(noisy: Floats, expected: Floats, noise: float) -> int:
    """How many buckets behind the first another group of units stands out above the curves; 0 where none does."""
    rest = ((noisy - expected) / np.sqrt(noise**2 + expected / 2))[1:]
    farthest = 0
    for width in WINDOWS:
        sums = np.convolve(rest, np.ones(width), "valid") if len(rest) > width else np.zeros(0)
        distance = np.arange(len(sums)) + width - 1
        needed = CLEAR_GROUP + EVIDENCE_PER_BUCKET * distance + EVIDENCE_PER_WIDTH * (width - 1)
        for first in np.flatnonzero(sums > needed)[-1:]:
            farthest = max(farthest, 1 + int(first) + int(noisy[first + 1 : first + 1 + width].argmax()))
    return farthest
