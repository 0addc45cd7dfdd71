"""Binomial noise: its draws against its mass, its δ(ε) by enumeration of neighbours, its calibration."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from frequencies import assert_masses

from dpsql.core.cost import Cost
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import sampler, toolbox_noises
from dpsql.mechanisms.certified import precise
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.toolbox_noises import MOST, Binomial

MICRO = Fraction(1, 10**6)


def number(shift: int | Fraction) -> Sensitivity:
    return Sensitivity(Fraction(shift), Fraction(shift) ** 2, single=True)


def masses(noise: Binomial) -> dict[int, float]:
    half = noise.coins // 2
    return {z: math.comb(noise.coins, z + half) / 2**noise.coins for z in range(-half, half + 1)}


def exact_delta(noise: Binomial, shift: int, epsilon: str) -> Fraction:
    """Σ (p − e^ε·q)₊ over all numbers of heads, from binomial coefficients."""
    n = noise.coins
    with localcontext(prec=200):
        growth = Fraction(Decimal(epsilon).exp())
    total = Fraction(0)
    for heads in range(n + 1):
        other = math.comb(n, heads + shift)
        total += max(Fraction(0), math.comb(n, heads) - growth * other)
    return total / Fraction(2) ** n


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("coins", [8, 62, 64, 66, 128, 1000])
def test_draws_have_the_frequencies_of_the_mass_function(coins: int) -> None:
    assert_masses(Binomial(coins).draw(200_000), masses(Binomial(coins)))


def test_the_frequency_check_notices_two_coins_too_few() -> None:
    with pytest.raises(AssertionError):
        assert_masses(Binomial(62).draw(200_000), masses(Binomial(64)))


def test_heads_are_the_bits_that_are_set_and_no_bit_beyond_the_coins_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: b"\xff" * n)
    for coins in (2, 64, 66, 200):
        assert Binomial(coins).draw(3).tolist() == [coins // 2] * 3
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: b"\x00" * n)
    assert Binomial(66).draw(2).tolist() == [-33, -33]


def test_many_coins_are_drawn_in_parts_and_none_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolbox_noises, "_CHUNK", 3)
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: b"\xff" * n)
    for coins in (2, 64, 190, 192, 194, 1000):
        assert Binomial(coins).draw(7).tolist() == [coins // 2] * 7
    monkeypatch.undo()
    draws = Binomial(2**24).draw(40)
    assert 200 < np.abs(draws).max() < 8 * 2048


def test_no_coins_are_no_noise_and_an_odd_number_is_refused() -> None:
    assert not Binomial(0).draw(10).any()
    for coins in (-2, 3):
        with pytest.raises(ValueError, match="even"):
            Binomial(coins)
    with pytest.raises(OverflowError, match="discrete Gaussian"):
        Binomial(MOST + 2)


# ---------------------------------------------------------------- price


@pytest.mark.parametrize("epsilon", ["0", "0.1", "1", "4"])
@pytest.mark.parametrize("coins", [2, 10, 80, 600])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_delta_is_what_enumeration_of_neighbours_gives_rounded_up(epsilon: str, coins: int, shift: int) -> None:
    noise = Binomial(coins)
    claimed = noise.delta(number(shift), Fraction(epsilon))
    found = [exact_delta(noise, j, epsilon) for j in range(1, shift + 1)]
    assert max(found) <= claimed <= max(found) * (1 + Fraction(1, 10**18))


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.sample(2)
def test_calibration_is_certified_and_two_coins_or_a_tenth_less_is_caught(shift: int, epsilon: str) -> None:
    noise = Binomial.calibrate(number(shift), Fraction(epsilon), MICRO)
    assert noise.cost(number(shift), Fraction(epsilon)).delta <= MICRO
    assert exact_delta(noise, shift, epsilon) <= MICRO < exact_delta(Binomial(noise.coins - 2), shift, epsilon)
    # A spread that is 10% less has 19% fewer coins.
    assert exact_delta(Binomial(round(noise.coins * 0.405) * 2), shift, epsilon) > Fraction(3, 2) * MICRO


def test_calibration_gives_the_figure_of_the_theory_and_beats_the_bound_of_the_paper() -> None:
    noise = Binomial.calibrate(number(1), Fraction(1), MICRO)
    assert noise.coins == 80
    assert noise.coins < 64 * math.log(2e6) < 930


def test_with_many_coins_it_is_the_discrete_gaussian() -> None:
    noise = Binomial.calibrate(number(30), Fraction(1), MICRO)
    gaussian = DiscreteGaussian.calibrate(number(30), Fraction(1), MICRO)
    assert noise.variance == pytest.approx(gaussian.variance, rel=1e-3)


def test_coins_without_an_outcome_in_common_hide_nothing() -> None:
    assert Binomial(6).delta(number(7), Fraction(100)) == 1
    assert Binomial(0).delta(number(1), Fraction(1)) == 1
    assert Binomial(6).delta(number(6), Fraction(100)) == pytest.approx(1 - 1 / 64)


def test_a_number_that_no_unit_moves_is_free() -> None:
    assert Binomial.calibrate(number(0), Fraction(1), MICRO) == Binomial(0)
    assert Binomial(0).cost(number(0), Fraction(1)) == Cost(Fraction(0))


def test_several_numbers_at_once_have_no_price_here() -> None:
    with pytest.raises(ValueError, match="single number"):
        Binomial(10).delta(Sensitivity(Fraction(2), Fraction(2)), Fraction(1))


def test_parameters_out_of_range_are_refused() -> None:
    for epsilon, delta in ((-1, MICRO), (1, Fraction(0)), (1, Fraction(1))):
        with pytest.raises(ValueError):
            Binomial.calibrate(number(1), Fraction(epsilon), delta)
    with pytest.raises(ValueError, match="negative"):
        Binomial(2).delta(number(1), Fraction(-1))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("n", [0, 1, 100, 255, 256, 257, 1000, 5000])
def test_logarithms_of_factorials_are_true_to_fifty_digits(n: int) -> None:
    with localcontext(prec=90):
        truth = Decimal(math.factorial(n)).ln()
    with localcontext(precise()):
        assert abs(toolbox_noises._log_factorial(n) - truth) < Decimal("1e-50")


@pytest.mark.parametrize("coins", [2, 40, 700])
def test_mass_tail_variance_and_error_agree(coins: int) -> None:
    noise, mass = Binomial(coins), masses(Binomial(coins))
    assert sum(noise.pmf(z) for z in mass) == 1
    assert noise.pmf(coins) == 0
    assert noise.variance == pytest.approx(math.fsum(z * z * p for z, p in mass.items()))
    for t in (-coins, -3, -1, 0, 1, 3, coins // 2, coins):
        truth = sum((noise.pmf(z) for z in mass if z >= t), Fraction(0))
        assert truth <= noise.tail(t) <= truth * (1 + Fraction(1, 10**18))
    for confidence in (0.3, 0.95):
        t = noise.within(confidence)
        covered = [math.fsum(p for z, p in mass.items() if abs(z) <= bound) for bound in (t - 1, t)]
        assert covered[0] < confidence <= covered[1] + 1e-12
