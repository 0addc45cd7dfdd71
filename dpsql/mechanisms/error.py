"""How far noise can be off: half-widths of confidence intervals for linear combinations of independent draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.laplace_noise import DiscreteLaplace

Floats = NDArray[np.float64]


def half_width(terms: Sequence[tuple[Any, Noise]], confidence: float, cells: int = 1) -> Floats:
    """t with Pr[|Σ wᵢZᵢ| ≤ t for all of `cells` independent copies] ≥ confidence; weights are numbers or arrays.

    Exact for one draw; for two and three Laplace draws from the distribution of their sum; for more, from its first
    four moments (Cornish and Fisher), which errs on the wide side.
    """
    weights = [np.abs(np.asarray(w, dtype=np.float64)) for w, _ in terms]
    noises = [n for _, n in terms]
    if len(terms) == 1:
        return np.asarray(weights[0] * noises[0].within(confidence, cells))
    miss = 1.0 - confidence ** (1.0 / cells) if cells > 1 else 1.0 - confidence
    if all(isinstance(n, DiscreteLaplace) for n in noises) and len(terms) <= 3:
        scales = [w * float(n.width) for w, n in zip(weights, noises, strict=True)]
        if all(s.ndim == 0 for s in scales):
            return np.asarray(_one_laplace_sum(tuple(float(s) for s in scales), miss))
        return _laplace_sum(scales, miss)
    return _cornish_fisher(weights, noises, miss)


@lru_cache(maxsize=256)
def _one_laplace_sum(scales: tuple[float, ...], miss: float) -> float:
    """The same for one sum: queries of one policy mostly have noise of the same few scales."""
    return float(_laplace_sum([np.asarray(s) for s in scales], miss))


def _laplace_sum(scales: list[Floats], miss: float) -> Floats:
    """Solve Pr[|S| > t] = miss for a sum of Laplace draws: Σᵢ Πⱼ λᵢ²/(λᵢ² − λⱼ²) · e^(−t/λᵢ)."""
    ordered = np.sort(np.stack(np.broadcast_arrays(*scales)).reshape(len(scales), -1), axis=0)[::-1]
    largest = ordered[0].copy()  # 0 where nothing is off; else the unit, in which no square is too small for a float
    ordered = np.maximum(ordered / np.where(largest > 0, largest, 1.0), 1e-9)
    # Equal scales would divide by zero; widening one by 0.1% moves the result by less.
    for i in range(1, len(ordered)):
        ordered[i] = np.minimum(ordered[i], ordered[i - 1] * 0.999)
    squares = ordered**2
    factors = np.ones_like(ordered)
    for i in range(len(ordered)):
        for j in range(len(ordered)):
            if i != j:
                factors[i] *= squares[i] / (squares[i] - squares[j])
    low, high = np.zeros(ordered.shape[1]), ordered[0] * 2 * (len(scales) + abs(np.log(miss)))
    for _ in range(60):
        middle = (low + high) / 2
        tail = (factors * np.exp(-middle / ordered)).sum(axis=0)
        low, high = np.where(tail > miss, middle, low), np.where(tail > miss, high, middle)
    shape = np.broadcast_shapes(*(s.shape for s in scales))
    return np.asarray((high * largest).reshape(shape))


def _cornish_fisher(weights: list[Floats], noises: list[Noise], miss: float) -> Floats:
    spreads = np.stack(np.broadcast_arrays(*(w * sqrt(n.variance) for w, n in zip(weights, noises, strict=True))))
    largest = spreads.max(axis=0)  # the unit, in which no square is too large or too small for a float
    variances = list((spreads / np.where(largest > 0, largest, 1.0)) ** 2)
    variance = np.asarray(sum(variances))
    fourth = sum(n.excess * v**2 for n, v in zip(noises, variances, strict=True))
    kurtosis = np.divide(fourth, variance**2, out=np.zeros_like(variance), where=variance > 0)
    z = NormalDist().inv_cdf(1 - miss / 2) if miss > 1e-15 else sqrt(-2 * np.log(miss / 2))
    return np.asarray(largest * np.sqrt(variance) * (z + (z**3 - 3 * z) * kurtosis / 24))
