"""Limits that nobody named: which counts of units choose them, the stage that measures these, and the choice.

A first stage of the same query counts units, in noisy histograms of what each has in the query's own rows. One vote a
unit in each histogram (Theorem LIMITS-1). The limit with the least expected error is then that of the release; it was
paid for before (AUTO-1). The histograms are stored as any release: the next query over the same rows has them for free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import inf, log, log2, sqrt
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits, SizeLimit, SumScale
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Argument, Checked, CheckedRelease, analyze, analyzed_count, may_have_size
from dpsql.bounds.clipping import choose_limit, clipping_of
from dpsql.bounds.histograms import (
    Kind,
    UnitCount,
    counted_columns,
    histogram_of,
    kind_of_mass,
    ladder_of,
    most_values,
    scale_histogram,
    size_histogram,
    smallest_size,
    usual_part,
    values_histogram,
)
from dpsql.bounds.unit_counts import Tables, UnitCounts, counts_of, is_histogram, noise_in
from dpsql.core.errors import Error, PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.sampler import LARGEST_SCALE
from dpsql.plan.nodes import Plan, Release, unit_of
from dpsql.plan.unconditional import is_noisy
from dpsql.quote.bounds import with_ranges
from dpsql.quote.calibrate import calibrate
from dpsql.quote.key_votes import Amounts, key_limits
from dpsql.quote.learned import Lookup
from dpsql.quote.model import Ask, Released, Stage, Step
from dpsql.statistics.base import Choice
from dpsql.statistics.bounds import Automatic

NOTED = "limits of: "  # how the ledger's note of the histograms begins
SEED_ROWS, SEED_GROUPS = 16, 4  # fixed and public: what a query is checked, priced and refused with before the choice
UNSEEN: dict[Kind, float] = {"rows": SEED_ROWS, "values": SEED_ROWS, "groups": SEED_GROUPS, "size": 0.0}
"""The least limits where nothing can be seen."""
OF_ONE = Fraction(1, 16)  # of a histogram's share, for a single count: which needs no threshold
OF_MEANS = Fraction(1, 10)  # of the share for limits: what tells how large values are, before the histogram of sizes
NOISIER = 1.5  # times the noise that a query would buy: a stored histogram of no more serves it
SMALL_VALUES = 0.3  # of the range: units are bounded by size where values are smaller on average, else by rows
MOST_SUMS = 4  # of one release that are bounded by size: more would each see little of the share for their means
SMALLEST_VALUE, LARGEST_VALUE = Fraction(1, 2**200), 2**200  # of values: sizes are floats while units are counted
SAME = 1.01  # noise that differs by less is equal: shares of ρ are rounded
CONFIDENCE = 0.95

_NEEDS = {"needs-max-rows": "max_rows", "needs-max-groups": "max_groups"}  # refusals, by their codes
BY_GROUP: tuple[tuple[Kind, str], ...] = (("groups", "max_groups"), ("largest", "max_rows_per_group"))


def share_for_limits(catalog: Catalog, ask: Ask) -> Fraction:
    """The part of what a query spends that buys counts of units: the policy's, or by ε alone.

    Small ε sees little, so that a larger part of it pays. Of ρ a smaller part buys as much.
    """
    named = catalog.policy.privacy.limits_share
    if named is not None:
        return named
    if ask.conversion is not None:
        return Fraction(1, 10) if ask.epsilon <= 1 else Fraction(1, 20)
    if ask.epsilon <= Fraction(3, 10):
        return Fraction(1, 4)
    return Fraction(1, 5) if ask.epsilon <= 1 else Fraction(1, 10)


def analyze_seeded(plan: Plan, limits: Limits, catalog: Catalog) -> tuple[Checked, Limits]:
    """analyze, with fixed public limits in the place of those that are needed and missing, which will be chosen.

    What can't be answered with those is refused: no refusal rests on a released value.
    """
    if catalog.policy.privacy.limits_share == 0:
        return analyze(plan, limits, catalog), limits
    refusals: list[PrivacyError] = []
    while True:
        try:
            checked = analyze(plan, limits, catalog)
        except PrivacyError as error:
            refusals.append(error)
            name = _NEEDS.get(error.code)
            if name is None:
                raise
            limits = _seed(limits, name, SEED_ROWS if name == "max_rows" else SEED_GROUPS)
        else:
            missing = {name for one in checked.releases for name in _uncountable(one, limits)}
            for refusal in refusals:
                if _NEEDS[refusal.code] in missing:
                    raise refusal
            return checked, limits


def _seed(limits: Limits, name: str, seed: int) -> Limits:
    """The limits with a fixed public one in the place of one that will be chosen; the steward's word holds for it."""
    seeded: dict[str, Any] = {name: min(seed, limits.most(name) or seed)}
    return replace(limits, chosen=limits.chosen | {name}, **seeded)


