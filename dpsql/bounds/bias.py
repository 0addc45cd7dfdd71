"""What limits and ranges cut of a release, from released counts of units: post-processing (Theorems CUT-1, POST-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dpsql.aggregates.clipping_bias import UNKNOWN, Clipping, ClippingBias
from dpsql.analyze.checked import CheckedRelease
from dpsql.bounds.clipping import clipping_of
from dpsql.bounds.histograms import (
    ClippingSource,
    clipping_sources,
    counted_columns,
    ladder_of,
    most_values,
    smallest_size,
)
from dpsql.bounds.tails import Floats
from dpsql.bounds.unit_counts import Tables, UnitCounts
from dpsql.core.frozen import dataclass

HIDDEN_GROUP = 13  # noise scales: a group of so many units, with ten times the others' rows, may well stay unseen


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """What is known of one limit or range that may cut something.

    clipping: of a limit; unknown where no counts tell it. outside: of a range, about how many units have a value
    outside; None where nothing counts them.
    """

    source: ClippingSource
    clipping: Clipping | None = None
    outside: float | None = None
    hidden: float = 0.0  # units of a heavy group that the counts behind it may not show

    @property
    def known(self) -> bool:
        return self.outside is not None or (self.clipping is not None and self.clipping.known)


def cuts_in(checked: CheckedRelease, tables: Tables) -> Iterator[Cut]:
    """What released counts tell of each limit and range of a release."""
    for source in clipping_sources(checked):
        counts = None if source.histogram is None else tables.get(source.histogram)
        if source.kind == "outside":
            yield Cut(source, outside=None if counts is None else counts.single)
        elif counts is None:
            yield Cut(source, UNKNOWN)
        else:
            yield Cut(source, _clipping(checked, source, counts), hidden=HIDDEN_GROUP * counts.noise)


def bias_of(checked: CheckedRelease, tables: Tables) -> ClippingBias:
    """What the limits of a release may have cut of its cells."""
    rows: list[Clipping] = []
    units: Clipping | None = None
    values: Clipping | None = None
    for cut in cuts_in(checked, tables):
        if cut.clipping is None:
            continue
        if cut.source.kind == "values":
            values = cut.clipping
        elif cut.source.kind == "groups":
            units = cut.clipping
            peak = checked.bounding.peak or checked.bounding.mass
            if peak is not None:  # a unit that is left out of a cell has at most so many rows there
                rows.append(_scaled(units, float(peak)))
        else:
            rows.append(cut.clipping)
    size = checked.bounding.size
    if size is None:
        left_out = None if values is None or units is None else _values_left_out(checked, units)
        return ClippingBias(tuple(rows), units, values=values, left_out=left_out)
    scales = {(s.argument, s.where, s.clipped): float(s.unit) for s in size.scales}
    sizes = {
        i: scales[key]
        for i, a in enumerate(checked.arguments)
        if (key := (a.call.argument, a.call.where, a.call.bounds)) in scales
    }
    return ClippingBias(tuple(rows), units, sizes, bool(counted_columns(checked.arguments)))


def _clipping(checked: CheckedRelease, source: ClippingSource, counts: UnitCounts) -> Clipping:
    """What a limit cuts of a cell: rows, sizes, or units that are left out of it."""
    tail = counts.tail(ladder_of(source.kind))
    if source.kind == "size":
        smallest = float(smallest_size(checked))
        return _scaled(clipping_of(tail, source.limit / smallest), smallest)
    if source.kind == "values" and (most := most_values(checked)) is not None:
        return _at_most(clipping_of(tail, source.limit), float(most))  # no cell has more values in the stated range
    if source.kind != "groups":
        return clipping_of(tail, source.limit)

    def left_out(groups: Floats) -> Floats:
        # Which groups a unit keeps is decided by a keyed hash of the unit and the group: each is as likely (CAP-1).
        over = np.maximum(groups - source.limit, 0.0)
        return over / groups if not checked.owner.numbered else np.minimum(over, 1.0)

    return clipping_of(tail, source.limit, left_out)


def _values_left_out(checked: CheckedRelease, units: Clipping) -> Clipping:
    """What a limit on groups cuts of a cell's different values, of those that their own limit leaves.

    Theorem CUT-1: a unit that is left out of a cell has at most so many values there as count of it in all cells; what
    it has beyond them is cut already.
    """
    bounding = checked.bounding
    places = bounding.mass if bounding.values is None else bounding.values
    assert places is not None, "values are limited"
    cut, most = _scaled(units, float(places)), most_values(checked)
    return cut if most is None else _at_most(cut, float(most))


def _at_most(clipping: Clipping, most: float) -> Clipping:
    """What is cut of any one cell, which loses no more than this."""
    points = tuple((weight, min(amount, most)) for weight, amount in clipping.points)
    return replace(clipping, about=min(clipping.about, most), points=points)


def _scaled(clipping: Clipping, factor: float) -> Clipping:
    points = tuple((weight, amount * factor) for weight, amount in clipping.points)
    return replace(clipping, about=clipping.about * factor, kept=clipping.kept * factor, points=points)


# ---------------------------------------------------------------- in words


def cuts_of(releases: Sequence[CheckedRelease], tables: Tables) -> list[Cut]:
    """What is known of all limits and ranges of some releases, each once."""
    every = [cut for checked in releases for cut in cuts_in(checked, tables)]
    return list({cut.source.histogram or cut.source.text: cut for cut in reversed(every)}.values())[::-1]


def lines(cuts: Sequence[Cut]) -> list[str]:
    """For people, a short line each: what each limit and range cuts, about."""
    shown = [line for cut in cuts if (line := _line(cut)) is not None]
    unknown = [cut.source.text for cut in cuts if not cut.known and cut.source.kind != "outside"]
    if unknown:
        few = ", ".join(unknown[:2]) + (f" and {len(unknown) - 2} more" if len(unknown) > 2 else "")
        shown.append(f"too little is known of what {few} may cut: numbers that it concerns are lower bounds")
    return shown


def hidden_lines(cuts: Sequence[Cut]) -> list[str]:
    """For people, at most one line: how large a group no histogram shows for sure."""
    units = max((cut.hidden for cut in cuts), default=0.0)
    return [f"up to {units:,.0f} units with ten times the others' rows may be missing from intervals"] if units else []


def _line(cut: Cut) -> str | None:
    if cut.outside is not None:
        return f"about {cut.outside:,.0f} units have a value outside of {cut.source.text}" if cut.outside else None
    if cut.clipping is None or not cut.clipping.known:
        return None
    if cut.source.kind == "values":
        return f"{cut.source.text} of a unit cuts those that nobody else has; the intervals hold it"
    things = {"groups": "the groups", "size": "rows and values"}.get(cut.source.kind, "the rows")
    return f"{cut.source.text} cuts {_part(cut.clipping.share)} of {things}; the intervals hold it"


def _part(share: float) -> str:
    return "next to nothing" if share < 0.00005 else f"about {share:.{1 if share >= 0.001 else 2}%}"
