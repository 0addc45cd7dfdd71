"""Limits that choose themselves: where neither the query nor the policy names one that is needed.

A first stage of the same query counts units, in noisy histograms over powers of two of what each has in the query's own
rows: rows, groups, rows in its largest group. One vote a unit in each histogram (Theorem LIMITS-1). The limits with the
least estimated error, of what they cut and of the noise together, are then those of the release; it was paid for before
(AUTO-1). The histograms are stored as any release: the next query over the same rows has them for free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import log, sqrt
from typing import Literal

from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked, CheckedRelease, analyze
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.plan.nodes import (
    Aggregate,
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
from dpsql.quote.bounds import NOISIEST, Stored, counted, scale_of_count, with_ranges
from dpsql.quote.calibrate import calibrate
from dpsql.quote.cut_estimate import bucket_of
from dpsql.quote.model import Ask, Released, Stage
from dpsql.statistics.bounds import Automatic

NOTED = "limits of: "  # how the ledger's note of the histograms begins
STRAY = 0.001  # the chance that any empty bucket passes for one that holds units
ROWS, GROUPS = 16, 4  # where no bucket passes: fixed, public, and said with the answer
COARSER = 2  # so many times the noise that a query would buy: with more, a stored histogram isn't good enough for it
SAME = Fraction(101, 100)  # noise that differs by less is equal: shares of ρ are rounded

Kind = Literal["rows", "groups", "largest"]
Counts = Mapping[int, float]
"""About how many units each bucket holds, up to the last that passes; empty where none does."""


def analyze_seeded(plan: Plan, limits: Limits, catalog: Catalog) -> tuple[Checked, Limits]:
    """analyze, with fixed public limits in the place of those that are needed and missing, which will be chosen.

    What can't be answered with those is refused: no refusal rests on a released value.
    """
    refusals: list[PrivacyError] = []
    while True:
        try:
            checked = analyze(plan, limits, catalog)
        except PrivacyError as error:
            refusals.append(error)
            if error.code == "needs-max-rows":
                limits = replace(limits, max_rows=ROWS, chosen=limits.chosen | {"max_rows"})
            elif error.code == "needs-max-groups":
                limits = replace(limits, max_groups=GROUPS, chosen=limits.chosen | {"max_groups"})
            else:
                raise
        else:
            if refusals and not all(_countable(one) for one in checked.releases if one.bounding.chosen):
                raise refusals[0]
            return checked, limits


def _countable(one: CheckedRelease) -> bool:
    """Can the units of a release be counted before it? Not by rows that are their own units and are repeated, nor where
    values of another release decide which rows there are."""
    noisy = any(isinstance(p, Given) and p.noisy for p in parts_of(one.release.input))
    return unit_of(one.release.input) is not None and not noisy


@dataclass(frozen=True, slots=True)
class Wanted:
    """A histogram that tells one limit of one release."""

    kind: Kind
    release: int  # of the plan's
    histogram: Release


def wanted(checked: Checked, limits: Limits) -> Iterator[Wanted]:
    """The histograms that choose the limits of each release. Each unit is one row of these relations (LIMITS-1)."""
    for index, one in enumerate(checked.releases):
        release = one.release
        unit, taken = unit_of(release.input), columns_of(release.input)
        if unit is None:
            continue
        rows = fresh("unit rows", taken)
        how_many = ((rows, exp.Count(this=exp.Star())),)
        groups = tuple((fresh(f"unit key {i}", taken), k) for i, k in enumerate(release.keys))
        for kind in _kinds(one, limits):
            each: Relation = GroupUnits(release.input, unit, (), how_many)
            if kind == "groups":
                each = GroupUnits(GroupUnits(release.input, unit, groups, ()), unit, (), how_many)
            elif kind == "largest":
                largest = ((rows, exp.Max(this=plan_column(rows))),)
                each = GroupUnits(GroupUnits(release.input, unit, groups, how_many), unit, (), largest)
            yield Wanted(kind, index, Release(each, (bucket_of(rows),), (_units(),)))


def _kinds(one: CheckedRelease, limits: Limits) -> Iterator[Kind]:
    """Few, since they share what is spent: rows, or groups and the largest of them where keys are private."""
    chosen = one.bounding.chosen
    if "max_groups" in chosen:
        yield "groups"
    if "max_rows" in chosen and one.private_keys and one.bounding.cap is not None and not limits.max_rows_per_group:
        yield "largest"
    elif "max_rows" in chosen:
        yield "rows"


def _units() -> Aggregate:
    return counted_rows(None, exp.Count(this=exp.Star()))


# ---------------------------------------------------------------- the stage


def limits_stage(
    text: str,
    found: Sequence[Wanted],
    ask: Ask,
    catalog: Catalog,
    public: frozenset[str],
    ranges: Sequence[Automatic],
    most: Fraction | None = None,
) -> Stage:
    """The histograms with their noise and price: equal shares of what is spent on limits.

    most: the scale of noise that would be bought, which says how much stored ones may have; None: any.
    """
    releases = tuple(dict.fromkeys(one.histogram for one in found))
    plan = Plan(f"{NOTED}{text}", releases, tuple(f"h{i}" for i in range(len(releases))), exp.Select(), public)
    checked = analyze(plan, Limits(), with_ranges(catalog, ranges))
    return replace(calibrate(checked, ask), kind="limits", accepts=lambda noisy: _serves(noisy, most))


def stored_counts(
    found: Sequence[Wanted],
    catalog: Catalog,
    public: frozenset[str],
    ranges: Sequence[Automatic],
    stored: Stored,
    most: Fraction | None,
) -> dict[Release, Counts]:
    """What stored histograms of the same rows tell, those of them that serve.

    Of several that serve the oldest, so that who asks the same again finds the same limits, and his answer.
    """
    stage = limits_stage("", found, Ask(NOISIEST, Fraction(0), "laplace"), catalog, public, ranges, most)
    assert stage.accepts is not None
    counts: dict[Release, Counts] = {}
    for step in stage.releases:
        tables = [noisy for _, noisy in stored(step) if stage.accepts(noisy)]
        if tables:
            counts[step.checked.release] = read_counts(tables[-1])
    return counts


def scale_of(stage: Stage) -> Fraction:
    """The scale of the noise of its histograms, which have equal shares."""
    return _noise(stage.releases[0].measurements[0].noise).scale


def counts_of(stage: Stage, released: Released) -> dict[Release, Counts]:
    """What the histograms of a stage tell, once they are released."""
    tables = [noisy for noisy in released.noisy if isinstance(noisy, Noisy)]
    return {s.checked.release: read_counts(noisy) for s, noisy in zip(stage.releases, tables, strict=True)}


def read_counts(noisy: Noisy) -> Counts:
    """About how many units each bucket holds, up to the last that noise alone doesn't explain; post-processing."""
    counts = noisy.estimate(counted(noisy))
    buckets = noisy.cells.column(0).to_pylist()
    found = {b: int(n) / counts.denominator for b, n in zip(buckets, counts.numerators, strict=True) if b is not None}
    # Theorem LIMITS-1: with B buckets all empty ones stay below this with probability 1 - STRAY.
    least = float(scale_of_count(noisy)) * log(len(found) / (2 * STRAY))
    last = max((b for b, n in found.items() if n > least), default=-1)
    return {b: max(0.0, n) for b, n in found.items() if b <= last}


