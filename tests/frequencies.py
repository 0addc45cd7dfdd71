"""Chi-squared tests of integer draws, each of which fails by chance in one of a million runs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

ALPHA_SIGMAS = 4.7534  # the normal quantile of 1 − 1e-6


def chi_squared_limit(df: int) -> float:
    """The 1 − 1e-6 quantile (Wilson & Hilferty)."""
    return df * (1 - 2 / (9 * df) + ALPHA_SIGMAS * math.sqrt(2 / (9 * df))) ** 3


def assert_frequencies(draws: np.ndarray, upper: Callable[[int], float], lowest: int) -> None:
    """Chi-squared of integer draws against Pr[Z ≥ t] = upper(t), cells of at least 20 expected draws."""
    n, edges, left = len(draws), [], 1.0
    for t in range(lowest, 10_000):
        if n * (left - upper(t)) >= 20 and n * upper(t) >= 20:
            edges.append(t)
            left = upper(t)
    probability = -np.diff([1.0, *(upper(t) for t in edges), 0.0])
    counts = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    statistic = float(np.sum((counts - n * probability) ** 2 / (n * probability)))
    assert len(edges) >= 2
    assert statistic < chi_squared_limit(len(edges))


def assert_masses(draws: np.ndarray, masses: dict[int, float]) -> None:
    """The same against the masses of all outcomes that matter."""
    outcomes = sorted(masses)
    above = np.cumsum([masses[z] for z in reversed(outcomes)])[::-1]
    upper = dict(zip(outcomes, above.tolist(), strict=True))
    assert_frequencies(draws, lambda t: 1.0 if t < outcomes[0] else upper.get(t, 0.0), outcomes[0])


def assert_same_distribution(a: np.ndarray, b: np.ndarray) -> None:
    """Two-sample chi-squared over the integers that both have often enough."""
    low, high = min(a.min(), b.min()), max(a.max(), b.max())
    x, y = (np.bincount(v - low, minlength=high - low + 1) for v in (a, b))
    often = x + y >= 40
    x, y = (np.append(v[often], v[~often].sum()) for v in (x, y))
    x, y = x[x + y > 0], y[x + y > 0]
    k = math.sqrt(len(b) / len(a))
    assert len(x) >= 5
    assert float(np.sum((k * x - y / k) ** 2 / (x + y))) < chi_squared_limit(len(x) - 1)
