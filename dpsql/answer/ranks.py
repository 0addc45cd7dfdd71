"""Values that were chosen: how many ranks they are off, and between which other values the exact one lies.

Theorem QUANTILE-1 bounds the rank of what was chosen. If p25 and p75 were chosen beside a median, and there are so many
rows that their ranks can't be beyond that of the median, it lies between them: free (Theorem INTERVAL-1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.intervals import SET_SIZE, Between, Floats, Origin, widths
from dpsql.answer.model import Answer
from dpsql.explain.facts import ranks_off
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.model import Step
from dpsql.statistics.base import Quantity, power_sum

EACH = 1 - (1 - CONFIDENCE) / 3  # for the number of rows and the ranks at both ends, so that all hold with CONFIDENCE


def with_ranks(answer: Answer, steps: Mapping[str, Step]) -> Answer:
    """The answer with the ranks of its chosen columns, and value intervals where there are any.

    steps: what each of its noisy tables would be measured by now, under its name; a stored one has no more noise.
    """
    ranks: dict[str, float] = {}
    errors = list(answer.origins)
    for i, (name, error) in enumerate(zip(answer.columns, answer.origins, strict=True)):
        if isinstance(error, Origin):
            mine = [steps[release] for release in error.releases if release in steps]
            off = [ranks_off(step, step.calls[error.aggregate], CONFIDENCE) for step in mine]
            if known := [one for one in off if one is not None]:
                ranks[name] = max(known) + max(
                    (_lost(n) for n in answer.noisy if n.step.name in error.releases), default=0
                )
                errors[i] = _between(answer, steps, error) or error
    return replace(answer, ranks=ranks, origins=tuple(errors)) if ranks else answer


# ---------------------------------------------------------------- between other values


def _between(answer: Answer, steps: Mapping[str, Step], origin: Origin) -> Between | None:
    """Between which released values of the same column each row's exact one lies; None where that isn't known."""
    assert answer.cells is not None
    low, high = np.full(len(answer.cells), np.nan), np.full(len(answer.cells), np.nan)
    places = np.asarray(answer.cells, dtype=np.int64)
    for i, release in enumerate(origin.releases):
        noisy = next(n for n in answer.noisy if n.step.name == release)
        ends = _ends(noisy, steps[release], origin.aggregate)
        if ends is not None:
            rows = np.flatnonzero(places // SET_SIZE == i)
            low[rows], high[rows] = ends[0][places[rows] % SET_SIZE], ends[1][places[rows] % SET_SIZE]
    known = np.isfinite(low) & np.isfinite(high)
    return Between(np.where(known, low, np.nan), np.where(known, high, np.nan), CONFIDENCE) if known.any() else None


def _ends(noisy: Noisy, step: Step, aggregate: int) -> tuple[Floats, Floats] | None:
    """In each cell the nearest values that were chosen surely below and surely above the rank that is asked for."""
    call = noisy.step.calls[aggregate]
    if call.listed or call.type is None or not call.type.is_numeric or not RECIPES[call.function].ranked:
        return None
    rows = _rows(noisy, call)
    if rows is None:
        return None
    first, last = _rank(RECIPES[call.function].needs(call)[0], *rows)
    low, high = np.full(noisy.count, -np.inf), np.full(noisy.count, np.inf)
    for other, own in zip(noisy.step.calls, step.calls, strict=True):
        if (other.value, other.where) != (call.value, call.where) or not RECIPES[other.function].ranked:
            continue
        off = ranks_off(step, own, EACH)
        assert off is not None
        off += _lost(noisy)
        for need in RECIPES[other.function].needs(other):
            values = noisy.estimate(noisy.step.estimates[need]).floats
            least, greatest = _rank(need, *rows)
            low = np.where(greatest + off < first, np.maximum(low, values), low)
            high = np.where(least - off > last, np.minimum(high, values), high)
    return low, high


def _lost(noisy: Noisy) -> float:
    """At most so many rows are cut, as far as that is known, and any of them may be on one side (Theorem CUT-1)."""
    share = None if noisy.loss is None else noisy.loss.rows
    return 0.0 if share is None else share.most * share.kept


def _rank(need: Quantity, fewest: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest rank that is asked for, given how few and how many rows there may be."""
    match need.kind:
        case "least":
            return np.ones_like(fewest), np.ones_like(fewest)
        case "greatest":
            return fewest, most
        case _:
            assert need.at is not None
            return np.floor(float(need.at) * fewest), np.ceil(float(need.at) * most) + 1


def _rows(noisy: Noisy, call: Call) -> tuple[Floats, Floats] | None:
    """Between which numbers of rows with a value each cell has, where that was released, too."""
    assert call.value is not None
    named = [q.value for q in noisy.step.estimates if q.value is not None and q.value.text == call.value.text]
    wanted = [power_sum(value, call.where, 0) for value in (call.value, *named)]
    found = next((one for one in wanted if one in noisy.step.estimates), None)
    if found is None:
        return None
    linear = noisy.step.estimates[found]
    drawn = [(float(w), noisy.step.measurements[place[0]].noise) for place, w in linear.terms]
    terms = [(np.full(noisy.count, w), noise) for w, noise in drawn if not isinstance(noise, NoisyMax)]
    wide, rows = widths(terms, EACH, noisy.count), noisy.estimate(linear).floats
    return np.maximum(rows - wide, 0.0), np.maximum(rows + wide, 0.0)
