"""Noisy integers become answers exactly, however fine their grid is."""

from __future__ import annotations

import numpy as np
import pytest

from dpsql.aggregates.base import Rational


@pytest.mark.parametrize("denominator", [1, 2**20, 2**61, 2**62, 2**63, 2**64, 10**30])
def test_rationals_are_rounded_whatever_their_denominator(denominator: int) -> None:
    numbers = Rational(np.array([0, 5, -(2**62)], dtype=np.int64), denominator)
    assert [int(n) for n in numbers.rounded()] == [0, round(5 / denominator), round(-(2**62) / denominator)]
    assert [int(n) for n in Rational(np.array([0], dtype=np.int64), denominator).rounded(37)] == [0]
    assert numbers.floats == pytest.approx([0, 5 / denominator, -(2**62) / denominator])
