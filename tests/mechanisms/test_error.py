"""Half-widths of sums of noise, where some of it is nothing at all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.laplace_noise import DiscreteLaplace


def test_nothing_is_off_where_no_noise_has_a_weight() -> None:
    noise = DiscreteLaplace(Fraction(4))
    found = half_width([(np.array([0.0, 1.0]), noise), (np.array([0.0, 1.0]), noise)], 0.95)
    assert found[0] == 0.0
    assert found[1] > 0.0


@pytest.mark.parametrize("weight", [1e-200, 1e-9, 1.0, 1e200])
def test_a_half_width_grows_with_the_weights(weight: float) -> None:
    noise = DiscreteLaplace(Fraction(4))
    one, many = (half_width([(np.array([w]), noise), (np.array([w / 2]), noise)], 0.95) for w in (1.0, weight))
    assert many[0] == pytest.approx(one[0] * weight, rel=1e-9)
