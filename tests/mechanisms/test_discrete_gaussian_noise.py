"""The discrete Gaussian: its draws against its mass, its δ(ε) and ρ by enumeration of neighbours, its tails."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from frequencies import ALPHA_SIGMAS, assert_masses, assert_same_distribution

from dpsql.core.cost import Cost, least_delta
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms import discrete_gaussian_noise, sampler
from dpsql.mechanisms.certified import NEGLIGIBLE, precise
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.gaussian_noise import Gaussian

dp.enable_features("contrib")

MICRO = Fraction(1, 10**6)
TWO_CELLS = Sensitivity(Fraction(2), Fraction(2))


def number(shift: int) -> Sensitivity:
    """Of a single integer."""
    return Sensitivity(Fraction(shift), Fraction(shift * shift), single=True)


def masses(squared: Fraction, scale: Fraction = Fraction(1)) -> dict[int, float]:
    """The mass function by the definition, in floats; scale: with another σ."""
    spread = float(squared * scale**2)
    reach = math.ceil(40 * math.sqrt(spread)) + 2
    weights = {z: math.exp(-z * z / (2 * spread)) for z in range(-reach, reach + 1)}
    whole = math.fsum(weights.values())
    return {z: w / whole for z, w in weights.items()}


def exact_delta(mass: dict[int, float], shift: tuple[int, ...], epsilon: float) -> float:
    """Σ (p − e^ε·q)₊ over the outcomes, for statistics that differ by shift."""
    likely = [z for z, p in mass.items() if p > 1e-25]
    total = []
    for outcome in itertools.product(likely, repeat=len(shift)):
        p = math.prod(mass[z] for z in outcome)
        q = math.prod(mass.get(z + s, 0.0) for z, s in zip(outcome, shift, strict=True))
        total.append(max(0.0, p - math.exp(epsilon) * q))
    return math.fsum(total)


# ---------------------------------------------------------------- draws


@pytest.mark.parametrize("squared", [Fraction(1, 9), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(900)])
def test_a_million_draws_have_the_frequencies_of_the_mass_function(squared: Fraction) -> None:
    assert_masses(DiscreteGaussian(squared).draw(10**6), masses(squared))


def test_the_frequency_check_notices_a_sigma_that_is_one_percent_off() -> None:
    with pytest.raises(AssertionError):
        assert_masses(DiscreteGaussian(Fraction(99, 100) ** 2).draw(10**6), masses(Fraction(1)))


def test_opendp_draws_the_same() -> None:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=2.5)([0] * 50_000)
    assert_same_distribution(DiscreteGaussian(Fraction(25, 4)).draw(10**6), np.array(theirs))


@pytest.mark.parametrize("exponent", [13, 30, 50])
def test_huge_scales_follow_the_continuous_law(exponent: int) -> None:
    n = 200_000
    draws = DiscreteGaussian(Fraction(4) ** exponent).draw(n)
    cdf = np.vectorize(math.erfc)(-np.sort(draws) / 2.0**exponent / math.sqrt(2)) / 2
    distance = np.max(np.abs(cdf - (np.arange(n) + 0.5) / n))
    assert distance * math.sqrt(n) < math.sqrt(math.log(2e6) / 2) + 0.1  # Kolmogorov–Smirnov at 1e-6
    assert abs(float(np.mean(draws % 2)) - 0.5) * 2 * math.sqrt(n) < 5  # the last bit is there, and is fair


@pytest.mark.parametrize("squared", [Fraction(1, 3), Fraction(1), Fraction(50), Fraction(2**80)])
def test_floats_keep_or_drop_a_proposal_only_if_the_whole_interval_agrees(
    squared: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = 10
    monkeypatch.setattr(discrete_gaussian_noise, "_BITS", bits)
    scale = discrete_gaussian_noise._near_root(squared)
    words = np.arange(2**bits, dtype=np.uint64)
    for y in (0, 1, -2, math.isqrt(math.ceil(squared)), 2 * math.isqrt(math.ceil(squared)) + 1):
        proposed = np.full(len(words), y, dtype=np.int64)
        kept, settled = discrete_gaussian_noise._kept_in_floats(squared, scale, proposed, words)
        gamma = (abs(y) - squared / scale) ** 2 / (2 * squared)
        with localcontext(prec=40):
            edge = (-Decimal(gamma.numerator) / gamma.denominator).exp() * 2**bits
        assert all(int(k) + 1 <= edge for k in words[settled & kept])
        assert all(int(k) >= edge for k in words[settled & ~kept])
        assert np.count_nonzero(~settled) <= 8  # at the edge, and the word of zeros
        assert not (kept & ~settled).any()


@pytest.mark.parametrize("squared", [Fraction(1, 3), Fraction(7, 2), Fraction(10**9, 7)])
def test_what_is_kept_of_a_laplace_proposal_has_exactly_the_weights_of_the_mass_function(squared: Fraction) -> None:
    scale = discrete_gaussian_noise._near_root(squared)
    assert abs(float(scale) / math.sqrt(squared) - 1) < 0.002  # where most proposals are kept
    exponents = {
        -abs(y) / scale - discrete_gaussian_noise._gamma(squared, scale, y) + y * y / (2 * squared)
        for y in (0, 1, -1, 5, 1000, -(10**12))
    }
    assert len(exponents) == 1  # e^(−|y|/s)·e^(−γ) is e^(−y²/2σ²) times a constant


def test_an_undecided_proposal_is_settled_by_bits_that_are_appended_to_its_word() -> None:
    gamma, n = Fraction(1), 4000
    first = math.floor(2**32 * math.exp(-1))
    kept = sum(discrete_gaussian_noise._kept(gamma, first, 32) for _ in range(n))
    with localcontext(prec=40):
        inside = float(Decimal(-1).exp() * 2**32 - first)
    assert 0.01 < inside < 0.99
    assert abs(kept - n * inside) < ALPHA_SIGMAS * math.sqrt(n * inside * (1 - inside))


def test_the_slow_path_alone_has_the_right_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discrete_gaussian_noise, "_TINY", Fraction(10**9))
    assert_masses(DiscreteGaussian(Fraction(2)).draw(8_000), masses(Fraction(2)))


@pytest.mark.parametrize("squared", [Fraction(0), Fraction(1, 10**800), Fraction(1, 10**24), Fraction(1, 1000)])
def test_tiny_scales_draw_zeros(squared: Fraction) -> None:
    assert not DiscreteGaussian(squared).draw(1001).any()


@pytest.mark.parametrize("n", [0, 1, 7, discrete_gaussian_noise._CHUNK + 1])
def test_every_cell_gets_a_draw_of_its_own(n: int) -> None:
    cells = DiscreteGaussian(Fraction(4**48)).draw(n)
    assert cells.dtype == np.int64
    assert len(np.unique(np.abs(cells))) == len(cells) == n


def test_scales_past_2_to_the_50_are_refused_before_anything_is_drawn() -> None:
    with pytest.raises(OverflowError, match="64-bit"):
        DiscreteGaussian(sampler.LARGEST_SCALE**2 + 1)
    with pytest.raises(ValueError, match="negative"):
        DiscreteGaussian(Fraction(-1))


# ---------------------------------------------------------------- one integer


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("shift", [1, 3, 40])
@pytest.mark.sample(3)
def test_delta_of_one_integer_is_what_enumeration_of_neighbours_gives(epsilon: Fraction, shift: int) -> None:
    noise = (
        DiscreteGaussian.calibrate(number(shift), epsilon, Fraction(1, 10**4))
        if epsilon
        else DiscreteGaussian(Fraction(20 * shift) ** 2)
    )
    claimed = float(noise.delta(number(shift), epsilon))
    found = [exact_delta(masses(noise.sigma_squared), (j,), float(epsilon)) for j in {1, shift // 2 + 1, shift}]
    assert max(found) <= claimed * (1 + 1e-9)
    assert max(found) == pytest.approx(claimed, rel=1e-8)
    # A σ that is 10% less, or a sensitivity that is forgotten by as much, is caught by the same check.
    assert exact_delta(masses(noise.sigma_squared, Fraction(9, 10)), (shift,), float(epsilon)) > claimed * 1.02


@pytest.mark.parametrize("squared", [Fraction(1, 5), Fraction(7, 2), Fraction(100)])
@pytest.mark.parametrize("epsilon", ["0", "0.3", "2", "40"])
@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.sample(3)
def test_delta_is_never_below_the_truth_and_hardly_above(squared: Fraction, epsilon: str, shift: int) -> None:
    with localcontext(prec=120):
        terms = [(-Decimal(z * z * squared.denominator) / (2 * squared.numerator)).exp() for z in range(1200)]
        whole = terms[0] + 2 * sum(terms[1:])
        growth = Decimal(epsilon).exp()
        differences = (terms[abs(z)] - growth * terms[abs(z + shift)] for z in range(-1198, 1198))
        truth = Fraction(sum((d for d in differences if d > 0), Decimal(0)) / whole)
    claimed = DiscreteGaussian(squared).delta(number(shift), Fraction(epsilon))
    assert truth <= claimed
    assert claimed <= truth * (1 + Fraction(1, 10**18)) or claimed == NEGLIGIBLE


def test_a_larger_shift_never_has_a_smaller_delta() -> None:
    for squared, epsilon in ((Fraction(1, 2), 1.0), (Fraction(4), 0.3), (Fraction(30), 2.0)):
        found = [exact_delta(masses(squared), (j,), epsilon) for j in range(1, 12)]
        assert all(a <= b + 1e-15 for a, b in itertools.pairwise(found))


def test_calibration_gives_the_figures_of_the_theory() -> None:
    one = DiscreteGaussian.calibrate(number(1), Fraction(1), MICRO)
    several = DiscreteGaussian.calibrate(TWO_CELLS, Fraction(1), MICRO)
    assert math.sqrt(one.sigma_squared) == pytest.approx(4.231, abs=5e-4)
    assert math.sqrt(several.sigma_squared / 2) == pytest.approx(4.531, abs=5e-4)
    # A single number with the wider grid of large shifts has nearly the noise of the continuous mechanism.
    wide = DiscreteGaussian.calibrate(number(10**6), Fraction(1), MICRO)
    same = Gaussian.calibrate(number(10**6), Fraction(1), MICRO)
    assert math.sqrt(wide.sigma_squared) == pytest.approx(float(same.sigma), rel=1e-6)


@pytest.mark.parametrize("size", [number(1), number(7), TWO_CELLS, Sensitivity(Fraction(1, 3), Fraction(1, 9))])
@pytest.mark.parametrize("epsilon", ["1e-3", "1", "30", "1e6"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-6"])
def test_calibration_is_certified_and_the_least(size: Sensitivity, epsilon: str, delta: str) -> None:
    noise = DiscreteGaussian.calibrate(size, Fraction(epsilon), Fraction(delta))
    cost = noise.cost(size, Fraction(epsilon))
    assert cost.epsilon == Fraction(epsilon)
    assert cost.delta <= Fraction(delta)
    less = DiscreteGaussian(noise.sigma_squared * (1 - Fraction(1, 2**39)))
    assert less.delta(size, Fraction(epsilon)) > Fraction(delta)


def test_an_integer_moves_by_a_whole_number_whatever_its_bound() -> None:
    size = Sensitivity(Fraction(5, 2), Fraction(25, 4), single=True)
    assert DiscreteGaussian(Fraction(9)).delta(size, Fraction(1)) == DiscreteGaussian(Fraction(9)).delta(
        number(2), Fraction(1)
    )
    half = Sensitivity(Fraction(1, 2), Fraction(1, 4), single=True)
    assert DiscreteGaussian(Fraction(9)).delta(half, Fraction(1)) == DiscreteGaussian(Fraction(9)).delta(
        number(1), Fraction(1)
    )
    assert DiscreteGaussian.calibrate(half, Fraction(1), MICRO) == DiscreteGaussian.calibrate(
        number(1), Fraction(1), MICRO
    )


# ---------------------------------------------------------------- vectors


@pytest.mark.parametrize("shift", [(1, 1), (2, 1), (3, -1)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_the_delta_of_a_vector_covers_the_enumerated_one(shift: tuple[int, ...], epsilon: Fraction) -> None:
    size = Sensitivity(Fraction(sum(map(abs, shift))), Fraction(sum(x * x for x in shift)))
    noise = DiscreteGaussian.calibrate(size, epsilon, Fraction(1, 1000))
    claimed = float(noise.delta(size, epsilon))
    found = exact_delta(masses(noise.sigma_squared), shift, float(epsilon))
    assert claimed / 10 < found <= claimed
    # Noise for two thirds of the sensitivity is caught; the bound by way of ρ has less than that to spare.
    assert exact_delta(masses(noise.sigma_squared, Fraction(2, 3)), shift, float(epsilon)) > claimed


@pytest.mark.parametrize("squared", [Fraction(1, 4), Fraction(1), Fraction(25)])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_no_renyi_divergence_exceeds_its_price(squared: Fraction, shift: int) -> None:
    rho, spread = float(DiscreteGaussian(squared).rho(number(shift))), float(squared)
    whole = math.fsum(math.exp(-z * z / (2 * spread)) for z in range(-300, 301))
    for alpha in (1.01, 1.5, 2.0, 3.7, 10.0):
        # Σ p^α·q^(1 − α), by its logarithms: the masses themselves are too small for floats.
        logs = [-(alpha * z * z + (1 - alpha) * (z + shift) ** 2) / (2 * spread) for z in range(-300, 301)]
        terms = math.fsum(math.exp(one - max(logs)) for one in logs)
        divergence = (max(logs) + math.log(terms / whole)) / (alpha - 1)
        assert divergence <= alpha * rho * (1 + 1e-9)
        if alpha == 2.0:  # 2·μ − ν is an integer: attained
            assert divergence == pytest.approx(alpha * rho, rel=1e-9)
            assert divergence > alpha * 0.9 * rho


def test_the_zcdp_price_is_exact_and_opendp_charges_the_same() -> None:
    noise = DiscreteGaussian(Fraction(49, 4))
    assert noise.rho(Sensitivity(Fraction(3), Fraction(5))) == Fraction(10, 49)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    theirs: Any = dp.m.make_gaussian(*space, scale=3.5)
    assert float(noise.rho(number(2))) == pytest.approx(theirs.map(2.0), rel=1e-9)


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 10), Fraction(2)])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(10)])
def test_the_delta_of_a_rho_is_the_least_over_all_orders(rho: Fraction, epsilon: Fraction) -> None:
    claimed = float(least_delta(rho, epsilon))
    orders = 1 + np.exp(np.linspace(-8, 8, 20_001))
    logs = (orders - 1) * (orders * float(rho) - float(epsilon) + np.log1p(-1 / orders)) - np.log(orders)
    assert claimed == pytest.approx(min(1.0, math.exp(float(logs.min()))), rel=1e-5)
    assert claimed <= math.exp(float(logs.min())) * (1 + 1e-12)


def test_no_rho_has_no_delta_and_a_great_one_all_of_it() -> None:
    assert least_delta(Fraction(0), Fraction(1)) == 0
    assert least_delta(Fraction(10**6), Fraction(1)) == 1
    assert 0 < least_delta(Fraction(1, 10**9), Fraction(10**6)) < Fraction(1, 10**900)
    with pytest.raises(ValueError, match="negative"):
        least_delta(Fraction(1), Fraction(-1))


# ---------------------------------------------------------------- tails and error


def test_both_ways_to_add_up_a_tail_agree() -> None:
    with localcontext(precise()):
        for squared in (Fraction(4096), Fraction(12_345, 2), Fraction(10**6)):
            for t in (0, 1, 50, 300, int(squared) // 2):
                (low, high), (least, most) = (
                    f(squared, t) for f in (discrete_gaussian_noise._summed, discrete_gaussian_noise._integrated)
                )
                assert max(low, least) <= min(high, most)
                assert most - least < least * Decimal("1e-40")


@pytest.mark.parametrize("squared", [Fraction(1, 10), Fraction(1), Fraction(400), Fraction(10**4)])
def test_mass_tail_and_variance_agree(squared: Fraction) -> None:
    noise, mass = DiscreteGaussian(squared), masses(squared)
    for z in (0, 1, 5, -5):
        assert noise.pmf(z) == pytest.approx(mass.get(z, 0.0), rel=1e-11, abs=1e-300)
    assert noise.variance == pytest.approx(math.fsum(z * z * p for z, p in mass.items()), rel=1e-11)
    assert noise.std == math.sqrt(noise.variance)
    for t in (-30, -1, 0, 1, 2, 30):
        assert float(noise.tail(t)) == pytest.approx(math.fsum(p for z, p in mass.items() if z >= t), rel=1e-9)


@pytest.mark.parametrize("squared", [Fraction(1, 100), Fraction(1), Fraction(70), Fraction(10**12), Fraction(4**45)])
@pytest.mark.parametrize("p", [Fraction(49, 100), MICRO, Fraction(1, 10**300)])
def test_a_threshold_is_the_smallest_whose_tail_is_small_enough(squared: Fraction, p: Fraction) -> None:
    noise = DiscreteGaussian(squared)
    t = noise.threshold(p)
    assert noise.tail(t) <= p < noise.tail(t - 1)


@pytest.mark.parametrize("cells", [1, 10_000])
@pytest.mark.parametrize("confidence", [0.05, 0.95, 0.999])
def test_within_is_the_smallest_simultaneous_bound(confidence: float, cells: int) -> None:
    mass = masses(Fraction(4))
    t = DiscreteGaussian(Fraction(4)).within(confidence, cells)

    def coverage(bound: int) -> float:
        return (1 - math.fsum(p for z, p in mass.items() if abs(z) > bound)) ** cells if bound >= 0 else 0.0

    assert coverage(t) >= confidence - 1e-12
    assert coverage(t - 1) < confidence


def test_a_statistic_that_no_unit_moves_is_free_and_needs_no_noise() -> None:
    still = Sensitivity(Fraction(0), Fraction(0))
    noise = DiscreteGaussian.calibrate(still, Fraction(1), MICRO)
    assert noise.sigma_squared == 0
    assert noise.cost(still, Fraction(1)) == DiscreteGaussian(Fraction(1)).cost(still, Fraction(1)) == Cost(Fraction(0))
    assert noise.rho(still) == noise.delta(still, Fraction(1)) == 0
    assert (noise.variance, noise.tail(0), noise.tail(1), noise.within(0.95, 10)) == (0.0, Fraction(1), Fraction(0), 0)


def test_no_noise_on_a_statistic_that_moves_has_no_price() -> None:
    for price in (DiscreteGaussian(Fraction(0)).rho, lambda s: DiscreteGaussian(Fraction(0)).cost(s, Fraction(1))):
        with pytest.raises(ValueError, match="hides nothing"):
            price(number(1))


def test_parameters_out_of_range_are_refused() -> None:
    for epsilon, delta in ((-1, MICRO), (1, Fraction(0)), (1, Fraction(1)), (1, Fraction(1, 10**1001))):
        with pytest.raises(ValueError):
            DiscreteGaussian.calibrate(number(1), Fraction(epsilon), delta)
