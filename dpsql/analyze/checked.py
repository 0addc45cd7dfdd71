"""analyze: Plan -> Checked. Owners, ranges, keys and contributions of every release; no private row is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import date, datetime
from fractions import Fraction
from math import prod
from typing import Any

from sqlglot import exp

from dpsql.aggregates.base import Recipe
from dpsql.analyze.bounding import Bounding, Limits, PerGroup, SizeLimit, SumScale, bound
from dpsql.analyze.catalog import Catalog, Known
from dpsql.analyze.cells import Lister
from dpsql.analyze.combination import combination
from dpsql.analyze.combine import Cells
from dpsql.analyze.domains import MAX_CELLS, Domain, implied
from dpsql.analyze.ownership import Ownership
from dpsql.analyze.per_unit import is_narrow, own_aggregate
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
    written_argument,
)
from dpsql.analyze.relations import counted_relation, known_relation
from dpsql.analyze.responses import CheckedResponses, check_responses
from dpsql.analyze.unit_totals import size_of_value, unit_total
from dpsql.analyze.variables import facts_over_variables, over_variables
from dpsql.analyze.widths import WideValue, is_wide
from dpsql.core.errors import Error, PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.plan.nodes import (
    Aggregate,
    Filter,
    GroupUnits,
    Plan,
    Relation,
    Release,
    Winners,
    expressions_of,
    scanned,
    unit_of,
)
from dpsql.plan.owners import units, ways
from dpsql.plan.unconditional import unconditional
from dpsql.sql.as_sql import as_sql
from dpsql.sql.google import Bounds
from dpsql.sql.nodes import aggregate_form
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.scalar import Scalar, scalar, tighten
from dpsql.sql.times import as_number
from dpsql.sql.trees import nodes_of
from dpsql.statistics.bounds import Automatic

SEED_ROWS = 2**20  # of one unit, where nobody names a limit: where the search for a range starts (Theorem AUTO-2)
FALLBACK_ROWS = 16  # and where none is found


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
    wide: tuple[WideValue, ...] = ()  # those of its values whose ranges are found automatically (Theorem AUTO-2)
    most: int | None = None  # different values that there are, if all are what the policy declares; None: nobody knows

    @property
    def values(self) -> tuple[Scalar, ...]:
        return tuple(v for v in (self.value, self.second) if v is not None)

    @property
    def ordered(self) -> bool:
        """Is a value chosen by its rank?"""
        return self.recipe.ranked

    @property
    def sized(self) -> bool:
        """Is it a number of rows or of values, or made of a sum of numbers and of these, so that it can be sized?"""
        if self.clip is not None or self.distinct or self.second is not None:
            return False
        if self.recipe.counted:
            return True
        value = self.value
        if not self.recipe.summed or value is None or self.kind is not None:  # dates are no amounts
            return False
        return isinstance(value.range.low, Fraction) and isinstance(value.range.high, Fraction)

    def scale(self, size: SizeLimit) -> SumScale | None:
        """How much of its sum counts as one row of a unit's size; None: it has no sum."""
        if not self.recipe.summed or self.units:
            return None
        mine = (self.call.argument, self.call.where, self.call.bounds)
        found = next((s for s in size.scales if (s.argument, s.where, s.clipped) == mine), None)
        assert found is not None and found.unit > 0, "a sum without a scale has no size"
        return found

    @property
    def sum_text(self) -> str:
        """What it adds up, in words."""
        assert self.call.argument is not None
        where = "" if self.call.where is None else f" where {as_sql(self.call.where)}"
        return f"{as_sql(self.call.argument)}{where}".replace('"', "")

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
    wider: Cells | None = None  # the cells without what HAVING says of keys, where it leaves some out
    unit_totals: tuple[tuple[SumScale, exp.Expr], ...] = ()  # Σ|x| of one unit, for each sum of a size (INDEX-5)
    once: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What others made of it and of nothing else: kept with it, and never with a changed copy of it."""

    @property
    def private_keys(self) -> bool:
        return self.listed is None

    @property
    def size_limit(self) -> dict[str, float]:
        """What bounds one unit's size, if anything does: in words, and how large it may be."""
        size = self.bounding.size
        if size is None:
            return {}
        scaled = ((a, a.scale(size)) for a in self.arguments)
        sums = dict.fromkeys((a.sum_text, scale.unit) for a, scale in scaled if scale is not None)
        rows = any(not a.units and (a.recipe.counted or not a.recipe.one_number) for a in self.arguments)
        if not rows and len(sums) == 1:
            ((text, unit),) = sums
            return {f"one unit's sum of |{text}|": _shown(size.most * unit)}
        terms = [*(["rows"] if rows else []), *(f"|{text}| / {_shown(unit):,g}" for text, unit in sums)]
        return {f"one unit's {' + '.join(terms)}": _shown(size.most)}

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
    pairs = zip(plan.releases, each, strict=True)
    releases = tuple(_bounded(release, one, catalog) for release, one in pairs)
    return Checked(plan, releases, check_responses(plan, catalog))


