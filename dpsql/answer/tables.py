"""What left, as Arrow tables for the engine that holds no private row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Rational
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.aggregates.present import COLUMN as PRESENT
from dpsql.answer.alone import flagged, may_be_noise
from dpsql.answer.intervals import NoisyQuantities, intervals, too_few
from dpsql.answer.outgoing import finite_ends
from dpsql.core.arrays import column
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.plan.estimates import ResponseColumn
from dpsql.plan.google import interval_of
from dpsql.quote.goal import CONFIDENCE
from dpsql.sql.trees import nodes_of
from dpsql.statistics.base import Quantity

CELL = "dpsql hidden cell"  # which cell of a release a result row comes from, for its intervals

Arrow = Any


def noisy_table(noisy: Noisy, query: exp.Query, others: Mapping[Quantity, Rational] | None = None) -> Arrow:
    """A release as a table: keys in order, the answers to its aggregates, and the interval ends that a query reads.

    others: quantities in the place of its own.
    """
    import pyarrow as pa

    step = noisy.step
    quantities = NoisyQuantities(noisy) if others is None else others
    columns: dict[str, Arrow] = {CELL: column(np.arange(noisy.count))}
    if noisy.cells is not None:
        columns |= {name: noisy.cells.column(name) for name in noisy.cells.column_names}
    for i, call in enumerate(step.calls):
        if RECIPES[call.function].tells_presence:
            columns[PRESENT] = RECIPES[call.function].answer(call, quantities)
            continue
        found = RECIPES[call.function].answer(call, quantities)
        few = too_few(noisy, call, quantities)
        columns[f"a{i}"] = _without(found, few) if few.any() else found
    for name in sorted({c.name for c in nodes_of(query, exp.Column) if c.table == step.name}):
        if (aggregate := flagged(name)) is not None:
            columns[name] = pa.array(may_be_noise(noisy, step.calls[aggregate], quantities).tolist(), pa.bool_())
        elif (end := interval_of(name)) is not None:
            side = 0 if end[1] == "low" else 1
            columns[name] = pa.array(finite_ends(intervals(noisy, end[0], CONFIDENCE), side), pa.float64())
    return pa.table(columns)


def _without(values: Arrow, few: Any) -> Arrow:
    """NULL in these places."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(few), pa.scalar(None, values.type), values)


def drawn(responded: Sequence[Responded]) -> dict[ResponseColumn, tuple[RandomizedResponse, str]]:
    """What was drawn for each column of randomised values, and the column's type."""
    return {ResponseColumn(n.name, i): (c.mechanism, c.type) for n in responded for i, c in enumerate(n.columns)}


def randomized_rows(responded: Responded) -> Arrow:
    """Randomised rows as a table, in the order in which they left."""
    import pyarrow as pa

    return pa.table({f"a{i}": c.values.take(pa.array(c.codes)) for i, c in enumerate(responded.columns)})
