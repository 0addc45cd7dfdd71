"""SKEWNESS, KURTOSIS, KURTOSIS_POP and SEM."""

from __future__ import annotations

import numpy as np
from sqlglot import exp

from dpsql.aggregates.derived import Derived, Numbers, Of, positive


def _skewness(of: Of, n: Numbers, u: Numbers, uu: Numbers, uuu: Numbers) -> Numbers:
    third = uuu - 3 * u * uu + 2 * u**3
    return third / positive(uu - u * u) ** 1.5 * np.sqrt(n * (n - 1)) / (n - 2)


def _ratio(u: Numbers, uu: Numbers, uuu: Numbers, uuuu: Numbers) -> Numbers:
    fourth = uuuu - 4 * u * uuu + 6 * u * u * uu - 3 * u**4
    return fourth / positive(uu - u * u) ** 2


def _kurtosis(of: Of, n: Numbers, u: Numbers, uu: Numbers, uuu: Numbers, uuuu: Numbers) -> Numbers:
    return ((n + 1) * _ratio(u, uu, uuu, uuuu) - 3 * (n - 1)) * (n - 1) / ((n - 2) * (n - 3))


def _excess(of: Of, n: Numbers, u: Numbers, uu: Numbers, uuu: Numbers, uuuu: Numbers) -> Numbers:
    return _ratio(u, uu, uuu, uuuu) - 3


def _of_the_mean(of: Of, n: Numbers, u: Numbers, uu: Numbers) -> Numbers:
    return np.sqrt(positive(uu - u * u) / n) * of.span


_THREE = ((1, 0), (2, 0), (3, 0))
_FOUR = (*_THREE, (4, 0))
_FLAT = "NULL where the noisy variance isn't positive"
AGGREGATES = (
    Derived(
        "SKEWNESS", f"of a sample, as in DuckDB; {_FLAT}", _THREE, _skewness, lambda of: 2.0, least=2.5,
        nodes=(exp.Skewness,), words=("SKEWNESS",),
    ),
    Derived(
        "KURTOSIS", f"excess, of a sample, as in DuckDB; {_FLAT}", _FOUR, _kurtosis, lambda of: 6.0, least=3.5,
        nodes=(exp.Kurtosis,), words=("KURTOSIS",),
    ),
    Derived(
        "KURTOSIS_POP", f"excess, of a population; {_FLAT}", _FOUR, _excess, lambda of: 6.0, least=1.5,
        words=("KURTOSIS_POP",),
    ),
    Derived(
        "SEM", f"standard error of the mean, √(VAR_POP(x)/n); {_FLAT}", ((1, 0), (2, 0)), _of_the_mean,
        lambda of: of.span / 2000, shrinks=False, words=("SEM",),
    ),
)  # fmt: skip
