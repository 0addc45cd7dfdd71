"""What limits and ranges may cut, and which counts of units tell how much of it (Theorem CUT-1).

Rows that one unit loses are unbounded, so units are counted: each is in one bucket of ⌈log₂ of its rows⌉, of its groups
or of the rows in its largest group, and has a value outside of a range or not. These are measured in the stage that
chooses limits, whether they choose one or not; what they tell is in every interval (answer/cut.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

from sqlglot import exp

from dpsql.analyze.checked import Argument, CheckedRelease
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.plan.nodes import (
    Aggregate,
    Expr,
    GroupUnits,
    Relation,
    Release,
    columns_of,
    counted_rows,
    unit_of,
)
from dpsql.plan.rows import fresh, plan_column
from dpsql.plan.unconditional import is_noisy, unconditional
from dpsql.quote.model import Step
from dpsql.sql.as_sql import as_sql
from dpsql.sql.functions.constants import constant_number
from dpsql.sql.trees import copied

MOST = 24  # the last bucket: more than 2^23 rows of one unit

Kind = Literal["rows", "groups", "largest", "total", "peak", "outside"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Counts of units that tell something of one release: a histogram, or how many have a value outside of a range."""

    kind: Kind
    release: int  # of the plan's
    histogram: Release
    argument: int = 0  # of the release's, where it is of a total
    first: int = 0  # then bucket 0 ends at 2^first


# ---------------------------------------------------------------- what may be cut


@dataclass(frozen=True, slots=True)
class Cut:
    """A limit or a range that may cut something, and the counts that tell how much; None where none can be had."""

    kind: Kind
    text: str
    limit: float  # 0: a range
    histogram: Release | None
    aggregate: int = 0  # of a range or a total: which aggregate's, and of a pair which value's
    place: int = 0
    first: int = 0  # of a total: bucket 0 of the histogram ends at 2^first
    before: bool = False  # counted before conditions on noisy values: of more rows than there are


def cuts_of(one: CheckedRelease, *, open_ranges: bool = False) -> tuple[Cut, ...]:
    """The limits and ranges of a release that aren't proved, so that they may cut something.

    open_ranges: ranges aren't known yet, and those that the data can't leave now may be narrower then.
    """
    found: tuple[Cut, ...] | None = one.once.get((cuts_of, open_ranges))
    if found is None:
        found = one.once[cuts_of, open_ranges] = tuple(_cuts(one, open_ranges=open_ranges))
    return found


def _cuts(one: CheckedRelease, *, open_ranges: bool) -> Iterator[Cut]:
    before = is_noisy(one.release.input)
    for kind, limit in _enforced(one):
        yield Cut(kind, f"{_NAMES[kind]} = {limit:,}", limit, histogram_of(one.release, kind), before=before)
    for index, argument in enumerate(one.arguments):
        if (total := argument.total_limit(one.bounding.totals)) is not None:
            shown = f"one unit's {argument.total_text} = {float(total.most):,g}"
            yield Cut("total", shown, float(total.most), total.counted, index, first=total.first)
            if total.peak is not None:
                shown = f"one unit's {argument.total_text} in one group = {float(total.peak):,g}"
                yield Cut("peak", shown, float(total.peak), total.peaks, index, first=total.first)
        for clipped in _clipped(argument, open_ranges=open_ranges):
            counted = _outside(one.release, clipped)
            yield Cut("outside", f"the range of {clipped.text}", 0, counted, index, clipped.place)


_NAMES: dict[Kind, str] = {"rows": "max_rows", "groups": "max_groups", "largest": "max_rows_per_group"}


def _enforced(one: CheckedRelease) -> Iterator[tuple[Kind, int]]:
    """The limits that are enforced. One on all rows cuts nothing that those on groups and on rows in each leave."""
    bounding = one.bounding
    if unit_of(one.release.input) is None:
        return
    if bounding.mass is not None and not (
        bounding.cap is not None and bounding.peak is not None and bounding.cap * bounding.peak <= bounding.mass
    ):
        yield "rows", bounding.mass
    if bounding.peak is not None:
        yield "largest", bounding.peak
    if bounding.cap is not None:
        yield "groups", bounding.cap


