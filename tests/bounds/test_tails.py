"""Curves through the tail of a noisy histogram: pure functions of noisy counts, and right about what lies behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from math import inf, sqrt

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.bounds import tails
from dpsql.bounds.histograms import _bucket, _bucket_of_whole, _steps_of_size
from dpsql.bounds.tails import CLEAR_BUCKET, CLEAR_GROUP, ROWS, SIZES, Ladder, Tail, fit

Floats = NDArray[np.float64]
NOISE = 5.0  # an ε of 1 and a share of a fifth


def histogram(amounts: Floats, ladder: Ladder = ROWS) -> Floats:
    """How many units there are in each bucket, computed from the tops alone."""
    places = np.minimum(np.searchsorted(ladder.tops, amounts), ladder.buckets - 1)
    return np.bincount(places, minlength=ladder.buckets).astype(np.float64)


def noisy(amounts: Floats, seed: int, noise: float = NOISE, ladder: Ladder = ROWS) -> Tail:
    counts = histogram(amounts, ladder) + np.random.default_rng(seed).laplace(0, noise, ladder.buckets)
    return fit(counts.tolist(), noise, ladder)


# ---------------------------------------------------------------- buckets


def test_tops_of_whole_numbers_are_half_octaves_and_each_is_reached() -> None:
    assert ROWS.tops[:12].tolist() == [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64]
    assert len(ROWS.tops) == ROWS.buckets == 40 and ROWS.tops[-1] == 2**20
    assert (np.diff(ROWS.tops) >= 1).all() and (ROWS.tops == np.round(ROWS.tops)).all()


def test_tops_of_sizes_are_powers_of_the_root_of_two() -> None:
    assert len(SIZES.tops) == SIZES.buckets == 64
    assert SIZES.tops[0] == 1 and np.allclose(SIZES.tops[1:] / SIZES.tops[:-1], sqrt(2))


@pytest.mark.parametrize("ladder", [ROWS, SIZES])
def test_the_middle_of_a_bucket_lies_in_it(ladder: Ladder) -> None:
    below = np.r_[0, ladder.tops[:-1]]
    assert ((below < ladder.middles) & (ladder.middles <= ladder.tops)).all()


def buckets_in_sql(expression: str, values: Floats) -> NDArray[np.int64]:
    """What the histogram's key is for each value, as the engine computes it."""
    with duckdb.connect() as plain:
        plain.execute("CREATE MACRO clip(x, low, high) AS greatest(low, least(high, x))")
        plain.register("given", {"n": values})
        found = plain.execute(f"SELECT {expression} AS bucket FROM given").fetchnumpy()["bucket"]
        return np.asarray(found, dtype=np.int64)


def test_the_engine_puts_whole_numbers_into_the_ladders_buckets_around_every_edge() -> None:
    """Up to 2^21, which is beyond the last edge: the last bucket is open, so that each unit has a vote."""
    edges = np.r_[ROWS.tops, 2.0**20 * np.array([1.1, sqrt(2), 1.9, 2])]
    near = np.unique(np.round(edges[:, None] + np.arange(-2, 3)))
    numbers = np.r_[np.arange(1, 2**12 + 1), near[near >= 1]]
    found = buckets_in_sql(_bucket_of_whole("n").sql(dialect="duckdb"), numbers)
    expected = np.minimum(np.searchsorted(ROWS.tops, numbers), ROWS.buckets - 1)
    assert found.tolist() == expected.tolist()
    assert found.max() == ROWS.buckets - 1


def test_the_engine_puts_sizes_into_the_ladders_buckets_and_no_size_is_left_out() -> None:
    bucket = _bucket(_steps_of_size(exp.column("n")), SIZES)
    inner = SIZES.tops[1:-1]  # beside an edge, not on it: rounding may decide there
    sizes = np.r_[0, 0.3, 1, (inner * (1 - 1e-9)), inner * (1 + 1e-9), 2.0**40, 1e300]
    found = buckets_in_sql(bucket.sql(dialect="duckdb"), sizes)
    expected = np.minimum(np.searchsorted(SIZES.tops, sizes), SIZES.buckets - 1)
    assert found.tolist() == expected.tolist()
    odd = buckets_in_sql(bucket.sql(dialect="duckdb"), np.array([inf]))
    assert odd.tolist() == [SIZES.buckets - 1]


# ---------------------------------------------------------------- curves


@pytest.mark.parametrize("ladder", [ROWS, SIZES])
@pytest.mark.parametrize("start", [0, 1, 7, 30, -1])
def test_a_curve_is_a_tail_that_begins_with_one_unit_and_priors_are_a_distribution(ladder: Ladder, start: int) -> None:
    start %= ladder.buckets
    curves, log_prior = tails._curves(ladder, start)
    assert curves.shape == (len(log_prior), ladder.buckets - start)
    assert np.isfinite(curves).all() and (curves >= 0).all()
    assert np.exp(log_prior).sum() == pytest.approx(1)
    if start < ladder.buckets - 1:  # one of a cap right at the start would hold all units there
        assert np.allclose(curves[:, 0], 1)


