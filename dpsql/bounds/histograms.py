"""Which limits and ranges of a release may cut something, and the histograms of units that tell how much (CUT-1).

Rows that one unit loses are unbounded, so units are counted. Each unit is one row of a histogram, in one bucket of what
it has in the rows of the release: rows, groups, rows in its largest group, or a size (Theorem LIMITS-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dpsql.analyze.bounding import SumScale
from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.analyze.unit_totals import filtered, literal, size_of_value, unit_total
from dpsql.bounds.tails import ROWS, SIZES, Ladder
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.plan.nodes import Aggregate, Expr, Filter, GroupUnits, Relation, Release, columns_of, counted_rows, unit_of
from dpsql.plan.rows import fresh, plan_column, with_column
from dpsql.plan.unconditional import is_noisy, unconditional
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import cast
from dpsql.sql.functions.constants import constant_number
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import copied

Kind = Literal["rows", "groups", "largest", "size", "values", "outside", "scale"]

LIMIT_OF: dict[Kind, str] = {
    "rows": "max_rows", "values": "max_rows", "groups": "max_groups", "largest": "max_rows_per_group",
    "size": "max_rows",
}  # fmt: skip
"""The limit that a histogram of this kind chooses, and whose cut it tells."""


SMALLEST_TOTAL = Fraction(1, 2**16)  # of one row's largest value: where only sums are asked for
OCTAVES = 16  # below the largest value: smaller means are all one
MOST_UNITS = 0.95  # of those whose means are clear
CLEAR_OCTAVE = 5.0  # noise scales: an octave of so many units is no noise


@dataclass(frozen=True, slots=True)
class UnitCount:
    """Counts of units that tell something of one release: a histogram, or one number.

    outside: of units with a value outside of a range. scale: of units by their mean value.
    """

    kind: Kind
    release: int  # of the plan's
    histogram: Release
    argument: int = 0  # of the release's, where it is of one argument


def ladder_of(kind: Kind) -> Ladder:
    """The buckets of a histogram of this kind."""
    return SIZES if kind == "size" else ROWS


# ---------------------------------------------------------------- what may be cut


@dataclass(frozen=True, slots=True)
class ClippingSource:
    """A limit or a range that may cut something, and the counts that tell how much; None where none can be had."""

    kind: Kind
    text: str
    limit: float  # 0: a range
    histogram: Release | None
    argument: int = 0  # of a range: which aggregate's
    place: int = 0  # and of a pair which value's
    before: bool = False  # counted before conditions on noisy values: of more rows than there are


def clipping_sources(checked: CheckedRelease, *, open_ranges: bool = False) -> tuple[ClippingSource, ...]:
    """The limits and ranges of a release that aren't proved, so that they may cut something.

    open_ranges: ranges aren't known yet, and those that the data can't leave now may be narrower then.
    """
    known: tuple[ClippingSource, ...] | None = checked.once.get((clipping_sources, open_ranges))
    if known is None:
        known = tuple(_sources(checked, open_ranges=open_ranges))
        checked.once[clipping_sources, open_ranges] = known
    return known


def _sources(checked: CheckedRelease, *, open_ranges: bool) -> Iterator[ClippingSource]:
    before = is_noisy(checked.release.input)
    for kind, limit in _enforced(checked):
        histogram = histogram_of(checked, kind)
        text = _in_words(checked, kind, limit)
        yield ClippingSource(kind, text, limit, histogram, before=before)
    for index, argument in enumerate(checked.arguments):
        for clipped in _clipped(argument, open_ranges=open_ranges):
            counted = _outside(checked.release, clipped)
            text = f"the range of {clipped.text}"
            yield ClippingSource("outside", text, 0, counted, index, clipped.place)


def _enforced(checked: CheckedRelease) -> Iterator[tuple[Kind, float]]:
    """The limits that are enforced. One on all rows cuts nothing that those on groups and on rows in each leave."""
    bounding = checked.bounding
    if unit_of(checked.release.input) is None:
        return
    if bounding.size is not None:
        yield "size", float(bounding.size.most)
    by_group = None if bounding.cap is None or bounding.peak is None else bounding.cap * bounding.peak
    if bounding.mass is not None and bounding.peak is None and bounding.cap == 1 and checked.private_keys:
        yield "largest", bounding.mass  # all rows that count lie in one group, and are no more than in the largest
    elif bounding.mass is not None and (by_group is None or by_group > bounding.mass):
        yield kind_of_mass(checked), bounding.mass
    if bounding.values is not None:
        yield "values", bounding.values
    if bounding.peak is not None:
        yield "largest", bounding.peak
    if bounding.cap is not None:
        yield "groups", bounding.cap


def _in_words(checked: CheckedRelease, kind: Kind, limit: float) -> str:
    if kind == "values":
        return f"the limit of {limit:,g} different values"
    shown = {LIMIT_OF[kind]: limit} if kind != "size" else checked.size_limit
    return " and ".join(f"{name} = {size:,g}" for name, size in shown.items())


def kind_of_mass(checked: CheckedRelease) -> Kind:
    """What the limit on a unit's rows limits: its different values, where a release counts nothing else of rows."""
    weighed = [a for a in checked.arguments if not a.units and a.clip is None]
    distinct = bool(weighed) and all(a.distinct for a in weighed)
    return "values" if distinct and values_histogram(checked) is not None else "rows"