def _uncountable(checked: CheckedRelease, limits: Limits) -> Iterator[str]:
    """The limits of a release that can't be chosen, because its units can't be counted before it.

    Rows that are their own units and are repeated can't, nor can groups that noisy values decide about.
    """
    if unit_of(checked.release.input) is None:
        yield from checked.bounding.chosen
        return
    for kind in _kinds(checked, limits):
        if histogram_of(checked, kind) is None:
            yield "max_groups" if kind == "groups" else "max_rows"


# ---------------------------------------------------------------- which counts


Countable = Callable[[Release], bool]
"""Can units be counted so? Within a unit fewer values can be added up than over all of them."""


def means_for_limits(checked: Checked, limits: Limits, countable: Countable) -> Iterator[UnitCount]:
    """The histograms of units' means, of releases whose units may be bounded by size (Theorem SIZE-1)."""
    for index, release in enumerate(checked.releases):
        if not counted_columns(release.arguments):
            continue
        for place, argument in _sums(release, limits, countable):
            histogram = scale_histogram(release, _largest(argument))
            if histogram is not None:
                yield UnitCount("scale", index, histogram, place)


def counts_for_limits(checked: Checked, limits: Limits, means: Tables, countable: Countable) -> Iterator[UnitCount]:
    """The histograms that choose the limits of each release. Each unit is one row of these relations (LIMITS-1).

    means: what was released of how large values are.
    """
    for index, release in enumerate(checked.releases):
        if unit_of(release.release.input) is None:
            continue
        scales = scales_of(release, limits, means, countable)
        for kind in _kinds(release, limits):
            histogram = histogram_of(release, kind)
            if scales is not None and kind == "rows":
                sizes = size_histogram(release, scales, smallest_size(release))
                if sizes is not None and countable(sizes):
                    kind, histogram = "size", sizes
            if kind == "rows" and (values := values_histogram(release)) is not None and countable(values):
                yield UnitCount("values", index, values)
                if kind_of_mass(release) == "values":
                    continue
            assert histogram is not None, "what can't be counted was refused"
            yield UnitCount(kind, index, histogram)


def chooses_limits(checked: Checked, limits: Limits) -> bool:
    """Is a limit of any release chosen?"""
    releases = (one for one in checked.releases if unit_of(one.release.input) is not None)
    return any(True for one in releases for _ in _kinds(one, limits))


def _kinds(checked: CheckedRelease, limits: Limits) -> Iterator[Kind]:
    """Few, since they share what is spent: rows, or groups and the largest of them where keys are private."""
    chosen = checked.bounding.chosen
    if "max_groups" in chosen:
        yield "groups"
    peaks = checked.private_keys and checked.bounding.cap is not None and _open(limits, "max_rows_per_group")
    if "max_rows" in chosen and peaks:
        yield "largest"
    elif "max_rows" in chosen:
        yield "rows"


def _open(limits: Limits, name: str) -> bool:
    """Has nobody settled a limit: is it missing, or only the most that it may be known?"""
    return getattr(limits, name) is None or limits.most(name) is not None


