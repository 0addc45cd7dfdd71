"""analyze: Plan -> Checked. Owners, ranges, keys and contributions of every release; no private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from sqlglot import exp

from dpsql.analyze.bounding import Bounding, Limits, PerGroup, bound
from dpsql.analyze.domains import MAX_CELLS, Domain, KeyColumn, PublicEngine, key_domain
from dpsql.analyze.ownership import Ownership, Promises, is_unit, nullable_promise, ownership
from dpsql.analyze.ranges import Range
from dpsql.analyze.refusals import (
    Unlisted,
    check_clip,
    no_condition,
    no_number,
    no_range,
    not_distinct,
    not_public,
    unlisted,
)
from dpsql.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Aggregate, Filter, Plan, Relation, Release, Scan, scanned
from dpsql.policy import Column, Policy
from dpsql.sql.google import Bounds
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.sql.types import Type

Schema = Mapping[str, tuple[tuple[str, str], ...]]  # table -> its (column, DuckDB type)s


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate is taken of: its value, its FILTER, whether it counts units, its clip per unit and group."""

    call: Aggregate
    value: Scalar | None
    where: Scalar | None
    units: bool
    clip: Bounds | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRelease:
    """A release whose every expression is total and has a range, with its cells and one unit's contribution."""

    release: Release
    relation: Relation  # with total conditions
    keys: tuple[Scalar, ...]
    domains: tuple[Domain, ...] | None  # None: the keys are selected privately
    arguments: tuple[Argument, ...]
    owner: Ownership
    bounding: Bounding
    min_units: int | None
    unlisted: Unlisted | None  # why the keys aren't public, where they are not

    @property
    def private_keys(self) -> bool:
        return self.domains is None

    @property
    def cells(self) -> int | None:
        """How many cells are released; None where that is not known beforehand."""
        return None if self.domains is None else prod(len(d.values) for d in self.domains)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The plan with everything known about its sensitivities."""

    plan: Plan
    releases: tuple[CheckedRelease, ...]


def analyze(
    plan: Plan, policy: Policy, limits: Limits, schema: Schema, promises: Promises, public: PublicEngine
) -> Checked:
    """Bound what one unit can change. Whatever has no bound is refused here, before anything is paid or read."""
    return Checked(plan, tuple(_release(r, policy, limits, schema, promises, public) for r in plan.releases))


def _release(
    release: Release, policy: Policy, limits: Limits, schema: Schema, promises: Promises, public: PublicEngine
) -> CheckedRelease:
    used = set(_used(release))
    columns, relation, conditions = _relation(release.input, used, policy, schema, promises)
    known = {name: c.scalar for name, c in columns.items()}
    owner = ownership(release.input, policy, promises)
    arguments = tuple(_argument(a, release, known) for a in release.aggregates)
    domains, private = _domains(release, columns, conditions, public)
    if private is not None and limits.public_keys:
        raise not_public(private)
    keys = tuple(_key(k, known) for k in release.keys)
    min_units = limits.min_units if release.keys else None
    bounding = bound(
        owner,
        limits,
        keyed=bool(release.keys),
        own_keys=_own_keys(release, owner),
        rows_counted=any(not a.units and a.clip is None for a in arguments),
        units_counted=_per_group(release, arguments, private, min_units),
        replace=policy.privacy.adjacency == "replace_one",
        table=scanned(release.input).node,
    )
    return CheckedRelease(release, relation, keys, domains, arguments, owner, bounding, min_units, private)


def _per_group(
    release: Release, arguments: tuple[Argument, ...], private: Unlisted | None, min_units: int | None
) -> PerGroup | None:
    """What is measured per unit and group, if anything is."""
    if private is not None:
        return PerGroup(private.place, f"{private.why}, so keys are selected privately", private.way)
    counted = next((a for a in arguments if a.units), None)
    if counted is not None:
        return PerGroup(counted.call.node, "this counts units in each group")
    clipped = next((a for a in arguments if a.clip is not None), None)
    if clipped is not None:
        return PerGroup(clipped.call.node, "this clips what each unit adds to a group")
    if min_units is not None:
        return PerGroup(release.keys, f"the policy's min_units = {min_units} counts units in each group")
    return None


def _key(node: exp.Expr, known: Mapping[str, Scalar]) -> Scalar:
    """A group key. Of a type whose equal values look alike: which of them a group shows must not depend on a row."""
    key = scalar(node, known)
    if not key.type.is_key:
        raise refuse(
            SQLError,
            f"{key.type.sql} can't be a group key",
            node,
            code="key-type",
            hint="group by a number, text, a date or a timestamp: cast or extract a part of it",
        )
    return key


def _own_keys(release: Release, owner: Ownership) -> bool:
    """Are all keys functions of the unit alone? Then a unit is in one group (Theorem OWN-2)."""
    return owner.unit is not None and all(c.name == owner.unit for k in release.keys for c in k.find_all(exp.Column))


def _used(release: Release) -> Iterator[str]:
    expressions: list[exp.Expr] = list(release.keys)
    for aggregate in release.aggregates:
        expressions += [e for e in (aggregate.argument, aggregate.where) if e is not None]
    relation = release.input
    while isinstance(relation, Filter):
        expressions.append(relation.condition)
        relation = relation.input
    for expression in expressions:
        yield from (c.name for c in expression.find_all(exp.Column))


# ---------------------------------------------------------------- relations


def _relation(
    relation: Relation, used: set[str], policy: Policy, schema: Schema, promises: Promises
) -> tuple[dict[str, KeyColumn], Relation, tuple[exp.Expr, ...]]:
    """What is known of each plan column, the relation with total conditions, and those conditions' conjuncts."""
    match relation:
        case Scan():
            return _scan(relation, used, policy, schema, promises.get(relation.table, frozenset())), relation, ()
        case Filter():
            columns, below, conditions = _relation(relation.input, used, policy, schema, promises)
            known = {name: c.scalar for name, c in columns.items()}
            conjuncts = [scalar(c, known) for c in _conjuncts(relation.condition)]
            for conjunct, written in zip(conjuncts, _conjuncts(relation.condition), strict=True):
                if not conjunct.type.is_boolean:
                    raise no_condition("WHERE", written, conjunct)
            tightened = tighten(relation.condition, known)
            narrowed = {n: KeyColumn(c.table, c.policy, tightened[n]) for n, c in columns.items()}
            total = exp.and_(*(c.sql.copy() for c in conjuncts), copy=False)
            return narrowed, Filter(below, total), (*conditions, *(c.sql for c in conjuncts))
        case _:
            assert_never(relation)


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    node = condition.unnest()
    return [*_conjuncts(node.left), *_conjuncts(node.right)] if isinstance(node, exp.And) else [node]


