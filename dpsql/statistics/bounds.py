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
OCTAVES_UP = "octaves"  # the name of a column of them
WINDOWS = (2, 4, 8)  # neighbouring buckets that are looked at together
OCTAVES = 32  # that are searched below the end of a derived range
FALSE_WINDOW = 0.01  # the chance that any empty window passes
LEAST_THIN, MOST_THIN = 1 / 64, 1 / 2  # of the units of a bucket, how many the next one has
LONGEST_TAIL = 8  # octaves behind the last bucket that is seen
NOISE_OF_RANGE = 0.5  # noise of an answer, in scales of the histogram's: a tenth of its ε, a few rows for each unit
NEAR = 2  # noise scales that a bucket beside the range needs; an empty one has them with e^−2/2 = 7%


@dataclass(frozen=True, slots=True)
class Seed:
    """The public range that a search starts from: its powers of two, and the values that the type can hold."""

    first: int  # the least exponent
    last: int  # the largest
    low: Fraction
    high: Fraction
    whole: bool = False  # integers
    otherwise: tuple[Fraction, Fraction] | None = None  # of a derived range: what serves where nothing is found

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

    def sql(self, column: str, octaves: str) -> tuple[str, str]:
        """The bucket of a DOUBLE in two steps: how many octaves up it is, with its sign; and the bucket of the column
        that holds these, as an expression that is total and whose range is −most to most.

        In two, since functions in Spark's words repeat their arguments: a column stands for them in the second.
        """
        tiny = f"{2.0 ** (self.first - 1)!r}"
        exponent = f"CEIL(LOG2(GREATEST(ABS({column}), {tiny})))"
        steps = f"SIGN({column}) * GREATEST({exponent} - {self.first - 1}, 0)"
        return steps, f"CAST(CLIP({octaves}, {-self.most if self.low < 0 else 0}, {self.most}) AS INTEGER)"

    def ends(self, low: int, high: int) -> tuple[Fraction, Fraction]:
        """The range of the values in buckets low to high; never a single point."""
        bottom, top = -self._outer(-low) if low <= 0 else self._inner(low), self._outer(high)
        if high < 0:
            top = -self._inner(-high)
        if (
            self.otherwise is not None
        ):  # an end that halves the range at most isn't worth the small values that it would cut
            bottom = min(bottom, Fraction(0)) if 2 * bottom < top else bottom
            top = max(top, Fraction(0)) if 2 * top > bottom else top
        bottom, top = max(bottom, self.low), min(top, self.high)
        if bottom < top:
            return bottom, top
        if self.otherwise is not None:
            return self.otherwise
        return (min(bottom, Fraction(0)), max(top, Fraction(0))) if bottom or top else (Fraction(0), Fraction(1))

    def _outer(self, bucket: int) -> Fraction:
        return Fraction(2) ** (self.first + bucket - 1) if bucket > 0 else Fraction(0)

    def _inner(self, bucket: int) -> Fraction:
        edge = Fraction(2) ** (self.first + bucket - 2)
        return Fraction(ceil(edge)) if self.whole else edge

    @property
    def fallback(self) -> tuple[Fraction, Fraction]:
        """What is used where no range was found: fixed, public, and said with the answer."""
        if self.otherwise is not None:
            return self.otherwise
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


def covered_by_window(counts: Mapping[int, Fraction], scale: Fraction) -> tuple[int, int] | None:
    """The first and the last bucket of the narrowest window of neighbours that holds values; None where none does.

    So are values found that are spread over buckets each of which could be noise. Ends that look empty are left out.
    """
    noisy, width = {b: float(c) for b, c in counts.items()}, float(scale)
    for size in WINDOWS:
        sums = {b: sum(noisy.get(b + i, 0.0) for i in range(size)) for b in noisy}
        best = max(sums, key=lambda b: sums[b], default=0)
        if sums and sums[best] > width * _sum_of_noise(size, len(sums)):
            found = [b for b in range(best, best + size) if noisy.get(b, 0) > width]
            return (min(found), max(found)) if found else (best, best + size - 1)
    return None


