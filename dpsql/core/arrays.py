"""Exact numbers in numpy arrays: integers that never wrap around, lists that lie end to end, and columns of Arrow.

A sum of private integers that wrapped would move by far more than its sensitivity (Theorem GRID-1 needs exact sums).
Arrow columns are made from the buffer: pa.array(…) of an ndarray would import all of numpy.ma.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

# ---------------------------------------------------------------- integers

Integers = NDArray[np.int64] | NDArray[np.object_]

_INT64_END = 2**63


def plus(a: Integers, b: Integers) -> Integers:
    """a + b, exactly."""
    if a.dtype != object and b.dtype != object and top(a) + top(b) < _INT64_END:
        return np.asarray(a + b)
    return np.asarray(_wide(a) + _wide(b))


def minus(a: Integers, b: Integers) -> Integers:
    """a − b, exactly."""
    return plus(a, times(b, -1))


def times(a: Integers, factor: int) -> Integers:
    """a · factor, exactly."""
    if a.dtype != object and top(a) * abs(factor) < _INT64_END and abs(factor) < _INT64_END:
        return np.asarray(a * np.int64(factor))
    return np.asarray(_wide(a) * factor)


def top(a: Integers) -> int:
    """The largest absolute value."""
    return max(abs(int(np.max(a, initial=0))), abs(int(np.min(a, initial=0))))


def _wide(a: Integers) -> Any:
    return np.asarray([int(v) for v in a], dtype=object)


# ---------------------------------------------------------------- lists of different lengths, one after the other

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


# ---------------------------------------------------------------- columns of Arrow


def column(numbers: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> Any:
    """The numbers (of a dtype that Arrow stores alike) as an Arrow array, NULL where missing."""
    import pyarrow as pa

    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    values = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def to_python(values: Any) -> list[Any]:
    """An Arrow column's Python values. A moment with a time zone is one in UTC, whatever Python knows of zones.

    pyarrow asks pytz or the system for the zone, even for UTC's: both are missing in small installations.
    """
    import pyarrow as pa

    kind = values.type
    listed = pa.types.is_list(kind)
    inner = kind.value_type if listed else kind
    if not pa.types.is_timestamp(inner) or inner.tz is None:
        return list(values.to_pylist())
    plain = pa.timestamp(inner.unit)
    moments = values.cast(pa.list_(plain) if listed else plain).to_pylist()
    if not listed:
        return [_in_utc(moment) for moment in moments]
    return [None if inner_list is None else [_in_utc(moment) for moment in inner_list] for inner_list in moments]


def _in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)