def _scan(scan: Scan, used: set[str], policy: Policy, schema: Schema, verified: frozenset[str]) -> dict[str, KeyColumn]:
    table = policy.tables[scan.table]
    types = {name.lower(): text for name, text in schema[scan.table]}
    columns: dict[str, KeyColumn] = {}
    for plan, name in scan.columns:
        if plan not in used:
            continue
        said = table.column(name)
        type_ = Type.parse(types[name.lower()])
        nullable = said is None or said.nullable or nullable_promise(table, name) not in verified
        range_ = _declared(table.name, said, type_, nullable)
        column = exp.column(exp.to_identifier(plan, quoted=True))
        columns[plan] = KeyColumn(table.name, said, Scalar(column, type_, range_))
    return columns


def _declared(table: str, said: Column | None, type_: Type, nullable: bool) -> Range:
    """The range that the policy gives a column. Values are not clipped yet: RANGE-1 says why that is enough."""
    if type_.is_boolean:
        return Range.of(0, 1, nullable, ("BOOLEAN",))
    if said is None or (said.min is None and said.max is None):
        return Range(nullable=nullable)
    shown = f"[{'' if said.min is None else said.min}, {'' if said.max is None else said.max}]"
    return Range.of(said.min, said.max, nullable, (f"{table}.{said.name}: policy {shown}",))


# ---------------------------------------------------------------- aggregates and keys


def _argument(call: Aggregate, release: Release, known: Mapping[str, Scalar]) -> Argument:
    where = None
    if call.where is not None:
        where = scalar(call.where, known)
        if not where.type.is_boolean:
            raise no_condition("FILTER", call.where, where)
        known = tighten(call.where, known)
    if call.distinct:
        if call.function == "COUNT" and call.argument is not None and is_unit(call.argument, release.input):
            return Argument(call, None, where, True)
        raise not_distinct(call)
    clip = call.bounds if call.bounds is not None and call.bounds.per == "group" else None
    if call.argument is None:
        return Argument(call, None, where, False, clip)
    value = scalar(call.argument, known)
    if call.bounds is not None and clip is None and (value.type.is_numeric or value.type.is_boolean):
        # Theorem RANGE-1: what is summed is clipped to its range, so the bounds need only narrow that.
        narrowed = value.range.clip(call.bounds.low, call.bounds.high).because(call.bounds.text)
        value = replace(value, range=narrowed)
    if call.function != "COUNT":
        # Theorem SUM-1: a number with a finite range. Missing bounds are fatal.
        if not (value.type.is_numeric or (value.type.is_boolean and call.function == "SUM")):
            raise no_number(call, value)
        if clip is not None:
            check_clip(clip, value)
        elif not value.range.is_finite or value.range.magnitude > _largest(call):
            raise no_range(call, value, known, scanned(release.input).table)
    return Argument(call, value, where, False, clip)


def _largest(call: Aggregate) -> int:
    """What no double holds is no range; a variance is a square."""
    return 10**150 if call.function.startswith(("VAR", "STDDEV")) else 10**300


def _domains(
    release: Release,
    columns: Mapping[str, KeyColumn],
    conditions: tuple[exp.Expr, ...],
    public: PublicEngine,
) -> tuple[tuple[Domain, ...] | None, Unlisted | None]:
    """The public domains of all keys; or why there are none, and the whole key is selected privately."""
    for key in release.keys:
        for column in key.find_all(exp.Column):
            said = columns[column.name].policy if column.name in columns else None
            if said is not None and said.private:
                raise refuse(
                    PrivacyError,
                    f"the policy says that {said.name} may not be a group key",
                    key,
                    code="private-column",
                    hint="group by another column, or aggregate without it",
                )
    found = [key_domain(k, columns, conditions, public) for k in release.keys]
    domains = tuple(d for d in found if d is not None)
    if len(domains) < len(found) or prod(len(d.values) for d in domains) > MAX_CELLS:
        return None, unlisted(release.keys, found, columns, public, scanned(release.input).unit)
    return domains, None