def _serves(noisy: Noisy, most: Fraction | None) -> bool:
    """Has each count of a stored histogram one Laplace noise of its own, and is it good enough?

    most: the scale of what would be bought. One that is much noisier hides all but the fullest buckets: whoever bought
    it for next to nothing would choose everybody's limits. One that tells nothing serves if another would be no better.
    """
    terms = counted(noisy).terms
    if len(terms) != 1 or not isinstance(noisy.step.measurements[terms[0][0][0]].noise, DiscreteLaplace):
        return False
    return most is None or scale_of_count(noisy) <= most * (COARSER if read_counts(noisy) else 1) * SAME


def _noise(noise: object) -> DiscreteLaplace:
    assert isinstance(noise, DiscreteLaplace)
    return noise


# ---------------------------------------------------------------- the choice: public values and released ones alone


def choose(
    checked: Checked, limits: Limits, found: Sequence[Wanted], counts: Mapping[Release, Counts], ask: Ask
) -> tuple[Limits, ...]:
    """The limits of each release: those with the least estimated error."""
    told: dict[tuple[int, Kind], Counts] = {(w.release, w.kind): counts[w.histogram] for w in found}
    return tuple(
        _chosen(one, limits, {kind: told[i, kind] for kind in ("rows", "groups", "largest") if (i, kind) in told}, ask)
        for i, one in enumerate(checked.releases)
    )


