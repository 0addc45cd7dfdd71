"""How many rows the intervals of chosen values must hold beyond their noise: those that limits may have cut."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf

from dpsql.aggregates.clipping_bias import ClippingBias
from dpsql.bounds.bias import bias_of
from dpsql.bounds.unit_counts import Tables, UnitCounts
from dpsql.plan.nodes import Release
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.limits import tables_of
from dpsql.quote.model import Known, Measurement, Stage, Step
from dpsql.statistics.ranks import Quantiles


def counted_units(known: Known) -> dict[Release, UnitCounts]:
    """The counts of units that earlier stages of a query have released."""
    stages = [released for stage, released in known.items() if stage.kind == "limits"]
    return {release: counts for released in stages for release, counts in tables_of(released).items()}


def rows_cut(bias: ClippingBias | None) -> float:
    """At most so many rows are cut of a cell (Theorem CUT-1); infinite where nobody knows."""
    return 0.0 if bias is None else sum(clipping.at_most(CONFIDENCE) for clipping in bias.rows)


def with_spare_rows(stage: Stage, counts: Tables) -> Stage:
    """A settled stage whose intervals of chosen values also hold what limits may have cut, by these released counts.

    Theorem QUANTILE-2: that number has been released, and moves no sensitivity, no noise and no price.
    """
    if not any(isinstance(m.statistic, Quantiles) for step in stage.releases for m in step.measurements):
        return stage
    return replace(stage, steps=tuple(_spared(s, counts) if isinstance(s, Step) else s for s in stage.steps))


def _spared(step: Step, counts: Tables) -> Step:
    most = rows_cut(bias_of(step.checked, counts))
    if not 0 < most < inf:  # of what has no bound, the answer shows the range
        return step
    return replace(step, measurements=tuple(_with_spare(m, ceil(most)) for m in step.measurements))


def _with_spare(measurement: Measurement, rows: int) -> Measurement:
    if not isinstance(measurement.statistic, Quantiles):
        return measurement
    return replace(measurement, statistic=replace(measurement.statistic, spare=rows))
