"""Sums that are bounded by one unit's total, where the limit on its rows is chosen (Theorem TOTALS-1).

Rows times the largest value is a loose bound of what one unit adds to a sum: hardly anybody has both. The first stage
of the query therefore counts units by powers of two of their totals, too: instead of their rows where nothing but sums
is asked for, else beside them. The way with the least estimated error wins, and that by rows and ranges is always one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import ceil, log2

from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits, TotalLimit
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Argument, Checked, CheckedRelease
from dpsql.core.errors import Error
from dpsql.mechanisms.registry import noise_of
from dpsql.plan.nodes import Aggregate, Expr, GroupUnits, Release, columns_of, counted_rows, unit_of
from dpsql.plan.rows import fresh, plan_column
from dpsql.plan.unconditional import is_noisy
from dpsql.quote import limits as by_rows
from dpsql.quote.cuts import Kind, Wanted
from dpsql.quote.key_votes import Counts
from dpsql.quote.limits import counted_release, read_counts
from dpsql.quote.model import Ask
from dpsql.quote.total_errors import NOTHING, Bound, Sizes, ends_of_counts, ends_of_totals, noises_of
from dpsql.sql.google import Bounds

MOST_TOTALS = 3  # of one release: more histograms would each see little
MANY_CELLS = 4  # fewer cells than that hardly divide what a unit has
SMALLEST, LARGEST = Fraction(1, 2**200), 2**200  # of values: errors of others are estimated with floats
BELOW, ABOVE = 20, 24  # buckets of totals below and above the largest value of a row
LEAST_AUTOMATIC, MOST_AUTOMATIC = -20, 60  # powers of two, where the largest value isn't known beforehand

Of = tuple[Expr, Expr | None, Bounds | None]
"""Which sum it is: its argument, its FILTER and the query's own bounds on its values."""


def wanted(checked: Checked, limits: Limits, catalog: Catalog, ask: Ask) -> Iterator[Wanted]:
    """The histograms that choose the limits of each release: of totals, too, where sums may be bounded by them."""
    for found in by_rows.wanted(checked, limits):
        one = checked.releases[found.release]
        # A steward who says how many rows may count means all of them: a total bounds no rows.
        sums = _sums(one) if found.kind == "rows" and limits.most("max_rows") is None else ()
        kinds: tuple[Kind, ...] = ("total", "peak") if _peaked(one, ask) else ("total",)
        automatic = bool(checked.automatic)
        totals = [_histogram(kind, found.release, one, i, automatic=automatic) for i in sums for kind in kinds]
        if not all(_counted(total, checked.plan.public, catalog) for total in totals):
            totals = []
        if not totals or any(not _alone(a) for a in one.arguments):
            yield found
        yield from totals


def _peaked(one: CheckedRelease, ask: Ask) -> bool:
    """Is it worth knowing how much units have in one group? Only where noise is Gaussian, and there are many groups.

    Where Laplace noise is a candidate, too, it mostly wins for few sums, and each histogram costs the others.
    """
    gaussian = ask.conversion is not None if ask.mechanism == "auto" else not noise_of(ask.mechanism).pure
    return gaussian and (one.cells or 1) >= MANY_CELLS and one.bounding.contribution.groups != 1


def _counted(found: Wanted, public: frozenset[str], catalog: Catalog) -> bool:
    """Can units be counted by this total? Within a unit less can be added up than over all of them."""
    with suppress(Error):
        counted_release(found.histogram, public, catalog)
        return True
    return False


def may_choose(one: CheckedRelease) -> list[str]:
    """Which limits of a release are chosen before it, in words: on its rows, or on totals instead or besides."""
    totals = (
        [f"one unit's {one.arguments[i].total_text}" for i in _sums(one)] if "max_rows" in one.bounding.chosen else []
    )
    rows = "max_rows" in one.bounding.chosen and (not totals or any(not _alone(a) for a in one.arguments))
    groups = ["max_groups"] if "max_groups" in one.bounding.chosen else []
    return [*(["max_rows"] if rows else []), *groups, *totals]


