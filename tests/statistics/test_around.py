"""Intervals around chosen values: their ends are where their margins say, and they hold the exact value."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.grid import Grid
from dpsql.core.sensitivity import Contribution
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.around import ENDS_SHARE, OUTER, Around, ladder
from dpsql.statistics.base import Value
from dpsql.statistics.ranks import Extreme, Quantiles, below_each

POINTS = 2**10
X = Value("x", Grid(Fraction(1), 0, POINTS - 1, "integer"), False, "x")
ONE = Contribution(Fraction(1), Fraction(1), Fraction(1))
HALF = Fraction(1, 2)
NO_NOISE = NoisyMax(Fraction(0))
SHAPES = {
    "uniform": lambda random, n: random.integers(0, POINTS, n),
    "lognormal": lambda random, n: np.minimum(random.lognormal(4, 1, n).astype(int), POINTS - 1),
    "ties": lambda random, n: random.poisson(3, n) * 50,
    "two clusters": lambda random, n: np.where(random.random(n) < 0.5, 100, 900) + random.integers(0, 20, n),
}


def below(values: list[int]) -> np.ndarray:
    found, counts = np.unique(values, return_counts=True)
    return below_each(found, counts.astype(np.int64), np.array([len(found)]), 0, POINTS, 1)


def around(share: Fraction, spare: int = 0) -> Around:
    return Around(share, Fraction(max(share.numerator, share.denominator - share.numerator)), 1, spare)


def test_distances_grow_from_none_to_the_whole_grid() -> None:
    for points in (1, 2, 3, 100, 2**20):
        found = ladder(points)
        assert found[0] == 0 and found[-1] == points - 1 and len(set(found)) == len(found)
        steps = found[found >= 8]
        assert np.all(steps[1:] <= 1.25 * steps[:-1])


def test_without_noise_it_is_the_nearest_distance_that_holds_the_rank() -> None:
    rows = list(range(100, 300))
    for share, exact in ((HALF, 200), (Fraction(1, 4), 150), (Fraction(3, 4), 250)):
        under, over = around(share).choose(NO_NOISE, below(rows), np.array([exact]))
        assert exact - 2 <= under[0] <= exact <= over[0] <= exact + 2


def test_rows_that_may_be_cut_are_held_on_either_side() -> None:
    rows = list(range(100, 300))
    for spare in (10, 40):
        under, over = around(HALF, spare).choose(NO_NOISE, below(rows), np.array([200]))
        for lower in range(spare + 1):  # so many of the cut rows lie below all others, the rest above
            exact = float(np.median([0] * lower + rows + [999] * (spare - lower)))
            assert under[0] <= exact <= over[0]
        assert over[0] - under[0] <= 2 * (1.25 * (spare / 2 + 1) + 1)


def test_where_rows_are_few_it_is_the_whole_grid_or_open_to_one_end() -> None:
    noise = NoisyMax(Fraction(10))
    under, over = around(HALF).choose(noise, below([500] * 4), np.array([500]))
    assert (under[0], over[0]) == (0, POINTS - 1)
    rows = list(range(200)) + [600] * 3000 + list(range(700, 720))
    under, over = around(Fraction(99, 100)).choose(noise, below(rows), np.array([650]))
    assert over[0] == POINTS - 1 and 0 < under[0] <= 600


@pytest.mark.parametrize("share", [HALF, Fraction(1, 10), OUTER, Fraction(99, 100)])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_the_exact_value(shape: str, share: Fraction) -> None:
    """95% of them; each fails by chance with less than 1 in 100,000 where it holds 95% of 150."""
    random, held, times = np.random.default_rng(11), 0, 150
    choice = Quantiles(X, None, (share,), 1, False, "", (share,))
    noise = NoisyMax.calibrate(choice.sensitivity(ONE), Fraction(1))
    for n in (60, 600, 6000):
        for _ in range(times // 3):
            rows = SHAPES[shape](random, n)
            found, counts = np.unique(rows, return_counts=True)
            _, under, over, spare = choice.choose(noise, found, counts.astype(np.int64), np.array([len(found)]))
            held += bool(under[0] <= np.quantile(rows, float(share)) <= over[0])
            assert spare[0] == 0
    assert held >= 0.82 * times


@pytest.mark.parametrize("greatest", [False, True])
def test_the_extreme_lies_beyond_what_was_chosen(greatest: bool) -> None:
    random, held, times = np.random.default_rng(12), 0, 150
    choice = Extreme(X, None, greatest, 1, False)
    noise = NoisyMax.calibrate(choice.sensitivity(ONE), Fraction(1))
    for n in (5, 100, 5000):
        for _ in range(times // 3):
            rows = random.integers(300, 600, n)
            found, counts = np.unique(rows, return_counts=True)
            (chosen,) = choice.choose(noise, found, counts.astype(np.int64), np.array([len(found)]))
            held += bool(chosen[0] <= rows.max() if greatest else chosen[0] >= rows.min())
    assert held >= 0.82 * times


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_ends_take_their_share_of_the_loss_however_many_there_are(count: int) -> None:
    at = tuple(Fraction(i + 1, count + 1) for i in range(count))
    alone, bounded = Quantiles(X, None, at, 1, False), Quantiles(X, None, at, 1, False, "", at)
    assert bounded.sensitivity(ONE).l1 == alone.sensitivity(ONE).l1 / (1 - ENDS_SHARE)
    unscaled = [Fraction(max(q.numerator, q.denominator - q.numerator)) for q in at]
    ends = sum(2 * most / bounded._around(q).factor for q, most in zip(at, unscaled, strict=True))
    assert ends + alone.sensitivity(ONE).l1 == bounded.sensitivity(ONE).l1