def _bounded(release: Release, limits: Limits, catalog: Catalog) -> CheckedRelease:
    """A release under these limits: the same value for the same limits, in one planning."""
    key = ("bounded", release, limits, catalog.known_ranges)
    return catalog.memo.kept(key, lambda: analyzed_release(release, limits, catalog).at(limits))


def _shown(limit: Fraction) -> float:
    return int(limit) if limit.denominator == 1 and limit < 2**53 else float(limit)


@dataclass(frozen=True, slots=True)
class NamedLimits:
    """All that facts about a release rest on of its limits: what the policy or the query names."""

    max_rows: int | None
    min_units: int | None
    public_keys: bool
    one_vote: bool

    @classmethod
    def of(cls, limits: Limits) -> NamedLimits:
        """The limits that somebody named. Theorem LIMITS-1: one that is chosen makes neither ranges nor keys."""
        rows = None if "max_rows" in limits.chosen or limits.one_vote else limits.max_rows
        return cls(rows, limits.min_units, limits.public_keys, limits.one_vote)


@dataclass(frozen=True, slots=True, eq=False)
class AnalyzedRelease:
    """A release with everything that no chosen limit decides; `at` bounds one unit's contribution.

    per_group: what is measured per unit and group, if anything is. weighed: are rows weighed? sized: can one unit's
    size be bounded in the place of its rows? own_keys: are all keys functions of the unit alone?
    """

    release: Release
    rows: Known
    keys: tuple[Scalar, ...]
    listed: Cells | None
    wider: Cells | None
    arguments: tuple[Argument, ...]
    unlisted: Unlisted | None
    winners: Winners | None
    min_units: int | None
    per_group: PerGroup | None
    weighed: bool
    sized: bool
    own_keys: bool
    replace: bool  # is the neighbour relation replace_one?

    def at(self, limits: Limits) -> CheckedRelease:
        """The release with what these limits leave one unit. Refuses a limit that is needed and missing."""
        owner = self.rows.owner
        fits = limits.max_rows_per_group is None and self.sized
        limits = limits if fits else replace(limits, size=None)
        bounding = bound(
            owner,
            limits,
            keyed=bool(self.release.keys),
            own_keys=self.own_keys,
            rows_counted=self.weighed and limits.size is None,
            units_counted=self.per_group,
            replace=self.replace,
            table=scanned(self.release.input).node,
        )
        size, known = bounding.size, self.rows.scalars
        return CheckedRelease(
            self.release,
            self.rows.relation,
            self.keys,
            self.listed,
            self.arguments,
            owner,
            bounding,
            self.min_units,
            self.unlisted,
            self.winners,
            self.wider,
            () if size is None else tuple(_unit_totals(size, self.arguments, known)),
        )


def analyzed_release(release: Release, limits: Limits, catalog: Catalog) -> AnalyzedRelease:
    """Analyze a release, once for all limits that are chosen for it."""
    named = NamedLimits.of(limits)
    key = ("release", release, named, catalog.known_ranges)
    return catalog.memo.kept(key, lambda: _release(release, named, catalog))


def _release(release: Release, named: NamedLimits, catalog: Catalog) -> AnalyzedRelease:
    filtered = _with_shared_filter(release, named)
    if filtered is None:
        return _analyzed(release, named, catalog)
    try:
        found = _analyzed(filtered, named, catalog)
    except Error:  # said of what was written: as a condition on rows it would be refused in other words
        return _analyzed(release, named, catalog)
    # Where keys are selected privately, units without such a row count for it, too.
    return found if found.listed is not None else _analyzed(release, named, catalog)


