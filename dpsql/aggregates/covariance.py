"""COVAR_POP, COVAR_SAMP, CORR, REGR_R2."""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Floats
from dpsql.aggregates.derived import Derived, Numbers, Of, positive

_CROSS = ((1, 0), (0, 1), (1, 1))
_SQUARES = (*_CROSS, (2, 0), (0, 2))


def _population(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers) -> Numbers:
    return (uv - u * v) * of.span * of.second_span


def _sample(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers) -> Numbers:
    return _population(of, n, u, v, uv) * n / (n - 1)


def _correlation(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers, uu: Numbers, vv: Numbers) -> Numbers:
    return (uv - u * v) / np.sqrt(positive(uu - u * u) * positive(vv - v * v))


def _explained(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers, uu: Numbers, vv: Numbers) -> Numbers:
    return (uv - u * v) ** 2 / (positive(uu - u * u) * positive(vv - v * v))


def _quarter(of: Of, n: Floats) -> tuple[float, float]:
    """No covariance is more than a quarter of the product of the spans."""
    most = of.span * of.second_span / 4
    return -most, most


def _sample_quarter(of: Of, n: Floats) -> tuple[Floats, Floats]:
    most = of.span * of.second_span / 4 * n / np.maximum(n - 1, 0.5)
    return -most, most


def _size(of: Of) -> float:
    return of.span * of.second_span / 4


AGGREGATES = (
    Derived(
        "COVAR_POP", "within the ranges; NULL where the noisy count of pairs may be noise alone", _CROSS, _population,
        _size, pair=True, limits=_quarter, nodes=(exp.CovarPop,),
    ),
    Derived(
        "COVAR_SAMP", "within the ranges; NULL where the noisy count of pairs may be noise alone", _CROSS, _sample,
        _size, pair=True, least=1.5, limits=_sample_quarter, fixed=False, nodes=(exp.CovarSamp,),
    ),
    Derived(
        "CORR", "within [-1, 1]; NULL where a noisy variance isn't positive", _SQUARES, _correlation, lambda of: 1.0,
        pair=True, least=1.5, limits=lambda of, n: (-1.0, 1.0), nodes=(exp.Corr,),
    ),
    Derived(
        "REGR_R2", "within [0, 1]; NULL where a noisy variance isn't positive", _SQUARES, _explained, lambda of: 0.5,
        pair=True, least=1.5, limits=lambda of, n: (0.0, 1.0), nodes=(exp.RegrR2,),
    ),
)  # fmt: skip
