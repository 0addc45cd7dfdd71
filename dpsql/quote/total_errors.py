"""How large the error of a sum would be, bounded in one way or another: estimated from noisy counts of units.

All of this concerns accuracy alone: the counts have been paid for, and whatever is chosen is enforced (TOTALS-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import hypot, inf, sqrt

from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.quote.key_votes import Counts
from dpsql.quote.model import Ask
from dpsql.quote.splits import splits_of

TAIL, THINNEST = 8, 0.4  # buckets behind the last one that passes, and at most so many units from one to the next
BEYOND = 2  # of these buckets, whose ends a limit may be
UNLIKE = 0.25  # of what an average's rows lose: by about so much those of heavy units differ from others'
TINY, HUGE = 1e-150, 1e150  # nothing is divided by 0, and no square is more than a float holds

Ends = tuple[float, float, float]
"""Of a bucket: the least and the most that a unit in it has, and about how many units there are."""


def ends_of_counts(counts: Counts) -> tuple[Ends, ...]:
    """Buckets of units by a number of rows."""
    return tuple((1.0, 1.0, n) if b == 0 else (2.0 ** (b - 1) + 1, 2.0**b, n) for b, n in counts.items())


def ends_of_totals(counts: Counts, first: int, *, whole: bool) -> tuple[Ends, ...]:
    """Buckets of units by a total, of which bucket 0 ends at 2^first: whoever is there has next to nothing."""
    found = []
    for bucket, units in counts.items():
        low, high = 2.0 ** (first + bucket - 1), 2.0 ** (first + bucket)
        if bucket and not whole:
            found.append((low, high, units))
        elif bucket and high >= 1:  # of whole numbers, 1 is in a bucket of its own
            found.append((min(high, low + 1) if low >= 1 else high, high, units))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Sizes:
    """About how many units have how much of something, and what they have together."""

    seen: tuple[Ends, ...]
    tail: tuple[Ends, ...]
    whole: bool  # only whole numbers occur
    total: float

    @classmethod
    def of(cls, seen: tuple[Ends, ...], *, whole: bool) -> Sizes:
        found = cls(seen, _thinning(seen), whole, 0.0)
        return cls(seen, found.tail, whole, max(TINY, found._kept(inf)))

    @property
    def options(self) -> list[tuple[Fraction, float]]:
        """The limits to choose from, each with the share of everything that it cuts: the ends of buckets and what lies
        half-way between them, up to a little more than was seen.

        A false bucket can't make the noise larger than that, and what is rare may still be much.
        """
        ends = [Fraction(high) for _, high, _ in (*self.seen, *self.tail[:BEYOND])]
        halves = [end * 3 / 4 for end in ends if end > 2 or not self.whole]
        return [(limit, 1 - self._kept(float(limit)) / self.total) for limit in sorted({*ends, *halves})]

    @property
    def lost(self) -> list[tuple[Fraction, Lost]]:
        """The limits to choose from, each with what is lost by it."""
        return [(limit, Lost(cut, float(limit), self.total)) for limit, cut in self.options]

    def _kept(self, limit: float) -> float:
        """What all units have together, each at most the limit; within a bucket they are taken to be spread evenly."""
        whole = 0.0
        for low, high, units in (*self.seen, *self.tail):
            if high <= limit:
                whole += units * (low + high) / 2
            elif low >= limit:
                whole += units * limit
            else:
                kept = (limit - low) / (high - low)
                whole += units * (kept * (low + limit) / 2 + (1 - kept) * limit)
        return whole


def _thinning(seen: Sequence[Ends]) -> tuple[Ends, ...]:
    """What probably lies behind the last bucket that passes: units go on thinning out as they did before it.

    If they thinned out faster and faster, they go on doing that, too.
    """
    if len(seen) < 2:
        return ()
    low, high, units = seen[-1]
    counts = [max(1.0, n) for _, _, n in seen[-3:]]
    ratio = min(THINNEST, counts[-1] / counts[-2])
    faster = min(1.0, ratio * counts[-3] / counts[-2]) if len(counts) > 2 else 1.0
    tail = []
    for k in range(1, TAIL + 1):
        units *= ratio * faster**k
        tail.append((low * 2**k, high * 2**k, units))
    return tuple(tail)


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on one unit's total, and in one group: what it cuts, and how far a unit then moves what is measured."""

    most: Fraction
    peak: Fraction | None
    cut: float
    size: float


