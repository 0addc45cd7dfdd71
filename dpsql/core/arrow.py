"""Arrow columns of numpy numbers, and the Python values of columns.

Columns are made from the buffer: pa.array(…) of an ndarray would import all of numpy.ma.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    found = values.cast(pa.list_(plain) if listed else plain).to_pylist()
    if not listed:
        return [_in_utc(value) for value in found]
    return [None if value is None else [_in_utc(one) for one in value] for value in found]


def _in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)
