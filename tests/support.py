"""What several test files share."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import dpsql
from dpsql.mechanisms.gaussian import Gaussian
from dpsql.mechanisms.laplace import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote import Measurement

Connect = Callable[..., dpsql.Session]
WHOLE = "DPSQL_WHOLE"  # set where long randomised suites run whole (--whole)


def examples(sample: int) -> int:
    """How many random examples a test takes: a sample, or twenty times as many with --whole."""
    return sample * (20 if os.environ.get(WHOLE) else 1)


def added_to(measurement: Measurement) -> DiscreteLaplace | Gaussian:
    """The noise of a measurement whose numbers leave: one that is added to them."""
    assert not isinstance(measurement.noise, NoisyMax)
    return measurement.noise


def scale_of(measurement: Measurement) -> Fraction:
    """The scale of a measurement's noise, which is of the Laplace family."""
    assert not isinstance(measurement.noise, Gaussian)
    return measurement.noise.scale