@dataclass(frozen=True, slots=True)
class Lost:
    """What a limit cuts of a number, how far a unit moves it then, and how much of it there is in all cells."""

    cut: float
    size: float
    total: float


NOTHING = Lost(0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one mechanism where so many statistics share ε, for a unit that moves each of them by 1."""

    cells: int
    deviation: float
    pure: bool

    def bounds(self, totals: Sizes, peaks: Sizes | None) -> list[Bound]:
        """The bounds on a sum to choose from: none of them cuts more than another without having less noise."""
        limits = totals.options
        found = [Bound(most, None, cut, float(most)) for most, cut in limits]
        if not self.pure and peaks is not None and peaks.seen:
            within = peaks.options
            for most, cut in limits:
                for peak, more in within:
                    if peak < most:  # Theorem TOTALS-1: ‖v‖₂² ≤ total · peak
                        found.append(Bound(most, peak, 1 - (1 - cut) * (1 - more), sqrt(most) * sqrt(peak)))
        best, least = [], inf
        for one in sorted(found, key=lambda b: (b.size, b.cut)):
            if one.cut < least:
                best.append(one)
                least = one.cut
        return best

    def of_count(self, rows: Lost) -> float:
        """Of a count, or of a sum by itself: what is cut, and the noise."""
        return rows.cut**2 + self._relative(rows.size, rows.total)

    def of_sums(self, asked: Sequence[Argument], bound: Bound, whole: float, rows: Lost) -> float:
        """Of the sums and averages that are made of one sum with this bound."""
        total = Lost(bound.cut, bound.size, whole)
        return sum(self.of_count(total) if a.recipe.one_number else self.of_average(total, rows) for a in asked)

    def of_average(self, total: Lost, rows: Lost) -> float:
        """It is wrong by what its sum loses and its count doesn't, and its noise is relative to what is left."""
        noise = self._of_what_is_left(total.size, total) + self._of_what_is_left(rows.size, rows)
        return (total.cut - rows.cut) ** 2 + (UNLIKE * rows.cut) ** 2 + noise

    def of_joint_count(self, rows: Lost) -> float:
        """Of a count that is read off a joint statistic (Theorem JOINT-1): the sum of its two columns."""
        return rows.cut**2 + self._relative(sqrt(2) * rows.size, rows.total)

    def by_range(self, argument: Argument, rows: Lost, total: float) -> float:
        """Of a sum or an average whose range bounds it, measured together with its count (Theorem JOINT-1)."""
        assert argument.value is not None
        low, high = argument.value.range.low, argument.value.range.high
        assert isinstance(low, Fraction) and isinstance(high, Fraction)
        mean = 0.0 if argument.recipe.one_number else total / rows.total
        spread = rows.size * hypot(float(high) - mean, float(low) - mean)
        if argument.recipe.one_number:
            return rows.cut**2 + self._relative(spread, total)
        return (UNLIKE * rows.cut) ** 2 + self._of_what_is_left(spread, Lost(rows.cut, rows.size, total))

    def _of_what_is_left(self, size: float, lost: Lost) -> float:
        """The same, relative to what a limit leaves; infinite where that is as good as nothing."""
        left = (1 - lost.cut) ** 2
        return self._relative(size, lost.total) / left if left > TINY else inf

    def _relative(self, size: float, total: float) -> float:
        """The squared error of a cell of average size, relative to that."""
        return min(HUGE, self.deviation * (size / max(TINY, total)) * self.cells) ** 2


def noises_of(one: CheckedRelease, ask: Ask, statistics: int) -> Iterator[Noise]:
    """The noise of each mechanism that may be chosen for a release of so many statistics."""
    unit = one.bounding.contribution
    twice = 2 if unit.replace and unit.keyed else 1
    for split, _ in splits_of(ask, one.private_keys):
        size = Sensitivity(Fraction(twice), Fraction(twice))
        yield Noise(one.cells or 1, sqrt(split.variances([size] * max(1, statistics))[0]), split.noise.pure)
