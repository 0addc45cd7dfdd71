"""Statements by way of listed units, whom an index names: the same integers, with fewer units looked at (INDEX-1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.plan.nodes import (
    Corrected,
    Filter,
    Gridded,
    Group,
    GroupUnits,
    Histogram,
    Join,
    Link,
    Mark,
    Matching,
    OnCells,
    OnDomain,
    PerUnit,
    Project,
    Relation,
    Scan,
    Statement,
    ToGrid,
    Weight,
    WeightRows,
    WeightUnits,
    Windows,
    expressions_of,
    parts_of,
    scanned,
)
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import bounded_rows, grouped_units
from dpsql.sql.gridded import cast
from dpsql.sql.trees import nodes_of

UNITS = "dpsql_units"
"""The name under which statements read a table of units."""
LISTED = "dpsql_listed"
"""The name under which statements read the listed units: an Arrow table with one column, UNIT, each unit once."""


def refined(statement: Statement, *, complete: bool) -> Statement:
    """The same integers by way of the listed units. complete: every row of the table has an owner.

    Theorem INDEX-1: all rows at their full weight, and of the listed units what their weights take away from that.
    """
    if isinstance(statement, OnCells):
        return replace(statement, input=_refined(statement.input, complete))
    return _refined(statement, complete)


def told_apart(statement: Statement) -> Statement:
    """The same integers for engines that move rows to group them: those of units that aren't listed stay in place.

    Theorem INDEX-1, *In one look*: listed units are told apart and weighed, all others are one, at its full weight.
    *In two looks*: where rows are read from one table, and would be grouped by more than their unit, the rows of
    listed units are counted alone, by the unit. That is less work than a group for each of their keys.
    """
    if isinstance(statement, OnCells):
        return replace(statement, input=_told_apart(statement.input))
    return _told_apart(statement)


def _told_apart(group: Group) -> Group:
    weights: Weight | WeightUnits
    match group.input:
        case Weight(input=rows, size=None) if group.keys and _is_read(rows):
            return replace(group, input=replace(group.input, among=_of_listed(rows)))
        case Weight(input=rows, mass=mass, bits=bits, size=None):  # Theorem FORM-1 (b)
            weights = WeightUnits(PerUnit(rows, group.keys, group.tallies, listed=True), mass, None, bits)
        case WeightUnits(input=PerUnit(size=None) as per_unit):
            weights = replace(group.input, input=replace(per_unit, listed=True))
        case _:
            raise AssertionError("nothing that an index refines: ask use_of")
    return replace(group, input=weights)


def refined_matching(matching: Matching, *, complete: bool) -> Matching:
    """Theorem INDEX-2. The same numbers of values: only what listed units have is told apart by unit."""
    every, listed = _apart(matching, complete)
    return replace(matching, input=listed, every=every)


def refined_histogram(histogram: Histogram, *, complete: bool) -> Histogram:
    """Theorem INDEX-1, of rows by cell and value: a unit's weight in a cell is that of all of its rows there."""
    every, listed = _apart(histogram, complete)
    return replace(histogram, input=Corrected(every, _weights_of_rows(histogram, listed)))


def _refined(group: Group, complete: bool) -> Group:
    every, listed = _apart(group, complete)
    return replace(group, input=Corrected(every, _weights_of(group, listed)))


def with_units(statement: Statement, read: Mapping[str, tuple[str, str]]) -> Statement:
    """The same statement, with what each unit has read from a table of units.

    read: for each aggregate's name the column of that table, and the type that the engine gives it.
    """
    grouped = grouped_units(statement)
    assert grouped is not None, "nothing that a table of units serves: ask units_table"
    unit = grouped.unit
    scan = Scan(UNITS, ((unit, UNIT), *((name, column) for name, (column, _) in read.items())), unit, owner=UNIT)
    typed = [(name, cast(exp.column(name, quoted=True), kind)) for name, (_, kind) in read.items()]
    made = Project(scan, ((unit, exp.column(unit, quoted=True)), *typed), unit)
    group = statement.input if isinstance(statement, OnCells) else statement
    rows = group.input.input if isinstance(group.input, OnDomain) else group.input
    assert isinstance(rows, ToGrid)
    gridded = replace(rows, input=_in_the_place(rows.input, made))
    changed = replace(group.input, input=gridded) if isinstance(group.input, OnDomain) else gridded
    whole = replace(group, input=changed)
    return replace(statement, input=whole) if isinstance(statement, OnCells) else whole


def _in_the_place(rows: Project, made: Project) -> Project:
    """The same projection over other units."""

    def changed(relation: Relation) -> Relation:
        match relation:
            case GroupUnits():
                return made
            case Filter() | Project():
                return replace(relation, input=changed(relation.input))
            case _:
                raise AssertionError("nothing that a table of units serves: ask units_table")

    return replace(rows, input=changed(rows.input))