def enforced_in_words(releases: Sequence[CheckedRelease]) -> tuple[str, ...]:
    """The limits and ranges that are enforced and not proved, each once."""
    return tuple(dict.fromkeys(source.text for checked in releases for source in clipping_sources(checked)))


def counts_for_bias(checked: CheckedRelease, release: int, *, open_ranges: bool = False) -> Iterator[UnitCount]:
    """The counts that tell what a release loses of what its intervals speak of.

    A limit that is chosen has its histogram by that.
    """
    if checked.winners is not None:
        return  # winners have no interval that could be wider
    for source in clipping_sources(checked, open_ranges=open_ranges):
        if source.histogram is not None and LIMIT_OF.get(source.kind) not in checked.bounding.chosen:
            yield UnitCount(source.kind, release, source.histogram, source.argument)


# ---------------------------------------------------------------- histograms


def histogram_of(checked: CheckedRelease, kind: Kind) -> Release | None:
    """The histogram of what units have in the rows of a release. Each unit is one row of it (Theorem LIMITS-1).

    Conditions on noisy values, which aren't known yet, are left out. None where more than conditions rests on them.
    """
    return _once(checked, (histogram_of, kind), lambda: _histogram_of(checked, kind))


def _once(checked: CheckedRelease, key: object, make: Callable[[], Release | None]) -> Release | None:
    """A histogram of a release, which is asked for to see what is needed, to look for it, and to measure it."""
    if key not in checked.once:
        checked.once[key] = make()
    made: Release | None = checked.once[key]
    return made


def _histogram_of(checked: CheckedRelease, kind: Kind) -> Release | None:
    if kind == "size":
        assert checked.bounding.size is not None
        return size_histogram(checked, checked.bounding.size.scales, smallest_size(checked))
    if kind == "values":
        return values_histogram(checked)
    release = checked.release
    rows = unconditional(release.input)
    if rows is None or (kind != "rows" and not rows.keeps(release.keys)):
        return None
    release = replace(release, input=rows.relation)
    unit, taken = unit_of(release.input), columns_of(release.input)
    assert unit is not None
    amount = fresh("unit rows", taken)
    how_many = ((amount, exp.Count(this=exp.Star())),)
    groups = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate(release.keys))
    each: Relation = GroupUnits(release.input, unit, (), how_many)
    if kind == "groups":
        each = GroupUnits(GroupUnits(release.input, unit, groups, ()), unit, (), how_many)
    elif kind == "largest":
        largest = ((amount, exp.Max(this=plan_column(amount))),)
        each = GroupUnits(GroupUnits(release.input, unit, groups, how_many), unit, (), largest)
    return Release(each, (_bucket_of_whole(amount),), (_count(None),))


