"""Randomized response: each row keeps its value or gets another one; and the order in which rows leave.

Everything is drawn exactly, from the same bytes as all noise (sampler.py).
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler
from dpsql.mechanisms.base import Pure

Codes = npt.NDArray[np.uint32]

# One unit is one row, and neighbours replace one: what is measured of it changes once.
ONE_ROW = Sensitivity(Fraction(1), Fraction(1))

_BITS = 32  # of a lane's first word; 2^-32 of the lanes need more
_CHUNK = 2**20


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Keeps one of `size` values with odds of e^epsilon to 1 against each other one."""

    epsilon: Fraction
    size: int

    kind: ClassVar[str] = "randomized response"
    name: ClassVar[str] = "randomized response"
    pure: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ValueError("epsilon must be positive")
        if not 2 <= self.size <= 2**31:
            raise ValueError("there must be two values at least, and 2^31 at most")

    def draw(self, n: int) -> Codes:
        """How far each of n rows moves in the list of values, around its end: 0 is kept, all others are equally likely.

        A row with value x leaves as (x + shift) mod size, whatever x is: nothing of the data is needed to draw.
        """
        shifts = np.zeros(n, dtype=np.uint32)
        for start in range(0, n, _CHUNK):
            part = shifts[start : start + _CHUNK]
            moved = np.flatnonzero(~_below(self.epsilon, self.size, len(part)))
            part[moved] = 1 + uniform(self.size - 1, len(moved))
        return shifts

    def cost(self, s: Sensitivity) -> Cost:
        """What it costs where neighbours differ in this many (l1) of the values that are randomised."""
        return Cost(s.l1 * self.epsilon)  # Theorem RR-1

    def event(self, s: Sensitivity) -> Pure:
        """What was done, for accountants."""
        return Pure(self.cost(s).epsilon)

    @property
    def keep(self) -> float:
        """About the probability that a value is kept: 1/(1 + (size − 1)·e^−epsilon)."""
        return 1.0 / (1.0 + (self.size - 1) * self._odds)

    @property
    def other(self) -> float:
        """About the probability of each other value."""
        return self.keep * self._odds

    @property
    def slope(self) -> float:
        """1/(keep − other): a share of randomised values, times this, less `offset`, is unbiased (Theorem RR-1)."""
        return (1.0 + (self.size - 1) * self._odds) / self._gap

    @property
    def offset(self) -> float:
        """other/(keep − other)."""
        return self._odds / self._gap

    def standard_error(self, rows: int) -> float:
        """Of an estimated share among so many rows, by the randomisation alone and for the least favourable share."""
        keep, other = self.keep, self.other
        return self.slope * math.sqrt(max(keep * (1 - keep), other * (1 - other)) / rows)

    @property
    def _odds(self) -> float:
        return math.exp(-float(self.epsilon))

    @property
    def _gap(self) -> float:
        return -math.expm1(-float(self.epsilon))


# ---------------------------------------------------------------- exact draws


def _below(epsilon: Fraction, size: int, n: int) -> npt.NDArray[np.bool_]:
    """n independent events of probability e^ε/(e^ε + size − 1), exactly: is a uniform below it?"""
    words = sampler._words(n, _BITS)
    least = threshold(epsilon, size, _BITS)
    kept = words < least
    # Theorem SAMPLE-1. All of [k, k+1)/2^bits is on one side of p, unless k = ⌊p·2^bits⌋: those lanes get more bits.
    for i in np.flatnonzero(words == least):
        kept[i] = _settled(epsilon, size, int(words[i]), _BITS)
    return np.asarray(kept)


def _settled(epsilon: Fraction, size: int, k: int, bits: int) -> bool:
    """Is a uniform below p, of which the first bits are k? More are appended until its interval doesn't hold p."""
    while True:
        k, bits = sampler._more(k), bits + 64
        least = threshold(epsilon, size, bits)
        if k != least:
            return k < least


@lru_cache(maxsize=256)
def threshold(epsilon: Fraction, size: int, bits: int) -> int:
    """⌊p·2^bits⌋, exactly, for p = 1/(1 + (size − 1)·e^−ε), which is no multiple of any 2^-bits (Lindemann)."""
    digits = 25 + bits // 3 + len(str(int(epsilon)))
    while True:
        with localcontext(Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)):
            odds = (-Decimal(epsilon.numerator) / epsilon.denominator).exp()
            # Theorem RR-1, "exactly": relative, of e^−ε and of all that is computed from it.
            blur = (Decimal(math.ceil(epsilon)) + 10) * Decimal(10) ** (1 - digits)
            least, most = (
                math.floor(Decimal(2) ** bits / (1 + (size - 1) * odds * (1 + side)) * (1 - side))
                for side in (blur, -blur)
            )
        if least == min(most, 2**bits - 1):  # p < 1
            return least
        digits += 20


def uniform(size: int, n: int) -> Codes:
    """n independent integers, each of 0, …, size − 1 equally likely. Words past a multiple of size are drawn again."""
    if size == 1:
        return np.zeros(n, dtype=np.uint32)
    end = 2**32 - 2**32 % size
    found = sampler._words(n, 32).astype(np.uint32)
    while len(again := np.flatnonzero(found >= end)) if end < 2**32 else 0:
        found[again] = sampler._words(len(again), 32)
    return np.asarray(found % np.uint32(size), dtype=np.uint32)


def shuffled(n: int) -> npt.NDArray[np.int64]:
    """A permutation of n places, all of them equally likely.

    Places are sorted by random words, in whose low bits they stand themselves (to sort one array is far faster than to
    find the order of another). Places whose random bits are equal would stay in the order of the data: they are
    shuffled among themselves, which is what more bits of the same words would do (Theorem RR-1, "order").
    """
    if n < 2:
        return np.zeros(n, dtype=np.int64)
    low = np.uint64(2 ** (n - 1).bit_length() - 1)
    words = (sampler._words(n, 64) & ~low) | np.arange(n, dtype=np.uint64)
    words.sort()
    order = (words & low).view(np.int64)
    equal = np.flatnonzero((words[1:] ^ words[:-1]) <= low)
    for run in np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1) if len(equal) else []:
        places = slice(int(run[0]), int(run[-1]) + 2)
        order[places] = order[places][shuffled(len(run) + 1)]
    return order
