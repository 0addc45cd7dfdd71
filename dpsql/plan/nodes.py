"""The plan: a small closed set of frozen nodes that carry sqlglot scalar expressions over plan columns.

A plan column is a name that is unique in the query; expressions refer to it as a bare column. The first group of nodes
says what the query means; the second group, added by calibrate, says how integers are made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from fractions import Fraction
from typing import assert_never

from sqlglot import exp

from dpsql.aggregates import COUNT, FORMS
from dpsql.aggregates.base import Recipe
from dpsql.aggregates.present import PRESENT
from dpsql.core.frozen import dataclass
from dpsql.core.grid import Grid
from dpsql.sql.google import Bounds
from dpsql.statistics.base import Size, Spectrum, Tally
from dpsql.statistics.moments import Moments

Expr = exp.Expr
Named = tuple[str, Expr]


@dataclass(frozen=True, slots=True)
class Link:
    """The next table on the way to the unit: its rows match where these columns are equal, (here, there)."""

    table: str
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a policy table that have a unit; columns are (plan name, column of the table).

    unit is the plan column that holds it, None where each row is its own unit; owner is the column it comes from, in
    the table itself or in the last of the links (None with a unit: rows are numbered). Rows that point to nothing, and
    rows whose unit is NULL, belong to nobody and are dropped (Theorem OWN-1).
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    unit: str | None
    owner: str | None = None
    links: tuple[Link, ...] = ()
    node: Expr | None = field(default=None, compare=False)  # the table as written, for messages


@dataclass(frozen=True, slots=True)
class PublicTable:
    """The rows of a public table; columns are (plan name, column of the table)."""

    table: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that the public engine computes before the statement runs, from public tables and earlier releases.

    columns are (plan name, output of the query). Values of a noisy query bound nothing: they are constants of a
    later step, and neither a range, a domain nor a price may rest on them.
    """

    name: str
    query: exp.Query
    columns: tuple[tuple[str, str], ...]
    written: exp.Query  # the same over the tables themselves: it has the types
    one_row: bool
    noisy: bool
    types: tuple[str, ...] = ()  # of the columns, once they are known: Arrow has no HUGEINT
    unique: tuple[tuple[str, ...], ...] = ()  # plan columns with at most one row for each value: checked before use


@dataclass(frozen=True, slots=True)
class Filter:
    """The input's rows for which the condition is TRUE."""

    input: Relation
    condition: Expr
    narrows: bool = True  # False: groups without such rows are groups, too, as for Join


@dataclass(frozen=True, slots=True)
class Project:
    """Exactly these columns, computed from the input's; unit is the one of them that holds it."""

    input: Relation
    columns: tuple[Named, ...]
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """Each row of the left side with its matches; "left" keeps rows without any, with NULLs (Theorem OWN-3).

    The left side is private and the owner of each row is its left one. units: the columns of both owners where the
    right side is private, too; rows of two owners never match, whatever the condition says.
    """

    left: Relation
    right: Relation | PublicTable | Given
    kind: str  # "inner" or "left"
    condition: Expr | None
    units: tuple[str, str] | None
    node: Expr | None = field(default=None, compare=False)
    narrows: bool = True  # False of public LEFT JOIN private: rows without a match are groups, too (Theorem OWN-3)
    once: bool = False  # proved: a left row has at most one match, whatever the private data are


@dataclass(frozen=True, slots=True)
class Mark:
    """Adds a boolean column: does the row have a match on the other side? (Theorem OWN-4)

    With member = (value, other's value) it is value IN (the other's values), NULL as SQL has it.
    """

    input: Relation
    other: Relation | PublicTable | Given
    column: str
    condition: Expr | None
    units: tuple[str, str] | None
    member: tuple[Expr, Expr] | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs, which have the same column names (Theorem OWN-5)."""

    inputs: tuple[Project, ...]


@dataclass(frozen=True, slots=True)
class GroupUnits:
    """One row for each unit and value of the keys; the other columns are aggregates of its rows (Theorem OWN-6)."""

    input: Relation
    unit: str
    keys: tuple[Named, ...]
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """Adds a column that is computed by a window within each unit's own rows (Theorem OWN-6)."""

    input: Relation
    unit: str
    column: str
    window: Expr


