"""What a statement needs of an index of heavy units, so that it can look at fewer units (Theorem INDEX-1).

An index says of a table's rows which units have more than so many of them. In any part of these rows a unit that isn't
listed has at most as many, so that a limit which is no smaller leaves it alone: only listed units are counted and
weighed, in the rows of the query itself. The integers are those of the plain statement, whatever the rows are.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
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
    PublicTable,
    Relation,
    Scan,
    Statement,
    ToGrid,
    Weight,
    WeightRows,
    WeightUnits,
    Windows,
    parts_of,
    unit_of,
)
from dpsql.quote.candidates import UNIT
from dpsql.quote.model import Step
from dpsql.quote.table_columns import over_table
from dpsql.statistics.base import Size, Tally


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
class RowSizes:
    """At most what one unit's rows add up to (Theorem INDEX-5): so much for each row, and for each 1 of its totals.

    totals: aggregates over the rows of one unit, written over the table's own columns.
    """

    row: int
    totals: tuple[tuple[Expr, Fraction], ...]

    @property
    def columns(self) -> tuple[Expr, ...]:
        """What must be known of each unit, beside its number of rows."""
        return tuple(total for total, _ in self.totals)


@dataclass(frozen=True, slots=True)
class Need:
    """What must be listed: every unit with more than so many of these rows.

    by: in one group, whose rows have the same values of these expressions over the table's own columns.
    sizes: every unit whose rows may add up to more than the limit, instead.
    """

    of: Owned
    limit: int
    by: tuple[Expr, ...] = ()
    sizes: RowSizes | None = None

    @property
    def counted(self) -> tuple[Owned, tuple[Expr, ...]]:
        """What an index of it counts, whatever the limit."""
        return self.of, self.by


@dataclass(frozen=True, slots=True)
class UnitsTable:
    """All units of a table's rows, each with how many it has, and with these aggregates of them.

    columns: over the table's own columns; numbers of rows aren't among them.
    """

    of: Owned
    columns: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """What a statement needs of indexes, all of it; its rows are a part of those that the first one counts.

    whole: it reads all of these rows, so that looking for heavy units is what it does anyway.
    """

    needs: tuple[Need, ...]
    whole: bool

    @property
    def table(self) -> str:
        """The table that its rows are a part of."""
        return self.needs[0].of.table


def uses_of(step: Step) -> tuple[Use, ...]:
    """What the statements of a step need, those that an index can refine."""
    found = [use_of(one) for one in (*((step.statement,) if step.tallies else ()), *step.histograms, *step.matchings)]
    return tuple(dict.fromkeys(use for use in found if use is not None))


def units_table(step: Step) -> UnitsTable | None:
    """The table of units that a step's rows are made of: what each unit has in all rows of one table; None: no such."""
    grouped = grouped_units(step.statement)
    if grouped is None or step.histograms or step.matchings or (step.checked.keys and step.cells is None):
        return None
    return units_of(grouped)


def units_of(grouped: GroupUnits) -> UnitsTable | None:
    """What GROUP BY unit makes of all rows of a table; None where it is of other rows, or of groups of a unit's."""
    scan = grouped.input
    if not isinstance(scan, Scan) or grouped.keys or grouped.unit != scan.unit:
        return None
    of, columns = Owned.by(scan), [over_table(column, scan) for _, column in grouped.columns]
    if of is None or None in columns:
        return None
    return UnitsTable(of, tuple(column for column in columns if column is not None and not is_rows(column)))


def is_rows(column: Expr) -> bool:
    """Is this a unit's number of rows?"""
    return isinstance(column, exp.Count) and isinstance(column.this, exp.Star)


def grouped_units(statement: Statement) -> GroupUnits | None:
    """The one GROUP BY unit over a table that a statement's rows come from, by filters and projections alone."""
    group = statement.input if isinstance(statement, OnCells) else statement
    rows = group.input.input if isinstance(group.input, OnDomain) else group.input
    if not isinstance(rows, ToGrid):
        return None
    below: Relation = rows.input
    while isinstance(below, Filter | Project):
        below = below.input
    return below if isinstance(below, GroupUnits) else None


def use_of(statement: Statement | Histogram | Matching) -> Use | None:
    """What indexes must be like to refine a statement; None: none can."""
    bounded = bounded_rows(statement)
    if bounded is None:
        return None
    gridded = bounded.rows.input if isinstance(bounded.rows, OnDomain) else bounded.rows
    if not isinstance(gridded, ToGrid):
        return None
    found = _part_of(gridded.input, UNIT)
    if found is None:
        return None
    of, others = found
    if bounded.size is not None:
        needs = _sized_needs(of, bounded.size, gridded)
    else:
        columns = dict(gridded.input.columns)
        written = [over_table(columns[key], gridded.input.input) for key in bounded.keys]
        needs = _needs(of, bounded, tuple(key for key in written if key is not None))
    whole = not any(isinstance(part, Filter) for part in parts_of(gridded.input))
    return Use((*needs, *others), whole) if needs else None


