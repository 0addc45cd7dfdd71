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
from typing import Any

from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.bounding import Limits
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import Checked, CheckedRelease, analyze
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.sampler import LARGEST_SCALE
from dpsql.plan.nodes import Plan, Release, unit_of
from dpsql.quote.bounds import Stored, analyze_known, counted, scale_of_count
from dpsql.quote.calibrate import calibrate
from dpsql.quote.cuts import Kind, Wanted, histogram_of
from dpsql.quote.key_votes import Counts, key_limits
from dpsql.quote.model import Ask, Released, Stage
from dpsql.statistics.bounds import Automatic

NOTED = "limits of: "  # how the ledger's note of the histograms begins
STRAY = 0.001  # the chance that any empty bucket passes for one that holds units
ROWS, GROUPS = 16, 4  # where no bucket passes: fixed, public, and said with the answer
COARSER = 2  # so many times the noise that a query would buy, at least: with less, a stored histogram serves it
HIDDEN = 0.5  # units of the last bucket's size that noise of scale 1 hides, as far as anybody expects
OF_ONE = Fraction(1, 4)  # of a histogram's share, for a single count: which needs no threshold
THIN = 1 / 8  # at most so many units go on from one bucket behind the last that passes to the next
SAME = Fraction(101, 100)  # noise that differs by less is equal: shares of ρ are rounded

KINDS: tuple[Kind, ...] = ("rows", "groups", "largest")
_NEEDS = {"needs-max-rows": "max_rows", "needs-max-groups": "max_groups"}  # refusals, by their codes
BY_GROUP: tuple[tuple[Kind, str], ...] = (("groups", "max_groups"), ("largest", "max_rows_per_group"))


def analyze_seeded(plan: Plan, limits: Limits, catalog: Catalog) -> tuple[Checked, Limits]:
    """analyze, with fixed public limits in the place of those that are needed and missing, which will be chosen.

    What can't be answered with those is refused: no refusal rests on a released value.
    """
    if not catalog.policy.privacy.limits_share:
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
            limits = _seed(limits, name, ROWS if name == "max_rows" else GROUPS)
        else:
            missing = {name for one in checked.releases for name in _uncountable(one, limits)}
            for refusal in refusals:
                if _NEEDS[refusal.code] in missing:
                    raise refusal
            return checked, limits


def _seed(limits: Limits, name: str, seed: int) -> Limits:
    """The limits with a fixed public one in the place of one that will be chosen; the steward's word holds for it."""
    found: dict[str, Any] = {name: min(seed, limits.most(name) or seed)}
    return replace(limits, chosen=limits.chosen | {name}, **found)


def _uncountable(one: CheckedRelease, limits: Limits) -> Iterator[str]:
    """The limits of a release that can't be chosen, because its units can't be counted before it.

    Rows that are their own units and are repeated can't, nor can groups that noisy values decide about.
    """
    if unit_of(one.release.input) is None:
        yield from one.bounding.chosen
        return
    for kind in _kinds(one, limits):
        if histogram_of(one.release, kind) is None:
            yield "max_groups" if kind == "groups" else "max_rows"


def wanted(checked: Checked, limits: Limits) -> Iterator[Wanted]:
    """The histograms that choose the limits of each release. Each unit is one row of these relations (LIMITS-1)."""
    for index, one in enumerate(checked.releases):
        if unit_of(one.release.input) is not None:
            for kind in _kinds(one, limits):
                histogram = histogram_of(one.release, kind)
                assert histogram is not None, "what can't be counted was refused"
                yield Wanted(kind, index, histogram)


def _kinds(one: CheckedRelease, limits: Limits) -> Iterator[Kind]:
    """Few, since they share what is spent: rows, or groups and the largest of them where keys are private."""
    chosen = one.bounding.chosen
    if "max_groups" in chosen:
        yield "groups"
    peaks = one.private_keys and one.bounding.cap is not None and _open(limits, "max_rows_per_group")
    if "max_rows" in chosen and peaks:
        yield "largest"
    elif "max_rows" in chosen:
        yield "rows"


def _open(limits: Limits, name: str) -> bool:
    """Has nobody settled a limit: is it missing, or only the most that it may be known?"""
    return getattr(limits, name) is None or limits.most(name) is not None


# ---------------------------------------------------------------- the stage


