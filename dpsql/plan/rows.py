"""Row-level relations while they are built: plan nodes, and what each column of the query means over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from sqlglot import exp

from dpsql.plan.nodes import (
    Expr,
    Given,
    Named,
    Project,
    PublicTable,
    Relation,
    Scan,
    columns_of,
    unit_of,
)
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import data_type
from dpsql.sql.trees import explicit, rebuilt

Names = Mapping[str, str]
Columns = Mapping[tuple[str, str], Expr]  # (source alias, column) -> an expression over plan columns


@dataclass(slots=True)
class Rows:
    """Private rows in one scope. Subqueries and windows in its expressions add columns to the relation."""

    relation: Relation
    columns: Columns
    windows: Mapping[str, exp.Window] | None = None  # named ones; None: no window can stand here yet
    made: dict[object, Expr] = field(default_factory=dict)  # what an equal subquery or window became
    foreign: list[Expr] = field(default_factory=list)  # conditions of WHERE that look at a row of an outer query
    unmatched: Expr | None = None  # the private side of a public LEFT JOIN private, whose rows without a match are out
    private_aliases: frozenset[str] = frozenset()  # the private sources, where some of them are unmatched

    @property
    def aliases(self) -> set[str]:
        return {alias for alias, _ in self.columns}

    def fresh(self, name: str) -> str:
        """A name that no plan column has."""
        return fresh(name, columns_of(self.relation))


@dataclass(frozen=True, slots=True)
class PublicRows:
    """Public rows that private ones are joined to."""

    relation: PublicTable | Given
    columns: Columns


@dataclass(frozen=True, slots=True)
class Private:
    """A row-level SELECT: a plan node and its outputs by name."""

    relation: Relation
    outputs: Mapping[str, Expr]


def with_column(relation: Relation, name: str, value: Expr) -> Project:
    """The rows with this one column, and that of their unit."""
    unit = unit_of(relation)
    kept = () if unit is None else ((unit, plan_column(unit)),)
    return Project(relation, (*kept, (name, value)), unit)


def fresh(name: str, taken: Iterable[str]) -> str:
    """The name, or the first of name_2, name_3, … that isn't taken."""
    used, candidate, n = set(taken), name, 2
    while candidate in used:
        candidate, n = f"{name}_{n}", n + 1
    return candidate


def given_rows(node: Given) -> exp.Select:
    """The rows of public values that a statement is given, in the types that it reads them as."""
    typed = [
        exp.Alias(
            this=exp.TryCast(this=plan_column(source), to=data_type(kind)), alias=exp.to_identifier(name, quoted=True)
        )
        for (name, source), kind in zip(node.columns, node.types, strict=True)
    ]
    table = exp.Table(this=exp.to_identifier(node.name, quoted=True))
    return exp.Select(expressions=typed or [exp.Literal.number(1)], from_=exp.From(this=table))


def plan_column(name: str) -> exp.Column:
    """A plan column as an expression."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def conjuncts(condition: Expr | None) -> list[Expr]:
    """The conditions that AND combines."""
    if condition is None:
        return []
    node = condition.unnest()
    return [*conjuncts(node.this), *conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def factored(conditions: Iterable[Expr]) -> list[Expr]:
    """The conditions, and before each OR what all its branches have in common: that may be what joins two tables."""
    found: list[Expr] = []
    for condition in conditions:
        branches = [conjuncts(b) for b in _disjuncts(condition)]
        found += [c.copy() for c in branches[0] if len(branches) > 1 and all(c in b for b in branches[1:])]
        found.append(condition)
    return found


def _disjuncts(condition: Expr) -> list[Expr]:
    node = condition.unnest()
    return [*_disjuncts(node.this), *_disjuncts(node.expression)] if isinstance(node, exp.Or) else [node]


def all_of(conditions: Iterable[Expr]) -> Expr | None:
    """The conditions combined by AND; None for none."""
    found = list(conditions)
    return exp.and_(*found, copy=False) if found else None


def substituted(node: Expr, new: Names) -> Expr:
    """The expression with plan columns renamed."""

    def rewrite(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.Column) and e.name in new:
            copy = plan_column(new[e.name])
            copy.this.meta.update(e.this.meta)
            return copy
        return rebuilt(e, rewrite)

    return rewrite(node) if new else node


def apart(columns: Columns, right: Relation | PublicTable | Given, taken: Iterable[str]) -> tuple[Names, Columns]:
    """New names for the plan columns of `right` that are taken, and its columns by them."""
    used = set(taken)
    new: dict[str, str] = {}
    for name in columns_of(right):
        chosen = fresh(name, used | set(columns_of(right)) - {name})
        used.add(chosen)
        if chosen != name:
            new[name] = chosen
    return new, {place: substituted(e, new) for place, e in columns.items()}


def renamed(relation: Relation, new: Names) -> Relation:
    """A private relation under other plan names, its unit among them."""
    if not new:
        return relation
    unit = unit_of(relation)
    own = None if unit is None else new.get(unit, unit)
    if isinstance(relation, Scan):
        columns = tuple((new.get(plan, plan), column) for plan, column in relation.columns)
        return replace(relation, columns=columns, unit=own)
    listed: tuple[Named, ...] = tuple((new.get(name, name), plan_column(name)) for name in columns_of(relation))
    return Project(relation, listed, own)


def computed(rows: Rows) -> Rows:
    """Rows whose columns are all columns of the plan: a Project computes those that are expressions."""
    own = columns_of(rows.relation)
    made: dict[Expr, str] = {}
    for e in rows.columns.values():
        if not isinstance(e, exp.Column) and e not in made:
            made[e] = fresh("computed", (*own, *made.values()))
    if not made:
        return rows
    listed = (*((name, plan_column(name)) for name in own), *((name, e) for e, name in made.items()))
    relation = Project(rows.relation, listed, unit_of(rows.relation))
    return Rows(relation, {place: plan_column(made[e]) if e in made else e for place, e in rows.columns.items()})


def renamed_public(relation: PublicTable | Given, new: Names) -> PublicTable | Given:
    """A public relation under other plan names."""
    return replace(relation, columns=tuple((new.get(plan, plan), column) for plan, column in relation.columns))


def given(query: exp.Query, outputs: Iterable[str], written: exp.Query, releases: set[str], *, one_row: bool) -> Given:
    """Rows computed before the statement. Its name is made of its text, so that equal releases stay equal."""
    noisy = any(t.name in releases for t in query.find_all(exp.Table))
    name = f"dpsql_given_{sha256(as_sql(explicit(query), copy=False).encode()).hexdigest()[:16]}"
    return Given(name, query, tuple((o.lower(), o) for o in outputs), written, one_row, noisy)