def _needs(of: Owned, bounded: Bounded, by: tuple[Expr, ...]) -> list[Need]:
    """Who may be above one of the limits. by: those keys that the table's rows have by themselves."""
    mass, peak = bounded.mass, bounded.peak
    if peak is not None and not by:  # a unit's group has no more rows than the unit
        mass, peak = (peak if mass is None else min(mass, peak)), None
    needs = [] if mass is None else [Need(of, mass)]
    if peak is not None and (mass is None or peak < mass):
        needs.append(Need(of, peak, by))  # Theorem INDEX-4
    return needs


def _sized_needs(of: Owned, size: Size, gridded: ToGrid) -> list[Need]:
    """Who may be above a size (Theorem INDEX-5); nobody is listed where a total isn't one of the table's own rows."""
    totals = {(t.value, t.where): t for t in size.totals}
    row, weighed = 0, list[tuple[Expr, Fraction]]()
    for part in size.parts:
        if part.tally.kind != "total":
            row += max(part.factor, 0)  # parts below 0 only make a size smaller
            continue
        known = totals.get((part.tally.value or "", part.tally.where))
        total = None if known is None else over_table(known.total, gridded.input.input)
        if known is None or total is None:
            return []
        # A value is rounded to its grid by half a step, and to that of the total by no more.
        row += 0 if known.exact else part.factor
        weighed.append((total, part.factor / known.step))
    return [Need(of, size.most, sizes=RowSizes(row, tuple(weighed)))]


@dataclass(frozen=True, slots=True)
class Bounded:
    """The rows that limits are enforced on, and these limits: rows of a unit, and in one group of these keys.

    size: what a unit's rows may add up to, in the place of their number.
    """

    rows: Gridded
    mass: int | None
    peak: int | None = None
    keys: tuple[str, ...] = ()
    size: Size | None = None


def bounded_rows(statement: Statement | Histogram | Matching) -> Bounded | None:
    """The rows that limits are enforced on; None of what no index refines.

    A cap needs all groups of a unit, and votes are spread over them.
    """
    match statement:
        case Matching(input=ToGrid() | OnDomain() as seen):
            return Bounded(seen, statement.mass, statement.peak, statement.keys)
        case Matching():
            return None
        case Histogram(input=Weight(input=rows, mass=mass, size=None)):
            return Bounded(rows, mass)
        case Histogram(input=WeightRows(input=rows, units=WeightUnits(input=PerUnit(size=None), mass=mass, peak=peak))):
            return Bounded(rows, mass, peak, statement.keys)
        case Histogram():
            return None
        case OnCells():
            return bounded_rows(statement.input)
        case Group() if not statement.tallies or not all(_is_plain(tally) for _, tally in statement.tallies):
            return None
    match statement.input:
        case Weight(input=rows, mass=mass, size=size):
            return Bounded(rows, mass, size=size)
        case WeightUnits(input=PerUnit(input=rows, size=size), mass=mass, peak=peak):
            return Bounded(rows, mass, peak, statement.keys, size)
        case _:
            return None


def _is_plain(tally: Tally) -> bool:
    """Is it a sum over rows, each times its weight? Then rows can be added up whoever owns them."""
    return tally.kind in ("rows", "present", "total") and tally.clip is None


def _part_of(relation: Relation, unit: str | None) -> tuple[Owned, tuple[Need, ...]] | None:
    """The table's rows that a relation's are a part of, each at most once and still its owner's; None: they aren't.

    Rows are dropped, and get further columns. A union may have a table twice: no index counts that. A row that stands
    for several (GROUP BY unit) isn't one of the table's. A join repeats rows, unless each has at most one match: that
    is proved (Theorem OWN-3), or it is so for all units but those that other lists have to name (Theorem INDEX-3).
    """
    match relation:
        case Scan():
            of = Owned.by(relation) if unit == relation.unit else None
            return None if of is None else (of, ())
        case Filter() | Mark() | Windows():
            return _part_of(relation.input, unit)
        case Project():
            held = dict(relation.columns).get(unit or "")
            below = unit_of(relation.input)
            kept = isinstance(held, exp.Column) and held.name == below
            return _part_of(relation.input, below) if kept else None
        case Join():
            left, others = _part_of(relation.left, unit), _matches(relation)
            return None if left is None or others is None else (left[0], (*left[1], *others))
        case _:
            return None


def _matches(join: Join) -> tuple[Need, ...] | None:
    """The units to be listed so that all others' rows have at most one match each; None where no list says so."""
    if join.once:
        return ()
    if join.units is None or isinstance(join.right, PublicTable | Given):
        return None
    # Theorem INDEX-3: a row's matches are its owner's, and whoever isn't listed here has one row there, or none.
    right = _part_of(join.right, join.units[1])
    return None if right is None else (Need(right[0], 1), *right[1])