def values_histogram(checked: CheckedRelease) -> Release | None:
    """The histogram of units by how many different values they have, in all groups together: one vote a unit.

    None where no aggregate counts different values, or several count those of different arguments; where keys are
    private, or limits on rows in a group stand in the way.
    """
    release = checked.release
    asked = list(dict.fromkeys((a.call.argument, a.call.where) for a in checked.arguments if a.distinct))
    simple = not checked.private_keys and checked.winners is None and checked.bounding.peak is None
    unit = unit_of(release.input)
    if len(asked) != 1 or not simple or unit is None or is_noisy(release.input):
        return None
    ((written, where),) = asked
    assert written is not None
    taken = columns_of(release.input)
    amount = fresh("unit rows", taken)
    parts = written.expressions if isinstance(written, exp.Tuple) else [written]
    rows: Relation = release.input if where is None else Filter(release.input, where)
    if len(parts) == 1:
        rows = Filter(
            rows, exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=copied(parts[0])), expression=exp.Null())))
        )
    named = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate((*release.keys, *parts)))
    pairs = GroupUnits(rows, unit, named, ())
    each = GroupUnits(pairs, unit, (), ((amount, exp.Count(this=exp.Star())),))
    return Release(each, (_bucket_of_whole(amount),), (_count(None),))


def most_values(checked: CheckedRelease) -> int | None:
    """How many different values a cell has at most, if all are what the policy declares; None: nobody knows."""
    sizes = [a.most for a in checked.arguments if a.distinct]
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _bucket_of_whole(column: str) -> Expr:
    """The bucket of a whole number: ⌈2·log₂(n − 1/2)⌉ − 1. No n is near an end: rounding never decides."""
    half = exp.Sub(this=cast(plan_column(column), "DOUBLE"), expression=exp.Literal.number("0.5"))
    logarithm = exp.Log(this=exp.Literal.number(2), expression=exp.Paren(this=half))
    return _bucket(exp.Sub(this=_ceiling(logarithm), expression=exp.Literal.number(1)), ROWS)


def _by_size(each: GroupUnits, parts: Sequence[Expr]) -> Release:
    """Units by size, the sum of these parts: bucket ⌈2·log₂ s⌉, and 0 of all that is at most 1.

    Each step has a column of its own, since functions in Spark's words repeat their arguments.
    """
    whole, *others = parts
    for part in others:
        whole = exp.Add(this=whole, expression=part)
    size, up = fresh("unit size", columns_of(each)), fresh("unit steps", columns_of(each))
    sized = with_column(with_column(each, size, whole), up, _steps_of_size(plan_column(size)))
    return Release(sized, (_bucket(plan_column(up), SIZES),), (_count(None),))


def _steps_of_size(size: Expr) -> Expr:
    one = cast(exp.Literal.number(1), "DOUBLE")
    least = exp.Greatest(this=size, expressions=[one], ignore_nulls=True)
    return _ceiling(exp.Log(this=exp.Literal.number(2), expression=least))


def _ceiling(logarithm: Expr) -> Expr:
    return exp.Ceil(this=exp.Mul(this=exp.Literal.number(2), expression=logarithm))


def _bucket(place: Expr, ladder: Ladder) -> Expr:
    ends = [exp.Literal.number(0), exp.Literal.number(ladder.buckets - 1)]
    return cast(exp.Anonymous(this="CLIP", expressions=[place, *ends]), "INTEGER")


def _count(where: Expr | None) -> Aggregate:
    return counted_rows(where, exp.Count(this=exp.Star()))


# ---------------------------------------------------------------- sizes


def size_histogram(
    checked: CheckedRelease, scales: Sequence[SumScale], smallest: Fraction = Fraction(1)
) -> Release | None:
    """The histogram of units by size: the rows that are counted, and Σ|x|/unit of each sum (Theorem SIZE-1).

    smallest: bucket 0 ends at this size. Values are clipped as the release clips them. None where noisy values decide
    which rows there are.
    """
    key = (size_histogram, tuple(scales), smallest)
    return _once(checked, key, lambda: _size_histogram(checked, scales, smallest))