def _sums(checked: CheckedRelease, limits: Limits, countable: Countable) -> list[tuple[int, Argument]]:
    """The sums of a release whose units may be bounded by size, each once with its place; else none.

    A steward who says how many rows may count means all of them: a size bounds no rows.
    """
    if "max_rows" not in checked.bounding.chosen or limits.most("max_rows") is not None:
        return []
    known: list[tuple[int, Argument]] | None = checked.once.get(_sums)
    if known is None:
        known = checked.once[_sums] = _sized_sums(checked, countable)
    return known


def _sized_sums(checked: CheckedRelease, countable: Countable) -> list[tuple[int, Argument]]:
    if not may_have_size(checked) or is_noisy(checked.release.input):
        return []
    sums: dict[object, tuple[int, Argument]] = {}
    for place, argument in enumerate(checked.arguments):
        if argument.recipe.summed and not argument.units:
            sums.setdefault((argument.call.argument, argument.call.where, argument.call.bounds), (place, argument))
    if not sums or len(sums) > MOST_SUMS or any(not _sizable(argument) for _, argument in sums.values()):
        return []
    histograms = [scale_histogram(checked, _largest(argument)) for _, argument in sums.values()]
    return list(sums.values()) if all(h is not None and countable(h) for h in histograms) else []


def _sizable(argument: Argument) -> bool:
    """Does a sum have a largest value that numbers of the engine can be divided by? A released range may leave 0."""
    return argument.value is not None and SMALLEST_VALUE < argument.value.range.magnitude < LARGEST_VALUE


def _largest(argument: Argument) -> SumScale:
    """A sum whose largest value counts as one row."""
    call, value = argument.call, argument.value
    assert call.argument is not None and value is not None
    return SumScale(call.argument, call.where, call.bounds, value.range.magnitude)


def scales_of(
    checked: CheckedRelease, limits: Limits, means: Tables, countable: Countable
) -> tuple[SumScale, ...] | None:
    """How much of each sum counts as one row, where units are to be bounded by size; None: by rows.

    Without counts of rows that is one row's largest value, which is public. Else it is about what values are on
    average, in half octaves, where that is known and small beside the range.
    """
    sums = _sums(checked, limits, countable)
    if not sums:
        return None
    if not counted_columns(checked.arguments):
        return tuple(_largest(argument) for _, argument in sums)
    logs: list[int] = []
    for _, argument in sums:
        histogram = scale_histogram(checked, _largest(argument))
        counts = None if histogram is None else means.get(histogram)
        part = None if counts is None else usual_part(counts.counts, counts.noise)
        if part is None:
            return None
        logs.append(round(2 * log2(part)))
    if 2 ** (sum(logs) / (2 * len(logs))) >= SMALL_VALUES:
        return None
    scales = [_largest(argument) for _, argument in sums]
    parts = [Fraction(2 ** (half / 2)).limit_denominator(2**20) for half in logs]
    return tuple(replace(scale, unit=scale.unit * part) for scale, part in zip(scales, parts, strict=True))


# ---------------------------------------------------------------- the stage


@dataclass(frozen=True, slots=True)
class Counting:
    """What a stage of counts belongs to: the query's text, its public tables, and ranges that are known."""

    text: str
    public: frozenset[str]
    ranges: tuple[Automatic, ...]


def limits_stage(counting: Counting, counts: Sequence[UnitCount], ask: Ask, catalog: Catalog) -> Stage:
    """The counts with their noise and price: equal shares of what is spent on limits, and OF_ONE for a single count."""
    releases = tuple(dict.fromkeys(count.histogram for count in counts))
    known = tuple(a for a in counting.ranges if a.range is not None)
    # Asked for to know what it would be, to look for it, and to measure it. A batch and whoever asks its first
    # statement alone share what is kept, so that the text is part of it.
    key = ("limits", counting.text, counting.public, releases, known, ask)
    return catalog.memo.kept(key, lambda: _limits_stage(counting, releases, known, ask, catalog))


