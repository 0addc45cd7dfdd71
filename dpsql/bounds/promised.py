"""What limits may cut of an aggregate, said before it is measured: the same estimate as in the answer's interval."""

from __future__ import annotations

from math import isfinite

from dpsql.aggregates.base import Call
from dpsql.aggregates.clipping_bias import Clipping, ClippingBias


def reach_of_cut(
    bias: ClippingBias, call: Call, aggregate: int, noise: float, confidence: float
) -> tuple[float, float]:
    """How far down and up what is cut may move a count or a sum: Theorem CUT-1. Nothing where nobody knows.

    noise: half of the width of its noise, in its own units. aggregate: the call's place in its release.
    """
    low, high = _of_one_row(call)
    size = max(abs(low), abs(high))
    if call.units or call.clip is not None:
        clippings: tuple[Clipping, ...] = () if bias.units is None else (bias.units,)
    elif call.distinct and bias.values is not None:
        clippings = tuple(one for one in (bias.values, bias.left_out) if one is not None)
    else:
        clippings = bias.rows
        scale = None if bias.sizes is None else bias.sizes.get(aggregate)
        if scale is not None and size > 0:
            low, high = (scale * end / size for end in (low, high))
            size = scale
    if not size:
        return 0.0, 0.0
    rows = sum(clipping.at_most(confidence, noise / size) for clipping in clippings)
    return (rows * max(-low, 0.0), rows * max(high, 0.0)) if isfinite(rows) else (0.0, 0.0)


def reach_of_average(bias: ClippingBias, call: Call, aggregate: int, rows: int, confidence: float) -> float:
    """By how much more the interval of an average of so many rows is wide, for what is cut: half of it.

    Where units are bounded by size, fewer rows of large values are missing (SIZE-1).
    """
    missing = sum(clipping.at_most(confidence) for clipping in bias.rows)
    if not isfinite(missing) or call.value is None:
        return 0.0
    grid = call.value.grid
    low, high = float(grid.low * grid.step), float(grid.high * grid.step)
    usual = None if bias.sizes is None else bias.sizes.get(aggregate)
    if usual is None:
        return (high - low) * missing / (rows + missing) / 2
    mean, reach = min(max(usual, low), high), 0.0
    for end in (low, high):
        each = abs(end) / usual + (1.0 if bias.counted else 0.0)
        lost = missing / each if each else 0.0
        reach += abs(end - mean) * lost / (rows + lost)
    return reach / 2


def _of_one_row(call: Call) -> tuple[float, float]:
    """Between which ends one row (with a clip: one unit) adds to a count or a sum."""
    if call.clip is not None:
        step = 1.0 if call.value is None else float(call.value.grid.step)
        return call.clip.low * step, call.clip.high * step
    if call.value is None or call.units or call.distinct:
        return 0.0, 1.0
    grid = call.value.grid
    low, high = float(grid.low * grid.step), float(grid.high * grid.step)
    return low, high
