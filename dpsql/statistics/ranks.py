"""Quantiles and extremes: one candidate of a public grid, chosen by how far its rank is from the one asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from dpsql.core.arrays import Places, positions, top
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.sampler import Scores
from dpsql.statistics.around import ENDS_SHARE, MISS, Around
from dpsql.statistics.base import Integers, Making, Quantity, Spectrum, Tally, Value

_SAFE = 2**61
MAX_PARTS = 2**10  # into which the rows of one value are cut where several quantiles meet in it


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The values at these shares of the rows, in their order; each candidate stands for itself `parts` times.

    The middle one is chosen first, then those below it among the values up to it, and those above among the rest, so
    that a row is looked at once on each of the levels. A value that many rows share is cut where the choice falls.
    Then the ends of an interval are chosen around each of those that are to have one.
    """

    value: Value
    where: str | None
    at: tuple[Fraction, ...]  # ascending, between 0 and 1
    parts: int
    single: bool  # in one cell, under replace_one
    where_text: str = ""
    bounded: tuple[Fraction, ...] = ()  # those of `at` that get an interval
    weight: int = 1  # the integer that stands for one whole row
    spare: int = 0  # rows that limits may have cut: released before, so that intervals can hold them

    kinds = ("quantile",)
    tallies: tuple[Tally, ...] = ()

    @classmethod
    def of(cls, needs: Iterable[Quantity], making: Making) -> Iterator[Quantiles]:
        """All quantiles of one value together."""
        shares: dict[tuple[Value, str | None], set[Fraction]] = {}
        bounded: dict[tuple[Value, str | None], set[Fraction]] = {}
        for need in needs:
            if need.kind in cls.kinds:
                assert need.value is not None and need.at is not None
                shares.setdefault((need.value, need.where), set()).add(need.at)
            if need.kind == "spare":
                assert need.value is not None and need.at is not None
                bounded.setdefault((need.value, need.where), set()).add(need.at)
        for (value, where), at in shares.items():
            parts = 1 if len(at) == 1 else max(1, min(MAX_PARTS, making.candidates // (value.grid.span + 1)))
            ends = tuple(sorted(bounded.get((value, where), ())))
            text, weight = making.where_text[where], making.weight
            yield cls(value, where, tuple(sorted(at)), parts, making.single, text, ends, weight)

    @property
    def width(self) -> int:
        return len(self.at) + 3 * len(self.bounded)

    @property
    def spectrum(self) -> Spectrum:
        return Spectrum(self.value.column, self.where)

    @property
    def levels(self) -> int:
        return len(self.at).bit_length()

    @property
    def title(self) -> str:
        shares = ", ".join(f"{float(q):g}" for q in self.at)
        return f"value of {self.value.text} at {shares} of the rows{self.where_text}"

    @property
    def points(self) -> int:
        return self.value.grid.span + 1

    @property
    def candidates(self) -> int:
        return self.points * self.parts

    @property
    def reach(self) -> Fraction:
        """The largest factor of a choice's noise."""
        own = max(f for *_, f in self._choices())
        return max([own, *(self._around(share).factor for share in self.bounded)])

    def ranks(self, distance: float) -> float:
        # A score is a distance of ranks in denominators and parts; each level adds its own.
        worst = max(float(f) / (share.denominator * self.parts) for *_, share, f in self._choices())
        return distance * worst * self.levels

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem QUANTILE-1. On each level a unit's rows are divided over the choices: their losses add up to 2 · mass.
        # Theorem QUANTILE-2: the ends of all intervals lose ENDS_SHARE of the whole.
        return unit.ranks(self.levels / (1 - ENDS_SHARE) if self.bounded else Fraction(self.levels))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        raise AssertionError("a choice is no number that noise could be added to")

    def choose(self, noise: NoisyMax, values: Integers, counts: Integers, lengths: Places) -> list[Places]:
        """The chosen integers of the grid in each cell, given which values occur in it and how often."""
        below = below_each(values, counts, lengths, self.value.grid.low, self.points, self.parts)
        # Where each choice fell, cell by cell.
        ends = {-1: np.full(len(lengths), -1), len(self.at): np.full(len(lengths), self.candidates)}
        for index, left, right, share, factor in self._choices():
            # Rows of this choice: after the left one and up to the right one; candidates include both.
            start, first = np.maximum(0, ends[left]), ends[left] + 1
            end = np.minimum(self.candidates, ends[right] + 1)
            picked = noise.picks(rank_distance(below, start, end, first, share), end - start, factor)
            ends[index] = start + picked
        places = [ends[i] // self.parts for i in range(len(self.at))]
        whole = below if self.parts == 1 else below[:, :: self.parts] // self.parts
        found = list(places)
        for share in self.bounded:
            found += self._around(share).choose(noise, whole, places[self.at.index(share)])
        low = self.value.grid.low
        spare = [np.full(len(lengths), self.spare, dtype=np.int64)] * len(self.bounded)
        return [low + place for place in found] + spare

    def _around(self, share: Fraction) -> Around:
        """The choice of the ends of the interval around one of the values."""
        # Theorem QUANTILE-2: m of these with noise of m · (1 - s)/(s · levels) times the scale lose s of the whole.
        part = len(self.bounded) * (1 - ENDS_SHARE) / (ENDS_SHARE * self.levels)
        return Around(share, self._most(share, everything=True) * part, self.weight, self.spare)

    def _most(self, share: Fraction, *, everything: bool) -> Fraction:
        """By how much a row moves the scores of a share of rows, in denominators; everything: it is of all rows."""
        # Theorem QUANTILE-1: by at most max(share, 1 − share); in one cell a replaced unit's terms have one range.
        if self.single and everything:
            return Fraction(share.denominator, 2)
        return Fraction(max(share.numerator, share.denominator - share.numerator))

    def _choices(self) -> list[tuple[int, int, int, Fraction, Fraction]]:
        """(which, its neighbours that are chosen before, its share of the rows between them, factor of its noise)."""
        found: list[tuple[int, int, int, Fraction, Fraction]] = []
        waiting = [(-1, len(self.at))]
        while waiting:
            left, right = waiting.pop(0)
            if right - left < 2:
                continue
            middle = (left + right) // 2
            low = self.at[left] if left >= 0 else Fraction(0)
            high = self.at[right] if right < len(self.at) else Fraction(1)
            share = (self.at[middle] - low) / (high - low)
            most = self._most(share, everything=not found)  # the first choice looks at all rows
            found.append((middle, left, right, share, most * self.parts))
            waiting += [(left, middle), (middle, right)]
        return found

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        step = self.value.grid.step
        told = [("quantile", q, step) for q in self.at]
        told += [(kind, q, step) for q in self.bounded for kind in ("lower", "upper")]
        told += [("spare", q, Fraction(1)) for q in self.bounded]
        assert len(told) == self.width
        return {
            Quantity(kind, self.value, self.where, at=q): tuple(
                unit if i == j else Fraction(0) for j in range(self.width)
            )
            for i, (kind, q, unit) in enumerate(told)
        }


@dataclass(frozen=True, slots=True)
class Extreme:
    """About the least or the greatest value: that of a rank so far inside that noise can't leave the data."""

    value: Value
    where: str | None
    greatest: bool
    weight: int  # the integer that stands for one whole row
    single: bool
    where_text: str = ""

    kinds = ("least", "greatest")
    width = 1
    tallies: tuple[Tally, ...] = ()

    @classmethod
    def of(cls, needs: Iterable[Quantity], making: Making) -> Iterator[Extreme]:
        """Extremes one by one."""
        for need in needs:
            if need.kind in cls.kinds:
                assert need.value is not None
                text = making.where_text[need.where]
                yield cls(need.value, need.where, need.kind == "greatest", making.weight, making.single, text)

    @property
    def spectrum(self) -> Spectrum:
        return Spectrum(self.value.column, self.where)

    @property
    def title(self) -> str:
        return f"{'greatest' if self.greatest else 'least'} value of {self.value.text}, about{self.where_text}"

    @property
    def points(self) -> int:
        return self.value.grid.span + 1

    @property
    def candidates(self) -> int:
        return self.points

    @property
    def reach(self) -> Fraction:
        return Fraction(1, 2) if self.single else Fraction(1)

    def ranks(self, distance: float) -> float:
        return 2 * distance * float(self.reach)  # the rank that is looked for lies inside by as much

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem QUANTILE-1 with a fixed rank: a row moves each score by at most its weight.
        return unit.ranks(1)

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        raise AssertionError("a choice is no number that noise could be added to")

    def rank(self, noise: NoisyMax) -> int:
        """The rank that is looked for, in integer weights: one row, and so much that no empty candidate wins.

        Theorem QUANTILE-1: a row lies beyond the winner, or is the winner, but with a probability of MISS.
        """
        return self.weight + noise.lead(self.candidates, MISS, self.reach)

    def choose(self, noise: NoisyMax, values: Integers, counts: Integers, lengths: Places) -> list[Places]:
        """The chosen integer of the grid in each cell."""
        grid = self.value.grid
        if self.greatest:  # the least of what is mirrored
            values = grid.low + (grid.high - values)
        below = below_each(values, counts, lengths, grid.low, self.candidates, 1)
        rank = self.rank(noise)
        until = below[:, 1:] - rank
        until[:, -1] = 0  # Theorem QUANTILE-1: at the far end of the range all rows lie, however few there are
        scores = np.minimum(0, np.minimum(until, rank - self.weight - below[:, :-1]))
        picked = noise.picks(scores.reshape(-1), np.full(len(lengths), self.candidates), self.reach)
        return [grid.high - picked if self.greatest else grid.low + picked]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        kind, end, at = ("greatest", "lower", 1) if self.greatest else ("least", "upper", 0)
        same = (Quantity(kind, self.value, self.where), Quantity(end, self.value, self.where, at=Fraction(at)))
        return dict.fromkeys(same, (self.value.grid.step,))


def below_each(values: Integers, counts: Integers, lengths: Places, low: int, size: int, parts: int) -> Scores:
    """How many rows lie below each of size · parts candidates, and below the end; in parts of a row's weight.

    One row of the array for each cell. A candidate's own rows are spread over its parts.
    """
    most = top(counts) * int(lengths.max(initial=0)) * parts
    dense: Scores = np.zeros((len(lengths), size), dtype=np.int64 if most < _SAFE else object)
    dense[np.repeat(np.arange(len(lengths)), lengths), np.asarray(values - low, dtype=np.int64)] = counts
    fine = np.repeat(dense, parts, axis=1) if parts > 1 else dense
    below: Scores = np.zeros((len(lengths), size * parts + 1), dtype=fine.dtype)
    np.cumsum(fine, axis=1, out=below[:, 1:])
    return below


def rank_distance(below: Scores, start: Places, end: Places, first: Places, share: Fraction) -> Scores:
    """Minus how far the rank `share` of the rows in [first, end) is from each candidate in [start, end), cell by cell.

    A candidate covers the ranks of its own rows, so that one with many rows is as good for all of them.
    """
    cells, width = np.arange(len(below)), below.shape[1]
    lengths, lowest = end - start, below[cells, first]
    rows, num, den = below[cells, end] - lowest, share.numerator, share.denominator
    if top(rows) * den >= _SAFE and below.dtype != object:
        below, lowest, rows = below.astype(object), lowest.astype(object), rows.astype(object)
    places = positions(cells * width + start, lengths)
    base, target = (np.asarray(each)[np.repeat(cells, lengths)] for each in (lowest, num * rows))
    before = np.maximum(below.reshape(-1)[places] - base, 0)
    until = np.maximum(below.reshape(-1)[places + 1] - base, 0)
    return np.asarray(np.minimum(0, np.minimum(den * until - target, target - den * before)))