def _size_histogram(checked: CheckedRelease, scales: Sequence[SumScale], smallest: Fraction) -> Release | None:
    rows = checked.release.input
    unit = unit_of(rows)
    if unit is None or is_noisy(rows):
        return None
    taken = columns_of(rows)
    counted = [filtered(exp.Count(this=exp.Star()), where) for where in counted_columns(checked.arguments)]
    totals = [unit_total(*_argument_of(checked, s), s.where) for s in scales]
    named = tuple((fresh(f"unit part {i}", taken), part) for i, part in enumerate((*counted, *totals)))
    factors = [1 / smallest] * len(counted) + [1 / (scale.unit * smallest) for scale in scales]
    parts = [_times(name, factor) for (name, _), factor in zip(named, factors, strict=True)]
    return _by_size(GroupUnits(rows, unit, (), named), parts)


def scale_histogram(checked: CheckedRelease, scale: SumScale) -> Release | None:
    """The histogram of units by their mean |x|, in octaves below the largest value: one vote a unit (Theorem SIZE-1).

    It tells how large values usually are. scale.unit: the largest value.
    """
    return _once(checked, (scale_histogram, scale), lambda: _scale_histogram(checked, scale))


def _scale_histogram(checked: CheckedRelease, scale: SumScale) -> Release | None:
    rows = checked.release.input
    unit = unit_of(rows)
    if unit is None or is_noisy(rows):
        return None
    taken = columns_of(rows)
    written, value = _argument_of(checked, scale)
    there = filtered(exp.Count(this=size_of_value(written, value)), scale.where)
    named = (
        (fresh("unit values", taken), there),
        (fresh("unit total", taken), unit_total(written, value, scale.where)),
    )
    (values, _), (total, _) = named
    # The total is read as sizes read it, so that both histograms are made of the same numbers of each unit.
    mean = exp.Div(
        this=_times(total, 1 / scale.unit),
        expression=exp.Greatest(this=plan_column(values), expressions=[exp.Literal.number(1)], ignore_nulls=True),
    )
    least = cast(exp.Literal.number(repr(2.0**-OCTAVES)), "DOUBLE")
    each = GroupUnits(rows, unit, (), named)
    part, up = fresh("unit mean", columns_of(each)), fresh("unit octaves", columns_of(each))
    means = with_column(each, part, exp.Coalesce(this=mean, expressions=[least.copy()]))
    clear = exp.Greatest(this=plan_column(part), expressions=[least], ignore_nulls=True)
    octaves = with_column(means, up, exp.Ceil(this=exp.Log(this=exp.Literal.number(2), expression=clear)))
    place = exp.Add(this=plan_column(up), expression=exp.Literal.number(OCTAVES))
    ends = [exp.Literal.number(0), exp.Literal.number(OCTAVES)]
    bucket = cast(exp.Anonymous(this="CLIP", expressions=[place, *ends]), "INTEGER")
    return Release(octaves, (bucket,), (_count(None),))


def usual_part(counts: Sequence[float], noise: float) -> float | None:
    """Which part of the largest value most units' means don't exceed, from such a histogram; None: it doesn't tell.

    Of most units and not of all together: a group of a tenth of the units may have far larger values than the others.
    """
    clear = [(bucket, n) for bucket, n in enumerate(counts) if n > CLEAR_OCTAVE * noise]
    reached, whole = 0.0, sum(n for _, n in clear)
    for bucket, n in clear:
        reached += n
        if reached >= MOST_UNITS * whole:
            return 0.75 * 2.0 ** (bucket - OCTAVES)
    return None


def smallest_size(checked: CheckedRelease) -> Fraction:
    """Where bucket 0 of a histogram of sizes ends: at one row, and far below one row's largest value without rows."""
    return Fraction(1) if counted_columns(checked.arguments) else SMALLEST_TOTAL


def counted_columns(arguments: Sequence[Argument]) -> list[Expr | None]:
    """The FILTERs under which a release counts rows, each once; None is no FILTER (Theorem SIZE-1)."""
    rows = (a for a in arguments if not a.units and (a.recipe.counted or not a.recipe.one_number))
    return list(dict.fromkeys(a.call.where for a in rows))


