"""What limits and ranges cut, estimated privately: of the units, how many lose rows, groups or values (CLIPSHARE-1).

Rows that one unit loses are unbounded, so units are counted: each is in one bucket of ⌈log₂ of its rows⌉, in one of its
groups, and has a value outside of a range or not. A small share of the query's ε, fixed beforehand, pays for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import log2, sqrt
from typing import Any

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Argument, Checked, CheckedRelease, analyze
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Aggregate,
    Expr,
    Given,
    GroupUnits,
    Plan,
    Relation,
    Release,
    columns_of,
    counted_rows,
    parts_of,
    unit_of,
)
from dpsql.plan.rows import fresh, plan_column
from dpsql.quote.bounds import with_ranges
from dpsql.quote.calibrate import calibrate
from dpsql.quote.model import Ask, Stage, Step
from dpsql.sql.as_sql import as_sql

SHARE = Fraction(1, 20)  # of the query's ε
NOTED = "what limits and ranges cut: "  # how the ledger's note of an estimate begins
MOST = 24  # the last bucket: more than 2^23 rows of one unit
CLEAR = 3  # noise scales above which a bucket surely holds units; behind the last such one all are taken to be empty
ENOUGH = 0.005  # a limit that cuts no more than this share of the units is good enough to suggest

Cut = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Part:
    """One release of the estimate: what it tells of which limit, or of which ranges."""

    kind: str  # max_rows, max_groups or range
    limit: int
    texts: tuple[str, ...]  # the aggregates whose ranges are looked at
    release: Release


def cuts_something(checked: Checked) -> bool:
    """Can limits or ranges of this query cut anything? A function of the plan alone."""
    return any(True for one in checked.releases for _ in _parts(one))


def may_cut(steps: Sequence[Step]) -> tuple[str, ...]:
    """The limits and ranges that are enforced, in words: what they cut is in no interval."""
    limits: list[str] = []
    ranges: list[str] = []
    for one in (step.checked for step in steps):
        if unit_of(one.release.input) is not None:
            limits += [f"{kind} = {limit:,}" for kind, limit in _limits(one)]
        ranges += [f"the range of {c.text}" for argument in one.arguments for c in _clipped(argument)]
    return tuple(dict.fromkeys((*limits, *ranges)))


def estimate_stage(main: Stage, ask: Ask, plan: Plan, catalog: Catalog) -> Stage:
    """The releases of the estimate for a stage that is settled, with their noise and price."""
    found = [part for step in main.releases for part in _parts(step.checked)]
    for part in found:
        if any(isinstance(p, Given) and p.noisy for p in parts_of(part.release.input)):
            raise PrivacyError(
                "what is cut can't be estimated where a filter uses noisy values",
                code="clipping",
                hint="leave clipping out, or write the filter's value into the query",
            )
    names = tuple(f"c{i}" for i in range(len(found)))
    whole = Plan(f"{NOTED}{plan.text}", tuple(p.release for p in found), names, exp.Select(), plan.public)
    checked = analyze(whole, Limits(), with_ranges(catalog, main.automatic))
    return replace(calibrate(checked, ask), kind="estimate")


def _parts(one: CheckedRelease) -> Iterator[_Part]:
    """Each unit is one row of these relations, so that it moves a count by 1 (Theorem CLIPSHARE-1)."""
    release = one.release
    unit, taken = unit_of(release.input), columns_of(release.input)
    rows = fresh("unit rows", taken)
    clipped = [found for argument in one.arguments for found in _clipped(argument)]
    outside = [(found.text, found.outside()) for found in clipped]
    if unit is None:
        if outside:
            counts = tuple(_count(e) for _, e in outside)
            yield _Part("range", 0, tuple(t for t, _ in outside), Release(release.input, (), (_count(None), *counts)))
        return
    for kind, limit in _limits(one):
        each: Relation = release.input
        if kind == "max_groups":
            keys = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate(release.keys))
            each = GroupUnits(release.input, unit, keys, ())
        counted = GroupUnits(each, unit, (), ((rows, exp.Count(this=exp.Star())),))
        yield _Part(kind, limit, (), Release(counted, (bucket_of(rows),), (_count(None),)))
    if outside:
        flags = tuple((fresh(f"outside {i}", taken), exp.LogicalOr(this=e)) for i, (_, e) in enumerate(outside))
        any_outside = GroupUnits(release.input, unit, (), flags)
        counts = tuple(_count(plan_column(name)) for name, _ in flags)
        yield _Part("range", 0, tuple(t for t, _ in outside), Release(any_outside, (), (_count(None), *counts)))


def _limits(one: CheckedRelease) -> Iterator[tuple[str, int]]:
    """The limits on rows and on groups that are enforced."""
    bounding = one.bounding
    limit = bounding.mass if bounding.mass is not None else bounding.peak
    if limit is not None:
        yield "max_rows", limit
    if bounding.cap is not None:
        yield "max_groups", bounding.cap


def _count(where: Expr | None) -> Aggregate:
    return counted_rows(where, exp.Count(this=exp.Star()))


def bucket_of(column: str) -> Expr:
    """⌈log₂⌉ of a count, 0 to MOST."""
    power = exp.Ceil(this=exp.Log(this=exp.Literal.number(2), expression=plan_column(column)))
    ends = [exp.Literal.number(0), exp.Literal.number(MOST)]
    return exp.cast(exp.Anonymous(this="CLIP", expressions=[power, *ends]), "INTEGER")


@dataclass(frozen=True, slots=True, eq=False)
class _Clipped:
    """A value that is clipped to a range."""

    text: str
    written: Expr
    low: Fraction
    high: Fraction
    where: Expr | None

    def outside(self) -> Expr:
        """The test that a row's value lies outside of the range."""
        x = exp.cast(self.written.copy(), "DOUBLE")
        test: Expr = exp.And(
            this=exp.Anonymous(this="ISFINITE", expressions=[x]),
            expression=exp.Paren(
                this=exp.Or(
                    this=exp.LT(this=x.copy(), expression=_literal(self.low)),
                    expression=exp.GT(this=x.copy(), expression=_literal(self.high)),
                )
            ),
        )
        return test if self.where is None else exp.And(this=exp.Paren(this=self.where.copy()), expression=test)


