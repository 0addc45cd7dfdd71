"""Automatic bounds: a column's range, read off a noisy histogram over powers of two (Theorem AUTO-1).

The buckets are fixed by the column's type alone. Bucket i > 0 holds the values in (2^(first+i−2), 2^(first+i−1)],
bucket −i their negatives, and bucket 0 what is smaller still. Everything in this file comes after the noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, log

from dpsql.core.frozen import dataclass
from dpsql.core.types import Type

FIRST, LAST = -40, 64  # of doubles: from a millionth of a millionth to beyond any BIGINT
STRAY = (0.001, 0.05)  # the chance that any empty bucket passes: tried in this order
NEAR = 2  # noise scales that a bucket beside the range needs; an empty one has them with e^−2/2 = 7%


@dataclass(frozen=True, slots=True)
class Seed:
    """The public range that a search starts from: its powers of two, and the values that the type can hold."""

    first: int  # the least exponent
    last: int  # the largest
    low: Fraction
    high: Fraction
    whole: bool = False  # integers

    @classmethod
    def of(cls, type_: Type) -> Seed:
        """The seed of a numeric type."""
        limits = type_.limits
        if limits is None:
            top = Fraction(2) ** LAST
            return cls(FIRST, LAST, -top, top)
        low, high = limits
        least = Fraction(1, 10 ** (type_.scale or 0)) if type_.is_decimal else Fraction(1)
        return cls(_exponent(least), _exponent(max(-low, high)), low, high, type_.is_integer)

    @property
    def most(self) -> int:
        """The number of the last bucket."""
        return self.last - self.first + 1

    def sql(self, column: str) -> str:
        """The bucket of a DOUBLE, as an expression that is total and whose range is −most to most."""
        tiny = f"{2.0 ** (self.first - 1)!r}"
        exponent = f"CEIL(LOG2(GREATEST(ABS({column}), {tiny})))"
        steps = f"CLIP({exponent} - {self.first - 1}, 0, {self.most})"
        return f"CAST(CLIP(SIGN({column}) * {steps}, {-self.most if self.low < 0 else 0}, {self.most}) AS INTEGER)"

    def ends(self, low: int, high: int) -> tuple[Fraction, Fraction]:
        """The range of the values in buckets low to high; never a single point."""
        bottom, top = -self._outer(-low) if low <= 0 else self._inner(low), self._outer(high)
        if high < 0:
            top = -self._inner(-high)
        bottom, top = max(bottom, self.low), min(top, self.high)
        if bottom < top:
            return bottom, top
        return (min(bottom, Fraction(0)), max(top, Fraction(0))) if bottom or top else (Fraction(0), Fraction(1))

    def _outer(self, bucket: int) -> Fraction:
        return Fraction(2) ** (self.first + bucket - 1) if bucket > 0 else Fraction(0)

    def _inner(self, bucket: int) -> Fraction:
        edge = Fraction(2) ** (self.first + bucket - 2)
        return Fraction(ceil(edge)) if self.whole else edge

    @property
    def fallback(self) -> tuple[Fraction, Fraction]:
        """What is used where no range was found: fixed, public, and said with the answer."""
        return max(self.low, Fraction(-1)), min(self.high, Fraction(1))


def _exponent(value: Fraction) -> int:
    """The least k with value ≤ 2^k."""
    k = value.numerator.bit_length() - value.denominator.bit_length() - 1
    while Fraction(2) ** k < value:
        k += 1
    return k


def covered(counts: Mapping[int, Fraction], scale: Fraction) -> tuple[int, int] | None:
    """The first and the last bucket that hold values, told from noisy counts; None where all could be noise.

    Outliers count only if there are so many that no noise explains them. From what is found the range grows: to any
    bucket of the other sign that is no larger, and step by step to its neighbours; a wrong step costs a factor of two.
    """
    noisy = {b: float(c) for b, c in counts.items()}
    width = float(scale)
    found: list[int] = []
    for stray in STRAY:
        found = found or [b for b, c in noisy.items() if c > width * log(len(noisy) / (2 * stray))]
    if not found:
        return None
    size = max(abs(b) for b in found)
    within = [b for b in noisy if abs(b) <= size]
    found += [b for b in within if noisy[b] > width * log(len(within) / (2 * STRAY[-1]))]
    low, high = min(found), max(found)
    while noisy.get(high + 1, 0) > NEAR * width:
        high += 1
    while noisy.get(low - 1, 0) > NEAR * width:
        low -= 1
    return low, high


@dataclass(frozen=True, slots=True)
class Automatic:
    """The automatic bounds of a column that a query needs: released already, or still to be."""

    table: str
    column: str
    share: Fraction  # of the query that asks first
    seed: Seed
    range: tuple[Fraction, Fraction] | None = None  # None: not released yet
    found: bool = True  # else the range is the seed's fallback
    receipt: str = ""  # the spend that paid for it

    @property
    def key(self) -> tuple[str, str]:
        return self.table.lower(), self.column.lower()

    @property
    def seeded(self) -> Automatic:
        """The column with its seed range in place of what was released."""
        return replace(self, range=(self.seed.low, self.seed.high), found=True)

    def facts(self) -> dict[str, object]:
        """For people and programs."""
        low, high = self.range if self.range is not None else (self.seed.low, self.seed.high)
        return {
            "column": f"{self.table}.{self.column}",
            "low": float(low),
            "high": float(high),
            "known": self.range is not None,
            "found": self.found,
            "release": self.receipt or None,
        }
