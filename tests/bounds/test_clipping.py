"""From noisy counts to a limit and to what it cuts: near the best fixed limit, and held by the interval."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import inf, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsql.aggregates import clipping_bias
from dpsql.aggregates.clipping_bias import UNKNOWN, Clipping, ClippingBias
from dpsql.bounds.clipping import choose_limit, clipping_of
from dpsql.bounds.tails import ROWS, SIZES, Ladder, Tail, fit

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Floats]
CONFIDENCE = 0.95


def tail_of(amounts: Floats, noise: float, random: np.random.Generator, ladder: Ladder = ROWS) -> Tail:
    """The curves through the noisy histogram of these units."""
    places = np.minimum(np.searchsorted(ladder.tops, amounts), ladder.buckets - 1)
    counts = np.bincount(places, minlength=ladder.buckets) + random.laplace(0, noise, ladder.buckets)
    return fit(counts.tolist(), noise, ladder)


def share_of(epsilon: float) -> float:
    return 0.25 if epsilon <= 0.3 else 0.2 if epsilon <= 1 else 0.1


def lognormal(units: int, mean: float, sigma: float, most: float = inf) -> Draw:
    return lambda random: np.minimum(np.ceil(random.lognormal(mean, sigma, units)), most)


def together(*parts: Draw) -> Draw:
    return lambda random: np.concatenate([part(random) for part in parts])


SHAPES: dict[str, Draw] = {
    "one row each": lambda random: np.ones(3_000),
    "a dozen at most": lambda random: np.minimum(random.geometric(0.35, 1_400), 12).astype(float),
    "geometric": lambda random: random.geometric(0.12, 9_000).astype(float),
    "lognormal": lognormal(15_000, 1.2, 0.9),
    "wide lognormal": lognormal(40_000, 0.8, 1.4, 4_000),
    "Poisson": lambda random: 1 + random.poisson(18, 5_000).astype(np.float64),
    "flat": lambda random: random.integers(1, 61, 2_500).astype(float),
    "steps of a week": lambda random: 7 * random.integers(1, 9, 6_000).astype(np.float64),
    "power law": lambda random: np.ceil(random.pareto(2.2, 30_000) + 1),
    "capped power law": lambda random: np.minimum(np.ceil(random.pareto(1.2, 20_000) + 1), 90),
    "two kinds": together(
        lambda random: 1 + random.poisson(2, 12_000).astype(np.float64),
        lambda random: random.integers(80, 160, 600).astype(np.float64),
    ),
    "Weibull": lambda random: np.ceil(9 * random.weibull(0.7, 8_000)),
}


def answers(shape: str, epsilon: float, repeats: int) -> tuple[float, float]:
    """The root mean square error, to that of the best fixed limit with all of epsilon, and how often it was held."""
    draw, share = SHAPES[shape], share_of(epsilon)
    random = np.random.default_rng([len(shape), int(100 * epsilon)])
    off, held = [], []
    amounts = draw(random)
    truth = float(amounts.sum())
    for _ in range(repeats):
        tail = tail_of(amounts, 1 / (share * epsilon), random)
        per_row = 1 / ((1 - share) * epsilon)
        limit = choose_limit(tail, ROWS.tops.tolist(), per_row, 16.0)
        answer = float(np.minimum(amounts, limit).sum() + random.laplace(0, limit * per_row))
        half = limit * per_row * log(1 / (1 - CONFIDENCE))
        grown = clipping_of(tail, limit).at_most(CONFIDENCE, half)
        off.append(answer - truth)
        held.append(answer - half <= truth <= answer + half + grown)
    limits = np.arange(1, 2 + int(amounts.max()))
    cuts = np.array([np.maximum(amounts - limit, 0).sum() for limit in limits])
    best = float(np.hypot(cuts, sqrt(2) * limits / epsilon).min())
    return float(np.sqrt(np.mean(np.square(off)))) / best, float(np.mean(held))


def test_limits_are_near_the_best_and_intervals_hold_on_shapes_that_nobody_tuned_to() -> None:
    found = {(shape, e): answers(shape, e, 5) for shape in SHAPES for e in (0.3, 1.0, 3.0)}
    errors, held = (np.array([one[i] for one in found.values()]) for i in (0, 1))
    assert np.median(errors) < 2.2 and np.quantile(errors, 0.9) < 4
    assert held.mean() >= 0.9


# ---------------------------------------------------------------- what is monotone


LIMITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 2**20)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_larger_limit_cuts_no_more(shape: str) -> None:
    random = np.random.default_rng(len(shape))
    tail = tail_of(SHAPES[shape](random), 5.0, random)
    clippings = [clipping_of(tail, limit) for limit in LIMITS]
    for part in (
        [c.about for c in clippings],
        [c.share for c in clippings],
        [c.times for c in clippings],
        [c.at_most(CONFIDENCE) for c in clippings],
        [c.at_most(CONFIDENCE, 50.0) for c in clippings],
    ):
        assert part == sorted(part, reverse=True)
    kept = [c.kept for c in clippings]
    assert kept == sorted(kept)


@pytest.mark.parametrize("noise", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_more_confidence_widens_no_less(shape: str, noise: float) -> None:
    """Of half a width of noise, which itself is larger for more confidence."""
    random = np.random.default_rng(len(shape))
    clipping = clipping_of(tail_of(SHAPES[shape](random), 5.0, random), 8)
    asked = (0.5, 0.8, 0.9, 0.95, 0.99)
    ends = [half + clipping.at_most(c, half) for c in asked for half in [noise * log(1 / (1 - c))]]
    assert ends == sorted(ends)
    assert all(clipping.at_most(c, noise) >= 0 for c in asked)


def test_more_noise_takes_a_smaller_limit() -> None:
    random = np.random.default_rng(8)
    tail = tail_of(SHAPES["wide lognormal"](random), 2.0, random)
    chosen = [choose_limit(tail, ROWS.tops.tolist(), noise) for noise in (0.1, 1, 10, 100, 1000)]
    assert chosen == sorted(chosen, reverse=True) and chosen[0] > chosen[-1]


def test_next_to_no_noise_takes_a_limit_that_cuts_nothing() -> None:
    tail = tail_of(np.repeat([1.0, 5.0, 40.0], 500), 1e-5, np.random.default_rng(16))
    assert [choose_limit(tail, ROWS.tops.tolist(), noise) for noise in (1e-6, 1e-12, 0.0)] == [45, 45, 45]


def test_the_limit_is_one_of_those_that_may_be_chosen() -> None:
    random = np.random.default_rng(9)
    tail = tail_of(SHAPES["geometric"](random), 2.0, random)
    assert choose_limit(tail, [5.0], 1.0) == 5
    assert choose_limit(tail, [1.0, 2.0, 3.0], 0.01) == 3  # the steward's most
    assert choose_limit(tail, [7.0, 1000.0], 1.0) in (7, 1000)


# ---------------------------------------------------------------- what is cut


def test_an_interval_holds_units_at_the_top_of_their_bucket() -> None:
    """A limit of 16 and 3,000 units of n rows: with the middles of buckets none held at 22, 30, 32, 45 and 60."""
    random = np.random.default_rng(10)
    for rows in (17, 22, 23, 24, 30, 32, 45, 60, 64):
        amounts = np.full(3_000, float(rows))
        cut = float((amounts - 16).sum())
        grown = clipping_of(tail_of(amounts, 5.0, random), 16).at_most(CONFIDENCE, 50.0)
        assert cut <= grown <= 1.1 * 3_000 * (rows * sqrt(2) + 1 - 16)


def test_what_is_cut_is_about_what_was_cut() -> None:
    random = np.random.default_rng(11)
    for shape in ("lognormal", "flat", "Weibull", "Poisson"):
        amounts = SHAPES[shape](random)
        clipping = clipping_of(tail_of(amounts, 5.0, random), 8)
        share = 1 - np.minimum(amounts, 8).sum() / amounts.sum()
        assert clipping.share == pytest.approx(share, rel=0.25)
        assert clipping.about + clipping.kept == pytest.approx(amounts.sum(), rel=0.15)


def test_points_are_a_distribution_in_ascending_order() -> None:
    random = np.random.default_rng(12)
    clipping = clipping_of(tail_of(SHAPES["lognormal"](random), 5.0, random), 11)
    weights, amounts = zip(*clipping.points, strict=True)
    assert sum(weights) == pytest.approx(1) and min(weights) >= 0
    assert list(amounts) == sorted(amounts) and amounts[0] >= 0


def test_the_interval_leaves_above_it_what_was_asked_for() -> None:
    """Against draws of what was cut with noise, from the same points."""
    random = np.random.default_rng(13)
    clipping = clipping_of(tail_of(SHAPES["power law"](random), 5.0, random), 8)
    weights, amounts = (np.array(part) for part in zip(*clipping.points, strict=True))
    for half in (5.0, 300.0, 20_000.0):
        scale = half / log(1 / (1 - CONFIDENCE))
        drawn = random.choice(amounts, 200_000, p=weights) + random.laplace(0, scale, 200_000)
        above = float((drawn > half + clipping.at_most(CONFIDENCE, half)).mean())
        assert above == pytest.approx((1 - CONFIDENCE) / 2, abs=0.003)


def test_groups_that_are_left_out_are_cut_by_a_function_of_ones_own() -> None:
    """Half of the groups of a unit of twice the limit, of each cell that it is in."""
    counts = np.zeros(ROWS.buckets)
    counts[5] = 4_000.0  # eight groups each
    tail = fit(counts.tolist(), 1.0, ROWS)
    cut = clipping_of(tail, 4, lambda groups: np.maximum(groups - 4, 0) / groups)
    assert 2_000 <= cut.at_most(CONFIDENCE) < 2_300
    assert clipping_of(tail, 8, lambda groups: np.maximum(groups - 8, 0) / groups).at_most(CONFIDENCE) < 100


# ---------------------------------------------------------------- where nothing is clear


@pytest.mark.parametrize("seed", range(8))
def test_where_nothing_is_clear_the_cut_is_unknown_and_the_limit_no_smaller_than_the_seed(seed: int) -> None:
    tail = tail_of(np.full(20, 3.0), 10.0, np.random.default_rng(seed))
    assert not tail.clear
    for limit in (1, 16, 2**20):
        assert clipping_of(tail, limit) is UNKNOWN
    assert choose_limit(tail, ROWS.tops.tolist(), 1.0, 16.0) >= 16
    assert choose_limit(tail, [1.0, 2.0, 5.0], 1.0, 16.0) == 5  # the most that is allowed


def test_what_is_unknown_has_no_upper_end_and_makes_the_whole_unknown() -> None:
    assert not UNKNOWN.known and UNKNOWN.at_most(CONFIDENCE) == inf == UNKNOWN.at_most(0.5, 1000.0)
    known = Clipping(1.0, 9.0, 2.0, ((1.0, 1.0),))
    assert ClippingBias((known,)).known and not ClippingBias((known, UNKNOWN)).known
    assert not ClippingBias((), UNKNOWN).known and ClippingBias((), UNKNOWN).cuts
    nothing = Clipping(0.0, 9.0, 1.0, ((1.0, 0.0),))
    assert nothing.at_most(CONFIDENCE) == pytest.approx(0, abs=1e-9) and not ClippingBias((nothing,), nothing).cuts


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_sizes_are_limited_and_held_as_rows_are(epsilon: float) -> None:
    """Sizes are no whole numbers, and reach over many octaves."""
    random, share = np.random.default_rng(14), share_of(epsilon)
    amounts = random.lognormal(2, 1, 20_000)
    held, off = [], []
    for _ in range(12):
        tail = tail_of(amounts, 1 / (share * epsilon), random, SIZES)
        noise = 1 / ((1 - share) * epsilon)
        limit = choose_limit(tail, SIZES.tops.tolist(), noise)
        half = limit * noise * log(1 / (1 - CONFIDENCE))
        answer = np.minimum(amounts, limit).sum() + random.laplace(0, limit * noise)
        off.append(answer - amounts.sum())
        held.append(-half <= -off[-1] <= half + clipping_of(tail, limit).at_most(CONFIDENCE, half))
    limits = np.geomspace(1, amounts.max(), 200)
    cuts = np.array([np.maximum(amounts - limit, 0).sum() for limit in limits])
    best = np.hypot(cuts, sqrt(2) * limits / epsilon).min()
    assert np.sqrt(np.mean(np.square(off))) < 3 * best and sum(held) >= 10


# ---------------------------------------------------------------- pure functions


def test_choices_and_cuts_are_functions_of_noisy_counts_and_public_numbers() -> None:
    """What a limit is and what it cuts is the same for all data with equal noisy counts."""
    assert list(inspect.signature(choose_limit).parameters) == ["tail", "limits", "noise_per_unit", "unseen", "enough"]
    assert list(inspect.signature(clipping_of).parameters) == ["tail", "limit", "amounts"]
    assert list(inspect.signature(Clipping.at_most).parameters) == ["self", "confidence", "noise"]
    random = np.random.default_rng(15)
    tail = tail_of(SHAPES["flat"](random), 5.0, random)
    before = tail.units.copy(), tail.weights.copy()
    first = choose_limit(tail, ROWS.tops.tolist(), 1.0), clipping_of(tail, 8)
    clipping_bias._at_most.cache_clear()
    assert first == (choose_limit(tail, ROWS.tops.tolist(), 1.0), clipping_of(tail, 8))
    assert (tail.units == before[0]).all() and (tail.weights == before[1]).all()