def _limits_stage(
    counting: Counting, releases: tuple[Release, ...], known: tuple[Automatic, ...], ask: Ask, catalog: Catalog
) -> Stage:
    names = tuple(f"h{i}" for i in range(len(releases)))
    plan = Plan(f"{NOTED}{counting.text}", releases, names, exp.Select(), counting.public)
    checked = Checked(plan, tuple(counted_release(release, catalog, known) for release in releases))
    weights = [_weight(release) for release in releases]
    parts = tuple(weight / sum(weights) for weight in weights)
    return replace(calibrate(checked, ask, parts), kind="limits", accepts=is_histogram)


def part_of(count: UnitCount) -> Fraction:
    """The part of a histogram's share that a count gets."""
    return _weight(count.histogram)


def _weight(release: Release) -> Fraction:
    return Fraction(1) if release.keys else OF_ONE


def counted_release(release: Release, catalog: Catalog, ranges: tuple[Automatic, ...] = ()) -> CheckedRelease:
    """Counts of units, analyzed. A range that would refuse them gives way to its seed (Theorem AUTO-1)."""
    used = list(ranges)
    with suppress(Error):
        return analyzed_count(release, with_ranges(catalog, used))
    for place, one in enumerate(ranges):
        try:
            analyzed_count(release, with_ranges(catalog, used[: place + 1]))
        except Error:
            used[place] = one.seeded
    return analyzed_count(release, with_ranges(catalog, used))


def is_countable(histogram: Release, catalog: Catalog) -> bool:
    """Can units be counted so?"""
    return catalog.memo.kept(("countable", histogram), lambda: _is_countable(histogram, catalog))


def _is_countable(histogram: Release, catalog: Catalog) -> bool:
    with suppress(Error):
        counted_release(histogram, catalog)
        return True
    return False


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """The stored counts of a stage that serve, the oldest of each first; which of them were learned; and the spends."""

    tables: Mapping[Release, tuple[UnitCounts, ...]]
    learned: frozenset[Release]
    spends: tuple[str, ...]


def stored_counts(
    stage: Stage, stored: Lookup, whole: Callable[[Release], Step | None], any_noise: bool
) -> StoredCounts:
    """The stored counts of what a stage counts, those of them that serve.

    whole: the step of a histogram of the whole table that may serve for one of its rows, too.

    stage: as those who ask first have it. One that is much noisier hides all but the fullest buckets: bought for next
    to nothing, it would choose the limits of everybody. What was learned serves whatever its noise is: the steward
    chose that. A query's own counts come before those of the whole table, which tell at most what is cut.
    """
    tables: dict[Release, tuple[UnitCounts, ...]] = {}
    learned: set[Release] = set()
    spends: list[str] = []
    for step in stage.releases:
        release = step.checked.release
        every = [one for one in stored(_noisiest(step)) if is_histogram(one[1])]
        steward = {id for id, _ in stored.learned(_noisiest(step))} if every else set()
        least = noise_in(step) * NOISIER * SAME
        counted = [(id, counts_of(noisy)) for id, noisy in every]
        serving = [(id, c) for id, c in counted if any_noise or id in steward or c.noise <= least]
        if not serving and stored.has_learned and (other := whole(release)) is not None:
            serving = [(id, counts_of(noisy)) for id, noisy in stored.learned(_noisiest(other)) if is_histogram(noisy)]
            steward = {id for id, _ in serving}
        if serving:
            tables[release] = tuple(counts for _, counts in reversed(serving))
            spends += [id for id, _ in reversed(serving)]
            learned |= {release} if serving[-1][0] in steward else set()
    return StoredCounts(tables, frozenset(learned), tuple(spends))


def _noisiest(step: Step) -> Step:
    """The step with more noise than any other has, so that whatever is stored of it has less."""
    return replace(
        step, measurements=tuple(replace(m, noise=DiscreteLaplace(LARGEST_SCALE)) for m in step.measurements)
    )


def together(stored: Mapping[Release, Sequence[UnitCounts]]) -> Tables:
    """All stored counts of the same units as one table each."""
    return {release: counts[0].combined(counts[1:]) for release, counts in stored.items()}


