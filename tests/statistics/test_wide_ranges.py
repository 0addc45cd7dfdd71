"""What a noisy histogram tells of the range of a computed value: windows, tails, and what is found in noise alone."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpsql.core.types import Type
from dpsql.statistics.bounds import Seed, covered, covered_value, stretched

RANDOM = np.random.default_rng(5)
SEED = replace(
    Seed.of(Type.parse("DOUBLE")), low=Fraction(0), high=Fraction(2**17), otherwise=(Fraction(0), Fraction(2**17))
)


def noisy(units: dict[int, int], scale: float) -> dict[int, Fraction]:
    """A histogram over the buckets of a DOUBLE with Laplace noise; units: by the exponent of a bucket's end."""
    found = {b: round(float(RANDOM.laplace(0, scale))) for b in range(SEED.most + 1)}
    return {b: Fraction(n + units.get(b + SEED.first - 1, 0)) for b, n in found.items()}


def ends(units: dict[int, int], scale: int) -> tuple[float, float] | None:
    found = covered_value(noisy(units, scale), Fraction(scale), SEED)
    if found is None:
        return None
    low, high = SEED.ends(*found)
    return float(low), float(high)


def test_values_that_are_spread_over_buckets_that_could_be_noise_are_found_in_a_window() -> None:
    units = {8: 190, 9: 200, 10: 190}
    tries = [noisy(units, 33) for _ in range(50)]
    assert sum(covered(one, Fraction(33)) is not None for one in tries) < 30
    found = [ends(units, 33) for _ in range(50)]
    assert sum(f is not None and 512 <= f[1] <= 4096 for f in found) > 40


def test_noise_alone_is_hardly_ever_a_range() -> None:
    assert sum(ends({}, 33) is not None for _ in range(300)) < 300 * 0.12  # `covered` takes one bucket in twenty


@pytest.mark.parametrize(("units", "high"), [({7: 500, 8: 2000, 9: 1500}, 512), ({9: 4000}, 512)])
def test_where_no_tail_is_seen_the_range_ends_with_what_is_seen_or_an_octave_later(
    units: dict[int, int], high: int
) -> None:
    assert all(f is not None and f[1] in (high, 2 * high) for f in (ends(units, 10) for _ in range(30)))


def test_a_heavy_tail_stretches_the_range_and_never_beyond_the_derived_one() -> None:
    pareto = {k: int(20_000 * 0.4 ** (k - 6)) for k in range(6, 17)}
    seen = [covered(one, Fraction(100)) for one in (noisy(pareto, 100) for _ in range(20))]
    tops = [ends(pareto, 100) for _ in range(20)]
    assert np.median([2.0 ** (s[1] + SEED.first - 1) for s in seen if s is not None]) < 2**12
    assert np.median([t[1] for t in tops if t is not None]) >= 2**12
    assert all(t is not None and t[1] <= 2**17 for t in tops)


def test_both_signs_are_stretched_alike() -> None:
    counts = {b: Fraction(n) for b, n in {-9: 20, -8: 300, -7: 800, 0: 0, 7: 800, 8: 300, 9: 20}.items()}
    low, high = stretched(counts, (-8, 8), Fraction(10))
    assert low == -high and high >= 8
    alone = stretched({b: n for b, n in counts.items() if b >= 0}, (7, 8), Fraction(10))
    assert alone == (7, high)
