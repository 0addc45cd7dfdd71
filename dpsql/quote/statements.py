"""The statements that make a release's integers, once its statistics are chosen.

The steps are those of docs/architecture.md, "Bounding".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.analyze.checked import CheckedRelease
from dpsql.core.ranges import Range
from dpsql.plan.nodes import (
    Again,
    CapGroups,
    Filter,
    Gridded,
    Group,
    GroupUnits,
    Histogram,
    Matching,
    OnCells,
    OnDomain,
    PerUnit,
    Project,
    Relation,
    Scan,
    SpreadVotes,
    Statement,
    ToGrid,
    Weight,
    WeightRows,
    WeightUnits,
)
from dpsql.quote.candidates import Candidates
from dpsql.statistics.base import Size, Spectrum, Tally, UnitTotal
from dpsql.statistics.moments import Moments

FEW = 2  # tallies of a unit


def statement_of(
    release: Candidates, tallies: tuple[Tally, ...], together: tuple[Moments, ...], size: Size | None = None
) -> Statement:
    """Plain aggregation where every bound is proved; else the steps of "Bounding" (above), and no others.

    size: what one unit's rows add up to in the statistics, where that is bounded, and not their number.
    """
    checked, bounding = release.checked, release.checked.bounding
    keys = tuple(f"k{i}" for i in range(len(checked.keys)))
    named = tuple((f"t{i}", t) for i, t in enumerate(tallies))
    rows = _rows(release, together, tallies)
    # Without keys a unit has one row of tallies, which pays as long as they are few: each makes all the rest slower.
    once = (not keys and len(tallies) <= FEW) or _read_once(checked)
    by_row = bounding.cap is None and bounding.peak is None and not _clips(release, tallies)
    assert (size is None) or (bounding.size is not None), "a size is weighed by if it is limited"
    if size is not None:
        size = replace(size, totals=tuple(_unit_totals(release)))
    if is_plain(release, tallies):
        group = Group(rows, keys, named)
    elif bounding.weighted and by_row and not once:
        group = Group(Weight(rows, bounding.mass, release.bits, size), keys, named)
    else:
        group = Group(_whole_units(release, PerUnit(rows, keys, named, size=size)), keys, named)
    return OnCells(group, _types(checked)) if keys and not checked.private_keys else group


def _unit_totals(release: Candidates) -> Iterator[UnitTotal]:
    """What a unit adds up of each sum in its size, before the values are on their grids (Theorem INDEX-5)."""
    checked, size = release.checked, release.checked.bounding.size
    totals = dict(checked.unit_totals)
    for argument, call in zip(checked.arguments, release.calls, strict=True):
        scale = None if size is None else argument.scale(size)
        if scale in totals and call.value is not None and argument.value is not None:
            grid = call.value.grid
            exact = grid.source == "integer" and grid.step == 1 and _has_whole_ends(argument.value.range)
            yield UnitTotal(call.value.column, call.where, totals[scale], grid.step, exact)


def _has_whole_ends(values: Range) -> bool:
    return all(isinstance(end, Fraction) and end.denominator == 1 for end in (values.low, values.high))


def is_plain(release: Candidates, tallies: tuple[Tally, ...]) -> bool:
    """Is every bound proved, and nothing taken per unit, so that rows are just aggregated?"""
    enforced = release.checked.bounding.enforced
    return not (enforced or _clips(release, tallies) or release.checked.owner.numbered)


def _clips(release: Candidates, tallies: tuple[Tally, ...]) -> bool:
    """Is something taken per unit? With one row for each unit, what a unit adds to a group is its row."""
    return any(t.clip is not None or t.kind == "votes" for t in tallies) and release.checked.owner.rows != 1


def matching_of(release: Candidates, tally: Tally) -> Matching:
    """The values of each unit, in the groups that the statement leaves it."""
    checked, bounding = release.checked, release.checked.bounding
    keys, by_unit = tuple(f"k{i}" for i in range(len(checked.keys))), not checked.owner.numbered
    rows = _rows(release)
    source: Gridded | WeightRows = rows
    if bounding.cap is not None:
        source = WeightRows(rows, CapGroups(PerUnit(Again(), keys, ()), bounding.cap, by_unit))
    most = bounding.mass if bounding.values is None else bounding.values  # as the sensitivity has it: DISTINCT-1
    return Matching(source, keys, _types(checked), tally, most, bounding.peak, by_unit)


def histogram_of(release: Candidates, spectrum: Spectrum) -> Histogram:
    """The statement that counts rows by value, with the weights that they have in the release."""
    checked, bounding = release.checked, release.checked.bounding
    keys = tuple(f"k{i}" for i in range(len(checked.keys)))
    rows = _rows(release)
    source: Gridded | Weight | WeightRows = rows
    if bounding.cap is None and bounding.peak is None and bounding.mass is not None and not _read_once(checked):
        source = Weight(rows, bounding.mass, release.bits)  # Theorem WEIGHT-2: without a peak it is WEIGHT-1
    elif bounding.enforced:
        source = WeightRows(rows, _whole_units(release, PerUnit(Again(), keys, ())))
    return Histogram(source, keys, _types(checked), spectrum)


def _read_once(checked: CheckedRelease) -> bool:
    """One GROUP BY unit and a join back reads rows twice: not where they come from joins, or are numbered as read."""
    bottom = _bottom(checked.relation)
    return not isinstance(bottom, Scan) or bool(bottom.links) or checked.owner.numbered


def _types(checked: CheckedRelease) -> tuple[str, ...]:
    return tuple(k.type.sql for k in checked.keys)


def _rows(release: Candidates, together: tuple[Moments, ...] = (), tallies: tuple[Tally, ...] = ()) -> Gridded:
    """The rows on their grids, those of other cells left out where units have limits; divided for joint statistics."""
    checked = release.checked
    gridded = ToGrid(Project(_counted_units(release, tallies), release.columns), release.values, together)
    if checked.keys and not checked.private_keys and checked.bounding.enforced:
        return OnDomain(gridded, tuple(f"k{i}" for i in range(len(checked.keys))), _types(checked))
    return gridded


def _counted_units(release: Candidates, tallies: tuple[Tally, ...]) -> Relation:
    """The rows of a release. Where it counts units that have such a row, and nothing else, there are no others.

    Theorem CUT-1: whoever has none isn't counted, and needn't be told apart from others before that is known.
    """
    relation, columns = release.checked.relation, dict(release.columns)
    match relation, tallies:
        case GroupUnits(keys=(), columns=((flag, exp.LogicalOr(this=test)),)), (Tally("rows", None, str(where), None),):
            held = columns[where]
            if isinstance(held, exp.Column) and held.name == flag and not release.checked.keys:
                return replace(relation, input=Filter(relation.input, test))
    return relation


def _whole_units(release: Candidates, per_unit: PerUnit) -> PerUnit | CapGroups | SpreadVotes | WeightUnits:
    """Cap groups, then peak, then mass: the order that Theorems CAP-1 and WEIGHT-2 need; a size after the cap (SIZE-1).

    A unit's votes are spread over the groups that the cap leaves to it (KEYW-1).
    """
    bounding = release.checked.bounding
    capped: PerUnit | CapGroups = (
        per_unit if bounding.cap is None else CapGroups(per_unit, bounding.cap, not release.checked.owner.numbered)
    )
    voted = any(tally.kind == "votes" for _, tally in per_unit.tallies)
    units: PerUnit | CapGroups | SpreadVotes = SpreadVotes(capped) if voted else capped
    if bounding.weighted:
        return WeightUnits(units, bounding.mass, bounding.peak, release.bits)
    return units


def _bottom(relation: Relation) -> Relation:
    while isinstance(relation, Filter):
        relation = relation.input
    return relation


def cells_of(checked: CheckedRelease) -> Any:
    """The public cells, in key order (Theorem KEYS-1)."""
    assert checked.listed is not None
    return checked.listed.table()