def _clipped(argument: Argument) -> Iterator[_Clipped]:
    """The values of an aggregate that are clipped to a range."""
    call = argument.call
    if argument.recipe.counted or argument.clip is not None or argument.kind is not None or call.bounds is not None:
        return
    places = ("",) if call.second is None else ("the first value of ", "the second value of ")
    for place, written, value in zip(places, (call.argument, call.second), argument.values, strict=False):
        low, high = value.range.low, value.range.high
        if written is None or not isinstance(low, Fraction) or not isinstance(high, Fraction):
            continue
        if not value.type.is_numeric:
            continue
        text = as_sql(call.node).replace('"', "")
        yield _Clipped(f"{place}{text} [{float(low):g}, {float(high):g}]", written, low, high, call.where)


def _literal(value: Fraction) -> Expr:
    number = exp.Literal.number(repr(abs(float(value))))
    return exp.Neg(this=number) if value < 0 else number


# ---------------------------------------------------------------- what it says: all of this is post-processing


def read_cuts(main: Stage, noisy: Sequence[Noisy | Responded]) -> tuple[Cut, ...]:
    """The shares of units that a stage cuts, from the noisy counts of its estimate."""
    found = [part for step in main.releases for part in _parts(step.checked)]
    cuts: list[Cut] = []
    for part, one in zip(found, [n for n in noisy if isinstance(n, Noisy)], strict=True):
        cuts += list(_ranges(part, one)) if part.kind == "range" else [_limit(part, one)]
    return tuple(cuts)


def _counts(noisy: Noisy, index: int) -> list[float]:
    call = noisy.step.calls[index]
    (need,) = RECIPES[call.function].needs(call)
    counts = noisy.estimate(noisy.step.estimates[need])
    return [int(n) / counts.denominator for n in counts.numerators]


def _deviation(noisy: Noisy, index: int) -> float:
    """The standard deviation of a count's noise: of its own, or of the cells that it is the sum of."""
    call = noisy.step.calls[index]
    (need,) = RECIPES[call.function].needs(call)
    variances = [Fraction(m.noise.variance) for m in noisy.step.measurements]
    return sqrt(noisy.step.estimates[need].variance(variances))


def _limit(part: _Part, noisy: Noisy) -> Cut:
    buckets = noisy.cells.column(0).to_pylist()
    counts = {b: n for b, n in zip(buckets, _counts(noisy, 0), strict=True) if b is not None}
    scale = _deviation(noisy, 0) / sqrt(2)
    last = max((b for b, n in counts.items() if n > CLEAR * scale), default=0)
    counts = {b: n for b, n in counts.items() if b <= last}
    total = sum(counts.values())
    if total <= 0:
        return {"what": part.kind, "limit": part.limit, "share": None, "error": None, "suggestion": None}
    share = _above(counts, total, part.limit)
    error = 2 * scale * sqrt(2 * max(1, last - int(log2(part.limit)))) / total
    better = next((2**k for k in range(last + 1) if _above(counts, total, 2**k) <= ENOUGH), 2**last)
    suggestion = None
    if (better > part.limit and share > max(error, 2 * ENOUGH)) or 2 * better <= part.limit:
        suggestion = {"limit": better, "share": _above(counts, total, better)}
    return {"what": part.kind, "limit": part.limit, "share": share, "error": error, "suggestion": suggestion}


def _above(counts: Mapping[int, float], total: float, limit: int) -> float:
    """The share of units with more than `limit`; a bucket that the limit divides is divided on a log scale."""
    place = log2(limit)
    above = sum(n * min(1.0, max(0.0, k - place)) for k, n in counts.items())
    return min(1.0, max(0.0, above / total))


def _ranges(part: _Part, noisy: Noisy) -> Iterator[Cut]:
    (total,) = _counts(noisy, 0)
    for i, text in enumerate(part.texts, 1):
        (count,) = _counts(noisy, i)
        share = None if total <= 0 else min(1.0, max(0.0, count / total))
        error = None if total <= 0 else 2 * _deviation(noisy, i) / total
        yield {"what": "range", "of": text, "share": share, "error": error, "suggestion": None}


def lines(cuts: Sequence[Mapping[str, Any]]) -> list[str]:
    """For people: what is cut, about how much, and what would cut less."""
    found = []
    for cut in cuts:
        share = "an unknown share" if cut["share"] is None else f"{cut['share']:.1%} (± {cut['error']:.1%})"
        if cut["what"] == "range":
            found.append(f"{share} of units have a value outside of the range of {cut['of']}")
            continue
        things = "rows" if cut["what"] == "max_rows" else "groups"
        text = f"{share} of units have more than {cut['what']} = {cut['limit']:,} {things}"
        if (better := cut["suggestion"]) is not None:
            text += f"; {cut['what']} = {better['limit']:,} would cut about {better['share']:.1%}"
        found.append(text)
    return found
