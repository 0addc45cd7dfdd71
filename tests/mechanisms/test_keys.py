"""Key selection: a key that one unit has appears with probability at most its δ."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.keys import Threshold
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
