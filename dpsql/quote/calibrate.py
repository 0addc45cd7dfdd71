"""calibrate: Checked -> Stage. Splits the budget, picks statistics, fixes grids, noise and price.

The price is the sum of what the very noise objects cost that will be drawn from; nothing else computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import inf

from dpsql.analyze.checked import Checked
from dpsql.analyze.refusals import no_delta
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.budget import Split, budget_of
from dpsql.mechanisms.keys import Threshold
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.registry import AUTOMATIC, noise_of
from dpsql.mechanisms.sampler import require_scale
from dpsql.plan.nodes import Plan
from dpsql.quote.candidates import MAX_NUMBERS, Candidates, candidates_of, tallies_of
from dpsql.quote.model import Ask, Measurement, Selection, Stage, Step
from dpsql.quote.responses import share_out
from dpsql.quote.statements import cells_of, histogram_of, is_plain, matching_of, statement_of
from dpsql.statistics.base import Choice, Statistic
from dpsql.statistics.moments import Moments
from dpsql.statistics.strategy import Strategy
from dpsql.statistics.units import Units

SAME = 1 + 1e-9  # variances that differ by less are equal


def calibrate(checked: Checked, ask: Ask) -> Stage:
    """Spend (ε, δ) on all releases together, with the mechanism and the statistics of least relative error."""
    releases = [candidates_of(one, ask.pure) for one in checked.releases]
    if len(releases) > 1 and any(r.alone for r in releases):
        releases = [candidates_of(one, ask.pure, compare=True) for one in checked.releases]
    selecting = sum(r.checked.private_keys for r in releases)
    if selecting and not ask.delta:
        raise no_delta(next(u for r in releases if (u := r.checked.unlisted) is not None))
    options = [_option(releases, choice) for choice in _splits(ask, bool(selecting))]
    best = min(options, key=lambda o: o.loss)
    other = next((o for o in options if o is not best), None)
    ratio = (other.split.name, (other.loss / best.loss) ** 0.5) if other is not None and best.loss else None
    return _stage(checked.plan, releases, best, ask.epsilon, ratio)


def _splits(ask: Ask, selecting: bool) -> list[tuple[Split, Fraction]]:
    """The mechanisms to choose from, each with the δ that it leaves for key selection.

    What isn't pure needs δ; beside key selection it gets half of it.
    """
    splits: list[tuple[Split, Fraction]] = []
    for kind in AUTOMATIC if ask.mechanism == "auto" else (ask.mechanism,):
        noise = noise_of(kind)
        if noise.pure or ask.conversion is not None:  # ρ pays for any kind of noise; all of δ is for key selection
            splits.append((Split(budget_of(ask.epsilon, Fraction(0), ask.conversion), noise), ask.delta))
        elif ask.delta:
            part = ask.delta / 2 if selecting else ask.delta
            splits.append((Split(budget_of(ask.epsilon, part, None), noise), ask.delta - part))
        elif kind == ask.mechanism:
            raise PrivacyError(
                f"{noise.name[0].upper()}{noise.name[1:]} noise needs δ > 0",
                code="needs-delta",
                hint='give one: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6; or use mechanism = "laplace"',
            )
    return splits


# ---------------------------------------------------------------- how to measure it


@dataclass(frozen=True, slots=True)
class _Option:
    """A mechanism with the best statistics for it."""

    split: Split
    strategies: tuple[Strategy, ...]
    loss: float
    delta: Fraction  # for key selection


def _option(releases: Sequence[Candidates], choice: tuple[Split, Fraction]) -> _Option:
    """The statistics with the least loss.

    Several values are measured together only where no aggregate has more noise than alone (Theorem MOMENTS-2).
    """
    split, delta = choice
    if len(releases) > 6:
        combinations = [tuple(r.candidates[0] for r in releases)]
    else:
        combinations = list(product(*(r.candidates[: 2 if len(releases) > 1 else None] for r in releases)))
    alone = _one_by_one(releases, split, delta) if releases and releases[0].alone else []

    def rank(combination: tuple[Strategy, ...]) -> tuple[int, float]:
        losses = _losses(releases, combination, split, delta)
        bound = alone if any(c.together for c in combination) else losses
        return sum(mine > SAME * most for mine, most in zip(losses, bound, strict=True)), sum(losses)

    def best(several: Iterable[tuple[Strategy, ...]]) -> tuple[float, tuple[Strategy, ...]]:
        ranked = [(rank(one), one) for one in several]
        (_, loss), first = min(ranked, key=lambda one: one[0])
        return loss, first

    loss, chosen = best(combinations)
    for i, release in enumerate(releases if 1 < len(releases) <= 6 else ()):  # then one release after the other
        loss, chosen = best((*chosen[:i], c, *chosen[i + 1 :]) for c in (chosen[i], *release.candidates[2:]))
    return _Option(split, chosen, loss, delta)


def _losses(releases: Sequence[Candidates], chosen: Sequence[Strategy], split: Split, delta: Fraction) -> list[float]:
    """The relative variance of each aggregate; a key below its threshold is an error of the threshold."""
    variances = _variances(split, list(zip(releases, chosen, strict=True)))
    losses = []
    for release, strategy in zip(releases, chosen, strict=True):
        mine = [next(variances) for _ in strategy.statistics]
        losses += [_relative(release, i, strategy, mine) for i in range(len(release.calls))]
        if release.checked.private_keys:
            losses.append(_missed(release, strategy, mine, split, delta))
    return losses


def _one_by_one(releases: Sequence[Candidates], split: Split, delta: Fraction) -> list[float]:
    """The relative variance of each aggregate (and selection), were it measured by itself with an equal share of ε."""
    variances = _variances(split, [(r, c) for r in releases for c in r.alone])
    losses = []
    for release in releases:
        for i, strategy in enumerate(release.alone):
            mine = [next(variances) for _ in strategy.statistics]
            if i < len(release.calls):
                losses.append(_relative(release, i, strategy, mine))
            elif release.checked.private_keys:
                losses.append(_missed(release, strategy, mine, split, delta))
    return losses


def _variances(split: Split, chosen: Sequence[tuple[Candidates, Strategy]]) -> Iterator[float]:
    for variance in split.variances([s.sensitivity(r.unit) for r, c in chosen for s in c.statistics]):
        try:
            yield float(variance)
        except OverflowError:
            yield inf


def _relative(release: Candidates, index: int, strategy: Strategy, variances: Sequence[float]) -> float:
    call, contrasts = release.calls[index], release.contrasts[index]
    total = 0.0
    for contrast in contrasts:
        weights: dict[tuple[int, int], float] = {}
        for quantity, factor in contrast:
            for place, weight in strategy.estimates[quantity].terms:
                weights[place] = weights.get(place, 0.0) + float(weight) * factor
        total += sum(w * w * variances[place[0]] for place, w in weights.items())
    whole = 1 if call.units or call.clip else release.checked.bounding.contribution.mass or 1
    return total / (max(1, len(contrasts)) * float(whole) ** 2)


def _missed(
    release: Candidates, strategy: Strategy, variances: Sequence[float], split: Split, delta: Fraction
) -> float:
    index = next(i for i, s in enumerate(strategy.statistics) if s == _units_of(strategy))
    return variances[index] * _tail(split, delta / _keys(release)) ** 2


def _tail(split: Split, delta: Fraction) -> float:
    """About how many standard deviations of noise a threshold must leave: to compare mechanisms."""
    return split.noise.deviations(max(float(delta), 1e-300))


def _units_of(strategy: Strategy) -> Statistic:
    return next(s for s in strategy.statistics if isinstance(s, Units) and s.where is None)


def _keys(release: Candidates) -> Fraction:
    """Over how many keys the δ of a selection is divided (Theorem KEY-1)."""
    unit = release.checked.bounding.contribution
    assert unit.groups is not None
    return unit.groups * (2 if unit.replace else 1)


def calibrate_rows(checked: Checked, ask: Ask) -> Stage:
    """Spend ε on the rows that leave one by one, in equal shares for all their columns."""
    responses, shares = share_out(checked.responses, ask.epsilon, ask.conversion)
    return Stage("rows", checked.plan.text, responses, ask.epsilon, shares)


def _stage(
    plan: Plan, releases: Sequence[Candidates], best: _Option, epsilon: Fraction, other: tuple[str, float] | None
) -> Stage:
    sensitivities = [
        s.sensitivity(r.unit) for r, c in zip(releases, best.strategies, strict=True) for s in c.statistics
    ]
    chosen = [s for c in best.strategies for s in c.statistics]
    try:
        noises = best.split.noises(sensitivities)
        for statistic, noise in zip(chosen, noises, strict=True):
            if isinstance(noise, NoisyMax) and isinstance(statistic, Choice):
                require_scale(noise.scale * statistic.reach)
    except OverflowError:
        raise PrivacyError(
            "the noise would be larger than any answer",
            code="too-noisy",
            hint="ask with a larger ε, or with smaller limits and ranges",
        ) from None
    selecting = sum(r.checked.private_keys for r in releases)
    steps, start, numbers = [], 0, 0
    for name, release, strategy in zip(plan.tables, releases, best.strategies, strict=True):
        choices = sum(s.candidates for s in strategy.statistics if isinstance(s, Choice)) // 16  # those are fast
        numbers += (release.checked.cells or 1) * (len(tallies_of(strategy)) + choices)
        if numbers > MAX_NUMBERS:
            raise PrivacyError(
                f"the answer would be made of more than {MAX_NUMBERS:,} numbers",
                code="too-large",
                hint="ask for fewer aggregates or grouping sets, or group by coarser keys",
            )
        end = start + len(strategy.statistics)
        measurements = tuple(
            Measurement(s, size, noise)
            for s, size, noise in zip(strategy.statistics, sensitivities[start:end], noises[start:end], strict=True)
        )
        start = end
        steps.append(_step(name, release, strategy, measurements, best.delta / max(1, selecting)))
    return Stage("main", plan.text, tuple(steps), epsilon, best.split, other)


def _step(
    name: str, release: Candidates, strategy: Strategy, measurements: tuple[Measurement, ...], delta: Fraction
) -> Step:
    checked, tallies = release.checked, tallies_of(strategy)
    distinct = () if is_plain(release, tallies) else tuple(t for t in tallies if t.kind == "distinct")
    tallies = tuple(t for t in tallies if t not in distinct)
    return Step(
        name=name,
        checked=checked,
        statement=statement_of(release, tallies, tuple(s for s in strategy.statistics if isinstance(s, Moments))),
        cells=cells_of(checked) if checked.keys and not checked.private_keys else None,
        tallies=tallies,
        calls=release.calls,
        measurements=measurements,
        estimates=strategy.estimates,
        bits=release.bits,
        selection=_selection(release, measurements, delta),
        histograms=tuple(histogram_of(release, s) for s in strategy.spectra),
        matchings=tuple(matching_of(release, t) for t in distinct),
    )


def _selection(release: Candidates, measurements: Sequence[Measurement], delta: Fraction) -> Selection | None:
    checked = release.checked
    if not checked.private_keys and checked.min_units is None:
        return None
    index = next(i for i, m in enumerate(measurements) if isinstance(m.statistic, Units) and m.statistic.where is None)
    if not checked.private_keys:
        assert checked.min_units is not None
        return Selection(index, checked.min_units, Fraction(0))
    # Theorem KEY-1: δ/max_groups for each key, and the threshold from the very noise that the count gets.
    noise = measurements[index].noise
    assert not isinstance(noise, NoisyMax)
    threshold = Threshold(noise, delta / _keys(release), checked.min_units or 0)
    return Selection(index, threshold.tau, delta)