def _with_shared_filter(release: Release, named: NamedLimits) -> Release | None:
    """A release in which the FILTER that all aggregates share is a condition on its rows; None: they share none.

    The numbers are the same, and so are the groups: the condition doesn't narrow them. A unit then has only the rows
    that count, so that its limits are chosen by these.
    """
    wheres = {a.where for a in release.aggregates}
    condition = next(iter(wheres), None)
    if len(wheres) != 1 or condition is None or release.winners is not None or named.min_units is not None:
        return None
    if unit_of(release.input) is None or isinstance(release.input, GroupUnits):
        return None  # a unit has one row there, mostly: nothing would be chosen by it
    aggregates = tuple(replace(a, where=None) for a in release.aggregates)
    return replace(release, input=Filter(release.input, condition, narrows=False), aggregates=aggregates)


def _analyzed(release: Release, named: NamedLimits, catalog: Catalog) -> AnalyzedRelease:
    most = named.max_rows
    catalog.memo.add_base(release.input)
    rows = known_relation(release.input, set(used_columns(release)), most, catalog)
    known, owner = rows.scalars, rows.owner
    # A released range never makes keys: their values follow from public ranges alone.
    public = rows
    if catalog.ranges and release.keys:
        public = known_relation(release.input, set(used_columns(release)), most, replace(catalog, ranges={}))
    held = units(ways(release.input, catalog.policy))
    unnamed = _Unnamed(release, held, rows, catalog) if most is None and not named.one_vote else None
    arguments = tuple(_ranged(a, held, rows, catalog, release.input, unnamed) for a in release.aggregates)
    listed, private = _cells(release, public, catalog)
    wider = None
    if release.kept and listed is not None:
        wider, _ = _cells(replace(release, kept=()), public, catalog)
    if private is not None and release.listed_for is not None:
        raise not_listed(private, release.listed_for)
    if private is not None and named.public_keys:
        raise not_public(private)
    if private is not None:  # units are counted anyway, to select the keys (Theorem KEY-1)
        arguments = tuple(replace(a, units=True) if a.recipe.tells_presence else a for a in arguments)
    keys = tuple(_key(k, catalog.memo.total(k, known)) for k in release.keys)
    min_units = named.min_units if release.keys else None
    winners = _winners(release, arguments, listed, min_units)
    return AnalyzedRelease(
        release,
        rows,
        keys,
        listed,
        wider,
        arguments,
        private,
        winners,
        min_units,
        # Winners are chosen by single cells, however many of them a unit is in (Theorem CHOOSE-1).
        per_group=_per_group(release, arguments, private, min_units) if winners is None else None,
        weighed=any(not a.units and a.clip is None for a in arguments),
        sized=_is_sized(arguments, owner, private, winners),
        own_keys=_own_keys(release, owner),
        replace=catalog.policy.privacy.adjacency == "replace_one",
    )


def analyzed_count(release: Release, catalog: Catalog) -> CheckedRelease:
    """Analyze a count of units: a histogram of what each has, by a bucket that this package has written, or one number.

    Theorem LIMITS-1: each unit is one row of it. The cells of a bucket are all numbers in its range, and NULL: no list
    of values, no condition and no limit of the query is part of them.
    """
    key = ("count", release, catalog.known_ranges)
    return catalog.memo.kept(key, lambda: _analyzed_count(release, catalog))


def _analyzed_count(release: Release, catalog: Catalog) -> CheckedRelease:
    rows = counted_relation(release.input, set(used_columns(release)), catalog)
    known = rows.scalars
    arguments = tuple(_argument(call, frozenset(), rows) for call in release.aggregates)
    _require_open(release.keys, rows)
    keys = tuple(_key(k, catalog.memo.total(k, known)) for k in release.keys)
    cells = Cells.of(tuple(map(_buckets, keys)))
    analyzed = AnalyzedRelease(
        release,
        rows,
        keys,
        listed=cells,
        wider=None,
        arguments=arguments,
        unlisted=None,
        winners=None,
        min_units=None,
        per_group=None,
        weighed=True,
        sized=False,
        own_keys=_own_keys(release, rows.owner),
        replace=catalog.policy.privacy.adjacency == "replace_one",
    )
    return analyzed.at(Limits())


def _buckets(key: Scalar) -> Domain:
    """The values of a bucket. What has none is refused: stages are settled after payment, where refusals give way."""
    domain = implied(key, [None] if key.nullable else [])
    if domain is None:
        raise PrivacyError(
            "units can't be counted by what they have here",
            code="needs-max-rows",
            hint="say for how many rows one unit may count: --max-rows 20, max_rows=20, "
            "or [privacy] max_rows = 20 in the policy",
        )
    return domain


