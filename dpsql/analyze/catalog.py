"""What is known of a relation and its columns, and of what a query rests on besides its text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, TypeVar

from sqlglot import exp

from dpsql.analyze.domains import PublicEngine
from dpsql.analyze.ownership import Ownership, Promises, nullable_promise
from dpsql.analyze.public import Describe, Schema
from dpsql.analyze.variables import KeyColumn, Variables, over_variables
from dpsql.analyze.widths import AUTOMATIC_WIDTH, span_of, width_of
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr, Filter, GroupUnits, Project, Relation
from dpsql.plan.rows import plan_column
from dpsql.policy.model import Column, Policy, Table
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.sql.trees import nodes_of
from dpsql.statistics.bounds import Seed

MAX_MEMO_VALUES = 1_000

Made = TypeVar("Made")
Ranges = Mapping[tuple[object, object], tuple[Fraction, Fraction] | None]


class Memo:
    """What the planning of one text has analyzed, by what it was made of: nothing is analyzed twice.

    It lives as long as its catalog: what it holds rests on the policy, the schema, promises and public data of that.
    Each ε that a text is asked for at adds to it, so that it begins anew when it is full. Thread-safe: stages are
    settled when they are run, in the threads of whoever pays, and what fails then is paid for.
    """

    __slots__ = ("_bases", "_made", "_totals")

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._bases: dict[int, Relation] = {}  # by their ids; they are kept, so nothing else has these
        self._totals: dict[int, list[tuple[Expr, Mapping[str, Scalar], Scalar]]] = {}  # by the ids of what was written

    def kept(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value of this key; made when it is first asked for."""
        known = self._made
        if key in known:
            found: Made = known[key]
            return found
        value = make()
        if len(self._made) >= MAX_MEMO_VALUES:
            self.__init__()  # type: ignore[misc]  # values that were given away stay as they are
        self._made[key] = value
        return value

    def total(self, written: Expr, known: Mapping[str, Scalar]) -> Scalar:
        """The total form of a condition or a key: rows are analyzed for an answer, and for each count of units."""
        seen = {c.name: known[c.name] for c in nodes_of(written, exp.Column) if c.name in known}
        before = self._totals.setdefault(id(written), [])  # the node is kept, so nothing else has its id
        for node, given, found in before:
            if node is written and given == seen:
                return found
        total = scalar(written, known)
        before.append((written, seen, total))
        return total

    def add_base(self, rows: Relation) -> None:
        """Remember the rows of a release: units are counted in these very rows."""
        self._bases[id(rows)] = rows

    def base_of(self, counted: Relation) -> Relation | None:
        """The rows of a release, in which a relation counts units step by step; None: of no release."""
        node: object = counted
        while isinstance(node, Filter | Project | GroupUnits):
            if id(node) in self._bases:
                return node
            node = node.input
        return self._bases.get(id(node))


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
    memo: Memo = field(default_factory=Memo)
    ranges: Ranges = field(default_factory=dict)
    """Of columns with automatic bounds, by (table, column): the released range, or None to know of none. A column that
    isn't named has its public seed range. Of wide values by `value_key`: the released range."""

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The column names of each table."""
        return {table: tuple(name for name, _ in columns) for table, columns in self.schema.items()}

    @property
    def known_ranges(self) -> tuple[object, ...]:
        """The ranges that are known, as a part of keys of the memo."""
        return tuple(self.ranges.items())

    def without_promises(self) -> Catalog:
        """The catalog in which nothing was verified."""
        return replace(self, promises={}, memo=Memo())

    def with_policy(self, policy: Policy) -> Catalog:
        """The catalog of another policy; nothing that was analyzed for this one is known there."""
        return replace(self, policy=policy, memo=Memo())


@dataclass(frozen=True, slots=True)
class Known:
    """A relation with total expressions, its columns, what all its rows meet, and their owners."""

    relation: Relation
    columns: Mapping[str, KeyColumn]
    facts: tuple[Expr, ...]  # over variables
    owner: Ownership
    variables: Variables

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


def column_of(catalog: Catalog, table: Table, name: str, type_text: str, plan: str) -> KeyColumn:
    """A column of a private table, by its name there, its type as the source writes it, and its name in the plan.

    It can't be NULL only where that promise was verified (Theorem PROMISE-1).
    """
    said, type_ = table.column(name), Type.parse(type_text)
    verified = catalog.promises.get(table.name.lower(), frozenset())
    nullable = said is None or said.nullable or nullable_promise(table, name) not in verified
    if said is not None and said.share is not None and type_.is_numeric:
        known = automatic_range(table.name, said, Seed.of(type_), catalog.ranges, nullable)
        return KeyColumn(table.name, said, Scalar(plan_column(plan), type_, known), width=AUTOMATIC_WIDTH)
    value = Scalar(plan_column(plan), type_, declared_range(table.name, said, type_, nullable))
    return KeyColumn(table.name, said, value, width=span_of(value))


def narrowed_columns(columns: Mapping[str, KeyColumn], condition: Expr | None) -> dict[str, KeyColumn]:
    """The columns as they are on rows that meet the condition."""
    if condition is None:
        return dict(columns)
    tightened = tighten(condition, {name: c.scalar for name, c in columns.items()})
    return {n: replace(c, scalar=tightened[n]) for n, c in columns.items()}


def computed(
    name: str, e: Expr, columns: Mapping[str, KeyColumn], known: Mapping[str, Scalar], variables: Variables
) -> tuple[KeyColumn, Scalar]:
    """A new column, and its value as it runs. Another column under a new name keeps all that the policy says of it."""
    total = scalar(e, known)
    if isinstance(e, exp.Column):
        there = columns[e.name]
        return replace(there, scalar=replace(there.scalar, sql=plan_column(name))), total
    value = replace(total, sql=plan_column(name))
    closed, made = closed_columns([e], columns), over_variables(e, columns)
    column = KeyColumn("", None, value, closed=closed, made=made, width=width_of(e, columns))
    return column if column.made is not None else variables.add(column), total


def closed_columns(expressions: Iterable[Expr], columns: Mapping[str, KeyColumn]) -> frozenset[str]:
    """The columns in these expressions that the policy keeps out of keys."""
    found: frozenset[str] = frozenset()
    for e in expressions:
        for column in nodes_of(e, exp.Column):
            if column.name in columns:
                found |= columns[column.name].never_keys
    return found


def moved(unique: frozenset[frozenset[str]], names: Mapping[str, str]) -> frozenset[frozenset[str]]:
    return frozenset(frozenset(names[c] for c in one) for one in unique if all(c in names for c in one))
