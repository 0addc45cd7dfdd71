"""analyze: Plan -> Checked. Owners, ranges, keys and contributions of every release; no private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, assert_never

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.analyze.bounding import Bounding, Limits, bound
from dpsql.analyze.domains import MAX_CELLS, Domain, KeyColumn, PublicEngine, key_domain
from dpsql.analyze.ownership import Ownership, Promises, is_unit, nullable_promise, ownership
from dpsql.analyze.ranges import Range
from dpsql.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Aggregate, Filter, Plan, Relation, Release, Scan
from dpsql.policy import Column, Policy
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.sql.types import Type

Schema = Mapping[str, tuple[tuple[str, str], ...]]  # table -> its (column, DuckDB type)s


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate is taken of: its value, its FILTER, whether it counts units."""

    call: Aggregate
    value: Scalar | None
    where: Scalar | None
    units: bool


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
    domains = _domains(release, columns, conditions, public)
    keys = tuple(scalar(k, known) for k in release.keys)
    min_units = limits.min_units if release.keys else None
    bounding = bound(
        owner,
        limits,
        keyed=bool(release.keys),
        own_keys=_own_keys(release, owner),
        rows_counted=any(not a.units for a in arguments),
        units_counted=domains is None or min_units is not None or any(a.units for a in arguments),
        replace=policy.privacy.adjacency == "replace_one",
    )
    return CheckedRelease(release, relation, keys, domains, arguments, owner, bounding, min_units)


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
                    raise refuse(SQLError, "WHERE takes a condition", written, code="type", hint="compare it: x > 0")
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
            raise refuse(SQLError, "FILTER takes a condition", call.node, code="type", hint="compare it: x > 0")
        known = tighten(call.where, known)
    if call.function not in RECIPES:
        raise refuse(
            PrivacyError,
            f"{call.function} of private rows is not supported by this version",
            call.node,
            code="unsupported-aggregate",
            hint=f"what can be asked of private rows: {', '.join(sorted(RECIPES))}",
        )
    if call.distinct:
        if call.function == "COUNT" and call.argument is not None and is_unit(call.argument, release.input):
            return Argument(call, None, where, True)
        raise refuse(
            PrivacyError,
            f"{call.function}(DISTINCT …) is supported only for COUNT of the unit",
            call.node,
            code="distinct",
            hint="write COUNT(DISTINCT unit) with the policy's unit column, or leave DISTINCT out",
        )
    if call.argument is None:
        return Argument(call, None, where, False)
    value = scalar(call.argument, known)
    if call.function != "COUNT":
        _needs_range(call, value)
    return Argument(call, value, where, False)


def _needs_range(call: Aggregate, value: Scalar) -> None:
    """SUM and AVG need a number with a finite range (Theorem SUM-1); missing bounds are fatal."""
    assert call.argument is not None
    if not (value.type.is_numeric or value.type.is_boolean):
        raise refuse(
            SQLError,
            f"{call.function} takes a number, not {value.type.sql}",
            call.argument,
            code="type",
            hint="cast it: TRY_CAST(x AS DOUBLE)",
        )
    if value.range.is_finite:
        return
    text = call.argument.sql(dialect="duckdb", identify=False)
    columns = list(dict.fromkeys(c.name for c in call.argument.find_all(exp.Column)))
    named = columns[0] if columns else "x"
    plain = exp.Column(this=exp.to_identifier(named)).sql()
    raise refuse(
        PrivacyError,
        f"{call.function} needs a range for {text if isinstance(call.argument, exp.Column) else 'this expression'}",
        call.argument,
        code="needs-range",
        hint=f"give {', '.join(columns) or 'its columns'} a min and a max in the policy: "
        f"{plain} = {{ min = 0, max = 500 }}\n"
        f"or clip it in the query: {call.function}(CLIP({text.replace(chr(34), '')}, 0, 500))",
    )


def _domains(
    release: Release,
    columns: Mapping[str, KeyColumn],
    conditions: tuple[exp.Expr, ...],
    public: PublicEngine,
) -> tuple[Domain, ...] | None:
    """The public domains of all keys, or None: the whole key is selected privately."""
    for key in release.keys:
        for column in key.find_all(exp.Column):
            said = columns[column.name].policy if column.name in columns else None
            if said is not None and said.private:
                raise refuse(
                    PrivacyError,
                    f"the policy says that {said.name} may not be a group key",
                    key,
                    code="private-column",
                    hint="group by another column",
                )
    found = [key_domain(k, columns, conditions, public) for k in release.keys]
    domains = tuple(d for d in found if d is not None)
    if len(domains) < len(found) or prod(len(d.values) for d in domains) > MAX_CELLS:
        return None
    return domains


def describe_range(value: Scalar) -> str:
    """A range for people."""
    return f"[{_plain(value.range.low)}, {_plain(value.range.high)}]"


def _plain(value: Any) -> str:
    from fractions import Fraction

    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
    return str(value)
