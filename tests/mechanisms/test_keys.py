"""Key selection: keys that one unit alone has appear with probability at most δ, by a count or by votes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.keys import Threshold, VoteThreshold, vote
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

MICRO = Fraction(1, 10**6)
TEN = Sensitivity(Fraction(10), Fraction(10))

NOISES = [DiscreteLaplace(Fraction(1)), DiscreteLaplace(Fraction(10)), Gaussian(Fraction(4)), Gaussian(Fraction(1, 2))]


def mass(noise: DiscreteLaplace | Gaussian, z: int) -> float:
    if isinstance(noise, DiscreteLaplace):
        a = math.exp(-1 / noise.scale)
        return (1 - a) / (1 + a) * a ** abs(z)
    root = float(noise.sigma) * math.sqrt(2)
    return (math.erfc((abs(z) - 0.5) / root) - math.erfc((abs(z) + 0.5) / root)) / 2


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("delta", [Fraction(1, 1000), MICRO, Fraction(1, 10**12)])
def test_one_person_alone_is_shown_with_probability_delta_at_most_and_tau_is_the_smallest(
    noise: DiscreteLaplace | Gaussian, delta: Fraction
) -> None:
    threshold = Threshold(noise, delta)
    outcomes = np.arange(-1000, 1001)
    probability = np.array([mass(noise, int(z)) for z in outcomes])
    assert probability.sum() == pytest.approx(1)
    assert probability[threshold.keep(1 + outcomes)].sum() <= float(delta) * (1 + 1e-9)
    # The check has power: one lower and it fails.
    assert probability[1 + outcomes >= threshold.tau - 1].sum() > float(delta)


def test_tau_is_above_the_published_continuous_figure_by_no_more_than_two() -> None:
    assert Threshold(DiscreteLaplace(Fraction(1)), MICRO).tau == 15  # continuous: 14.12
    assert 1 - math.log(2e-6) == pytest.approx(14.12, abs=5e-3)
    assert Threshold(DiscreteLaplace(Fraction(10)), MICRO / 10).tau == 156  # continuous: 155
    gaussian = Gaussian.calibrate(TEN, Fraction(1), MICRO / 2)
    assert Threshold(gaussian, MICRO / 20).tau == 76  # continuous: 74.5, and half more for the rounding
    assert float(gaussian.sigma) == pytest.approx(13.8038, abs=1e-3)


def test_a_threshold_from_another_distribution_would_show_too_much() -> None:
    laplace, gaussian = DiscreteLaplace(Fraction(4)), Gaussian(Fraction(4))
    assert Threshold(gaussian, MICRO).tau < Threshold(laplace, MICRO).tau
    assert laplace.tail(Threshold(gaussian, MICRO).tau - 1) > 100 * MICRO


def test_min_units_raises_the_threshold_and_never_lowers_it() -> None:
    noise = DiscreteLaplace(Fraction(1))
    assert Threshold(noise, MICRO, min_units=100).tau == 100
    assert Threshold(noise, MICRO, min_units=3).tau == Threshold(noise, MICRO).tau == 15


def test_keys_at_the_threshold_are_kept_and_below_it_dropped() -> None:
    threshold = Threshold(DiscreteLaplace(Fraction(1)), MICRO)
    assert threshold.keep(np.array([14, 15, 16, -3, 10**12])).tolist() == [False, True, True, False, True]


def test_without_noise_one_person_alone_is_never_shown() -> None:
    threshold = Threshold(DiscreteLaplace(Fraction(0)), MICRO)
    assert threshold.keep(np.array([1, 2])).tolist() == [False, True]


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(-1), Fraction(1, 2)])
@pytest.mark.parametrize("noise", [DiscreteLaplace(Fraction(1)), Gaussian(Fraction(1))])
def test_a_delta_that_selects_nothing_or_everything_is_refused(
    noise: DiscreteLaplace | Gaussian, delta: Fraction
) -> None:
    with pytest.raises(ValueError, match="probability"):
        Threshold(noise, delta)


# ---------------------------------------------------------------- votes (Theorem KEYW-1)


NORMALS = [
    (Gaussian(Fraction(6 * 2**12)), 12),  # much noise: the threshold for the most keys is the largest
    (Gaussian(Fraction(2**12, 2)), 12),  # little: that for one key is
    (Gaussian(Fraction(5 * 2**12, 4)), 12),
    (DiscreteGaussian(Fraction(40)), 3),
]


def shown(noise: Gaussian | DiscreteGaussian, tau: int, votes: int, keys: int) -> float:
    """The probability that one of so many keys passes, each with these votes and a draw of its own."""
    if isinstance(noise, Gaussian):
        alone = math.erfc((tau - votes - 0.5) / (float(noise.sigma) * math.sqrt(2))) / 2
    else:
        masses = {z: math.exp(-z * z / (2 * float(noise.sigma_squared))) for z in range(-200, 201)}
        alone = sum(m for z, m in masses.items() if z >= tau - votes) / sum(masses.values())
    return -math.expm1(keys * math.log1p(-alone))


@pytest.mark.parametrize("bits", [3, 12, 30])
def test_votes_of_any_number_of_keys_have_a_norm_of_one_and_no_larger_integer_has(bits: int) -> None:
    for keys in (*range(1, 70), 99, 1000, 4**bits - 1, 4**bits, 4**bits + 1):
        w = vote(keys, bits)
        assert keys * w * w <= 4**bits < keys * (w + 1) ** 2
    assert vote(4, bits) ** 2 * 4 == 4**bits  # attained: a norm a tenth smaller would be false


@pytest.mark.parametrize(("noise", "bits"), NORMALS)
@pytest.mark.parametrize("most", [1, 2, 20, 300])
@pytest.mark.parametrize("delta", [Fraction(1, 1000), Fraction(1, 2 * 10**7)])
def test_the_keys_of_one_unit_stay_hidden_however_many_they_are_and_tau_is_the_smallest(
    noise: Gaussian | DiscreteGaussian, bits: int, most: int, delta: Fraction
) -> None:
    threshold = VoteThreshold(noise, most, bits, delta)
    failures = [shown(noise, threshold.tau, vote(t, bits), t) for t in range(1, most + 1)]
    assert max(failures) <= float(delta) * (1 + 1e-9)
    # The check has power: one lower, and a tenth lower all the more, some number of keys shows too often.
    lower = [shown(noise, threshold.tau - 1, vote(t, bits), t) for t in range(1, most + 1)]
    assert max(lower) > float(delta) * (1 - 1e-3)
    tenth = [shown(noise, threshold.tau * 9 // 10, vote(t, bits), t) for t in range(1, most + 1)]
    assert max(tenth) > 1.2 * float(delta)


@pytest.mark.parametrize(("noise", "bits"), NORMALS)
def test_the_threshold_is_the_largest_over_all_numbers_of_keys(noise: Gaussian | DiscreteGaussian, bits: int) -> None:
    delta = Fraction(1, 10**6)
    every = [vote(t, bits) + noise.threshold(delta / t) for t in range(1, 41)]
    assert VoteThreshold(noise, 40, bits, delta).tau == max(every)


def test_the_threshold_of_the_most_keys_alone_would_show_one_key_nineteen_times_too_often() -> None:
    bits, half = 12, Fraction(5, 10**8)
    noise = Gaussian.calibrate(Sensitivity(Fraction(2**bits), Fraction(4**bits)), Fraction(8), half)
    alone = vote(20, bits) + noise.threshold(half / 20)
    assert shown(noise, alone, vote(1, bits), 1) / float(half) == pytest.approx(19, abs=1)
    assert shown(noise, VoteThreshold(noise, 20, bits, half).tau, vote(1, bits), 1) <= float(half) * (1 + 1e-9)


def test_where_a_unit_has_one_key_votes_are_the_count() -> None:
    noise, fine = Gaussian(Fraction(5)), Gaussian(Fraction(5 * 2**20))
    assert VoteThreshold(fine, 1, 20, MICRO).tau / 2**20 == pytest.approx(Threshold(noise, MICRO).tau, abs=1.5)
    assert VoteThreshold(noise, 1, 3, MICRO).keep(np.array([0, 10**9])).tolist() == [False, True]
