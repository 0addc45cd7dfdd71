"""Statements that look at fewer units: which can be refined by an index of heavy units, and how (Theorem INDEX-1).

An index says of a table's rows which units have more than so many of them. In any part of these rows a unit that isn't
listed has at most as many, so that a limit which is no smaller leaves it alone: only listed units are counted and
weighed, in the rows of the query itself. The integers are those of the plain statement, whatever the rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Corrected,
    Filter,
    Gridded,
    Group,
    Link,
    Mark,
    OnCells,
    OnDomain,
    PerUnit,
    Project,
    Relation,
    Scan,
    Statement,
    ToGrid,
    Weight,
    WeightUnits,
    Windows,
    expressions_of,
    parts_of,
    scanned,
    unit_of,
)
from dpsql.quote.candidates import UNIT
from dpsql.sql.trees import nodes_of
from dpsql.statistics.tally import Tally

LISTED = "dpsql_listed"
"""The name under which statements read the listed units: an Arrow table with one column, UNIT, each unit once."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The rows of a table that have an owner, as a scan yields them (Theorem OWN-1)."""

    table: str
    owner: str
    links: tuple[Link, ...] = ()

    @classmethod
    def by(cls, scan: Scan) -> Owned | None:
        """The rows of a scan; None where each row is a unit of its own, which no index lists."""
        return None if scan.owner is None else cls(scan.table, scan.owner, scan.links)

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables that say which rows these are, and whose."""
        return (self.table, *(link.table for link in self.links))


@dataclass(frozen=True, slots=True)
class Use:
    """What a statement needs of an index: the rows that its own are a part of, and the least of its limits.

    whole: it reads all of these rows, so that looking for heavy units is what it does anyway.
    """

    of: Owned
    limit: int
    whole: bool


def use_of(statement: Statement) -> Use | None:
    """What an index must be like to refine a statement; None: none can."""
    group = statement.input if isinstance(statement, OnCells) else statement
    bounded = _bounded(group)
    if bounded is None or not group.tallies or not all(_is_plain(tally) for _, tally in group.tallies):
        return None
    rows, limits = bounded
    gridded = rows.input if isinstance(rows, OnDomain) else rows
    if not isinstance(gridded, ToGrid) or not limits:
        return None
    scan = _only_scan(gridded.input, UNIT)
    of = None if scan is None else Owned.by(scan)
    if of is None:
        return None
    whole = not any(isinstance(part, Filter) for part in parts_of(gridded.input))
    return Use(of, min(limits), whole)


def _bounded(group: Group) -> tuple[Gridded, list[int]] | None:
    """The rows that limits are enforced on, and these limits; None of what isn't bounded by weights of rows alone.

    A cap needs all groups of a unit, and votes are spread over them; a total is bounded by values, not by rows.
    """
    match group.input:
        case Weight(input=rows, mass=mass, totals=()):
            return rows, [] if mass is None else [mass]
        case WeightUnits(input=PerUnit(input=rows), mass=mass, peak=peak):
            return rows, [limit for limit in (mass, peak) if limit is not None]
        case _:
            return None


def _is_plain(tally: Tally) -> bool:
    """Is it a sum over rows, each times its weight? Then rows can be added up whoever owns them."""
    return tally.kind in ("rows", "present", "total") and tally.clip is None and tally.most is None


def _only_scan(relation: Relation, unit: str | None) -> Scan | None:
    """The scan that a relation's rows are a part of, each at most once and still its owner's; None: they aren't.

    Rows are dropped, and get further columns. Joins repeat rows, and a union may have a table twice: no index counts
    those. A row that stands for several (GROUP BY unit) isn't one of the table's.
    """
    match relation:
        case Scan():
            return relation if unit == relation.unit else None
        case Filter() | Mark() | Windows():
            return _only_scan(relation.input, unit)
        case Project():
            held = dict(relation.columns).get(unit or "")
            below = unit_of(relation.input)
            kept = isinstance(held, exp.Column) and held.name == below
            return _only_scan(relation.input, below) if kept else None
        case _:
            return None


def refined(statement: Statement, *, complete: bool) -> Statement:
    """The same integers by way of the listed units. complete: every row of the table has an owner.

    Theorem INDEX-1: all rows at their full weight, and of the listed units what their weights take away from that.
    """
    if isinstance(statement, OnCells):
        return replace(statement, input=_refined(statement.input, complete))
    return _refined(statement, complete)


def _refined(group: Group, complete: bool) -> Group:
    bounded = _bounded(group)
    assert bounded is not None, "nothing that an index refines: ask use_of"
    rows, _ = bounded
    # Rows outside of the public cells may stay among all rows: OnCells drops them. They don't count for a unit.
    gridded = rows.input if isinstance(rows, OnDomain) else rows
    assert isinstance(gridded, ToGrid)
    few = replace(_over(gridded, _listed), sparse=True)
    listed = replace(rows, input=few) if isinstance(rows, OnDomain) else few
    return replace(group, input=Corrected(_every_row(gridded, complete), _weights_of(group, listed)))


def _weights_of(group: Group, listed: Gridded) -> Weight | WeightUnits:
    """The group's weights, of these rows alone."""
    match group.input:
        case Weight(mass=mass, bits=bits) if not group.keys:
            # Theorem WEIGHT-2: without a peak it is WEIGHT-1. All rows of a unit are in one group: added up first,
            # they needn't be kept until the unit's weight is known.
            return WeightUnits(PerUnit(listed, (), group.tallies), mass, None, bits)
        case Weight():
            return replace(group.input, input=listed)
        case WeightUnits(input=PerUnit() as per_unit):
            return replace(group.input, input=replace(per_unit, input=listed))
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
    if any(isinstance(part, Windows | Mark) for part in parts_of(rows)):
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
            case _:
                raise AssertionError("rows that no index counts: ask use_of")

    top = changed(rows.input)
    assert isinstance(top, Project)
    return replace(rows, input=top)
