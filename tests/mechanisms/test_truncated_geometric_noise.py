"""The truncated geometric mechanism: its outcomes against its mass, its ε by enumeration, its error."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from frequencies import chi_squared_limit

from dpsql.core.cost import Cost
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.toolbox_noises import LARGEST, TruncatedGeometric

ONE = Sensitivity(Fraction(1), Fraction(1))
CASES = [(scale, n) for scale in (Fraction(1, 3), Fraction(1), Fraction(4)) for n in (0, 1, 2, 3, 9, 40)]


def row(mechanism: TruncatedGeometric, count: int) -> list[float]:
    return [mechanism.pmf(count, z) for z in range(mechanism.maximum + 1)]


def clipped(scale: float, maximum: int, count: int) -> list[float]:
    """The mass function by clipping the two-sided geometric's own."""
    a = math.exp(-1 / scale)
    found = [0.0] * (maximum + 1)
    for z in range(-400, 401):
        found[min(max(count + z, 0), maximum)] += (1 - a) / (1 + a) * a ** abs(z)
    return found


def loss(mechanism: TruncatedGeometric, shift: int) -> float:
    """The largest |ln(p/q)| over all neighbouring counts and outcomes."""
    rows = [row(mechanism, count) for count in range(mechanism.maximum + 1)]
    pairs = [(rows[i], rows[i + j]) for j in range(1, shift + 1) for i in range(len(rows) - j)]
    return max(abs(math.log(p / q)) for a, b in pairs for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize(("scale", "maximum"), CASES)
def test_the_mass_function_is_that_of_clipped_noise(scale: Fraction, maximum: int) -> None:
    mechanism = TruncatedGeometric(DiscreteLaplace(scale), maximum)
    for count in range(maximum + 1):
        assert row(mechanism, count) == pytest.approx(clipped(float(scale), maximum, count), rel=1e-9)


@pytest.mark.parametrize("count", [0, 2, 9])
def test_outcomes_have_the_frequencies_of_the_mass_function(count: int) -> None:
    mechanism, n = TruncatedGeometric(DiscreteLaplace(Fraction(2)), 9), 200_000
    seen = np.bincount(mechanism.released(np.full(n, count)), minlength=10)
    expected = n * np.array(row(mechanism, count))
    assert len(seen) == 10
    assert float(np.sum((seen - expected) ** 2 / expected)) < chi_squared_limit(9)
    with pytest.raises(AssertionError):  # the check notices a scale that is 5% off
        other = n * np.array(row(TruncatedGeometric(DiscreteLaplace(Fraction(21, 10)), 9), count))
        assert float(np.sum((seen - other) ** 2 / other)) < chi_squared_limit(9)


@pytest.mark.parametrize("shift", [1, 3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_the_claimed_epsilon_holds_for_all_neighbours_and_is_attained(shift: int, epsilon: Fraction) -> None:
    size = Sensitivity(Fraction(shift), Fraction(shift**2))
    mechanism = TruncatedGeometric.calibrate(size, epsilon, 12)
    assert mechanism.cost(size) == Cost(epsilon)
    assert loss(mechanism, shift) == pytest.approx(float(epsilon))
    # Noise that is 10% less is caught.
    less = TruncatedGeometric(DiscreteLaplace(mechanism.noise.scale * Fraction(9, 10)), 12)
    assert loss(less, shift) > float(epsilon) * 1.05


@pytest.mark.parametrize(("scale", "maximum"), CASES)
@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.99])
def test_within_is_the_smallest_bound_that_holds_whatever_the_count(
    scale: Fraction, maximum: int, confidence: float
) -> None:
    mechanism = TruncatedGeometric(DiscreteLaplace(scale), maximum)

    def coverage(bound: int) -> float:
        rows = [(count, row(mechanism, count)) for count in range(maximum + 1)]
        return min(math.fsum(p for z, p in enumerate(r) if abs(z - count) <= bound) for count, r in rows)

    t = mechanism.within(confidence)
    assert coverage(t) >= confidence - 1e-12
    assert t == 0 or coverage(t - 1) < confidence


@pytest.mark.parametrize(("scale", "maximum"), CASES)
def test_the_mean_error_is_that_of_the_mass_function(scale: Fraction, maximum: int) -> None:
    mechanism = TruncatedGeometric(DiscreteLaplace(scale), maximum)
    for count in range(maximum + 1):
        truth = math.fsum(p * abs(z - count) for z, p in enumerate(row(mechanism, count)))
        assert mechanism.mean_error(count) == pytest.approx(truth, rel=1e-9, abs=1e-15)


def test_what_lies_beyond_the_bounds_is_taken_for_the_nearest() -> None:
    exact = TruncatedGeometric(DiscreteLaplace(Fraction(0)), 5)
    assert exact.released(np.array([-7, 0, 3, 5, 10**12])).tolist() == [0, 0, 3, 5, 5]
    wide = TruncatedGeometric(DiscreteLaplace(Fraction(2**50)), LARGEST)
    assert (wide.released(np.array([LARGEST, 0] * 100)) >= 0).all()
    assert exact.pmf(3, 6) == 0


def test_impossible_counts_and_maxima_are_refused() -> None:
    for maximum in (-1, LARGEST + 1):
        with pytest.raises(ValueError, match="maximum"):
            TruncatedGeometric(DiscreteLaplace(Fraction(1)), maximum)
    with pytest.raises(ValueError, match="between 0"):
        TruncatedGeometric.calibrate(ONE, Fraction(1), 5).pmf(6, 0)