def limits_stage(
    text: str,
    found: Sequence[Wanted],
    ask: Ask,
    catalog: Catalog,
    public: frozenset[str],
    ranges: Sequence[Automatic],
    most: Most | None = None,
) -> Stage:
    """The histograms with their noise and price: equal shares of what is spent on limits, and OF_ONE for a count.

    most: how much noise stored ones may have; None: any.
    """
    releases = tuple(dict.fromkeys(one.histogram for one in found))
    known = tuple(a for a in ranges if a.range is not None)
    key = (releases, known, ask)  # asked for to know what it would be, to look for it, and to measure it
    if key not in catalog.histograms:
        plan = Plan(f"{NOTED}{text}", releases, tuple(f"h{i}" for i in range(len(releases))), exp.Select(), public)
        checked = Checked(plan, tuple(counted_release(release, public, catalog, known) for release in releases))
        weights = [Fraction(1) if release.keys else OF_ONE for release in releases]
        parts = tuple(weight / sum(weights) for weight in weights)
        catalog.histograms[key] = replace(calibrate(checked, ask, parts), kind="limits")
    stage: Stage = catalog.histograms[key]
    return replace(stage, accepts=lambda noisy: _serves(noisy, most))


def counted_release(
    release: Release, public: frozenset[str], catalog: Catalog, ranges: tuple[Automatic, ...] = ()
) -> CheckedRelease:
    """Counts of units, analyzed: once for all that is asked about them when a query is planned."""
    key = (release, ranges)
    if key not in catalog.histograms:
        plan = Plan("", (release,), ("h",), exp.Select(), public)
        (catalog.histograms[key],) = analyze_known(plan, Limits(), catalog, ranges).releases  # gives way: AUTO-1
    found: CheckedRelease = catalog.histograms[key]
    return found


def stored_tables(stage: Stage, stored: Stored, most: Most | None) -> dict[Release, Noisy]:
    """The stored counts of what a stage counts, those of them that serve, whatever noise the stage itself would have.

    Of several that serve the oldest, so that who asks the same again finds the same limits, and his answer.
    """
    tables: dict[Release, Noisy] = {}
    for step in stage.releases:
        anything = tuple(replace(m, noise=DiscreteLaplace(LARGEST_SCALE)) for m in step.measurements)
        found = stored(replace(step, measurements=anything))
        serving = [noisy for _, noisy in found if _serves(noisy, most)]
        if serving:
            tables[step.checked.release] = serving[-1]
    return tables


def scale_of(stage: Stage) -> Fraction:
    """The scale of the noise of its histograms, which have equal shares; that of a single count may be half of it.

    Where there are only single counts, that of a histogram beside them.
    """
    return max(
        _noise(m.noise).scale * (1 if step.checked.release.keys else OF_ONE)
        for step in stage.releases
        for m in step.measurements
    )


def tables_of(released: Released) -> dict[Release, Noisy]:
    """The counts of a stage, once they are released."""
    tables = [noisy for noisy in released.noisy if isinstance(noisy, Noisy)]
    return {s.checked.release: noisy for s, noisy in zip(released.stage.releases, tables, strict=True)}


def read_counts(noisy: Noisy) -> Counts:
    """About how many units each bucket holds, up to the last that noise alone doesn't explain; post-processing."""
    found = _counted(noisy)
    # Theorem LIMITS-1: with B buckets all empty ones stay below this with probability 1 - STRAY.
    least = float(scale_of_count(noisy)) * log(len(found) / (2 * STRAY))
    last = max((b for b, n in found.items() if n > least), default=-1)
    return {b: max(0.0, n) for b, n in found.items() if b <= last}


def _counted(noisy: Noisy) -> Counts:
    """What each bucket holds, with its noise."""
    counts = noisy.estimate(counted(noisy))
    buckets = noisy.cells.column(0).to_pylist()
    return {b: int(n) / counts.denominator for b, n in zip(buckets, counts.numerators, strict=True) if b is not None}


def read_with_tail(noisy: Noisy) -> Counts:
    """The same, and what may be in the two buckets behind: what noise leaves of them, thinning out by THIN at least.

    Without it a limit would never lie behind the last bucket that passes, where noise is far below what that cuts.
    """
    seen = read_counts(noisy)
    if not seen:
        return seen
    last = max(seen)
    found = _counted(noisy)
    behind = (last + 1, last + 2)
    return {**seen, **{b: min(max(0.0, found.get(b, 0.0)), seen[last] * THIN ** (b - last)) for b in behind}}


