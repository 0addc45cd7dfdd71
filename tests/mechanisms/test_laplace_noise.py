"""Discrete Laplace noise: its ε by enumeration, its tails, its error bounds."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from dpsql.core.cost import Cost
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.certified import NEGLIGIBLE, miss
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

dp.enable_features("contrib")


def moved_by(*shift: int) -> Sensitivity:
    return Sensitivity(Fraction(sum(map(abs, shift))), Fraction(sum(x * x for x in shift)))


def exact_delta(noise: DiscreteLaplace, shift: tuple[int, ...], epsilon: float, reach: int) -> float:
    """Σ (p − e^ε·q)₊ over all outcomes within reach, for statistics that differ by shift."""
    total = 0.0
    for z in itertools.product(range(-reach, reach + 1), repeat=len(shift)):
        p = math.prod(noise.pmf(x) for x in z)
        q = math.prod(noise.pmf(x - s) for x, s in zip(z, shift, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("shift", [(1,), (3,), (1, 1), (2, -1)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
@pytest.mark.sample(3)
def test_the_claimed_epsilon_holds_with_delta_zero_and_no_smaller_one_does(
    shift: tuple[int, ...], epsilon: Fraction
) -> None:
    noise = DiscreteLaplace.calibrate(moved_by(*shift), epsilon)
    reach = 40
    assert noise.cost(moved_by(*shift)) == Cost(epsilon)
    assert exact_delta(noise, shift, float(epsilon), reach) < 1e-13
    assert exact_delta(noise, shift, 0.99 * float(epsilon), reach) > 1e-6
    # A sensitivity that is forgotten by 10% is caught by the same check.
    assert exact_delta(DiscreteLaplace(noise.scale * Fraction(9, 10)), shift, float(epsilon), reach) > 1e-4


def test_opendp_charges_the_same_epsilon() -> None:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    for scale in (0.5, 2.5, 1e6):
        theirs = dp.m.make_laplace(*space, scale=scale).map(3)
        assert float(DiscreteLaplace(Fraction(scale)).cost(moved_by(3)).epsilon) == pytest.approx(theirs, rel=1e-12)


def test_the_charge_is_exact_and_of_the_whole_vector() -> None:
    noise = DiscreteLaplace(Fraction(10, 3))
    assert noise.cost(Sensitivity(Fraction(7), Fraction(49))).epsilon == Fraction(21, 10)


def test_a_statistic_that_no_unit_moves_is_free_and_needs_no_noise() -> None:
    still = Sensitivity(Fraction(0), Fraction(0))
    noise = DiscreteLaplace.calibrate(still, Fraction(1))
    assert noise.scale == 0
    assert noise.cost(still) == DiscreteLaplace(Fraction(1)).cost(still) == Cost(Fraction(0))
    assert not noise.draw(1000).any()
    assert (noise.variance, noise.pmf(0), noise.pmf(1)) == (0, 1, 0)
    assert [noise.tail(0), noise.tail(1), noise.within(0.95, 10)] == [1, 0, 0]


def test_no_noise_on_a_statistic_that_moves_has_no_price() -> None:
    with pytest.raises(ValueError, match="hides nothing"):
        DiscreteLaplace(Fraction(0)).cost(moved_by(1))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)])
def test_epsilon_must_be_positive(epsilon: Fraction) -> None:
    with pytest.raises(ValueError, match="positive"):
        DiscreteLaplace.calibrate(moved_by(1), epsilon)


def test_a_scale_that_cannot_be_drawn_cannot_be_made() -> None:
    with pytest.raises(OverflowError):
        DiscreteLaplace(Fraction(2**50 + 1))
    with pytest.raises(ValueError, match="negative"):
        DiscreteLaplace(Fraction(-1))


@pytest.mark.parametrize("scale", [Fraction(1, 50), Fraction(1, 2), Fraction(1), Fraction(20)])
def test_mass_tail_and_variance_agree(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    mass = {z: noise.pmf(z) for z in range(-1500, 1501)}
    assert math.fsum(mass.values()) == pytest.approx(1, abs=1e-12)
    assert math.fsum(z * z * p for z, p in mass.items()) == pytest.approx(noise.variance, rel=1e-12)
    for t in (-30, -1, 0, 1, 2, 30):
        assert float(noise.tail(t)) == pytest.approx(math.fsum(p for z, p in mass.items() if z >= t), rel=1e-12)


def test_the_draws_have_the_stated_standard_deviation() -> None:
    noise = DiscreteLaplace(Fraction(1))
    assert noise.std == pytest.approx(1.357, abs=5e-4)
    draws = noise.draw(10**6)
    assert float(np.std(draws)) == pytest.approx(noise.std, rel=0.01)
    assert float(np.mean(np.abs(draws))) == pytest.approx(0.851, abs=0.005)
    assert DiscreteLaplace(Fraction(2**40)).std == pytest.approx(math.sqrt(2) * 2**40, rel=1e-12)
    assert DiscreteLaplace(Fraction(1, 10**12)).std == 0


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(2**41)])
def test_a_tail_is_never_below_the_truth_and_hardly_above(scale: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    for times in (1, 2, 30, 600):
        t = max(1, math.ceil(times * scale))
        with localcontext(prec=150):
            rate = Decimal(scale.denominator) / scale.numerator
            truth = Fraction((-t * rate).exp() / (1 + (-rate).exp()))
        assert 1 < noise.tail(t) / truth < 1 + Fraction(1, 10**18)
        assert noise.tail(1 - t) >= 1 - truth


def test_a_tail_beyond_all_digits_is_still_positive() -> None:
    assert DiscreteLaplace(Fraction(1)).tail(10**30) == NEGLIGIBLE
    assert DiscreteLaplace(Fraction(1, 10**9)).tail(1) == NEGLIGIBLE
    assert DiscreteLaplace(Fraction(1)).tail(-(10**30)) == 1


@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1), Fraction(17, 2), Fraction(10**6), Fraction(2**45)])
@pytest.mark.parametrize("p", [Fraction(49, 100), Fraction(1, 10**6), Fraction(1, 10**300)])
def test_a_threshold_is_the_smallest_whose_tail_is_small_enough(scale: Fraction, p: Fraction) -> None:
    noise = DiscreteLaplace(scale)
    t = noise.threshold(p)
    assert noise.tail(t) <= p < noise.tail(t - 1)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 2), Fraction(1, 10**1001)])
def test_a_threshold_for_an_impossible_probability_is_refused(p: Fraction) -> None:
    with pytest.raises(ValueError, match="probability"):
        DiscreteLaplace(Fraction(1)).threshold(p)


@pytest.mark.parametrize("cells", [1, 100, 10_000])
@pytest.mark.parametrize("confidence", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(15)])
def test_within_is_the_smallest_simultaneous_bound(scale: Fraction, confidence: float, cells: int) -> None:
    noise = DiscreteLaplace(scale)
    t = noise.within(confidence, cells)

    def coverage(bound: int) -> float:
        return math.exp(cells * math.log1p(-2 * float(noise.tail(bound + 1)))) if bound >= 0 else 0.0

    assert coverage(t) >= confidence - 1e-12
    assert coverage(t - 1) < confidence


def test_ten_thousand_cells_lie_within_the_published_figure() -> None:
    noise = DiscreteLaplace(Fraction(1))
    assert noise.laplace_within(0.95, 10_000) == pytest.approx(12.2, abs=0.05)
    assert noise.within(0.95, 10_000) == 12
    worst = np.abs(noise.draw(10**6)).reshape(100, 10_000).max(axis=1)
    assert np.count_nonzero(worst <= 12) >= 80  # at least 95 expected


def test_within_follows_the_continuous_bound_at_huge_scales_and_many_cells() -> None:
    for cells in (1, 10**6, 10**15):
        noise = DiscreteLaplace(Fraction(2**45))
        assert noise.within(0.999999, cells) == pytest.approx(noise.laplace_within(0.999999, cells), rel=1e-6)


def test_a_miss_is_split_exactly_over_the_cells() -> None:
    assert float(miss(0.75, 2)) == pytest.approx(1 - math.sqrt(0.75))
    for confidence, cells in ((0.0, 1), (1.0, 1), (0.5, 0)):
        with pytest.raises(ValueError):
            miss(confidence, cells)