Relation = Scan | Filter | Project | Join | Mark | Union | GroupUnits | Windows


def scanned(relation: Relation) -> Scan:
    """The first scan of a relation: the one that its rows are said to come from."""
    while not isinstance(relation, Scan):
        match relation:
            case Join():
                relation = relation.left
            case Union():
                relation = relation.inputs[0]
            case _:
                relation = relation.input
    return relation


def unit_of(relation: Relation) -> str | None:
    """The plan column that holds each row's unit."""
    match relation:
        case Scan() | Project() | GroupUnits():
            return relation.unit
        case Filter() | Mark() | Windows():
            return unit_of(relation.input)
        case Join():
            return unit_of(relation.left)
        case Union():
            return relation.inputs[0].unit
        case _:
            assert_never(relation)


def columns_of(relation: Relation | PublicTable | Given) -> tuple[str, ...]:
    """The plan columns of a relation."""
    match relation:
        case Scan():
            names = tuple(plan for plan, _ in relation.columns)
            return names if relation.unit is None or relation.unit in names else (*names, relation.unit)
        case PublicTable() | Given() | Project():
            return tuple(c[0] for c in relation.columns)
        case Filter():
            return columns_of(relation.input)
        case Join():
            return (*columns_of(relation.left), *columns_of(relation.right))
        case Mark() | Windows():
            return (*columns_of(relation.input), relation.column)
        case Union():
            return columns_of(relation.inputs[0])
        case GroupUnits():
            return (relation.unit, *(name for name, _ in (*relation.keys, *relation.columns)))
        case _:
            assert_never(relation)


def parts_of(relation: Relation | PublicTable | Given) -> Iterator[Relation | PublicTable | Given]:
    """A relation and all that it is made of."""
    yield relation
    match relation:
        case Scan() | PublicTable() | Given():
            return
        case Filter() | Project() | GroupUnits() | Windows():
            yield from parts_of(relation.input)
        case Mark():
            yield from parts_of(relation.input)
            yield from parts_of(relation.other)
        case Join():
            yield from parts_of(relation.left)
            yield from parts_of(relation.right)
        case Union():
            for one in relation.inputs:
                yield from parts_of(one)
        case _:
            assert_never(relation)


def expressions_of(relation: Relation | PublicTable | Given) -> Iterator[Expr]:
    """Every expression in a relation and in what it is made of."""
    for part in parts_of(relation):
        match part:
            case Filter():
                yield part.condition
            case Project():
                yield from (e for _, e in part.columns)
            case Join() | Mark():
                if part.condition is not None:
                    yield part.condition
                if isinstance(part, Mark) and part.member is not None:
                    yield from part.member
            case GroupUnits():
                yield from (e for _, e in (*part.keys, *part.columns))
            case Windows():
                yield part.window
            case Scan() | PublicTable() | Given() | Union():
                pass
            case _:
                assert_never(part)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate as the query writes it; argument None is COUNT(*)."""

    function: str
    argument: Expr | None
    distinct: bool
    where: Expr | None
    node: Expr = field(compare=False)  # as written, for messages
    bounds: Bounds | None = None  # contribution bounds per row, or per unit and group
    at: tuple[Fraction, ...] = ()  # of a quantile: the shares of the rows
    listed: bool = False  # they were given as a list, and are answered as one
    second: Expr | None = None  # the other argument of an aggregate of pairs

    @property
    def recipe(self) -> Recipe | None:
        """How it is answered; None of what analyze refuses."""
        form = FORMS[self.function]
        return form if isinstance(form, Recipe) else None


def counted_rows(where: Expr | None, node: Expr, recipe: str = COUNT) -> Aggregate:
    """COUNT(*) of the rows that pass a condition; recipe: another aggregate that is made of this number."""
    return Aggregate(recipe, None, False, where, node)


def counts_rows(call: Aggregate) -> bool:
    """Is it the number of all rows of each group?"""
    plain = call.argument is None and not call.distinct and call.where is None and call.bounds is None
    return plain and call.recipe is not None and call.recipe.counts_distinct


def counted_groups(*, by_units: bool) -> Aggregate:
    """What tells which groups are there: the number of each one's units, or of its rows."""
    return Aggregate(PRESENT.name, None, by_units, None, exp.Var(this="which groups are there"))


