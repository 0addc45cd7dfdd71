"""The plan: a small closed set of frozen nodes that carry sqlglot scalar expressions over plan columns.

A plan column is a name that is unique in the query; expressions refer to it as a bare column. The first group of nodes
says what the query means; the second group, added by calibrate, says how integers are made of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from dpsql.sql.google import Bounds
from dpsql.statistics.grid import Grid
from dpsql.statistics.tally import Tally

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
    the table itself or in the last of the links. Rows that point to nothing, and rows whose unit is NULL, belong to
    nobody and are dropped (Theorem OWN-1).
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    unit: str | None
    owner: str | None = None
    links: tuple[Link, ...] = ()
    node: Expr | None = field(default=None, compare=False)  # the table as written, for messages


@dataclass(frozen=True, slots=True)
class Filter:
    """The input's rows for which the condition is TRUE."""

    input: Relation
    condition: Expr


Relation = Scan | Filter


def scanned(relation: Relation) -> Scan:
    """The scan at the bottom of a relation."""
    while isinstance(relation, Filter):
        relation = relation.input
    return relation


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate as the query writes it; argument None is COUNT(*)."""

    function: str
    argument: Expr | None
    distinct: bool
    where: Expr | None
    node: Expr = field(compare=False)  # as written, for messages
    bounds: Bounds | None = None  # contribution bounds per row, or per unit and group


@dataclass(frozen=True, slots=True)
class Release:
    """Aggregates of private rows by keys: what becomes a noisy table. Columns are k0, k1, … and a0, a1, …"""

    input: Relation
    keys: tuple[Expr, ...]
    aggregates: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Releases, named r0, r1, …, and the query over them (and over public tables) that is plain post-processing."""

    text: str
    releases: tuple[Release, ...]
    tables: tuple[str, ...]  # the names of the noisy tables
    post: exp.Query
    public: frozenset[str]


# ---------------------------------------------------------------- how the integers are made


@dataclass(frozen=True, slots=True)
class Project:
    """Exactly these columns, computed from the input's."""

    input: Relation
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class ToGrid:
    """Adds integer columns: each value finite-tested, clipped, put on its grid; NULL where it has no finite value."""

    input: Project
    values: tuple[tuple[str, str, Grid], ...]  # (new column, value column, grid)


@dataclass(frozen=True, slots=True)
class OnDomain:
    """Only the rows whose key is a public cell: what is dropped anyway must not use up a unit's limits."""

    input: ToGrid
    keys: tuple[str, ...]
    types: tuple[str, ...]


Gridded = ToGrid | OnDomain


@dataclass(frozen=True, slots=True)
class Weight:
    """Adds each row's integer weight: 2^bits, or ⌊mass · 2^bits / m⌋ for a unit with m > mass rows (WEIGHT-1)."""

    input: Gridded
    mass: int
    bits: int


@dataclass(frozen=True, slots=True)
class PerUnit:
    """One row for each unit and key: its tallies and its number of rows."""

    input: Gridded
    keys: tuple[str, ...]
    tallies: tuple[tuple[str, Tally], ...]


@dataclass(frozen=True, slots=True)
class CapGroups:
    """At most `limit` keys for each unit: those with the smallest hash under a fresh secret; ties go by key (CAP-1)."""

    input: PerUnit
    limit: int
    secret: int


@dataclass(frozen=True, slots=True)
class WeightUnits:
    """Multiplies each unit's tallies by its integer weight: first the peak, then the mass (WEIGHT-2)."""

    input: PerUnit | CapGroups
    mass: int | None
    peak: int | None
    bits: int


@dataclass(frozen=True, slots=True)
class Group:
    """Integer tallies by key, in key order. Without keys: one row."""

    input: Gridded | Weight | PerUnit | CapGroups | WeightUnits
    keys: tuple[str, ...]
    tallies: tuple[tuple[str, Tally], ...]


@dataclass(frozen=True, slots=True)
class OnCells:
    """Exactly the public cells, in their order; 0 where a cell has no rows, and nothing else."""

    input: Group
    types: tuple[str, ...]  # of the keys: cells come through Arrow, which has no HUGEINT


Statement = Group | OnCells
