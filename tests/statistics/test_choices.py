"""Choices in many cells at once are those that each cell has by itself, by the definition of their scores."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpsql import release
from dpsql.backends.base import Counts, Exact
from dpsql.core.arrays import first_largest, positions
from dpsql.core.grid import Grid
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.base import Value
from dpsql.statistics.deviation import Deviation
from dpsql.statistics.ranks import Extreme, Quantiles

LOW, HIGH = -3, 9
X = Value("x", Grid(Fraction(1), LOW, HIGH, "integer"), True, "x")
SHARES = tuple(Fraction(n, 10) for n in (1, 5, 9))
NO_NOISE = NoisyMax(Fraction(0))
Cell = dict[int, int]


def cells(dice: Random, weight: int) -> list[Cell]:
    """How often each value occurs in each of some cells; one of them is empty."""
    some = [{v: dice.randint(1, 9) * weight for v in range(LOW, HIGH + 1) if dice.random() < 0.5} for _ in range(40)]
    return [{}, *some]


def spectrum(found: list[Cell]) -> Counts:
    rows = [(i, v, n) for i, one in enumerate(found) for v, n in one.items()]
    kind = object if any(n >= 2**60 for *_, n in rows) else np.int64
    place, value, count = (np.array([row[j] for row in rows], dtype=kind) for j in range(3))
    return Counts(place.astype(np.int64), value.astype(np.int64), count)


def ranked(one: Cell, share: Fraction) -> int:
    """The first value whose rows cover the rank, or come nearest to it."""
    target = share * sum(one.values())

    def off(v: int) -> Fraction:
        before = sum(n for w, n in one.items() if w < v)
        return max(Fraction(0), target - before - one.get(v, 0), before - target)

    return min(range(LOW, HIGH + 1), key=lambda v: (off(v), v))


def deviation(one: Cell) -> int:
    middle, away = ranked(one, Fraction(1, 2)), dict[int, int]()
    for v, n in one.items():
        away[abs(v - middle) + LOW] = away.get(abs(v - middle) + LOW, 0) + n
    return ranked(away, Fraction(1, 2)) - LOW


def chosen(choice: Any, found: list[Cell]) -> list[np.ndarray]:
    return [column.tolist() for column in choice.choose(NO_NOISE, *spectrum(found).of(np.arange(len(found))))]


@pytest.mark.parametrize("weight", [1, 2**60], ids=["64 bits", "more"])
def test_each_cell_has_the_choice_that_its_own_rows_make(weight: int) -> None:
    found = cells(Random(7), weight)
    for share in SHARES:
        assert chosen(Quantiles(X, None, (share,), 1, False), found) == [[ranked(one, share) for one in found]]
    assert chosen(Deviation(X, None), found) == [[deviation(one) for one in found]]
    least = [min(one, default=HIGH) for one in found]  # of no rows the far end: no row lies beyond it
    greatest = [max(one, default=LOW) for one in found]
    assert chosen(Extreme(X, None, False, weight, False), found) == [least]
    assert chosen(Extreme(X, None, True, weight, False), found) == [greatest]


def test_several_quantiles_of_many_cells_are_those_of_each_cell_alone() -> None:
    found = cells(Random(8), 1)
    choice = Quantiles(X, None, SHARES, 3, False)
    alone = [chosen(choice, [one]) for one in found]
    together = chosen(choice, found)
    assert together == [[one[i][0] for one in alone] for i in range(len(SHARES))]
    for low, middle, high in zip(*together, strict=True):
        assert low <= middle <= high


def test_cells_are_taken_in_blocks_whatever_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    found = cells(Random(9), 1)
    choice = Quantiles(X, None, (Fraction(1, 2),), 1, False)

    exact = Exact({}, spectra={choice.spectrum: spectrum(found)})
    measurement = SimpleNamespace(statistic=choice, noise=NO_NOISE)
    kept = np.array([0, 3, 4, 17, 40])
    for lanes in (1, 30, 10_000):
        monkeypatch.setattr(release, "LANES", lanes)
        (column,) = release._chosen(measurement, exact, kept)  # type: ignore[arg-type]  # all that it looks at
        assert column.tolist() == [ranked(found[i], Fraction(1, 2)) for i in kept]
        (nothing,) = release._chosen(measurement, exact, kept[:0])  # type: ignore[arg-type]
        assert nothing.tolist() == []


def test_lists_of_different_lengths() -> None:
    starts, lengths = np.array([5, 0, 9]), np.array([2, 0, 3])
    assert positions(starts, lengths).tolist() == [5, 6, 9, 10, 11]
    values = np.array([1, 3, 3, 7, 2, 2, 9])
    assert first_largest(values, np.array([3, 1, 3])).tolist() == [1, 0, 2]
    assert first_largest(values.astype(object), np.array([2, 5])).tolist() == [1, 4]
    assert first_largest(values[:6], np.array([3, 3])).tolist() == [1, 0]
