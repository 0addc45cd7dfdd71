"""Arrow columns of numpy numbers, made from the buffer: pa.array(…) of an ndarray would import all of numpy.ma."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def column(numbers: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> Any:
    """The numbers (of a dtype that Arrow stores alike) as an Arrow array, NULL where missing."""
    import pyarrow as pa

    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    values = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])