@dataclass(frozen=True, slots=True)
class Winners:
    """Only the keys of the `count` groups with the largest (or least) aggregate are looked at, in their order.

    present: those with a NULL key are passed over. shown: the aggregate of each is looked at, too, so that it must be
    counted; then `explain` says what the keys alone would cost.
    """

    count: int
    largest: bool
    present: bool = False
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """Aggregates of private rows by keys: what becomes a noisy table. Columns are k0, k1, … and a0, a1, …"""

    input: Relation
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]
    winners: Winners | None = None
    listed_for: str | None = None  # the aggregate for which all its keys must be public, if there is one
    every: bool = False  # are all its groups there, whatever rows they have? So public LEFT JOIN private says
    kept: tuple[Expr, ...] = ()  # conditions on keys alone: the query shows no group that doesn't meet them
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)  # counts of units are found by it

    def __hash__(self) -> int:
        if self._hash is None:
            parts = (self.input, self.keys, self.aggregates, self.winners, self.listed_for, self.every, self.kept)
            object.__setattr__(self, "_hash", hash(parts))
        assert self._hash is not None
        return self._hash


@dataclass(frozen=True, slots=True)
class Responses:
    """Columns of a table, each value of each row randomised by itself: a noisy row for each row (Theorem RR-1).

    Each row is a unit, and nothing stands between the table and this node. The noisy table's columns are a0, a1, …
    """

    input: Scan
    columns: tuple[str, ...]  # plan columns
    calls: tuple[Expr, ...] = field(compare=False)  # as written, for messages


@dataclass(frozen=True, slots=True)
class Plan:
    """Releases, named r0, r1, …, and the query over them (and over public tables) that is plain post-processing."""

    text: str
    releases: tuple[Release, ...]
    tables: tuple[str, ...]  # the names of the noisy tables
    post: exp.Query
    public: frozenset[str]
    responses: tuple[tuple[str, Responses], ...] = ()  # with the names of their noisy tables


# ---------------------------------------------------------------- how the integers are made


