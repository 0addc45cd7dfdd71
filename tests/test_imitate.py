"""Simulated noise is distributed as noise is, and is the same for the same noisy tables."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import Connect

from dpsql.aggregates.noisy import Noisy
from dpsql.answer.imitate import generator_of, imitated
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

NOISES = (
    DiscreteLaplace(Fraction(0)),
    DiscreteLaplace(Fraction(2, 3)),
    DiscreteLaplace(Fraction(10**6)),
    DiscreteLaplace(Fraction(2**50)),
    Gaussian(Fraction(1, 2)),
    Gaussian(Fraction(10**9)),
    DiscreteGaussian(Fraction(1, 3)),
    DiscreteGaussian(Fraction(900)),
    DiscreteGaussian(Fraction(10**8)),
)
POLICY: dict[str, Any] = {
    "tables": {"t": {"unit": "u", "columns": {"k": {"min": 0, "max": 5, "nullable": False}, "v": {"min": 0, "max": 9}}}}
}
ROWS = pa.table(
    {"u": [i % 200 for i in range(1000)], "k": [i % 6 for i in range(1000)], "v": [i % 11 for i in range(1000)]}
)


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: f"{n.kind} {float(n.width):.3g}")
def test_simulated_noise_is_distributed_as_the_noise_is(noise: Noise) -> None:
    found = imitated(noise, 200_000, np.random.default_rng(5))  # the seed is fixed, and so is what comes of it
    assert np.var(found) == pytest.approx(noise.variance, rel=0.03)
    for confidence in (0.5, 0.9, 0.99):
        t = noise.within(confidence)
        assert np.mean(np.abs(found) <= t) >= confidence - 0.005
        assert not t or np.mean(np.abs(found) <= t - 1) <= confidence + 0.005


def test_other_numbers_and_other_noise_have_other_seeds(connect: Connect) -> None:
    answer = connect({"t": ROWS}, POLICY).query("SELECT k, COUNT(*) FROM t GROUP BY k", epsilon=1)
    (noisy,) = answer.noisy

    def first(one: Noisy) -> float:
        return float(generator_of([one]).random())

    moved = tuple(tuple(numbers + 1 for numbers in group) for group in noisy.columns)
    assert first(noisy) == first(replace(noisy)) != first(replace(noisy, columns=moved))
    ((measurement,), (group,)) = noisy.step.measurements, noisy.columns
    other = replace(noisy.step, measurements=(replace(measurement, noise=DiscreteLaplace(Fraction(9))),))  # type: ignore[type-var]
    assert group and first(noisy) != first(replace(noisy, step=other))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, SUM(COUNT(*)) OVER (ORDER BY k) AS x FROM t GROUP BY k",  # with what limits cut
        "SELECT k, SUM(v) * 1.0 / SUM(SUM(v)) OVER () AS x FROM t GROUP BY k",
        "SELECT SUM(n) / MAX(m) AS x FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k), (SELECT COUNT(*) AS m FROM t)",
    ],
)
def test_a_stored_answer_shows_the_same_intervals_again(connect: Connect, sql: str) -> None:
    session = connect({"t": ROWS}, POLICY)
    first, again = session.query(sql, epsilon=1), session.query(f"{sql} ", epsilon=1)
    assert first.intervals()["x"] and again.receipt.id == first.receipt.id
    assert first.rows == again.rows and first.intervals() == again.intervals() and first.cut == again.cut
    assert session.query(sql, epsilon=1, fresh=True).intervals() != first.intervals()