@dataclass(frozen=True, slots=True)
class Most:
    """How much noise stored counts may have: so many times the scale of what would be bought."""

    bought: Fraction
    times: float


def most_noise(releases: Sequence[CheckedRelease], share: Fraction, histograms: int, bought: Fraction) -> Most:
    """The noise of stored counts up to which better ones don't pay; no released value has a part in it.

    With L the last bucket's end and W all rows, counts of scale s hide about HIDDEN · s units, so HIDDEN · s · L / W of
    the answer; the answer's own noise is √2 · cells · L / (ε · W), and grows by 1 / (1 - share) for whoever buys. What
    he buys has s = histograms / (share · ε), so that L, W and ε drop out: it pays if (times² - 1) · HIDDEN² ·
    histograms² / share² is more than (1 / (1 - share)² - 1) · 2 · cells². With few cells that is soon so. But then both
    are small, and whoever asks again wants his answer for free: up to COARSER nothing is bought.
    """
    cells = max((one.cells or 1 for one in releases), default=1)
    grown = 1 / (1 - float(share)) ** 2 - 1
    pays = sqrt(1 + grown * 2 * (cells * float(share) / (HIDDEN * max(1, histograms))) ** 2)
    return Most(bought, max(COARSER, pays))


def _serves(noisy: Noisy, most: Most | None) -> bool:
    """Has each count of a stored histogram one Laplace noise of its own, and is it good enough?

    One that is much noisier hides all but the fullest buckets: whoever bought it for next to nothing would choose
    everybody's limits. One that tells nothing serves if another would be no better.
    """
    terms = counted(noisy).terms
    if len(terms) != 1 or not isinstance(noisy.step.measurements[terms[0][0][0]].noise, DiscreteLaplace):
        return False
    tells = noisy.cells is None or bool(read_counts(noisy))
    usual = 1 if noisy.cells is not None else 1 / OF_ONE
    return most is None or scale_of_count(noisy) <= most.bought * usual * (most.times if tells else 1) * SAME


def _noise(noise: object) -> DiscreteLaplace:
    assert isinstance(noise, DiscreteLaplace)
    return noise


# ---------------------------------------------------------------- the choice: public values and released ones alone


def choose(
    checked: Checked, limits: Limits, found: Sequence[Wanted], tables: Mapping[Release, Noisy], ask: Ask
) -> tuple[Limits, ...]:
    """The limits of each release: those with the least estimated error."""
    told: dict[tuple[int, Kind], Counts] = {
        (w.release, w.kind): (read_with_tail if w.kind == "rows" else read_counts)(tables[w.histogram]) for w in found
    }
    return tuple(
        _chosen(one, limits, {k: told[i, k] for k in KINDS if (i, k) in told}, ask, len(checked.releases))
        for i, one in enumerate(checked.releases)
    )


def _chosen(one: CheckedRelease, limits: Limits, told: Mapping[Kind, Counts], ask: Ask, releases: int) -> Limits:
    found = limits
    by_groups: dict[Kind, tuple[Counts, Sequence[int]]] = {
        kind: (told[kind], _grid(told[kind], limits.most(name))) for kind, name in BY_GROUP if told.get(kind)
    }
    if by_groups and one.private_keys:
        found = key_limits(one, limits, by_groups, ask, releases)
    elif groups := told.get("groups"):
        grid = _grid(groups, limits.most("max_groups"))
        found = replace(found, max_groups=_best(grid, lambda g: _group_error(one, groups, g, ask)))
    if rows := told.get("rows"):
        grid = _grid(rows, limits.most("max_rows"))
        found = replace(found, max_rows=_best(grid, lambda n: _row_error(one, rows, n, ask)))
    return found


def _grid(counts: Counts, most: int | None) -> list[int]:
    """The limits to choose from: powers of two and what lies half-way between them, up to the last bucket's end.

    most: none is larger; then it is one of them itself.
    """
    last = max(counts)
    grid = {2**k for k in range(last + 1)} | {3 * 2 ** (k - 2) for k in range(2, last + 1)}
    if most is None or most >= max(grid):
        return sorted(grid)
    return sorted({n for n in grid if n < most} | {most})


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
    """The squared relative error of a number of units for each public key."""
    whole = _total(groups)
    kept = _total(groups, limit) / whole
    scale = limit / float(ask.pure)
    return (1 - kept) ** 2 + 2 * (scale * (one.cells or 1) / whole) ** 2
