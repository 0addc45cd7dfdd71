"""Lists of different lengths that lie one after the other in one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def positions(starts: Places, lengths: Places) -> Places:
    """The places from each start on, as many as its length says, one list after the other."""
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths))


def first_largest(values: NDArray[Any], lengths: Places) -> Places:
    """In each list, none of which is empty, the place of its largest value: the first of equals."""
    longest = int(lengths.max(initial=0))
    if longest * len(lengths) == len(values):  # all are as long
        return np.argmax(values.reshape(len(lengths), longest), axis=1) if len(values) else np.zeros(0, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    largest = np.repeat(np.maximum.reduceat(values, starts), lengths)
    winners = np.flatnonzero(values == largest)
    return winners[np.searchsorted(winners, starts)] - starts