def tables_of(released: Released) -> dict[Release, UnitCounts]:
    """The counts of a stage, once they are released."""
    tables = [noisy for noisy in released.noisy if isinstance(noisy, Noisy)]
    return {s.checked.release: counts_of(noisy) for s, noisy in zip(released.stage.releases, tables, strict=True)}


# ---------------------------------------------------------------- the choice: public values and released ones alone


Calibrated = Callable[[Limits], Step]
"""The step of a release as it would be measured with these limits."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """What the limits of one release are chosen by: named and seed limits, released counts, and what may be spent."""

    checked: CheckedRelease
    limits: Limits
    counts: Mapping[Kind, UnitCounts]
    scales: tuple[SumScale, ...] | None
    ask: Ask
    releases: int  # of the query


def choose(choosing: Choosing, calibrated: Calibrated) -> Limits:
    """The limits of one release with the least expected error.

    calibrated: how the release is measured with seed limits, which tells the noise of one cell.
    """
    checked, limits, counts = choosing.checked, choosing.limits, choosing.counts
    by_groups: dict[Kind, tuple[Amounts, Sequence[int]]] = {
        kind: (_amounts(counts[kind], kind), _grid(counts[kind], kind, limits.most(name)))
        for kind, name in BY_GROUP
        if kind in counts
    }
    if by_groups and checked.private_keys:
        return key_limits(checked, limits, by_groups, choosing.ask, choosing.releases)
    if "groups" in counts:
        chosen = _chosen("groups", choosing, limits, _noise_per_group(calibrated(limits), limits.max_groups))
        limits = replace(limits, max_groups=int(chosen))
    if "values" in counts:
        limits = _with_values(choosing, limits, calibrated(limits))
    if "rows" in counts:
        chosen = _chosen("rows", choosing, limits, _noise_per_row(calibrated(limits), limits.max_rows or 1))
        limits = replace(limits, max_rows=int(chosen))
    elif "size" in counts:
        assert choosing.scales is not None
        smallest = smallest_size(checked)
        seed = replace(limits, size=SizeLimit(SEED_ROWS * Fraction(1), choosing.scales))
        noise = _noise_per_row(calibrated(seed), SEED_ROWS)
        most = _chosen("size", choosing, limits, noise)
        exact = Fraction(most).limit_denominator(2**20) * smallest
        limits = replace(limits, size=SizeLimit(exact, choosing.scales))
    return limits


def _chosen(kind: Kind, choosing: Choosing, limits: Limits, noise: float) -> float:
    counts = choosing.counts[kind]
    most = None if kind == "size" else limits.most("max_groups" if kind == "groups" else "max_rows")
    tops: Sequence[float] = [float(top) for top in ladder_of(kind).tops]
    if kind != "size":
        tops = [float(n) for n in _up_to(tops, most)]
    return choose_limit(counts.tail(ladder_of(kind)), tops, noise, UNSEEN[kind])


def _with_values(choosing: Choosing, limits: Limits, seeded: Step) -> Limits:
    """The limits with one on the different values of a unit; that on its rows, where nothing else of them is counted.

    Values of a small public range are shared: where units have more than twice as many places as there are values,
    next to nothing is taken to be lost. That decides about the limit alone.
    """
    checked, tail = choosing.checked, choosing.counts["values"].tail(ladder_of("values"))
    tops = [float(n) for n in _up_to([float(top) for top in ladder_of("values").tops], limits.most("max_rows"))]
    most = most_values(checked)
    all_of = inf if most is None or checked.cells is None else 2.0 * most * checked.cells
    chosen = int(choose_limit(tail, tops, _noise_per_row(seeded, limits.max_rows or 1), UNSEEN["values"], all_of))
    alone = "rows" not in choosing.counts
    return replace(limits, max_rows=chosen) if alone else replace(limits, max_values=chosen)


def _up_to(tops: Sequence[float], most: int | None) -> list[int]:
    """Limits to choose from: none above the most that is allowed, which is one of them itself."""
    whole = [int(top) for top in tops]
    return whole if most is None else sorted({n for n in whole if n < most} | {most})


def _grid(counts: UnitCounts, kind: Kind, most: int | None) -> list[int]:
    """Limits to choose from where keys are private: up to the last bucket in which anybody is expected."""
    ladder = ladder_of(kind)
    mean = counts.tail(ladder).mean
    last = int(np.flatnonzero(mean >= 0.5)[-1]) if (mean >= 0.5).any() else 0
    return _up_to(list(ladder.tops[: last + 1]), most)


def _amounts(counts: UnitCounts, kind: Kind) -> Amounts:
    """About how many units have how much: the middle of each bucket, with the units that are expected in it."""
    ladder = ladder_of(kind)
    mean = counts.tail(ladder).mean
    return tuple((float(n), float(u)) for n, u in zip(ladder.middles, mean, strict=True) if u > 0) or ((1.0, 1.0),)


def _noise_per_row(step: Step, limit: int) -> float:
    """The scale of one cell's noise for a limit of one row, in rows: Laplace noise as wide as what is drawn."""
    widths = [width for call in step.calls for width in _widths(step, call)]
    return min(widths, default=1.0) / log(1 / (1 - CONFIDENCE)) / limit