def _sums(one: CheckedRelease) -> tuple[int, ...]:
    """The arguments whose totals are counted, each sum once; none where not only sums and counts are asked for."""
    if one.private_keys or one.winners is not None or one.owner.numbered or one.bounding.peak is not None:
        return ()
    if is_noisy(one.release.input):  # what values add up to isn't known before the noisy values are
        return ()
    if not all(a.units or (a.clip is None and (a.recipe.counted or _bounded(a))) for a in one.arguments):
        return ()
    found: dict[object, int] = {}
    for i, argument in enumerate(one.arguments):
        if _bounded(argument) and not argument.units:
            found.setdefault(_same(argument), i)
    return tuple(found.values()) if len(found) <= MOST_TOTALS else ()


def _bounded(argument: Argument) -> bool:
    """Can one unit's total of it be bounded? Dates are no amounts, and a single possible value is counted."""
    value = argument.value
    if not argument.recipe.summed or value is None or argument.second is not None or argument.kind is not None:
        return False
    low, high = value.range.low, value.range.high
    if not isinstance(low, Fraction) or not isinstance(high, Fraction):
        return False
    return low < high and SMALLEST < value.range.magnitude < LARGEST


def _alone(argument: Argument) -> bool:
    """Does it need no number of rows?"""
    return argument.units or (argument.recipe.one_number and _bounded(argument))


def _same(argument: Argument) -> Of:
    assert argument.call.argument is not None
    return (argument.call.argument, argument.call.where, argument.call.bounds)


def _histogram(kind: Kind, release: int, one: CheckedRelease, index: int, *, automatic: bool) -> Wanted:
    """Units by ⌈log₂⌉ of what their own rows add up to in absolute value: each is one row (Theorem LIMITS-1).

    kind: in all groups together, or (peak) in the one where that is the most.
    """
    argument, rows = one.arguments[index], one.release.input
    unit, call, value = unit_of(rows), argument.call, argument.value
    assert unit is not None and call.argument is not None and value is not None
    first, last = LEAST_AUTOMATIC, MOST_AUTOMATIC
    added: Expr = call.argument.copy()
    if value.type.is_boolean:
        added = exp.cast(added, "INTEGER")
    if not automatic:
        top = ceil(log2(value.range.magnitude))
        first, last = top - BELOW, top + ABOVE
        added = exp.Anonymous(this="CLIP", expressions=[added, *map(_literal, (value.range.low, value.range.high))])
    added = exp.Sum(this=exp.Abs(this=added))
    if call.where is not None:
        added = exp.Filter(this=added, expression=exp.Where(this=call.where.copy()))
    taken = columns_of(rows)
    total = fresh("unit total", taken)
    each = GroupUnits(rows, unit, (), ((total, added),))
    if kind == "peak":
        groups = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate(one.release.keys))
        largest = ((total, exp.Max(this=plan_column(total))),)
        each = GroupUnits(GroupUnits(rows, unit, groups, ((total, added),)), unit, (), largest)
    units: Aggregate = counted_rows(None, exp.Count(this=exp.Star()))
    return Wanted(kind, release, Release(each, (_bucket(total, first, last),), (units,)), index, first)


def _bucket(column: str, first: int, last: int) -> Expr:
    """⌈log₂⌉ of a total from 2^first on, 0 for all that is less, and for nothing."""
    least = exp.cast(exp.Literal.string(repr(2.0**first)), "DOUBLE")
    whole = exp.Coalesce(this=exp.cast(plan_column(column), "DOUBLE"), expressions=[least.copy()])
    floor = exp.Greatest(this=whole, expressions=[least], ignore_nulls=True)
    power = exp.Ceil(this=exp.Log(this=exp.Literal.number(2), expression=floor))
    place = exp.Sub(this=power, expression=exp.Paren(this=_literal(Fraction(first))))
    ends = [exp.Literal.number(0), exp.Literal.number(last - first)]
    return exp.cast(exp.Anonymous(this="CLIP", expressions=[place, *ends]), "INTEGER")


def _literal(value: object) -> Expr:
    assert isinstance(value, Fraction)
    whole = value.denominator == 1 and abs(value) < 2**53
    number = exp.Literal.number(str(abs(value)) if whole else repr(abs(float(value))))
    return exp.Neg(this=number) if value < 0 else number


# ---------------------------------------------------------------- the choice: public values and released ones alone


