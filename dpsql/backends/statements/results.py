"""Results of statements, as Arrow tables -> exact integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsql.backends.base import Counts
from dpsql.backends.statements.distinct import OUTPUTS, counted
from dpsql.backends.statements.rows import CELL
from dpsql.core.arrays import Places
from dpsql.statistics.base import Integers


def counts_of(result: Any) -> Counts:
    """What a histogram's statement found."""
    cell, value, count = (integers(result.column(name)) for name in (CELL, "x", "n"))
    order = _by_cell(cell, value)
    return Counts(cell[order], value[order], count[order])


def _by_cell(cell: Integers, value: Integers) -> Places:
    """The order of cells, and of values in each: by one number for both, where that fits 64 bits."""
    low, span = int(value.min(initial=0)), int(value.max(initial=0)) - int(value.min(initial=0)) + 1
    if cell.dtype == object or value.dtype == object or (int(cell.max(initial=0)) + 1) * span >= 2**62:
        return np.lexsort((value, cell))
    return np.argsort(cell * span + (value - low))


def matched_of(result: Any, cells: int) -> Integers:
    """How many values count in each cell, by what a matching's statement found."""
    cell, unit, value, capacity = (np.asarray(integers(result.column(name)), dtype=np.int64) for name in OUTPUTS)
    return counted((cell, unit, value, capacity), cells)


def integers(column: Any) -> Integers:
    """An Arrow column of integers without NULLs (HUGEINT arrives as decimal128(38, 0)) as exact integers."""
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # no chunk at all
        array = pa.array([], array.type)
    if not len(array):
        return np.zeros(0, dtype=np.int64)
    if not pa.types.is_decimal(array.type):
        # From the buffer: to_numpy() would import pandas where it is installed, and cast() all of pyarrow.compute.
        whole = array if array.type == pa.int64() else array.cast(pa.int64())
        return np.frombuffer(whole.buffers()[1], dtype=np.int64)[whole.offset :][: len(whole)].copy()
    limbs = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset :][: 2 * len(array)]
    low, high = limbs[0::2], limbs[1::2]
    if np.array_equal(high, low >> 63):  # the upper half is only the sign: they all fit int64
        return low.copy()
    wide: Integers = np.array([(int(h) << 64) + int(lo) % 2**64 for h, lo in zip(high, low, strict=True)], dtype=object)
    return wide
