"""Private key selection: a key is shown only if a noisy count of its units, or of their votes, is high enough."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from dpsql.core.frozen import dataclass
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.registry import read


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keeps keys whose noisy count of distinct, unweighted units reaches a threshold.

    A key that only one unit has is kept with probability at most delta_key. The caller divides the release's delta by
    the number of keys that one unit can have (twice that when neighbours replace a unit). The counts must be integers
    on the grid 1, each with a draw of its own from `noise`. min_units raises the threshold, never lowers it.
    """

    noise: Noise
    delta_key: Fraction
    min_units: int = 0
    tau: int = field(init=False)

    def __post_init__(self) -> None:
        # Theorem KEY-1. The smallest integer tau with Pr[1 + Z ≥ tau] ≤ delta_key, from the noise that is added.
        tau = 1 + self.noise.threshold(self.delta_key)
        object.__setattr__(self, "tau", max(tau, self.min_units))

    def keep(self, noisy_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which keys may be shown."""
        return noisy_counts >= self.tau


def vote(keys: int, bits: int) -> int:
    """What a unit with so many keys adds to each: 2^bits/√keys, rounded down, so that the norm is at most 2^bits."""
    # Theorem KEYW-1: w² ≤ ⌊4^bits/t⌋, hence t·w² ≤ 4^bits, in integers.
    return isqrt((1 << 2 * bits) // keys)


@dataclass(frozen=True, slots=True)
class VoteThreshold:
    """Keeps keys whose noisy sum of votes reaches a threshold; a unit with t keys has `vote(t, bits)` for each.

    Whatever t ≤ most is, keys that only one unit has stay hidden, all of them together, with probability at least
    1 − delta. The caller halves the release's delta when neighbours replace a unit. The votes must be integers, each
    sum with a draw of its own from `noise`.
    """

    noise: Noise
    most: int
    bits: int
    delta: Fraction
    tau: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", _largest(self.noise.kind, self.noise.written, self.most, self.bits, self.delta))

    def keep(self, noisy_votes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which keys may be shown."""
        return noisy_votes >= self.tau


@lru_cache(maxsize=256)
def _largest(kind: str, parameter: str, most: int, bits: int, delta: Fraction) -> int:
    """The largest of the thresholds for 1 to `most` keys, each the smallest that hides them all but for delta.

    The noise is told by how it is written, so that what was found once is remembered: it takes a while.
    """
    noise = read([kind, parameter])
    assert not isinstance(noise, NoisyMax)
    known: dict[int, int] = {}

    def hides(keys: int) -> int:
        """The smallest z with keys · Pr[Z ≥ z] ≤ delta; it grows with the number of keys."""
        if keys not in known:
            known[keys] = noise.threshold(delta / keys)
        return known[keys]

    # Theorem KEYW-1: the largest over t of w_t + z_t. w falls and z grows with t, so that no t between a and b has more
    # than w_a + z_b; what can't be the largest isn't looked at.
    best = max(vote(keys, bits) + hides(keys) for keys in (1, most))
    open_ = [(1, most)]
    while open_:
        first, last = open_.pop()
        if vote(first, bits) + hides(last) <= best:
            continue
        best = max(best, vote(first, bits) + hides(first), vote(last, bits) + hides(last))
        if last - first > 1:
            middle = (first + last) // 2
            open_ += [(first, middle), (middle, last)]
    return best