def _apart(statement: Group | Histogram | Matching, complete: bool) -> tuple[ToGrid, Gridded]:
    """All rows, and those of listed units."""
    bounded = bounded_rows(statement)
    assert bounded is not None, "nothing that an index refines: ask use_of"
    rows = bounded.rows
    # Rows outside of the public cells may stay among all rows: they are dropped later. They don't count for a unit.
    gridded = rows.input if isinstance(rows, OnDomain) else rows
    assert isinstance(gridded, ToGrid)
    return _every_row(gridded, complete), _of_listed(rows, sparse=True)


def _of_listed(rows: Gridded, *, sparse: bool = False) -> Gridded:
    """The rows of listed units alone."""
    gridded = rows.input if isinstance(rows, OnDomain) else rows
    assert isinstance(gridded, ToGrid)
    few = replace(_over(gridded, _listed), sparse=sparse)
    return replace(rows, input=few) if isinstance(rows, OnDomain) else few


def _is_read(rows: Gridded) -> bool:
    """Are rows as they are read, so that a second look costs no more than that?"""
    gridded = rows.input if isinstance(rows, OnDomain) else rows
    assert isinstance(gridded, ToGrid)
    parts = list(parts_of(gridded.input))
    return all(isinstance(p, Filter | Project) or (isinstance(p, Scan) and not p.links) for p in parts)


def _weights_of(group: Group, listed: Gridded) -> Weight | WeightUnits:
    """The group's weights, of these rows alone."""
    match group.input:
        case Weight(mass=mass, bits=bits, size=None) if not group.keys:
            # Theorem WEIGHT-2: without a peak it is WEIGHT-1. All rows of a unit are in one group: added up first,
            # they needn't be kept until the unit's weight is known.
            return WeightUnits(PerUnit(listed, (), group.tallies), mass, None, bits)
        case Weight():
            return replace(group.input, input=listed)
        case WeightUnits(input=PerUnit() as per_unit):
            return replace(group.input, input=replace(per_unit, input=listed))
        case _:
            raise AssertionError("nothing that an index refines: ask use_of")


def _weights_of_rows(histogram: Histogram, listed: Gridded) -> Weight | WeightRows:
    """The weights of each row, of these rows alone."""
    match histogram.input:
        case Weight():
            return replace(histogram.input, input=listed)
        case WeightRows(units=WeightUnits(input=PerUnit(), mass=int() as mass, peak=None, bits=bits)):
            return Weight(listed, mass, bits)  # Theorem WEIGHT-2: without a peak it is WEIGHT-1
        case WeightRows():
            return replace(histogram.input, input=listed)
        case _:
            raise AssertionError("nothing that an index refines: ask use_of")


def _listed(scan: Scan) -> Scan:
    """The rows of the listed units alone: the list is one more table on the way to the unit, which names each once."""
    assert scan.unit is not None and scan.owner is not None
    columns = tuple(one for one in scan.columns if one[0] != scan.unit)
    return replace(scan, columns=columns, owner=UNIT, links=(*scan.links, Link(LISTED, ((scan.owner, UNIT),))))


def _every_row(rows: ToGrid, complete: bool) -> ToGrid:
    """All rows, nobody's unit among their columns. Where each has an owner, nobody is asked who that is."""
    top = rows.input
    bare = replace(top, columns=tuple(one for one in top.columns if one[0] != UNIT))
    every = replace(rows, input=bare)
    if not complete or _asks_for_unit(bare, scanned(bare)):
        return every
    return _over(every, lambda scan: replace(scan, unit=None, owner=None, links=()))


def _asks_for_unit(rows: Project, scan: Scan) -> bool:
    """Does anything in these rows look at a unit that only the way to it gives?"""
    if any(isinstance(part, Windows | Mark) or (isinstance(part, Join) and part.units) for part in parts_of(rows)):
        return True
    named = {c.name for e in expressions_of(rows) for c in nodes_of(e, exp.Column)}
    return scan.unit in named and scan.unit not in dict(scan.columns)


def _over(rows: ToGrid, change: Callable[[Scan], Scan]) -> ToGrid:
    """The same over another scan."""

    def changed(relation: Relation) -> Relation:
        match relation:
            case Scan():
                return change(relation)
            case Filter() | Mark() | Windows() | Project():
                return replace(relation, input=changed(relation.input))
            case Join():
                return replace(relation, left=changed(relation.left))
            case _:
                raise AssertionError("rows that no index counts: ask use_of")

    top = changed(rows.input)
    assert isinstance(top, Project)
    return replace(rows, input=top)