def _winners(
    release: Release, arguments: Sequence[Argument], listed: Cells | None, min_units: int | None
) -> Winners | None:
    """The winners of a release that can be chosen without a number of the others."""
    clipped = any(a.clip is not None for a in arguments)
    winners = release.winners if listed is not None and min_units is None and not clipped else None
    if winners is None or winners.shown or (winners.present and listed is not None and listed.holds_null):
        return None
    return winners


def _unit_totals(
    size: SizeLimit, arguments: Sequence[Argument], known: Mapping[str, Scalar]
) -> Iterator[tuple[SumScale, exp.Expr]]:
    """What one unit adds up of each sum, in the very words in which histograms of sizes have it (Theorem INDEX-5).

    Not of numbers of more than 26 digits: within a unit these are clipped once more, so that less may be added up.
    """
    for argument in arguments:
        scale = argument.scale(size)
        if scale is None or argument.value is None:
            continue
        value = scalar(size_of_value(scale.argument, argument.value), known)
        if value.type.is_float or is_narrow(value.type):
            total = unit_total(scale.argument, argument.value, scale.where)
            yield scale, own_aggregate(total, known, None).sql


def may_have_size(one: CheckedRelease) -> bool:
    """Can one unit's size be bounded in a release, in the place of its rows (Theorem SIZE-1)?

    Only where all that weighs rows is a number of rows or of values, a sum or an average, and keys are public. Units
    may be counted beside them. Whether noisy conditions stand in the way is for the caller to ask.
    """
    return one.bounding.peak is None and _is_sized(one.arguments, one.owner, one.unlisted, one.winners)


def _is_sized(
    arguments: Sequence[Argument], owner: Ownership, private: Unlisted | None, winners: Winners | None
) -> bool:
    # Rows that are units of their own have no name by which their values could be added up.
    if private is not None or winners is not None or owner.unit is None or owner.numbered:
        return False
    return all(a.units or a.sized for a in arguments) and not all(a.units for a in arguments)


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
            scalars = [_groupable(e, scalar(e, known), "counted DISTINCT", "count") for e in each]
            most = [_declared(e, one, rows) for e, one in zip(each, scalars, strict=True)]
            every = None if None in most else prod(n + 1 for n in most if n is not None)  # NULL is one of each
            return Argument(call, combination(scalars), where, False, distinct=True, most=every)
        value = _groupable(call.argument, scalar(call.argument, known), "counted DISTINCT", "count")
        return Argument(call, value, where, False, distinct=True, most=_declared(call.argument, value, rows))
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


def _declared(written: exp.Expr, value: Scalar, rows: Known) -> int | None:
    """How many different values there are, if all are among those that the policy lists, or in a range of few."""
    column = rows.columns.get(written.name) if isinstance(written, exp.Column) else None
    if column is not None and column.policy is not None and column.policy.values:
        return len(column.policy.values)
    low, high = value.range.low, value.range.high
    if value.type.is_boolean:
        return 2
    if isinstance(low, date) and isinstance(high, date) and not isinstance(low, datetime):
        return (high - low).days + 1
    if not value.type.is_integer or not isinstance(low, Fraction) or not isinstance(high, Fraction):
        return None
    return int(high - low) + 1


def _ranged(
    call: Aggregate, held: frozenset[str], rows: Known, catalog: Catalog, relation: Relation, unnamed: _Unnamed | None
) -> Argument:
    """An argument with the ranges of its values: derived, or found."""
    try:
        return _with_wide(_argument(call, held, rows), relation, rows, catalog)
    except PrivacyError as error:
        if unnamed is None or error.code != "needs-range":
            raise
        seeded = unnamed.argument(call)
        if seeded is None:
            raise
        return seeded


@dataclass(frozen=True, slots=True)
class _Unnamed:
    """The rows of a release within which nobody limits one unit's rows: what is added up of them has no range yet.

    Theorem AUTO-2: a value that is added up of any number of rows has a range as if these were SEED_ROWS, which is only
    where the search for its own range starts.
    """

    release: Release
    held: frozenset[str]
    rows: Known
    catalog: Catalog

    def argument(self, call: Aggregate) -> Argument | None:
        """The argument with wide values for all that lack a range; None where it has others that lack one."""
        with suppress(PrivacyError):
            first, last = (self._with_rows(n) for n in (FALLBACK_ROWS, SEED_ROWS))
            if any(first.scalars[n].type != known.type for n, known in self.rows.scalars.items()):
                return None
            least = _argument(call, self.held, first)
            whole = _with_wide(_argument(call, self.held, last), self.release.input, last, self.catalog, least)
            lacking = [w for w in (call.argument, call.second) if w is not None and not self._has_range(w)]
            if lacking and all(any(w.written is e for w in whole.wide) for e in lacking):
                return whole
        return None

    def _with_rows(self, rows: int) -> Known:
        return known_relation(self.release.input, set(used_columns(self.release)), rows, self.catalog)

    def _has_range(self, written: exp.Expr) -> bool:
        return scalar(written, self.rows.scalars).range.is_finite


