"""Values that were chosen: how many ranks they are off, and the intervals that were chosen around them.

Theorem QUANTILE-1 bounds the rank of what was chosen, Theorem QUANTILE-2 says that the ends hold the exact value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Any

import numpy as np

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.intervals import SET_SIZE, Between, Floats, Moment, Origin
from dpsql.answer.model import Answer
from dpsql.core.grid import Grid
from dpsql.explain.facts import ranks_off
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.model import Step
from dpsql.quote.spare import rows_cut
from dpsql.statistics.base import Quantity, power_sum

FAR_OFF = 0.01  # of a group's rows: an outermost value whose rank may be off by more says little
INSTEAD = 0.99  # the quantile that is named for such a one (1 - INSTEAD for a least one)
_DAY = 86_400e6  # microseconds


def with_ranks(answer: Answer, steps: Mapping[str, Step]) -> Answer:
    """The answer with the ranks of its chosen columns, and their intervals where ends were chosen, too.

    steps: what each of its noisy tables would be measured by now, under its name; a stored one has no more noise.
    """
    ranks: dict[str, float] = {}
    errors = list(answer.origins)
    notes: list[str] = []
    for i, (name, error) in enumerate(zip(answer.columns, answer.origins, strict=True)):
        if not isinstance(error, Origin):
            continue
        mine = [steps[release] for release in error.releases if release in steps]
        off = [found for step in mine if (found := ranks_off(step, step.calls[error.aggregate], CONFIDENCE))]
        if off:
            tables = [noisy for noisy in answer.noisy if noisy.step.name in error.releases]
            ranks[name] = max(off) + max((_lost(noisy) for noisy in tables), default=0)
            errors[i] = _between(answer, steps, error, _moment(answer.table.column(i).type)) or error
            notes += _far_off(name, ranks[name], tables, error.aggregate)
    if not ranks:
        return answer
    return replace(answer, ranks=ranks, origins=tuple(errors), advice=tuple(dict.fromkeys(notes)))


def _lost(noisy: Noisy) -> float:
    """At most so many rows are cut, as far as that is known, and any of them may be on one side (Theorem CUT-1)."""
    return rows_cut(noisy.bias)


# ---------------------------------------------------------------- intervals


def _between(answer: Answer, steps: Mapping[str, Step], origin: Origin, moment: Moment) -> Between | None:
    """Between which released values each row's exact one lies; None where no ends were released."""
    assert answer.cells is not None
    low, high = np.full(len(answer.cells), np.nan), np.full(len(answer.cells), np.nan)
    places = np.asarray(answer.cells, dtype=np.int64)
    for i, release in enumerate(origin.releases):
        noisy = next(n for n in answer.noisy if n.step.name == release)
        ends = _ends(noisy, steps.get(release), noisy.step.calls[origin.aggregate], moment)
        if ends is not None:
            rows = np.flatnonzero(places // SET_SIZE == i)
            low[rows], high[rows] = ends[0][places[rows] % SET_SIZE], ends[1][places[rows] % SET_SIZE]
    known = np.isfinite(low) & np.isfinite(high)
    if not known.any():
        return None
    return Between(np.where(known, low, np.nan), np.where(known, high, np.nan), CONFIDENCE, moment)


def _ends(noisy: Noisy, step: Step | None, call: Call, moment: Moment) -> tuple[Floats, Floats] | None:
    """The ends of each cell's interval, in the unit of the answer; None where none were chosen (Theorem QUANTILE-2).

    An end is that of the range where none was chosen, and where more rows may be cut than they were chosen for.
    """
    needs = {need.kind: need for need in RECIPES[call.function].interval_needs(call)}
    if not needs or any(need not in noisy.step.estimates for need in needs.values()):
        return None
    assert call.value is not None and call.type is not None
    grid = call.value.grid
    first, last = float(grid.low * grid.step), float(grid.high * grid.step)
    found = {kind: noisy.estimate(noisy.step.estimates[need]).floats for kind, need in needs.items()}
    low, high = found.get("lower", np.full(noisy.count, first)), found.get("upper", np.full(noisy.count, last))
    if "spare" in found:
        short = found["spare"] < _lost(noisy)
        low, high = np.where(short, first, low), np.where(short, last, high)
    # Values were rounded to the grid, by at most half a step; those of its own ends may lie at those of the range.
    rounding = float(grid.step) / 2 if grid.source == "float" else 0.0
    least, greatest = _range(grid, step)
    low = np.where(low <= first, least, np.maximum(low - rounding, least))
    high = np.where(high >= last, greatest, np.minimum(high + rounding, greatest))
    unit = _DAY if moment == "timestamp" and call.type.is_date else 1.0
    return low * unit, high * unit


def _range(grid: Grid, step: Step | None) -> tuple[float, float]:
    """The ends of the range that this is the grid of: they lie less than a step beyond its first and last point."""
    arguments = () if step is None else step.checked.arguments
    ranges = [a.value.range for a in arguments if a.value is not None and a.ordered]
    known = [
        (low, high)
        for low, high in ((one.low, one.high) for one in ranges)
        if isinstance(low, Fraction) and isinstance(high, Fraction)
        if ceil(low / grid.step) == grid.low and floor(high / grid.step) == grid.high
    ]
    if not known:
        beyond = grid.step if grid.source == "float" else 0
        return float(grid.low * grid.step - beyond), float(grid.high * grid.step + beyond)
    return float(min(low for low, _ in known)), float(max(high for _, high in known))


def _moment(kind: Any) -> Moment:
    """What the numbers of a column stand for: days or microseconds since 1970, or themselves."""
    import pyarrow as pa

    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with time zone"
    return "number"


# ---------------------------------------------------------------- notes


def _far_off(name: str, off: float, tables: list[Noisy], aggregate: int) -> Iterator[str]:
    """What to ask for instead, where a released count shows that an outermost value may be many of the rows off."""
    for noisy in tables:
        call = noisy.step.calls[aggregate]
        outermost = _outermost(call)
        rows = _rows(noisy, call)
        if outermost is None or rows is None or not len(rows):
            continue
        fewest = max(float(rows.min()), 1.0)
        if isfinite(off) and off > FAR_OFF * fewest and call.value is not None:
            which = " in the smallest group" if noisy.count > 1 else ""
            instead = f"quantile({call.value.text}, {INSTEAD if outermost == 'greatest' else 1 - INSTEAD:.2g})"
            part = min(off / fewest, 1.0)
            yield f"{name} may be off by {part:.0%} of about {fewest:,.0f} rows{which}: ask for {instead} instead"


def _outermost(call: Call) -> str | None:
    """Is it the least or the greatest value, or a quantile beyond those that are named instead?"""
    for need in RECIPES[call.function].needs(call):
        if need.kind in ("least", "greatest"):
            return need.kind
        if need.at is not None and not 1 - INSTEAD <= need.at <= INSTEAD:
            return "greatest" if need.at > INSTEAD else "least"
    return None


def _rows(noisy: Noisy, call: Call) -> Floats | None:
    """About how many rows with a value each cell has, or how many rows, where one of these was released, too."""
    if call.value is None:
        return None
    named = [q.value for q in noisy.step.estimates if q.value is not None and q.value.text == call.value.text]
    wanted = [*(power_sum(value, call.where, 0) for value in (call.value, *named)), Quantity("rows", None, call.where)]
    found = next((quantity for quantity in wanted if quantity in noisy.step.estimates), None)
    return None if found is None else noisy.estimate(noisy.step.estimates[found]).floats