def may_cut(steps: Sequence[Step]) -> tuple[str, ...]:
    """The limits and ranges that are enforced and not proved, in words."""
    return tuple(dict.fromkeys(cut.text for step in steps for cut in cuts_of(step.checked)))


def watched(one: CheckedRelease, release: int, *, open_ranges: bool = False) -> Iterator[Wanted]:
    """The counts that tell what a release loses of what its intervals speak of.

    A limit that is chosen has its histogram by that (limits.py).
    """
    if all(a.recipe.ranked for a in one.arguments) or one.winners is not None:
        return  # values that are chosen, and winners, have no interval that could be wider
    for cut in cuts_of(one, open_ranges=open_ranges):
        if cut.histogram is not None and _NAMES.get(cut.kind) not in one.bounding.chosen:
            yield Wanted(cut.kind, release, cut.histogram)


# ---------------------------------------------------------------- the counts


def histogram_of(release: Release, kind: Kind) -> Release | None:
    """The histogram of what units have in the rows of a release. Each unit is one row of it (Theorem LIMITS-1).

    Conditions on noisy values, which aren't known yet, are left out. None where more than conditions rests on them.
    """
    found = unconditional(release.input)
    if found is None or (kind != "rows" and not found.keeps(release.keys)):
        return None
    release = replace(release, input=found.relation)
    unit, taken = unit_of(release.input), columns_of(release.input)
    assert unit is not None
    rows = fresh("unit rows", taken)
    how_many = ((rows, exp.Count(this=exp.Star())),)
    groups = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate(release.keys))
    each: Relation = GroupUnits(release.input, unit, (), how_many)
    if kind == "groups":
        each = GroupUnits(GroupUnits(release.input, unit, groups, ()), unit, (), how_many)
    elif kind == "largest":
        largest = ((rows, exp.Max(this=plan_column(rows))),)
        each = GroupUnits(GroupUnits(release.input, unit, groups, how_many), unit, (), largest)
    return Release(each, (_bucket_of(rows),), (_count(None),))


def _bucket_of(column: str) -> Expr:
    """⌈log₂⌉ of a count, 0 to MOST."""
    power = exp.Ceil(this=exp.Log(this=exp.Literal.number(2), expression=plan_column(column)))
    ends = [exp.Literal.number(0), exp.Literal.number(MOST)]
    return exp.cast(exp.Anonymous(this="CLIP", expressions=[power, *ends]), "INTEGER")


def _outside(release: Release, clipped: _Clipped) -> Release | None:
    """How many units have a value outside of a range: each is one row, so that it moves this by 1 (Theorem CUT-1)."""
    found = unconditional(release.input)
    if found is None or not found.keeps([clipped.outside()]):
        return None
    release = replace(release, input=found.relation)
    unit, taken = unit_of(release.input), columns_of(release.input)
    if unit is None:
        return Release(release.input, (), (_count(clipped.outside()),))
    flag = fresh("outside", taken)
    each = GroupUnits(release.input, unit, (), ((flag, exp.LogicalOr(this=clipped.outside())),))
    return Release(each, (), (_count(plan_column(flag)),))


def _count(where: Expr | None) -> Aggregate:
    return counted_rows(where, exp.Count(this=exp.Star()))


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
        x = exp.cast(copied(self.written), "DOUBLE", copy=False)
        test: Expr = exp.And(
            this=exp.Anonymous(this="ISFINITE", expressions=[x]),
            expression=exp.Paren(
                this=exp.Or(
                    this=exp.LT(this=copied(x), expression=_literal(self.range.low)),
                    expression=exp.GT(this=copied(x), expression=_literal(self.range.high)),
                )
            ),
        )
        return test if self.where is None else exp.And(this=exp.Paren(this=copied(self.where)), expression=test)


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
        shown = f"{place}{text} [{float(low):g}, {float(high):g}]"
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


def _literal(value: object) -> Expr:
    assert isinstance(value, Fraction)
    number = exp.Literal.number(repr(abs(float(value))))
    return exp.Neg(this=number) if value < 0 else number