def _with_wide(
    argument: Argument, relation: Relation, rows: Known, catalog: Catalog, least: Argument | None = None
) -> Argument:
    """The argument with those of its values whose derived ranges are wide, in the ranges that were found for them.

    Values that are counted or chosen by rank have none; nor have those for which the query names a range. least: the
    argument with the ranges that serve where none is found, if these aren't the derived ones.
    """
    call, recipe = argument.call, argument.recipe
    if argument.value is None or recipe.counted or argument.ordered or argument.kind is not None:
        return argument
    if call.bounds is not None or argument.distinct:
        return argument
    values, wide = list(argument.values), []
    for place, written in enumerate((call.argument, call.second)):
        if written is None or not is_wide(written, values[place], rows.columns):
            continue
        text = shown(written_argument(call if place == 0 else replace(call, node=second_alone(call))))
        low, high = values[place].range.low, values[place].range.high
        assert isinstance(low, Fraction) and isinstance(high, Fraction)
        end = (values if least is None else least.values)[place].range
        assert isinstance(end.low, Fraction) and isinstance(end.high, Fraction)
        otherwise = end.low, end.high
        wide.append(WideValue(written, text, values[place].type, low, high, otherwise, named=least is None))
        found = catalog.ranges.get(value_key(relation, written)) if catalog.ranges else None
        if found is not None:  # Theorem AUTO-2: it narrows the derived range, and never leaves it
            values[place] = _narrowed(values[place], Range(*found), f"{text}: automatic")
    if not wide:
        return argument
    return replace(argument, value=values[0], second=values[1] if len(values) > 1 else None, wide=tuple(wide))


def _narrowed(value: Scalar, found: Range, why: str) -> Scalar:
    """The value in a range that was found for it; unless a FILTER leaves nothing of that."""
    narrow = value.range.intersect(found)
    if narrow.low == narrow.high:
        return value
    return replace(value, range=replace(narrow, nullable=value.nullable, why=(why,)))


def value_key(relation: Relation, written: exp.Expr) -> tuple[object, object]:
    """What a wide value is known by: the rows that it is found in, without conditions on noisy values, and itself."""
    found = unconditional(relation)
    return (relation if found is None else found.relation), written


def _largest(recipe: Recipe) -> int:
    """What no double holds is no range; a variance is a square, and so is a product of two values."""
    return 10**150 if recipe.powers_of_values else 10**300


def _is_total(condition: exp.Expr, known: Mapping[str, Scalar]) -> bool:
    """Can a condition of HAVING be computed for a row, as it is over results?"""
    try:
        return scalar(condition, known).type.is_boolean
    except Error:
        return False


def _require_open(keys: Sequence[exp.Expr], rows: Known) -> None:
    """Refuse keys that are made of columns which the policy keeps out of keys."""
    columns = rows.columns
    for key in keys:
        closed = {name for c in nodes_of(key, exp.Column) if c.name in columns for name in columns[c.name].never_keys}
        if closed:
            raise refuse(
                PrivacyError,
                f"the policy says that {min(closed)} may not be a group key",
                key,
                code="private-column",
                hint="group by another column, or aggregate without it",
            )


def _cells(release: Release, rows: Known, catalog: Catalog) -> tuple[Cells | None, Unlisted | None]:
    """The public cells; or why there are none, and the whole key is selected privately."""
    if not release.keys:
        return Cells((), ()), None
    columns = rows.columns
    _require_open(release.keys, rows)
    for key in release.keys:
        catalog.memo.total(key, rows.scalars)  # what is wrong with it is told where it stands
    kept = facts_over_variables([c for c in release.kept if _is_total(c, rows.scalars)], columns)
    lister = Lister((*rows.facts, *kept), rows.variables, catalog.public)
    made = [over_variables(k, columns) for k in release.keys]
    cells, found = lister.cells([k for k in made if k is not None]) if None not in made else (None, [None] * len(made))
    if cells is not None and cells.count <= MAX_CELLS:
        return cells, None
    count = None if cells is None else cells.count
    return None, unlisted(release.keys, found, count, columns, lister, rows.owner.unit)
