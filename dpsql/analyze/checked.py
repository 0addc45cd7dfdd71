"""analyze: Plan -> Checked. Owners, ranges, keys and contributions of every release; no private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.aggregates.base import Recipe
from dpsql.analyze.bounding import Bounding, Limits, PerGroup, TotalLimit, bound
from dpsql.analyze.catalog import Catalog, Known
from dpsql.analyze.cells import Lister
from dpsql.analyze.combination import combination
from dpsql.analyze.combine import Cells
from dpsql.analyze.domains import MAX_CELLS
from dpsql.analyze.ownership import Ownership
from dpsql.analyze.refusals import (
    Unlisted,
    check_clip,
    no_condition,
    no_number,
    no_range,
    not_distinct,
    not_listed,
    not_public,
    second_alone,
    unlisted,
)
from dpsql.analyze.relations import known_relation
from dpsql.analyze.responses import CheckedResponses, check_responses
from dpsql.analyze.variables import over_variables
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.nodes import Aggregate, Plan, Relation, Release, Winners, expressions_of, scanned
from dpsql.plan.owners import units, ways
from dpsql.sql.as_sql import as_sql
from dpsql.sql.google import Bounds
from dpsql.sql.nodes import aggregate_form
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.sql.times import as_number
from dpsql.sql.trees import nodes_of
from dpsql.statistics.bounds import Automatic


@dataclass(frozen=True, slots=True)
class Argument:
    """What an aggregate is taken of: its value, its FILTER, whether it counts units, its clip per unit and group."""

    call: Aggregate
    value: Scalar | None
    where: Scalar | None
    units: bool
    clip: Bounds | None = None
    kind: Type | None = None  # of a date or time that is counted as a number: what it was
    distinct: bool = False  # are its different values counted?
    second: Scalar | None = None  # the other value of a pair

    @property
    def values(self) -> tuple[Scalar, ...]:
        return tuple(v for v in (self.value, self.second) if v is not None)

    @property
    def ordered(self) -> bool:
        """Is a value chosen by its rank?"""
        return self.recipe.ranked

    def total_limit(self, totals: Sequence[TotalLimit]) -> TotalLimit | None:
        """What bounds one unit's total of it; None: nothing does, or it isn't made of a sum."""
        if not self.recipe.summed or self.clip is not None:
            return None
        mine = (self.call.argument, self.call.where, self.call.bounds)
        return next((t for t in totals if (t.argument, t.where, t.clipped) == mine), None)

    @property
    def total_text(self) -> str:
        """The sum of which one unit has a total, in words."""
        assert self.call.argument is not None
        where = "" if self.call.where is None else f" where {as_sql(self.call.where)}"
        return f"total of {as_sql(self.call.argument)}{where}".replace('"', "")

    def total_alone(self, totals: Sequence[TotalLimit]) -> bool:
        """Is it nothing but a sum that is bounded by one unit's total? Then its rows need no limit."""
        return self.recipe.one_number and self.total_limit(totals) is not None

    @property
    def recipe(self) -> Recipe:
        """How its call is answered."""
        recipe = self.call.recipe
        assert recipe is not None, "a call without a recipe is refused before"
        return recipe


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRelease:
    """A release whose every expression is total and has a range, with its cells and one unit's contribution."""

    release: Release
    relation: Relation  # with total conditions
    keys: tuple[Scalar, ...]
    listed: Cells | None  # None: the keys are selected privately
    arguments: tuple[Argument, ...]
    owner: Ownership
    bounding: Bounding
    min_units: int | None
    unlisted: Unlisted | None  # why the keys aren't public, where they are not
    winners: Winners | None = None  # only these keys need to leave
    once: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What others made of it and of nothing else: kept with it, and never with a changed copy of it."""

    @property
    def private_keys(self) -> bool:
        return self.listed is None

    @property
    def total_limits(self) -> dict[str, float]:
        """By how much one unit's total is bounded in which sums, in words."""
        found: dict[str, float] = {}
        for argument in self.arguments:
            limit = argument.total_limit(self.bounding.totals)
            if limit is not None:
                found[f"one unit's {argument.total_text}"] = _shown(limit.most)
                if limit.peak is not None:
                    found[f"one unit's {argument.total_text} in one group"] = _shown(limit.peak)
        return found

    @property
    def cells(self) -> int | None:
        """How many cells are released; None where that is not known beforehand."""
        return None if self.listed is None else self.listed.count


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The plan with everything known about its sensitivities."""

    plan: Plan
    releases: tuple[CheckedRelease, ...]
    responses: tuple[CheckedResponses, ...] = ()  # rows that leave one by one, randomised
    automatic: tuple[Automatic, ...] = ()  # the automatic bounds that the ranges in it rest on


def analyze(plan: Plan, limits: Limits | Sequence[Limits], catalog: Catalog) -> Checked:
    """Bound what one unit can change. Whatever has no bound is refused here, before anything is paid or read.

    limits: for all releases, or of each.
    """
    each = [limits] * len(plan.releases) if isinstance(limits, Limits) else limits
    releases = tuple(_release(r, one, catalog) for r, one in zip(plan.releases, each, strict=True))
    return Checked(plan, releases, check_responses(plan, catalog))


def _shown(limit: Fraction) -> float:
    return int(limit) if limit.denominator == 1 and limit < 2**53 else float(limit)


def _release(release: Release, limits: Limits, catalog: Catalog) -> CheckedRelease:
    # Theorem LIMITS-1: a limit that is chosen makes neither ranges nor keys, which follow from what was named.
    most = None if "max_rows" in limits.chosen else limits.max_rows
    rows = known_relation(release.input, set(used_columns(release)), most, catalog)
    known, owner = rows.scalars, rows.owner
    # A released range never makes keys: their values follow from public ranges alone.
    public = rows
    if catalog.ranges and release.keys:
        public = known_relation(release.input, set(used_columns(release)), most, replace(catalog, ranges={}))
    held = units(ways(release.input, catalog.policy))
    arguments = tuple(_argument(a, held, rows) for a in release.aggregates)
    listed, private = _cells(release, public, catalog)
    if private is not None and release.listed_for is not None:
        raise not_listed(private, release.listed_for)
    if private is not None and limits.public_keys:
        raise not_public(private)
    if private is not None:  # units are counted anyway, to select the keys (Theorem KEY-1)
        arguments = tuple(replace(a, units=True) if a.recipe.tells_presence else a for a in arguments)
    keys = tuple(_key(k, catalog.total(k, known)) for k in release.keys)
    min_units = limits.min_units if release.keys else None
    clipped = any(a.clip is not None for a in arguments)
    winners = release.winners if listed is not None and min_units is None and not clipped else None
    if winners is not None and winners.shown:
        winners = None
    if winners is not None and winners.present and listed is not None and listed.holds_null:
        winners = None
    # Winners are chosen by single cells, however many of them a unit is in (Theorem CHOOSE-1).
    counted = _per_group(release, arguments, private, min_units) if winners is None else None
    # Rows that are units of their own have no name by which their totals could be added up.
    limits = limits if owner.unit is not None else replace(limits, totals=())
    bounding = bound(
        owner,
        limits,
        keyed=bool(release.keys),
        own_keys=_own_keys(release, owner),
        rows_counted=any(not a.units and a.clip is None and not a.total_alone(limits.totals) for a in arguments),
        units_counted=counted,
        replace=catalog.policy.privacy.adjacency == "replace_one",
        table=scanned(release.input).node,
    )
    checked = CheckedRelease(release, rows.relation, keys, listed, arguments, owner, bounding, min_units, private)
    return replace(checked, winners=winners)


def _per_group(
    release: Release, arguments: tuple[Argument, ...], private: Unlisted | None, min_units: int | None
) -> PerGroup | None:
    """What is measured per unit and group, if anything is."""
    if private is not None:
        return PerGroup(private.place, f"{private.why}, so keys are selected privately", private.way)
    counted = next((a for a in arguments if a.units), None)
    if counted is not None and counted.recipe.tells_presence:
        return PerGroup(release.keys, "which groups are there is told by counts of the units in each")
    if counted is not None:
        return PerGroup(counted.call.node, "this counts units in each group")
    clipped = next((a for a in arguments if a.clip is not None), None)
    if clipped is not None:
        return PerGroup(clipped.call.node, "this clips what each unit adds to a group")
    if min_units is not None:
        return PerGroup(release.keys, f"the policy's min_units = {min_units} counts units in each group")
    return None


def _key(node: exp.Expr, key: Scalar) -> Scalar:
    """A group key. Of a type whose equal values look alike: which of them a group shows must not depend on a row."""
    return _groupable(node, key, "a group key", "group by")


def _groupable(node: exp.Expr, key: Scalar, role: str, verb: str) -> Scalar:
    if not key.type.is_key:
        raise refuse(
            SQLError,
            f"{key.type.sql} can't be {role}",
            node,
            code="key-type",
            hint=f"{verb} a number, text, a date or a timestamp: cast or extract a part of it",
        )
    return key


def _own_keys(release: Release, owner: Ownership) -> bool:
    """Are all keys functions of the unit alone? Then a unit is in one group (Theorem OWN-2)."""
    return owner.unit is not None and all(c.name in owner.own for k in release.keys for c in nodes_of(k, exp.Column))


def used_columns(release: Release) -> Iterator[str]:
    """The plan columns that any expression of a release, or of its rows, names."""
    expressions: list[exp.Expr] = list(release.keys)
    for aggregate in release.aggregates:
        expressions += [e for e in (aggregate.argument, aggregate.second, aggregate.where) if e is not None]
    for expression in [*expressions, *expressions_of(release.input)]:
        yield from (c.name for c in nodes_of(expression, exp.Column))


# ---------------------------------------------------------------- aggregates and keys


def _argument(call: Aggregate, held: frozenset[str], rows: Known) -> Argument:
    """held: the columns that are the unit, by lineage."""
    where = None
    known: Mapping[str, Scalar] = rows.scalars
    if call.where is not None:
        where = scalar(call.where, known)
        if not where.type.is_boolean:
            clause = "FILTER" if isinstance(call.node, exp.Filter) else aggregate_form(call.node).name
            raise no_condition(clause, call.where, where)
        known = tighten(call.where, known)
    recipe = call.recipe
    if recipe is not None and recipe.tells_presence:  # rows without a name that are repeated can only be counted
        return Argument(call, None, None, call.distinct and rows.owner.unit is not None)
    if call.distinct:
        if call.argument is None:  # PRIVACY_UNIT() of rows that are their own units
            return Argument(call, None, where, rows.owner.unit is not None or rows.owner.rows != 1)
        if recipe is None or not recipe.counts_distinct:
            raise not_distinct(call)
        if isinstance(call.argument, exp.Column) and call.argument.name in held:
            return Argument(call, None, where, True)
        if isinstance(call.argument, exp.Tuple):  # one row of values, NULLs among them
            each = call.argument.expressions
            value = combination([_groupable(e, scalar(e, known), "counted DISTINCT", "count") for e in each])
        else:
            value = _groupable(call.argument, scalar(call.argument, known), "counted DISTINCT", "count")
        return Argument(call, value, where, False, distinct=True)
    clip = call.bounds if call.bounds is not None and call.bounds.per == "group" else None
    if call.argument is None:
        return Argument(call, None, where, False, clip)
    assert recipe is not None
    value = scalar(call.argument, known)
    kind = None
    if recipe.takes_dates and (value.type.is_date or value.type.is_timestamp):
        kind, value = value.type, as_number(value)
    if call.bounds is not None and clip is None and (value.type.is_numeric or value.type.is_boolean):
        # Theorem RANGE-1: what is summed is clipped to its range, so the bounds need only narrow that.
        narrowed = value.range.clip(call.bounds.low, call.bounds.high).because(call.bounds.text)
        value = replace(value, range=narrowed)
    if recipe.takes == "condition":
        if not value.type.is_boolean:
            raise no_condition(call.function, call.argument, value)
    elif not recipe.counted:
        # Theorem SUM-1: a number with a finite range. Missing bounds are fatal.
        if not (value.type.is_numeric or (value.type.is_boolean and recipe.takes == "number or boolean")):
            raise no_number(call, value)
        if clip is not None:
            check_clip(clip, value)
        elif not value.range.is_finite or value.range.magnitude > _largest(recipe):
            raise no_range(call, value, known, rows.columns)
    if call.second is None:
        return Argument(call, value, where, False, clip, kind)
    # The other value of a pair is an argument like the first: a message about it points at it.
    other = replace(call, argument=call.second, second=None, node=second_alone(call))
    return Argument(call, value, where, False, clip, kind, second=_argument(other, held, rows).value)


def _largest(recipe: Recipe) -> int:
    """What no double holds is no range; a variance is a square, and so is a product of two values."""
    return 10**150 if recipe.powers_of_values else 10**300


def _cells(release: Release, rows: Known, catalog: Catalog) -> tuple[Cells | None, Unlisted | None]:
    """The public cells; or why there are none, and the whole key is selected privately."""
    if not release.keys:
        return Cells((), ()), None
    columns = rows.columns
    for key in release.keys:
        closed = {name for c in nodes_of(key, exp.Column) if c.name in columns for name in columns[c.name].never_keys}
        if closed:
            raise refuse(
                PrivacyError,
                f"the policy says that {min(closed)} may not be a group key",
                key,
                code="private-column",
                hint="group by another column, or aggregate without it",
            )
    for key in release.keys:
        catalog.total(key, rows.scalars)  # what is wrong with it is told where it stands
    lister = Lister(rows.facts, rows.variables, catalog.public)
    made = [over_variables(k, columns) for k in release.keys]
    cells, found = lister.cells([k for k in made if k is not None]) if None not in made else (None, [None] * len(made))
    if cells is not None and cells.count <= MAX_CELLS:
        return cells, None
    count = None if cells is None else cells.count
    return None, unlisted(release.keys, found, count, columns, lister, rows.owner.unit)
