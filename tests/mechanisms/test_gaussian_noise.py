"""Gaussian noise: its δ(ε) by enumeration, its calibration, its tails."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import opendp.prelude as dp
import pytest

from dpsql.core.cost import Cost
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import gaussian_noise
from dpsql.mechanisms.certified import precise
from dpsql.mechanisms.gaussian_noise import Gaussian

dp.enable_features("contrib")

UNIT = Sensitivity(Fraction(1), Fraction(1))
MICRO = Fraction(1, 10**6)


def shifted(by: int) -> Sensitivity:
    return Sensitivity(Fraction(by), Fraction(by * by))


def upper_tail(x: float) -> float:
    return math.erfc(x / math.sqrt(2)) / 2


def exact_delta(noise: Gaussian, shift: int, epsilon: float) -> float:
    """Σ (p − e^ε·q)₊ over the integers, for two statistics that differ by shift."""
    sigma = float(noise.sigma)

    def mass(z: int) -> float:
        # By the tail that is small, so that no digits cancel.
        z = abs(z)
        return upper_tail((z - 0.5) / sigma) - upper_tail((z + 0.5) / sigma)

    reach = math.ceil(12 * sigma) + shift
    return math.fsum(max(0.0, mass(z) - math.exp(epsilon) * mass(z + shift)) for z in range(-reach, reach + 1))


@pytest.mark.parametrize(
    ("epsilon", "sigma"),
    [("1", 4.2247), ("0.1", 36.305), ("0.5", 8.058), ("2", 2.2305), ("4", 1.1935)],
)
def test_calibration_gives_the_published_figures(epsilon: str, sigma: float) -> None:
    noise = Gaussian.calibrate(UNIT, Fraction(epsilon), MICRO)
    assert float(noise.sigma) == pytest.approx(sigma, rel=5e-5)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("shift", [1, 3, 500])
@pytest.mark.sample(3)
def test_the_certified_delta_covers_the_enumerated_one(epsilon: Fraction, shift: int) -> None:
    claimed = Fraction(1, 10**4)
    noise = Gaussian.calibrate(shifted(shift), epsilon, claimed) if epsilon else Gaussian(Fraction(20 * shift))
    claimed = noise.delta(shifted(shift), epsilon)
    enumerated = exact_delta(noise, shift, float(epsilon))
    assert enumerated <= float(claimed) * (1 + 1e-9)
    if shift == 500:  # on a fine grid rounding hides nothing, so the claim is tight
        assert enumerated == pytest.approx(float(claimed), rel=1e-2)
    # A sensitivity that is forgotten by 10% is caught by the same check.
    forgotten = Gaussian(noise.sigma * Fraction(9, 10))
    assert exact_delta(forgotten, shift, float(epsilon)) > float(claimed) * 1.02


@pytest.mark.parametrize("epsilon", ["1e-6", "1e-3", "1", "30", "1e6", "1e12"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-30", "1e-6", "1e-3"])
def test_calibration_is_certified_and_the_least_over_the_whole_range(epsilon: str, delta: str) -> None:
    noise = Gaussian.calibrate(UNIT, Fraction(epsilon), Fraction(delta))
    cost = noise.cost(UNIT, Fraction(epsilon))
    assert cost.epsilon == Fraction(epsilon)
    assert Fraction(delta) * Fraction(999, 1000) < cost.delta <= Fraction(delta)
    assert Gaussian(noise.sigma * (1 - Fraction(1, 2**39))).delta(UNIT, Fraction(epsilon)) > Fraction(delta)


def test_sigma_scales_with_the_root_of_a_squared_sensitivity_that_has_no_root() -> None:
    noise = Gaussian.calibrate(Sensitivity(Fraction(2), Fraction(2)), Fraction(1), MICRO)
    assert float(noise.sigma) == pytest.approx(4.224678889 * math.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("squared", [Fraction(1, 10**12), Fraction(7, 3), Fraction(10**24)])
def test_delta_depends_on_sensitivity_over_sigma_alone(squared: Fraction) -> None:
    noise = Gaussian.calibrate(Sensitivity(squared, squared), Fraction(1), MICRO)
    assert float(noise.sigma) == pytest.approx(4.224678889 * math.sqrt(squared), rel=1e-9)


@pytest.mark.parametrize(("sigma", "epsilon"), [("4.2", "1"), ("0.3", "5"), ("1", "0"), ("50", "0.1"), ("2", "3.5")])
def test_delta_is_the_analytic_formula_rounded_up(sigma: str, epsilon: str) -> None:
    r, e = 1 / Fraction(sigma), Fraction(epsilon)
    with localcontext(prec=120):
        a, b = e / r - r / 2, e / r + r / 2
        truth = Fraction(series_tail(a)) - Fraction((Decimal(e.numerator) / e.denominator).exp() * series_tail(b))
    certified = Gaussian(Fraction(sigma)).delta(UNIT, e)
    assert 1 <= certified / truth < 1 + Fraction(1, 10**18)


def series_tail(x: Fraction) -> Decimal:
    """Pr[N ≥ x] by the alternating Taylor series of the error function, at the current precision."""
    pi = Decimal(
        "3.141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117067982148"
        "08651328230664709384460955058223172535940812848"
    )
    y = Decimal(x.numerator) / x.denominator
    term, total, n = y, y, 0
    while abs(term) > Decimal("1e-110"):
        n += 1
        term *= -y * y / (2 * n)
        total += term / (2 * n + 1)
    return Decimal("0.5") - total / (2 * pi).sqrt()


@pytest.mark.parametrize("x", ["0", "0.001", "0.5", "1", "2.999999", "3", "3.000001", "6", "9"])
def test_the_normal_tail_is_never_below_the_truth_and_hardly_above(x: str) -> None:
    for sign in (1, -1):
        point = sign * Fraction(x)
        with localcontext(prec=120):
            truth = Fraction(series_tail(point))
        with localcontext(precise()):
            bound = Fraction(gaussian_noise._upper_tail(sign * Decimal(x)))
        assert 0 <= bound - truth < truth / 10**40


def test_the_normal_tail_is_known_far_out() -> None:
    with localcontext(precise()):
        assert float(gaussian_noise._upper_tail(Decimal(10))) == pytest.approx(upper_tail(10), rel=1e-12)
        assert float(gaussian_noise._upper_tail(Decimal(37))) == pytest.approx(upper_tail(37), rel=1e-12)


def test_delta_falls_with_epsilon_and_with_sigma() -> None:
    by_epsilon = [Gaussian(Fraction(4)).delta(UNIT, Fraction(e, 10)) for e in range(0, 300, 5)]
    by_sigma = [Gaussian(Fraction(s, 10)).delta(UNIT, Fraction(1)) for s in range(1, 100)]
    for deltas in (by_epsilon, by_sigma):
        assert all(a >= b for a, b in pairwise(deltas))
        assert deltas[0] > deltas[-1] > 0


def test_extremes_of_delta_are_bounded_by_one_and_never_zero() -> None:
    assert Gaussian(Fraction(1, 10**9)).delta(UNIT, Fraction(1)) == 1
    assert Gaussian(Fraction(10**12)).delta(UNIT, Fraction(10**12)) == Fraction(1, 10**1000)


def test_the_zcdp_price_is_exact() -> None:
    assert Gaussian(Fraction(7, 2)).rho(Sensitivity(Fraction(3), Fraction(5))) == Fraction(10, 49)


def test_opendp_charges_the_same_zcdp_price() -> None:
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=3.5).map(2.0)
    assert float(Gaussian(Fraction(7, 2)).rho(shifted(2))) == pytest.approx(theirs, rel=1e-9)


def test_a_statistic_that_no_unit_moves_is_free_and_needs_no_noise() -> None:
    still = Sensitivity(Fraction(0), Fraction(0))
    noise = Gaussian.calibrate(still, Fraction(1), MICRO)
    assert noise.sigma == 0
    assert noise.cost(still, Fraction(1)) == Gaussian(Fraction(1)).cost(still, Fraction(1)) == Cost(Fraction(0))
    assert noise.rho(still) == noise.delta(still, Fraction(1)) == 0
    assert not noise.draw(1000).any()
    assert [noise.variance, noise.tail(0), noise.tail(1), noise.within(0.95, 10)] == [0, 1, 0, 0]


def test_no_noise_on_a_statistic_that_moves_has_no_price() -> None:
    for price in (Gaussian(Fraction(0)).rho, lambda s: Gaussian(Fraction(0)).cost(s, Fraction(1))):
        with pytest.raises(ValueError, match="hides nothing"):
            price(UNIT)


def test_parameters_out_of_range_are_refused() -> None:
    for epsilon, delta in ((-1, MICRO), (1, Fraction(0)), (1, Fraction(1)), (1, Fraction(1, 10**1001))):
        with pytest.raises(ValueError):
            Gaussian.calibrate(UNIT, Fraction(epsilon), delta)
    with pytest.raises(OverflowError):
        Gaussian.calibrate(Sensitivity(Fraction(2**50), Fraction(2**100)), Fraction(1), MICRO)


@pytest.mark.parametrize("sigma", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(199, 100), Fraction(5, 2)])
def test_variance_is_that_of_the_rounded_noise(sigma: Fraction) -> None:
    s = float(sigma)
    exact = math.fsum(
        z * z * (upper_tail((abs(z) - 0.5) / s) - upper_tail((abs(z) + 0.5) / s)) for z in range(-100, 101)
    )
    noise = Gaussian(sigma)
    assert noise.variance == pytest.approx(exact, rel=1e-10, abs=1e-300)
    assert float(np.std(noise.draw(10**6))) == pytest.approx(noise.std, rel=0.02)


@pytest.mark.parametrize("sigma", [Fraction(1, 10), Fraction(1), Fraction(17, 2), Fraction(10**6), Fraction(2**45)])
@pytest.mark.parametrize("p", [Fraction(49, 100), MICRO, Fraction(1, 10**300)])
def test_a_threshold_is_the_smallest_whose_tail_is_small_enough(sigma: Fraction, p: Fraction) -> None:
    noise = Gaussian(sigma)
    t = noise.threshold(p)
    assert noise.tail(t) <= p < noise.tail(t - 1)


@pytest.mark.parametrize("cells", [1, 100, 10_000])
@pytest.mark.parametrize("confidence", [0.05, 0.95, 0.999])
@pytest.mark.parametrize("sigma", [Fraction(1, 4), Fraction(1), Fraction(15)])
def test_within_is_the_smallest_simultaneous_bound(sigma: Fraction, confidence: float, cells: int) -> None:
    t = Gaussian(sigma).within(confidence, cells)

    def coverage(bound: int) -> float:
        outside = 2 * upper_tail((bound + 0.5) / float(sigma))
        return math.exp(cells * math.log1p(-outside)) if bound >= 0 else 0.0

    assert coverage(t) >= confidence - 1e-12
    assert coverage(t - 1) < confidence