def _chosen(one: CheckedRelease, limits: Limits, told: Mapping[Kind, Counts], ask: Ask) -> Limits:
    found = limits
    if groups := told.get("groups"):
        found = replace(found, max_groups=_best(_grid(groups), lambda g: _group_error(one, groups, g, ask)))
    if largest := told.get("largest"):
        peak = _best(_grid(largest), lambda c: _peak_error(largest, c, ask))
        assert found.max_groups is not None
        # In so many groups with so many rows each: no unit that is capped to both has more.
        found = replace(found, max_rows_per_group=peak, max_rows=peak * found.max_groups)
    if rows := told.get("rows"):
        found = replace(found, max_rows=_best(_grid(rows), lambda n: _row_error(one, rows, n, ask)))
    return found


def _grid(counts: Counts) -> list[int]:
    """The limits to choose from: powers of two and what lies half-way between them, up to the last bucket's end."""
    last = max(counts)
    return sorted({2**k for k in range(last + 1)} | {3 * 2 ** (k - 2) for k in range(2, last + 1)})


def _best(candidates: Sequence[int], error: Callable[[int], float]) -> int:
    return min(candidates, key=lambda n: (error(n), n))


def _sizes(bucket: int) -> tuple[float, float]:
    """The least and the largest count of a bucket."""
    return (1.0, 1.0) if bucket == 0 else (2.0 ** (bucket - 1) + 1, 2.0**bucket)


def _total(counts: Counts, limit: float | None = None) -> float:
    """What all units have together, each at most the limit; within a bucket they are taken to be spread evenly."""
    total = 0.0
    for bucket, units in counts.items():
        low, high = _sizes(bucket)
        if limit is None or high <= limit:
            total += units * (low + high) / 2
        elif low >= limit:
            total += units * limit
        else:
            kept = (limit - low) / (high - low)
            total += units * (kept * (low + limit) / 2 + (1 - kept) * limit)
    return total


def _row_error(one: CheckedRelease, rows: Counts, limit: int, ask: Ask) -> float:
    """The squared relative error of a cell of average size: what is cut, and the noise of each aggregate."""
    whole = _total(rows)
    cut = 1 - _total(rows, limit) / whole
    values = {str(a.value.sql) for a in one.arguments if a.value is not None and not a.recipe.counted}
    noise = sqrt(2) * limit * max(1, len(values)) / float(ask.pure) * (one.cells or 1) / whole
    # A sum's noise is that of the largest value, and values are smaller: by how much isn't known, four times is usual.
    factor = 4 if values else 1
    return cut**2 + (factor * noise) ** 2


def _group_error(one: CheckedRelease, groups: Counts, limit: int, ask: Ask) -> float:
    """How many units a key must have in the data to be found; of public keys, the squared relative error."""
    whole = _total(groups)
    kept = _total(groups, limit) / whole
    scale = limit / float(ask.pure)
    if one.private_keys and ask.delta:
        return scale * log(limit / (2 * float(ask.delta))) / kept
    return (1 - kept) ** 2 + 2 * (scale * (one.cells or 1) / whole) ** 2


def _peak_error(largest: Counts, limit: int, ask: Ask) -> float:
    """The squared relative error of a key that is just found: about as many units as the threshold, so many rows."""
    whole = _total(largest)
    cut = 1 - _total(largest, limit) / whole
    units = max(1.0, log(1 / (2 * float(ask.delta))) if ask.delta else 1.0)
    mean = whole / max(1.0, sum(largest.values()))
    return cut**2 + 2 * (limit / (units * mean)) ** 2