def _widths(step: Step, call: Any) -> Iterator[float]:
    """Half the width of the noise of the numbers of rows that a call is made of; of a sum, in its largest values."""
    for need in RECIPES[call.function].needs(call):
        if need.kind in ("units", "clipped"):
            continue
        measured = [(float(w), step.measurements[p[0]]) for p, w in step.estimates[need].terms]
        terms = [(weight, m.noise) for weight, m in measured if not isinstance(m.noise, NoisyMax)]
        for _, m in measured:
            if isinstance(m.noise, NoisyMax) and isinstance(m.statistic, Choice):
                yield m.statistic.ranks(m.noise.worst(m.statistic.candidates, CONFIDENCE)) / 2**step.bits
        if not terms or len(terms) < len(measured):
            continue
        unit = 1.0
        if need.kind == "total" and need.value is not None:
            size = step.checked.bounding.size
            argument = next(a for a, c in zip(step.checked.arguments, step.calls, strict=True) if c == call)
            scale = (
                None
                if size is None
                else next(
                    (s for s in size.scales if (s.argument, s.where) == (argument.call.argument, argument.call.where)),
                    None,
                )
            )
            unit = float(scale.unit) if scale is not None else float(call.magnitude)
        if unit > 0:
            yield float(half_width(terms, CONFIDENCE)) / unit


def _noise_per_group(step: Step, limit: int | None) -> float:
    """The scale of the noise of a number of units, for a limit of one group."""
    variances = [
        float(w) ** 2 * float(step.measurements[p[0]].noise.variance)
        for quantity, linear in step.estimates.items()
        if quantity.kind in ("units", "clipped")
        for p, w in linear.terms
    ]
    return sqrt(max(variances, default=1.0) / 2) / (limit or 1)


def better_limits(steps: Sequence[Step], tables: Tables) -> Iterator[str]:
    """For people: where a named limit on rows cuts more than the noise hides, which one would be better."""
    for step in steps:
        limit, chosen = step.checked.bounding.mass, step.checked.bounding.chosen
        named = limit is not None and "max_rows" not in chosen and unit_of(step.checked.release.input) is not None
        histogram = histogram_of(step.checked, "rows") if named else None
        if limit is None or histogram is None or histogram not in tables:
            continue
        tail, noise = tables[histogram].tail(ladder_of("rows")), _noise_per_row(step, limit)
        now = clipping_of(tail, limit)
        if not now.known or now.about <= noise * limit * log(1 / (1 - CONFIDENCE)):
            continue
        better = choose_limit(tail, [float(top) for top in ladder_of("rows").tops], noise)
        if better > limit:
            then = clipping_of(tail, better)
            yield f"max_rows = {better:,.0f} would cut {then.share:.1%} of the rows, not {now.share:.1%}"