def _sum_of_noise(size: int, windows: int) -> float:
    """What the sum of so many Laplace noises of scale 1 exceeds in any of the windows with a chance of FALSE_WINDOW.

    By Chernoff: Pr[sum > t] ≤ e^(−λt) / (1 − λ²)^size for each λ below 1.
    """
    return min((log(windows / FALSE_WINDOW) - size * log(1 - x * x)) / x for x in (i / 50 for i in range(1, 50)))


def stretched(counts: Mapping[int, Fraction], ends: tuple[int, int], scale: Fraction) -> tuple[int, int]:
    """The buckets that a range holds, with as many behind each end as its tail is worth: accuracy alone rests on it.

    Behind the last bucket that is seen, units thin out as they do before it, and as noise lets them. What clipping
    them cuts of a sum is to be no more than the noise that a wider range adds.
    """
    noisy, width = {b: float(c) for b, c in counts.items()}, float(scale)
    low, high = ends
    return (-_stretched({-b: c for b, c in noisy.items()}, -low, width)), _stretched(noisy, high, width)


def _stretched(noisy: Mapping[int, float], end: int, scale: float) -> int:
    """The last bucket of a range, on the side where bucket numbers grow."""
    last = noisy.get(end, 0.0)
    if end <= 0 or last <= 0:
        return end
    before, behind = max(noisy.get(end - 1, 0.0), last), max(noisy.get(end + 1, 0.0), 0.0) + scale
    thins = max(min(last / before, behind / last, MOST_THIN), LEAST_THIN)

    def error(more: int) -> float:
        """Of a sum, in values of the last bucket's size: of the range's noise, and of what it cuts."""
        cut = sum(last * thins**j * (2.0**j - 2.0**more) for j in range(more + 1, LONGEST_TAIL + 1))
        return NOISE_OF_RANGE * scale * 2.0**more + cut

    return end + min(range(LONGEST_TAIL + 1), key=error)


def covered_value(counts: Mapping[int, Fraction], scale: Fraction, seed: Seed) -> tuple[int, int] | None:
    """The first and the last bucket of the range of a value that a query computes; None where nothing is found.

    Only the octaves below the end of its derived range are looked at: a range that is narrower still is no better.
    """
    top = _exponent(max(-seed.low, seed.high)) - seed.first + 1
    near = {b: n for b, n in counts.items() if top - OCTAVES < abs(b) <= top}
    found = covered(near, scale)
    return covered_by_window(near, scale) if found is None else stretched(near, found, scale)


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
    def key(self) -> tuple[object, object]:
        """What tells its range apart from others."""
        return self.table.lower(), self.column.lower()

    @property
    def title(self) -> str:
        """What it is the range of."""
        return f"{self.table}.{self.column}"

    @property
    def seeded(self) -> Automatic:
        """The column with its seed range in place of what was released."""
        return replace(self, range=(self.seed.low, self.seed.high), found=True)

    def facts(self) -> dict[str, object]:
        """For people and programs."""
        low, high = self.range if self.range is not None else (self.seed.low, self.seed.high)
        return {
            "column": self.title,
            "low": float(low),
            "high": float(high),
            "known": self.range is not None,
            "found": self.found,
            "release": self.receipt or None,
        }


@dataclass(frozen=True, slots=True)
class AutomaticValue(Automatic):
    """The automatic range of a value that a query computes; `column` is its text (Theorem AUTO-2)."""

    rows: object = None  # the relation that it is found in
    value: object = None  # the expression over that relation's columns
    named: bool = True  # False: without a limit on rows that was named no range follows from the policy

    @property
    def key(self) -> tuple[object, object]:
        return self.rows, self.value

    @property
    def title(self) -> str:
        return self.column

    def facts(self) -> dict[str, object]:
        return {**Automatic.facts(self), "derived": True, "named": self.named}
