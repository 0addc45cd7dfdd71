"""The samplers against their distributions: by enumeration of bits, by frequency, and against OpenDP."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from frequencies import assert_frequencies, assert_same_distribution

from dpsql.mechanisms import sampler

dp.enable_features("contrib")


def laplace_upper(scale: float) -> Callable[[int], float]:
    a = math.exp(-1 / scale)
    return lambda t: a**t / (1 + a) if t > 0 else 1 - a ** (1 - t) / (1 + a)


def normal_upper(sigma: float) -> Callable[[int], float]:
    return lambda t: math.erfc((t - 0.5) / sigma / math.sqrt(2)) / 2


@pytest.fixture
def in_decimal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_LOG_ERROR", 2.0**90)


def test_numpy_keeps_the_float_errors_that_the_bounds_assume() -> None:
    words = np.frombuffer(os.urandom(8 * 1500), dtype=np.uint64)
    near_one = np.arange(2**64 - 200 * 2**20, 2**64, 2**20, dtype=np.uint64)
    reals: tuple[Any, ...] = (np.float64, np.longdouble)
    for real in reals:
        eps = sampler._eps(real)
        u = np.concatenate((words, near_one)).astype(real) * real(2.0) ** -64
        u = u[u < 1]
        angle = u * (real(math.tau) + real(sampler._TAU_REST))
        with localcontext(prec=60):
            for x, log, cos, sin in zip(u, np.log(u), np.cos(angle), np.sin(angle), strict=True):
                exact = Decimal(int(x * real(2.0) ** 64)) / 2**64
                truth = exact.ln()
                # Half of the bound on scale·ln u: the rest is for the roundings after the logarithm.
                assert abs(wide(log) - truth) <= Decimal(sampler._LOG_ERROR - 4) * Decimal(eps) * -truth
                # The bound for the whole angle, less u's own rounding and the roundings of the products after it.
                for got, want in zip((cos, sin), turn(exact), strict=True):
                    assert abs(wide(got) - want) <= Decimal(sampler._TRIG_ERROR - 6) * Decimal(eps)


def wide(x: np.floating) -> Decimal:
    head = float(x)
    return Decimal(head) + Decimal(float(x - type(x)(head)))


def turn(u: Decimal) -> tuple[Decimal, Decimal]:
    """cos and sin of 2πu by plain Taylor series from 0."""
    angle = u * 2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640629")
    cos = sin = Decimal(0)
    term = Decimal(1)
    for i in range(1, 90):
        if i % 2:
            cos += term if i % 4 == 1 else -term
        else:
            sin += term if i % 4 == 2 else -term
        term *= angle / i
    return cos, sin


@pytest.mark.parametrize("real", [np.float64, np.longdouble])
@pytest.mark.parametrize("scale", [Fraction(1, 10**12), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)])
def test_floats_settle_a_geometric_lane_only_if_the_whole_interval_agrees(real: type, scale: Fraction) -> None:
    bits = 12
    words = np.arange(2**bits, dtype=np.uint64)
    z, settled = sampler._geometric_in(real, scale, words, bits)
    with localcontext(prec=40):
        edge = [(-Decimal(t) * scale.denominator / scale.numerator).exp() for t in range(int(np.max(z[settled])) + 2)]
    for k in np.flatnonzero(settled):
        assert edge[z[k] + 1] * 2**bits <= int(k)
        assert int(k) + 1 <= edge[z[k]] * 2**bits
    # And no more lanes are left over than there are integers to straddle, at most two words each.
    assert np.count_nonzero(~settled) <= 2 * (len(edge) + 12 * float(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2)])
def test_the_geometric_mass_over_all_bit_strings_is_the_formula(
    scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All strings of 8 + 8 bits, then a fixed middle; the second byte is drawn only where the first leaves a doubt.
    tails: Iterator[int] = iter(())
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: bytes([next(tails), 128]) + bytes(n - 2))
    z, settled = sampler._geometric_in(np.float64, scale, np.arange(256, dtype=np.uint64), 8)
    outcomes = [int(outcome) for outcome in z[settled] for _ in range(256)]
    refined = 0
    for k in np.flatnonzero(~settled):
        tails = iter(range(256))
        outcomes += [sampler._geometric_in_decimal(scale, int(k), 8) for _ in range(256)]
        refined += 1
    assert refined >= 4
    for t in range(1, 20):
        # The strings with an outcome of t or more are an initial segment of [0, 1) of length e^(−t/scale).
        reached = sum(outcome >= t for outcome in outcomes)
        assert abs(reached - 2**16 * math.exp(-t / scale)) <= 1


def test_the_normal_mass_over_all_bit_strings_encloses_the_formula() -> None:
    bits, sigma = 11, Fraction(3, 2)
    radii, angles = (v.ravel() for v in np.meshgrid(*2 * [np.arange(2**bits, dtype=np.uint64)]))
    x, y, settled = sampler._normal_in(np.float64, sigma, radii, angles, bits)
    open_mass = float(np.mean(~settled))
    assert open_mass < 0.05
    upper = normal_upper(1.5)
    for outcome in (x, y):
        for t in range(-6, 7):
            certain = float(np.mean(settled & (outcome == t)))
            assert certain <= upper(t) - upper(t + 1) <= certain + open_mass
    both = float(np.mean(settled & (x == 1) & (y == -2)))
    assert both <= (upper(1) - upper(2)) * (upper(-2) - upper(-1)) <= both + open_mass


def assert_constant_on_boxes(
    sigma: float, x: np.ndarray, y: np.ndarray, radii: np.ndarray, angles: np.ndarray, bits: int
) -> None:
    for i in np.linspace(0, 1, 9):
        for j in np.linspace(0, 1, 9):
            u, v = (radii + max(i, 1e-9)) / 2**bits, (angles + j) / 2**bits
            radius = sigma * np.sqrt(-2 * np.log(np.minimum(u, 1)))
            assert np.array_equal(np.rint(radius * np.cos(2 * np.pi * v)), x)
            assert np.array_equal(np.rint(radius * np.sin(2 * np.pi * v)), y)


@pytest.mark.parametrize("sigma", [Fraction(3, 2), Fraction(6)])
def test_a_normal_lane_is_settled_only_if_the_whole_box_agrees(sigma: Fraction) -> None:
    # Radii large, middling and near 0 (where an interval is wide), with all angles.
    bits = 8
    words = np.arange(256, dtype=np.uint64)
    radii, angles = (v.ravel() for v in np.meshgrid(words[[*range(6), *range(64, 68), *range(250, 256)]], words))
    x, y, settled = sampler._normal_in(np.float64, sigma, radii, angles, bits)
    assert np.count_nonzero(settled) > 40
    assert_constant_on_boxes(float(sigma), x[settled], y[settled], radii[settled], angles[settled], bits)
    pairs = [sampler._normal_at(sigma, int(k), int(j), bits) for k, j in zip(radii, angles, strict=True)]
    settled = np.array([pair is not None for pair in pairs])
    assert np.count_nonzero(settled) > 40
    x, y = np.array([pair for pair in pairs if pair is not None]).T
    assert_constant_on_boxes(float(sigma), x, y, radii[settled], angles[settled], bits)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_decimal_settles_a_geometric_lane_only_if_the_whole_interval_agrees(scale: Fraction) -> None:
    settled = 0
    for k in range(256):
        z = sampler._geometric_at(scale, k, 8)
        if z is not None:
            settled += 1
            # The ends may lie on an integer up to rounding only for u = 1.
            assert math.floor(-scale * math.log((k + 1) / 256)) == math.floor(-scale * math.log(k / 256)) == z
    assert settled > 200


@pytest.mark.parametrize(
    "scale", [Fraction(1, 7), Fraction(1), Fraction(2**30, 3), Fraction(2**41), Fraction(2**49, 3)]
)
def test_decimal_agrees_with_floats_whatever_bits_are_appended(scale: Fraction, in_decimal_only: None) -> None:
    bits = sampler._bits(scale)
    words, angles = sampler._words(300, bits), sampler._words(300, bits)
    slow, slow_normal = sampler._geometric(scale, words, bits), sampler._normal(scale, words, angles, bits)
    assert not sampler._geometric_in(np.longdouble, scale, words, bits)[1].any()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "_LOG_ERROR", 8.0)
        for real in (np.float64, np.longdouble):
            fast, settled = sampler._geometric_in(real, scale, words, bits)
            assert np.count_nonzero(settled) >= 240 or (scale > 2**47 and sampler._eps(real) > 2**-60)
            assert np.array_equal(fast[settled], slow[settled])
            x, y, settled = sampler._normal_in(real, scale, words, angles, bits)
            assert np.count_nonzero(settled) >= 240 or (scale > 2**47 and sampler._eps(real) > 2**-60)
            assert np.array_equal(np.concatenate((x[settled], y[settled])), slow_normal[np.tile(settled, 2)])


def test_float64_settles_nothing_at_huge_scales_that_long_double_sees_otherwise() -> None:
    scale, words, angles = Fraction(2**46, 3), sampler._words(200_000, 64), sampler._words(200_000, 64)
    (z, sure), (wide_z, wide_sure) = (sampler._geometric_in(r, scale, words, 64) for r in (np.float64, np.longdouble))
    assert 10_000 < np.count_nonzero(sure & wide_sure) < 198_000
    assert np.array_equal(z[sure & wide_sure], wide_z[sure & wide_sure])
    (x, y, sure), (wide_x, wide_y, wide_sure) = (
        sampler._normal_in(r, scale / 8, words, angles, 64) for r in (np.float64, np.longdouble)
    )
    assert 10_000 < np.count_nonzero(sure & wide_sure) < 198_000
    assert np.array_equal(x[sure & wide_sure], wide_x[sure & wide_sure])
    assert np.array_equal(y[sure & wide_sure], wide_y[sure & wide_sure])


def test_the_decimal_path_alone_has_the_right_frequencies(in_decimal_only: None) -> None:
    assert_frequencies(sampler.discrete_laplace(Fraction(2), 8_000), laplace_upper(2), -200)
    assert_frequencies(sampler.rounded_normal(Fraction(2), 8_000), normal_upper(2), -200)


def test_refinement_never_redraws_the_first_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The word 94 of 256 straddles e^-1: whatever follows, the outcome is 0 or 1.
    k = math.floor(256 * math.exp(-1))
    outcomes = {sampler._geometric_in_decimal(Fraction(1), k, 8) for _ in range(200)}
    assert outcomes == {0, 1}


def test_refinement_of_a_normal_is_uniform_in_its_box() -> None:
    # U in [1/4, 1/2) and V in [0, 1/4), by the decimal path and by plain floats.
    pairs = np.array([sampler._normal_in_decimal(Fraction(3), 1, 0, 2) for _ in range(3000)])
    rng = np.random.default_rng()
    radius = 3 * np.sqrt(-2 * np.log(rng.uniform(0.25, 0.5, 10**6)))
    angle = 2 * np.pi * rng.uniform(0, 0.25, 10**6)
    plain = np.rint(radius * np.cos(angle)) * 100 + np.rint(radius * np.sin(angle))
    assert_same_distribution(pairs @ [100, 1], plain.astype(np.int64))


def test_a_word_of_zeros_is_refined_and_not_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = iter([bytes(4), bytes(8), bytes(7) + b"\1"])
    monkeypatch.setattr(sampler, "_random_bytes", lambda n: next(feed))
    # 1/2^160 < U < 2/2^160, so −ln U is between 110.2 and 110.9.
    assert sampler.geometric(Fraction(1), 1).tolist() == [110]


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(30)])
def test_a_million_draws_have_the_right_frequencies(scale: Fraction) -> None:
    s = float(scale)
    assert_frequencies(sampler.geometric(scale, 10**6), lambda t: math.exp(-t / s), 1)
    assert_frequencies(sampler.discrete_laplace(scale, 10**6), laplace_upper(s), -2000)
    assert_frequencies(sampler.rounded_normal(scale, 10**6), normal_upper(s), -2000)


def test_the_frequency_check_notices_a_scale_that_is_one_percent_off() -> None:
    with pytest.raises(AssertionError):
        assert_frequencies(sampler.discrete_laplace(Fraction(99, 100), 10**6), laplace_upper(1), -2000)
    with pytest.raises(AssertionError):
        assert_frequencies(sampler.rounded_normal(Fraction(99, 100), 10**6), normal_upper(1), -2000)


@pytest.mark.parametrize("exponent", [13, 30, 41])
def test_huge_scales_follow_the_continuous_law(exponent: int) -> None:
    scale, n = 2.0**exponent, 200_000
    laws: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
        (sampler.discrete_laplace(Fraction(2**exponent), n), lambda x: 0.5 + np.sign(x) * -np.expm1(-abs(x)) / 2),
        (sampler.rounded_normal(Fraction(2**exponent), n), lambda x: np.vectorize(math.erfc)(-x / math.sqrt(2)) / 2),
    )
    for draws, cdf in laws:
        distance = np.max(np.abs(cdf(np.sort(draws) / scale) - (np.arange(n) + 0.5) / n))
        assert distance * math.sqrt(n) < math.sqrt(math.log(2e6) / 2) + 0.1  # Kolmogorov–Smirnov at 1e-6
        assert abs(float(np.mean(draws % 2)) - 0.5) * 2 * math.sqrt(n) < 5  # the last bit is there, and is fair


def test_scales_up_to_2_to_the_50_work_and_beyond_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal):
        assert 2.0**44 < np.abs(draw(sampler.LARGEST_SCALE, 40)).mean() < 2.0**53
    monkeypatch.setattr(sampler, "_random_bytes", None)
    for draw in (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal):
        with pytest.raises(OverflowError, match="64-bit"):
            draw(sampler.LARGEST_SCALE + 1, 1)
        with pytest.raises(ValueError, match="negative"):
            draw(Fraction(-1), 1)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(1, 10**400), Fraction(1, 10**12), Fraction(1, 100)])
def test_tiny_scales_draw_zeros(scale: Fraction) -> None:
    for draw in (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal):
        assert not draw(scale, 1001).any()


@pytest.mark.parametrize("n", [0, 1, 2, 7, sampler._CHUNK - 1, sampler._CHUNK + 1, 2 * sampler._CHUNK + 3])
def test_every_cell_gets_a_draw_of_its_own(n: int) -> None:
    for draw in (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal):
        cells = draw(Fraction(2**48), n)
        assert cells.dtype == np.int64
        assert len(np.unique(np.abs(cells))) == len(cells) == n  # by chance two of 2^16 are alike in one of 10^5 runs


@pytest.mark.true_noise
def test_noise_cannot_be_seeded() -> None:
    np.random.seed(0)
    first = sampler.discrete_laplace(Fraction(2**40), 100)
    np.random.seed(0)
    assert not np.array_equal(first, sampler.discrete_laplace(Fraction(2**40), 100))
    assert sampler._random_bytes is os.urandom
    for draw in (sampler.geometric, sampler.discrete_laplace, sampler.rounded_normal):
        assert list(inspect.signature(draw).parameters)[1:] == ["n"]


def test_opendp_draws_the_same_discrete_laplace() -> None:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    theirs = dp.m.make_laplace(*space, scale=2.5)([0] * 100_000)
    assert_same_distribution(sampler.discrete_laplace(Fraction(5, 2), 10**6), np.array(theirs))


@pytest.mark.long
def test_opendp_draws_the_same_normal_once_it_is_rounded() -> None:
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=2.5)([0.0] * 50_000)
    assert_same_distribution(sampler.rounded_normal(Fraction(5, 2), 10**6), np.rint(theirs).astype(np.int64))
