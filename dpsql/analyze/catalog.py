"""What is known of a relation and its columns, and of what a query rests on besides its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.analyze.domains import KeyColumn, PublicEngine
from dpsql.analyze.ownership import Ownership, Promises
from dpsql.analyze.public import Describe, Schema
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr, Relation
from dpsql.plan.rows import plan_column
from dpsql.policy.model import Column, Policy
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.statistics.bounds import Seed

Ranges = Mapping[tuple[str, str], tuple[Fraction, Fraction] | None]


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is known besides the query: the policy, the schema, verified promises, and public data."""

    policy: Policy
    schema: Schema
    promises: Promises
    public: PublicEngine
    describe: Describe
    unlisted: frozenset[str] = frozenset()  # tables of whose columns only those that the policy lists can be used
    given: dict[str, Any] = field(default_factory=dict)  # subqueries over public rows, once computed
    histograms: dict[str, Any] = field(default_factory=dict)  # of automatic bounds, once analyzed
    ranges: Ranges = field(default_factory=dict)
    """Of columns with automatic bounds, by (table, column): the released range, or None to know of none. A column that
    isn't named has its public seed range."""

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The column names of each table."""
        return {table: tuple(name for name, _ in columns) for table, columns in self.schema.items()}


@dataclass(frozen=True, slots=True)
class Known:
    """A relation with total expressions, its columns, the conditions that its rows meet, and their owners."""

    relation: Relation
    columns: Mapping[str, KeyColumn]
    conditions: tuple[Expr, ...]
    owner: Ownership

    @property
    def scalars(self) -> dict[str, Scalar]:
        return {name: c.scalar for name, c in self.columns.items()}


def declared_range(table: str, said: Column | None, type_: Type, nullable: bool) -> Range:
    """The range that the policy gives a column. Values are not clipped yet: RANGE-1 says why that is enough."""
    if type_.is_boolean:
        return Range.of(0, 1, nullable, ("BOOLEAN",))
    if said is None or (said.min is None and said.max is None):
        return Range(nullable=nullable)
    shown = f"[{'' if said.min is None else said.min}, {'' if said.max is None else said.max}]"
    return Range.of(said.min, said.max, nullable, (f"{table}.{said.name}: policy {shown}",))


def automatic_range(table: str, said: Column, seed: Seed, ranges: Ranges, nullable: bool) -> Range:
    """The range that automatic bounds give a column (Theorem AUTO-1): it chooses the clip, like a declared one."""
    found = ranges.get((table.lower(), said.name.lower()), (seed.low, seed.high))
    if found is None:
        return Range(nullable=nullable)
    return Range.of(*found, nullable, (f"{table}.{said.name}: automatic",))


def narrowed_columns(columns: Mapping[str, KeyColumn], condition: Expr | None) -> dict[str, KeyColumn]:
    """The columns as they are on rows that meet the condition."""
    if condition is None:
        return dict(columns)
    tightened = tighten(condition, {name: c.scalar for name, c in columns.items()})
    return {n: replace(c, scalar=tightened[n]) for n, c in columns.items()}


def nullable_column(column: KeyColumn) -> KeyColumn:
    """A column of the side of a LEFT JOIN that may have no match."""
    known = column.scalar
    hard = None if known.extent is None else known.extent.with_nullable(True)
    return replace(column, scalar=replace(known, range=known.range.with_nullable(True), extent=hard))


def computed(name: str, e: Expr, columns: Mapping[str, KeyColumn], known: Mapping[str, Scalar]) -> KeyColumn:
    """A new column: another one under a new name keeps all that the policy says of it."""
    if isinstance(e, exp.Column):
        there = columns[e.name]
        return replace(there, scalar=replace(there.scalar, sql=plan_column(name)))
    return KeyColumn("", None, replace(scalar(e, known), sql=plan_column(name)), closed=closed_columns([e], columns))


def closed_columns(expressions: Iterable[Expr], columns: Mapping[str, KeyColumn]) -> frozenset[str]:
    """The columns in these expressions that the policy keeps out of keys."""
    found: frozenset[str] = frozenset()
    for e in expressions:
        for column in e.find_all(exp.Column):
            if column.name in columns:
                found |= columns[column.name].never_keys
    return found


def moved(unique: frozenset[frozenset[str]], names: Mapping[str, str]) -> frozenset[frozenset[str]]:
    return frozenset(frozenset(names[c] for c in one) for one in unique if all(c in names for c in one))


def renamed_conditions(conditions: Iterable[Expr], names: Mapping[str, str]) -> tuple[Expr, ...]:
    """The conditions over columns that keep their names."""
    kept = {old for old, new in names.items() if old == new}
    return tuple(c for c in conditions if {n.name for n in c.find_all(exp.Column)} <= kept)


def same_type(a: Scalar, b: Scalar) -> bool:
    """Are equal values of the two the same value, without any cast that merges some?"""
    if a.type.is_float or b.type.is_float:
        return False
    return (a.type.is_integer and b.type.is_integer) or (a.type.is_text and b.type.is_text) or a.type == b.type
