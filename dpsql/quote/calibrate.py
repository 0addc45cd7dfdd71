"""calibrate: Checked -> Stage. Splits the budget, picks statistics, fixes grids, noise and price.

The price is the sum of what the very noise objects cost that will be drawn from; nothing else computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call
from dpsql.aggregates.noisy import StoredFacts, StoredNoise
from dpsql.aggregates.present import least, terms_of
from dpsql.analyze.checked import Checked
from dpsql.analyze.refusals import no_delta
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.budget import Split
from dpsql.mechanisms.keys import Threshold, VoteThreshold
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.sampler import require_scale
from dpsql.plan.nodes import Plan
from dpsql.quote.candidates import MAX_NUMBERS, Candidates, candidates_of, tallies_of
from dpsql.quote.key_votes import best_shares, mean_vote
from dpsql.quote.losses import deviations, keys_of, relative, selecting, sides, variances
from dpsql.quote.model import Ask, Measurement, Selection, Stage, Step
from dpsql.quote.responses import share_out
from dpsql.quote.splits import splits_of
from dpsql.quote.statements import cells_of, histogram_of, is_plain, matching_of, statement_of
from dpsql.statistics.base import Choice
from dpsql.statistics.counts import Votes
from dpsql.statistics.moments import Moments
from dpsql.statistics.sized import Sized
from dpsql.statistics.strategy import Strategy

SAME = 1 + 1e-9  # variances that differ by less are equal


def calibrate(checked: Checked, ask: Ask, parts: tuple[Fraction, ...] | None = None) -> Stage:
    """Spend (ε, δ) on all releases together, with the mechanism and the statistics of least relative error.

    parts: of what is spent, one for each release, which then has one statistic; None: equal ones.
    """
    releases = [candidates_of(one, ask.pure) for one in checked.releases]
    if len(releases) > 1 and any(r.alone for r in releases):
        releases = [candidates_of(one, ask.pure, compare=True) for one in checked.releases]
    selections = sum(r.checked.private_keys for r in releases)
    if selections and not ask.delta:
        raise no_delta(next(u for r in releases if (u := r.checked.unlisted) is not None))
    options = [
        _option(ways, choice, ask.keys_share)
        for choice in ((replace(split, parts=parts), delta) for split, delta in splits_of(ask, bool(selections)))
        for ways in (releases, *_voting(releases, choice[0]))
    ]
    best = min(options, key=lambda o: o.loss)
    other = min((o for o in options if o.split.name != best.split.name), key=lambda o: o.loss, default=None)
    ratio = (other.split.name, (other.loss / best.loss) ** 0.5) if other is not None and best.loss else None
    way = min((o for o in options if o.votes != best.votes), key=lambda o: o.loss, default=None)
    return _stage(checked.plan, best, ask.epsilon, ratio, way)


def _voting(releases: Sequence[Candidates], split: Split) -> Iterator[list[Candidates]]:
    """The releases with votes for the keys of those that can have them: with noise that is calibrated to ℓ₂ norms."""
    if not split.noise.pure and any(r.voting is not None for r in releases):
        yield [r.voting or r for r in releases]


# ---------------------------------------------------------------- how to measure it


@dataclass(frozen=True, slots=True)
class _Option:
    """A mechanism with the best statistics for it."""

    releases: Sequence[Candidates]
    split: Split
    strategies: tuple[Strategy, ...]
    loss: float
    delta: Fraction  # for key selection
    units: tuple[float | None, ...] = ()  # about how many a key of each release must have, where keys are found

    @property
    def votes(self) -> bool:
        """Are keys found by votes?"""
        return any(isinstance(s, Votes) for strategy in self.strategies for s in strategy.statistics)


def _option(releases: Sequence[Candidates], choice: tuple[Split, Fraction], keys_share: Fraction | None) -> _Option:
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
    found = best_shares(releases, chosen, split, delta, keys_share)
    if found is None:
        return _Option(releases, split, chosen, loss, delta)
    return _Option(releases, found.split, chosen, found.loss, delta, found.units)


def _losses(releases: Sequence[Candidates], chosen: Sequence[Strategy], split: Split, delta: Fraction) -> list[float]:
    """The relative variance of each aggregate; a key below its threshold is an error of the threshold."""
    found = variances(split, list(zip(releases, chosen, strict=True)))
    losses = []
    for release, strategy in zip(releases, chosen, strict=True):
        mine = [next(found) for _ in strategy.statistics]
        losses += [relative(release, i, strategy, mine) for i in range(len(release.calls))]
        if release.checked.private_keys:
            losses.append(_missed(release, strategy, mine, split, delta))
    return losses


def _one_by_one(releases: Sequence[Candidates], split: Split, delta: Fraction) -> list[float]:
    """The relative variance of each aggregate (and selection), were it measured by itself with an equal share of ε."""
    found = variances(split, [(r, c) for r in releases for c in r.alone])
    losses = []
    for release in releases:
        for i, strategy in enumerate(release.alone):
            mine = [next(found) for _ in strategy.statistics]
            if i < len(release.calls):
                losses.append(relative(release, i, strategy, mine))
            elif release.checked.private_keys:
                losses.append(_missed(release, strategy, mine, split, delta))
    return losses


def _missed(
    release: Candidates, strategy: Strategy, variances: Sequence[float], split: Split, delta: Fraction
) -> float:
    """The square of what a threshold leaves for noise."""
    return variances[selecting(strategy)] * deviations(split, delta / (keys_of(release) * sides(release))) ** 2


def calibrate_rows(checked: Checked, ask: Ask) -> Stage:
    """Spend ε on the rows that leave one by one, in equal shares for all their columns."""
    responses, shares = share_out(checked.responses, ask.epsilon, ask.conversion)
    return Stage("rows", checked.plan.text, responses, ask.epsilon, shares)


def _stage(plan: Plan, best: _Option, epsilon: Fraction, other: tuple[str, float] | None, way: _Option | None) -> Stage:
    releases = best.releases
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
    selections = sum(r.checked.private_keys for r in releases)
    steps, start, numbers = [], 0, 0
    needed = way.units if way is not None and way.units else [None] * len(releases)
    for name, release, strategy, units in zip(plan.tables, releases, best.strategies, needed, strict=True):
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
        select = _selection(release, strategy, measurements, best.delta / max(1, selections), units)
        steps.append(_step(name, release, strategy, measurements, select))
    return Stage("main", plan.text, tuple(steps), epsilon, best.split, other)


def _step(
    name: str,
    release: Candidates,
    strategy: Strategy,
    measurements: tuple[Measurement, ...],
    selection: Selection | None,
) -> Step:
    checked, tallies = release.checked, tallies_of(strategy)
    distinct = () if is_plain(release, tallies) else tuple(t for t in tallies if t.kind == "distinct")
    tallies = tuple(t for t in tallies if t not in distinct)
    return Step(
        name=name,
        checked=checked,
        statement=statement_of(
            release,
            tallies,
            tuple(s for s in strategy.statistics if isinstance(s, Moments)),
            next((s.size for s in strategy.statistics if isinstance(s, Sized)), None),
        ),
        cells=cells_of(checked) if checked.keys and not checked.private_keys else None,
        tallies=tallies,
        calls=tuple(_with_least(c, release, strategy, measurements, selection) for c in release.calls),
        measurements=measurements,
        estimates=strategy.estimates,
        bits=release.bits,
        selection=selection,
        histograms=tuple(histogram_of(release, s) for s in strategy.spectra),
        matchings=tuple(matching_of(release, t) for t in distinct),
    )


def _selection(
    release: Candidates,
    strategy: Strategy,
    measurements: Sequence[Measurement],
    delta: Fraction,
    other: float | None,
) -> Selection | None:
    """Which cells leave, and about how many units they would need if keys were found in the other way."""
    checked = release.checked
    if not checked.private_keys and checked.min_units is None:
        return None
    index = selecting(strategy)
    if not checked.private_keys:
        assert checked.min_units is not None
        return Selection(index, checked.min_units, Fraction(0))
    noise, statistic = measurements[index].noise, measurements[index].statistic
    assert not isinstance(noise, NoisyMax)
    mean, others = mean_vote(release, strategy), None if other is None else ceil(other)
    if isinstance(statistic, Votes):
        # Theorem KEYW-1: the largest threshold over all numbers of keys, from the very noise that the votes get.
        votes = VoteThreshold(noise, keys_of(release), statistic.bits, delta / sides(release))
        return Selection(index, votes.tau, delta, mean, votes=True, other=others)
    # Theorem KEY-1: δ/max_groups for each key, and the threshold from the very noise that the count gets.
    threshold = Threshold(noise, delta / (keys_of(release) * sides(release)), checked.min_units or 0)
    return Selection(index, threshold.tau, delta, mean, other=others)


def _with_least(
    call: Call,
    release: Candidates,
    strategy: Strategy,
    measurements: Sequence[Measurement],
    selection: Selection | None,
) -> Call:
    """A call that tells which groups are there, with the number that a group must exceed; others as they are."""
    if not RECIPES[call.function].tells_presence:
        return call
    facts = StoredFacts("", (), tuple(StoredNoise(m.noise) for m in measurements), strategy.estimates)
    # Theorem PRESENT-1: of so many public cells. Private keys that are selected are there.
    cells = release.checked.cells
    found = Fraction(0) if cells is None else least(terms_of(facts, call), cells)
    if selection is not None and call.units and not selection.votes:
        found = max(found, Fraction(selection.threshold - 1))
    return replace(call, at=(found,))