def test_the_curves_weights_add_up_and_below_the_start_the_counts_stand() -> None:
    tail = noisy(np.random.default_rng(1).geometric(0.3, 8_000).astype(float), 2)
    assert tail.weights.sum() == pytest.approx(1) and (tail.weights > 0).all()
    assert (tail.units[:, : tail.start] == tail.units[0, : tail.start]).all() and (tail.units >= 0).all()
    assert tail.mean.shape == (ROWS.buckets,)


def test_what_is_read_off_is_a_function_of_the_counts_and_the_noise_alone() -> None:
    """No connection, engine or exact count is among the arguments; and asked again, the same."""
    assert list(inspect.signature(fit).parameters) == ["counts", "noise", "ladder"]
    counts = (histogram(np.repeat([1.0, 5.0, 40.0], [900, 300, 100])) + 3).tolist()
    first = fit(counts, NOISE, ROWS)
    tails._fit.cache_clear()
    again = fit(tuple(counts), NOISE, ROWS)
    assert first.start == again.start and first.clear == again.clear
    assert (first.weights == again.weights).all() and (first.units == again.units).all()


# ---------------------------------------------------------------- where the tail starts, and what is evidence


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_evidence(seed: int) -> None:
    """Of 20 histograms without units each passes CLEAR_GROUP with a chance of a few in a thousand."""
    assert not noisy(np.zeros(0), seed).clear


@pytest.mark.parametrize("noise", [1.0, 5.0, 40.0, 1000.0])
@pytest.mark.parametrize("place", [0, 3, 12])
def test_evidence_is_measured_in_noise_scales(noise: float, place: int) -> None:
    units = np.zeros(ROWS.buckets)
    units[place] = CLEAR_BUCKET * noise
    assert fit(units.tolist(), noise, ROWS).clear
    units[place] = (CLEAR_GROUP - 1) * noise
    assert not fit(units.tolist(), noise, ROWS).clear


def test_the_tail_starts_at_the_last_clear_bucket() -> None:
    units = np.zeros(ROWS.buckets)
    units[[0, 2, 5]] = 5000, 3000, 25 * NOISE
    assert fit(units.tolist(), NOISE, ROWS).start == 5


def test_another_group_of_people_far_behind_is_found() -> None:
    """Seventeen noise scales of people with a hundred times the rows of all others: no curve would have them."""
    found = []
    for seed in range(10):
        amounts = np.r_[np.random.default_rng(seed).integers(1, 6, 4_000), np.full(85, 300)].astype(float)
        tail = noisy(amounts, seed)
        found.append(tail.ladder.tops[tail.start] == 362 and abs(tail.mean[tail.start] - 85) < 6 * NOISE)
    assert sum(found) >= 8


def test_what_lies_behind_is_not_taken_for_nothing() -> None:
    """One thin bucket hid all that lies behind it: a power law that sinks into the noise goes on below it."""
    amounts = np.ceil(np.random.default_rng(4).pareto(1.5, 20_000) + 1)
    tail = noisy(amounts, 5)
    far = tail.ladder.tops > 100
    assert 0.3 * (amounts > 100).sum() < tail.mean[far].sum() < 3 * (amounts > 100).sum()


@pytest.mark.parametrize(
    "draw",
    [
        lambda random: random.geometric(0.25, 10_000),
        lambda random: np.ceil(random.lognormal(1, 1, 10_000)),
        lambda random: random.integers(1, 30, 10_000),
        lambda random: np.full(10_000, 7),
        lambda random: np.minimum(random.zipf(1.6, 10_000), 200),
    ],
    ids=["geometric", "lognormal", "flat", "constant", "capped"],
)
def test_nearly_nobody_has_more_than_the_largest(draw: Callable[[np.random.Generator], Floats]) -> None:
    """`largest` bounds the cells: at 0.99 it lies at or above all units in at least 8 of 10 draws, not far above."""
    held, ratios = 0, []
    for seed in range(10):
        amounts = draw(np.random.default_rng(seed)).astype(float)
        largest = noisy(amounts, 100 + seed).largest(0.99)
        held += largest >= amounts.max()
        ratios.append(largest / amounts.max())
    assert held >= 8 and np.median(ratios) < 12


def test_the_largest_grows_with_the_probability() -> None:
    tail = noisy(np.ceil(np.random.default_rng(6).lognormal(1, 1, 3_000)), 7)
    found = [tail.largest(p) for p in (0.01, 0.3, 0.6, 0.9, 0.99, 0.9999, 1.0)]
    assert found == sorted(found)
