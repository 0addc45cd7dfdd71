"""Integers of any size as arrays, and noise added to them without wrapping around."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.int64] | npt.NDArray[np.object_]

_SAFE = 2**61  # numbers and noise below this add up within 64 bits


def integers(values: Sequence[int] | npt.NDArray[Any], what: str) -> Scores:
    """A list of integers as an array: of 64 bits, or of Python's own where that is too narrow."""
    numbers = np.asarray(values)
    if numbers.dtype == np.float64 and not isinstance(values, np.ndarray):
        # Which numpy also makes of integers of both signs where one needs all 64 bits.
        numbers = np.asarray(values, dtype=object)
    if numbers.ndim != 1 or not len(numbers):
        raise ValueError(f"a list of at least one of the {what} is needed")
    wrong = TypeError(f"{what} are integers: put them on a grid, and the sensitivity with them")
    if numbers.dtype == np.uint64 or numbers.dtype == object:
        try:
            return np.array([index(n) for n in numbers], dtype=object)
        except TypeError:
            raise wrong from None
    if not np.issubdtype(numbers.dtype, np.integer):
        raise wrong
    return numbers.astype(np.int64)


def added(numbers: Scores, noise: npt.NDArray[np.int64]) -> Scores:
    """Their sums, exactly."""
    ends = (int(end) for part in (numbers, noise) if len(part) for end in (part.max(), part.min()))
    if numbers.dtype == object or max(map(abs, ends), default=0) >= _SAFE:
        return np.asarray(numbers.astype(object) + noise.astype(object))
    return np.asarray(numbers + noise)