@dataclass(frozen=True, slots=True)
class ToGrid:
    """Adds integer columns: each value finite-tested, clipped, put on its grid; NULL where it has no finite value.

    together: what is measured of several of them at once; each row is divided over its cells (Theorem MOMENTS-1).
    sparse: these are few of the rows that are read for them, here and there.
    """

    input: Project
    values: tuple[tuple[str, str, Grid], ...]  # (new column, value column, grid)
    together: tuple[Moments, ...] = ()
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class OnDomain:
    """Only the rows whose key is a public cell: what is dropped anyway must not use up a unit's limits."""

    input: ToGrid
    keys: tuple[str, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Again:
    """The rows that a WeightRows around it has read."""


Gridded = ToGrid | OnDomain | Again


@dataclass(frozen=True, slots=True)
class Weight:
    """Adds each row's integer weight: 2^bits, or ⌊mass · 2^bits / m⌋ for a unit with m > mass rows (WEIGHT-1).

    size: instead, ⌊most · 2^bits / size⌋ for a unit whose rows add up to more than `most` (SIZE-1).
    among: the rows of all units that may have more, where a list names them (INDEX-1).
    """

    input: Gridded
    mass: int | None
    bits: int
    size: Size | None = None
    among: Gridded | None = None


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit and key: its tallies, its number of rows and what these add up to there.

    size: what that is, and the most of it that a WeightUnits above leaves to the unit, in the place of rows (SIZE-1).
    listed: so for each unit of a list; of all others together one row for each key, with NULL for the unit (INDEX-1).
    """

    input: Gridded
    keys: tuple[str, ...]
    tallies: tuple[tuple[str, Tally], ...]
    listed: bool = False
    size: Size | None = None


@dataclass(frozen=True, slots=True)
class CapGroups:
    """At most `limit` keys for each unit: those with the smallest hash under a secret; ties go by key (CAP-1).

    The secret is no part of a plan: each run of a statement has one of its own.
    """

    input: PerUnit
    limit: int
    by_unit: bool = True  # False: the hash is of the key alone, and prefers the same keys for all units


@dataclass(frozen=True, slots=True)
class SpreadVotes:
    """Each unit's votes: in each of the t groups that it has, the integer below 2^bits/√t (KEYW-1)."""

    input: PerUnit | CapGroups


@dataclass(frozen=True, slots=True)
class WeightUnits:
    """Multiplies each unit's tallies by its integer weight: first the peak, then the mass (WEIGHT-2).

    Where the input's units have sizes, a unit has one weight, made of its size in all groups instead (SIZE-1).
    """

    input: PerUnit | CapGroups | SpreadVotes
    mass: int | None
    peak: int | None
    bits: int


@dataclass(frozen=True, slots=True)
class Corrected:
    """All rows at their full weight, 2^bits, and what the weights of listed units take away from that (INDEX-1).

    weights has bits; its rows are those of the units that an index lists, and no others.
    """

    rows: ToGrid
    weights: Weight | WeightUnits | WeightRows


@dataclass(frozen=True, slots=True)
class Group:
    """Integer tallies by key, in key order. Without keys: one row."""

    input: Gridded | Weight | PerUnit | CapGroups | SpreadVotes | WeightUnits | Corrected
    keys: tuple[str, ...]
    tallies: tuple[tuple[str, Tally], ...]


@dataclass(frozen=True, slots=True)
class Encode:
    """For each row, in any order, and each column the place of its value in a public list; 0 where it isn't there."""

    input: Scan
    columns: tuple[tuple[str, str, str | None], ...]  # (new column, plan column, type of the list; None: a boolean)


@dataclass(frozen=True, slots=True)
class OnCells:
    """Exactly the public cells, in their order; 0 where a cell has no rows, and nothing else."""

    input: Group
    types: tuple[str, ...]  # of the keys: cells come through Arrow, which has no HUGEINT


Statement = Group | OnCells


@dataclass(frozen=True, slots=True)
class WeightRows:
    """Each row with its unit's weight in its group (WEIGHT-2), without the groups that the unit lost (CAP-1)."""

    input: Gridded
    units: PerUnit | CapGroups | SpreadVotes | WeightUnits


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many rows have each integer of a value, for each cell; cells and integers without rows are left out.

    Its cells are those of the statement beside it: public ones, or the private keys that occur there.
    """

    input: Gridded | Weight | WeightRows | Corrected
    keys: tuple[str, ...]
    types: tuple[str, ...]
    spectrum: Spectrum


@dataclass(frozen=True, slots=True)
class Matching:
    """Which units have which values, for each cell: a value counts if it can be assigned to a unit (DISTINCT-1).

    A unit takes at most `peak` values in a cell and `mass` in all of them; None: all that it has. Its cells are those
    of the statement beside it.
    """

    input: Gridded | WeightRows
    keys: tuple[str, ...]
    types: tuple[str, ...]
    tally: Tally
    mass: int | None
    peak: int | None
    by_unit: bool = True  # False: the hash by which places are shared out is of the key alone
    every: ToGrid | None = None  # all rows, without their units: then the input is of listed units alone (INDEX-2)
