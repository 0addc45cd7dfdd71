"""release: Exact -> Noisy. The choke point: the only module that reads exact statistics and draws noise.

What leaves here is differentially private; what never passes here never leaves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates.noisy import Noisy, Randomized, Responded
from dpsql.backends.base import Codes, Exact
from dpsql.core.arrays import Integers, plus
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import shuffled
from dpsql.quote.model import Measurement, ResponseStep, Step
from dpsql.statistics.base import Choice
from dpsql.statistics.top import Top

LANES = 2**17  # candidates that are looked at together: as many as stay in the cache


def respond(step: ResponseStep, exact: Codes) -> Responded:
    """Move each value of each row by a draw of its own, around the end of its list; then shuffle the rows."""
    order = shuffled(len(exact.columns[0]))
    columns = []
    for column, mechanism, codes in zip(step.checked.columns, step.mechanisms, exact.columns, strict=True):
        # Theorem RR-1: a value is kept with probability p, and each other one is equally likely.
        moved = (codes[order] + mechanism.draw(len(codes))) % np.uint32(mechanism.size)
        columns.append(Randomized(column.values, column.type, mechanism, moved.astype(np.uint32)))
    return Responded(step.name, tuple(columns))


def release(step: Step, exact: Exact) -> Noisy:
    """Add each measurement's own noise to each of its columns and cells; then drop the cells that may not leave."""
    cells = exact.cells if step.checked.private_keys else step.cells
    if any(isinstance(m.statistic, Top) for m in step.measurements):
        return _winners(step, exact)
    count = 1 if cells is None else int(cells.num_rows)
    added = [None if isinstance(m.noise, NoisyMax) else _noisy(m, exact, count) for m in step.measurements]
    kept = np.arange(count)
    if step.selection is not None:
        # Theorem KEY-1: a key leaves when its noisy number of units reaches the threshold.
        units = added[step.selection.measurement]
        assert units is not None
        kept = np.flatnonzero(units[0] >= step.selection.threshold)
        cells = _take(cells, kept)
    columns = [
        _chosen(m, exact, kept) if columns is None else tuple(c[kept] for c in columns)
        for m, columns in zip(step.measurements, added, strict=True)
    ]
    return Noisy(step, _plain(cells), tuple(columns))


def _chosen(measurement: Measurement, exact: Exact, cells: NDArray[np.int64]) -> tuple[Integers, ...]:
    """A choice in each of these cells, each with noise of its own; of the scores nothing leaves (Theorem CHOOSE-1)."""
    choice, noise = measurement.statistic, measurement.noise
    assert isinstance(choice, Choice) and isinstance(noise, NoisyMax)
    counts, size = exact.spectra[choice.spectrum], max(1, LANES // choice.candidates)
    blocks = [choice.choose(noise, *counts.of(cells[i : i + size])) for i in range(0, max(1, len(cells)), size)]
    return tuple(np.concatenate(columns) for columns in zip(*blocks, strict=True))


def _winners(step: Step, exact: Exact) -> Noisy:
    """The cells that win, in their order; in place of their scores, places that give the same order (CHOOSE-1)."""
    (measurement,) = step.measurements
    top, noise = measurement.statistic, measurement.noise
    assert isinstance(top, Top) and isinstance(noise, NoisyMax)
    (scores,) = top.columns([exact.tallies[t] for t in top.tallies])
    places = np.array(noise.top(scores, top.count), dtype=np.int64) if len(scores) else np.zeros(0, dtype=np.int64)
    order = np.arange(len(places), 0, -1) if top.largest else np.arange(1, len(places) + 1)
    return Noisy(step, _plain(_take(step.cells, places)), ((order.astype(np.int64),),))


def _noisy(measurement: Measurement, exact: Exact, cells: int) -> tuple[Integers, ...]:
    assert not isinstance(measurement.noise, NoisyMax)
    true = measurement.statistic.columns([exact.tallies[t] for t in measurement.statistic.tallies])
    # Theorems LAP-1, GAUSS-1 and DGAUSS-1: one draw a cell and column, on the grid of the statistic, so that the sum's
    # support is the same on all neighbours.
    return tuple(plus(column, measurement.noise.draw(cells)) for column in true)


def _take(cells: Any, kept: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return cells.take(pa.array(kept))


def _plain(cells: Any) -> Any:
    """Keys as plain Arrow values: a filtered dictionary would still carry every value it ever had."""
    import pyarrow as pa

    if cells is None or not any(pa.types.is_dictionary(c.type) for c in cells.columns):
        return cells
    plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in cells.columns]
    return pa.table(plain, names=cells.column_names)
