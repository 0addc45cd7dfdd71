"""Integer arithmetic that never wraps around: in int64 where that can't overflow, else in Python integers.

A sum of private integers that wrapped would move by far more than its sensitivity (Theorem GRID-1 needs exact sums).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64] | NDArray[np.object_]

_LIMIT = 2**63


def plus(a: Integers, b: Integers) -> Integers:
    """a + b, exactly."""
    if a.dtype != object and b.dtype != object and top(a) + top(b) < _LIMIT:
        return np.asarray(a + b)
    return np.asarray(_wide(a) + _wide(b))


def minus(a: Integers, b: Integers) -> Integers:
    """a − b, exactly."""
    return plus(a, times(b, -1))


def times(a: Integers, factor: int) -> Integers:
    """a · factor, exactly."""
    if a.dtype != object and top(a) * abs(factor) < _LIMIT and abs(factor) < _LIMIT:
        return np.asarray(a * np.int64(factor))
    return np.asarray(_wide(a) * factor)


def top(a: Integers) -> int:
    """The largest absolute value."""
    return max(abs(int(np.max(a, initial=0))), abs(int(np.min(a, initial=0))))


def _wide(a: Integers) -> Any:
    return np.asarray([int(v) for v in a], dtype=object)