def choose(
    checked: Checked, limits: Limits, found: Sequence[Wanted], tables: Mapping[Release, Noisy], ask: Ask
) -> tuple[Limits, ...]:
    """The limits of each release: on rows and groups, and on totals where these have the least estimated error."""
    others = [w for w in found if w.kind not in ("total", "peak")]
    chosen = list(by_rows.choose(checked, limits, others, tables, ask))
    counts = {w.histogram: read_counts(tables[w.histogram]) for w in found}
    for i, one in enumerate(checked.releases):
        mine = [w for w in found if w.release == i]
        told = {(w.argument, w.kind): _sizes(w, counts[w.histogram], one) for w in mine if w not in others}
        many = next((counts[w.histogram] for w in mine if w.kind == "rows"), None)
        totals = {_same(one.arguments[k]): sizes for (k, kind), sizes in told.items() if kind == "total"}
        peaks = {_same(one.arguments[k]): sizes for (k, kind), sizes in told.items() if kind == "peak"}
        if not totals or not all(sizes.seen for sizes in totals.values()) or many == {}:
            continue  # too few units to tell: fixed public limits, or those of the rows
        rows = None if many is None else Sizes.of(ends_of_counts(many), whole=True)
        best = min(_ways(one, chosen[i], rows, totals, peaks, ask), key=lambda way: way[0])[1]
        chosen[i] = replace(best, totals=tuple(_told_by(mine, one, total) for total in best.totals))
    return tuple(chosen)


def _told_by(found: Sequence[Wanted], one: CheckedRelease, total: TotalLimit) -> TotalLimit:
    """A limit with the histograms that chose it, and that tell what it cuts."""
    mine = {
        w.kind: w
        for w in found
        if w.kind in ("total", "peak")
        and _same(one.arguments[w.argument]) == (total.argument, total.where, total.clipped)
    }
    peaks = mine["peak"].histogram if "peak" in mine else None
    return replace(total, counted=mine["total"].histogram, first=mine["total"].first, peaks=peaks)


def _sizes(found: Wanted, counts: Counts, one: CheckedRelease) -> Sizes:
    value = one.arguments[found.argument].value
    assert value is not None
    whole = value.type.is_integer or value.type.is_boolean
    return Sizes.of(ends_of_totals(counts, found.first, whole=whole), whole=whole)


def _ways(
    one: CheckedRelease,
    limits: Limits,
    rows: Sizes | None,
    totals: Mapping[Of, Sizes],
    peaks: Mapping[Of, Sizes],
    ask: Ask,
) -> Iterator[tuple[float, Limits]]:
    """Ways to bound the sums of a release, each with its estimated error: the sum of relative squares."""
    sums = [a for a in one.arguments if _bounded(a)]
    counts = sum(a.recipe.counted and not a.units for a in one.arguments)
    apart, together = _statistics(one)
    for noise in noises_of(one, ask, apart):
        bounds = {of: noise.bounds(sizes, peaks.get(of)) for of, sizes in totals.items()}
        for n, lost in [(None, NOTHING)] if rows is None else rows.lost:
            error, best = counts * noise.of_count(lost), {}
            for of, options in bounds.items():
                asked = [a for a in sums if _same(a) == of]
                errors = [noise.of_sums(asked, bound, totals[of].total, lost) for bound in options]
                least = min(errors)
                error, best[of] = error + least, options[errors.index(least)]
            yield error, _limited(limits, best, n)
    for noise in noises_of(one, ask, together):
        for n, lost in () if rows is None else rows.lost:
            ranges = [noise.by_range(a, lost, totals[_same(a)].total) for a in sums]
            yield counts * noise.of_joint_count(lost) + sum(ranges), replace(limits, max_rows=int(n))


def _statistics(one: CheckedRelease) -> tuple[int, int]:
    """How many statistics share ε where sums are bounded by totals, and where they are measured with their counts."""
    sums = {_same(a) for a in one.arguments if _bounded(a)}
    counts = any(not _alone(a) for a in one.arguments)  # all of them are one statistic, mostly (MOMENTS-2)
    units = any(a.units for a in one.arguments) or one.min_units is not None
    return len(sums) + counts + units, len(sums) + units


def _limited(limits: Limits, totals: Mapping[Of, Bound], rows: Fraction | None) -> Limits:
    found = tuple(TotalLimit(*of, bound.most, bound.peak) for of, bound in totals.items())
    return replace(limits, totals=found, max_rows=limits.max_rows if rows is None else int(rows))