def _argument_of(checked: CheckedRelease, scale: SumScale) -> tuple[Expr, Scalar]:
    """What a sum adds up, and its value."""
    argument = next(
        a
        for a in checked.arguments
        if a.value is not None and (a.call.argument, a.call.where, a.call.bounds) == _identity(scale)
    )
    assert argument.value is not None
    return scale.argument, argument.value


def _identity(scale: SumScale) -> tuple[object, object, object]:
    return (scale.argument, scale.where, scale.clipped)


def _times(name: str, factor: Fraction) -> Expr:
    """A unit's number of rows, or its total, in units of the smallest size; nothing is 0."""
    number = exp.Coalesce(this=cast(plan_column(name), "DOUBLE"), expressions=[exp.Literal.number(0)])
    return number if factor == 1 else exp.Mul(this=number, expression=literal(factor))


# ---------------------------------------------------------------- values that are clipped to a range


@dataclass(frozen=True, slots=True, eq=False)
class _Clipped:
    """A value that is clipped to a range."""

    text: str
    place: int
    written: Expr
    range: Range
    where: Expr | None

    def outside(self) -> Expr:
        """The test that a row's value lies outside of the range."""
        x = cast(copied(self.written), "DOUBLE")
        test: Expr = exp.And(
            this=exp.Anonymous(this="ISFINITE", expressions=[x]),
            expression=exp.Paren(
                this=exp.Or(
                    this=exp.LT(this=copied(x), expression=literal(self.range.low)),
                    expression=exp.GT(this=copied(x), expression=literal(self.range.high)),
                )
            ),
        )
        return test if self.where is None else exp.And(this=exp.Paren(this=copied(self.where)), expression=test)


def _outside(release: Release, clipped: _Clipped) -> Release | None:
    """How many units have a value outside of a range: each is one row, so that it moves this by 1 (Theorem CUT-1)."""
    rows = unconditional(release.input)
    if rows is None or not rows.keeps([clipped.outside()]):
        return None
    release = replace(release, input=rows.relation)
    unit, taken = unit_of(release.input), columns_of(release.input)
    if unit is None:
        return Release(release.input, (), (_count(clipped.outside()),))
    flag = fresh("outside", taken)
    each = GroupUnits(release.input, unit, (), ((flag, exp.LogicalOr(this=clipped.outside())),))
    return Release(each, (), (_count(plan_column(flag)),))


def _clipped(argument: Argument, *, open_ranges: bool) -> Iterator[_Clipped]:
    """The values of an aggregate that are clipped to a range, which nothing proves them to be in.

    What was asked to be clipped is no less true for it, and a value that is chosen lies inside.
    """
    call, recipe = argument.call, argument.recipe
    if recipe.counted or recipe.ranked or argument.clip is not None or call.bounds is not None:
        return
    places = ("",) if call.second is None else ("the first value of ", "the second value of ")
    for place, written, value in zip(places, (call.argument, call.second), argument.values, strict=False):
        low, high = value.range.low, value.range.high
        if written is None or not isinstance(low, Fraction) or not isinstance(high, Fraction):
            continue
        if not value.type.is_numeric or _is_clipped(written, low, high):
            continue
        if not open_ranges and _holds(value.hard, low, high):
            continue
        text = as_sql(call.node).replace('"', "")
        shown = f"{place}{text} [{recipe.written_end(float(low)):g}, {recipe.written_end(float(high)):g}]"
        yield _Clipped(shown, places.index(place), written, value.range, call.where)


def _is_clipped(written: Expr, low: Fraction, high: Fraction) -> bool:
    """Does the query itself move it between these ends?"""
    if not (isinstance(written, exp.Anonymous) and written.name.upper() == "CLIP" and len(written.expressions) == 3):
        return False
    first, last = (constant_number(end) for end in written.expressions[1:])
    return first is not None and last is not None and low <= first <= last <= high


def _holds(hard: Range, low: Fraction, high: Fraction) -> bool:
    """Do the values lie between these ends whatever the data are?"""
    return isinstance(hard.low, Fraction) and isinstance(hard.high, Fraction) and low <= hard.low and hard.high <= high
