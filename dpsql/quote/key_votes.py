"""Keys that aren't public: by which way they are found, for which share of ε, and with which limits.

A key is found by a noisy count of its units (Theorem KEY-1) or of their votes, which a unit shares out between its
groups (KEYW-1). What is compared is how many keys are found, each counted by how right its numbers are. Everything here
rests on public values and released ones: it chooses among mechanisms that cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import hypot, inf, log, log2, sqrt

from dpsql.analyze.bounding import Limits, Typical
from dpsql.analyze.checked import CheckedRelease
from dpsql.bounds.histograms import Kind
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.budget import Split
from dpsql.mechanisms.keys import vote
from dpsql.quote.candidates import Candidates
from dpsql.quote.losses import deviations, keys_of, relative, selecting, sides, variances, whole
from dpsql.quote.model import Ask
from dpsql.quote.splits import splits_of
from dpsql.statistics.base import Choice
from dpsql.statistics.counts import Votes
from dpsql.statistics.strategy import Strategy

SHARES = tuple(Fraction(i, 20) for i in range(1, 20))  # of ε (of the squared norm, of ρ), for finding keys
SMALLER = 4  # a sum's noise is that of the largest value, and values are smaller: by so much is usual
LARGER = 0.85  # the weight of keys that are half an octave larger: there are fewer of them
LEAST_ERROR = 0.001  # of a key's numbers, relative: smaller ones are all alike
TRIED = (0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9)  # shares, while limits are chosen

Amounts = Sequence[tuple[float, float]]
"""What a histogram tells of units: an amount of rows or groups, and about how many units have it."""


def worth(units: float, errors: Sequence[tuple[float, float]]) -> float:
    """How many keys are found, up to a factor, each counted by how right its numbers are.

    units: how many a key must have to be found. errors: for each number the noise's variance, in units of the key, and
    the part that is cut off. As many keys are taken to have n units or more as 1/n of all (Zipf's law).
    """
    if not errors:
        return 1 / units
    right = [1 - sqrt(cut**2 + (1 - cut**2) * _squared(variance / units**2)) for variance, cut in errors]
    return sum(right) / len(right) / units


def _squared(ratio: float) -> float:
    """The mean of the squared relative error over the keys that are found, none above 1.

    ratio: that of a key which is just found. The mean of min(1, v/n²) for a density of 1/n² from there on.
    """
    return ratio / 3 if ratio <= 1 else 1 - 2 / (3 * sqrt(ratio))


# ---------------------------------------------------------------- the share of ε, for limits that are known


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of ε with what they are expected to give: the less the loss, the more keys, and the better."""

    split: Split
    loss: float
    units: tuple[float | None, ...]  # about how many a key of each release must have; None: its keys are public


def best_shares(
    releases: Sequence[Candidates], strategies: Sequence[Strategy], split: Split, delta: Fraction, said: Fraction | None
) -> Found | None:
    """The shares of ε between what finds keys and what measures them; None where no keys have to be found.

    said: by the policy. Values that are chosen have an error that hangs on the data: beside them shares are equal.
    """
    chosen = list(zip(releases, strategies, strict=True))
    if not any(r.checked.private_keys for r in releases):
        return None
    finding = [r.checked.private_keys and i == selecting(s) for r, s in chosen for i in range(len(s.statistics))]
    choices = any(isinstance(s, Choice) for _, strategy in chosen for s in strategy.statistics)
    if all(finding) or (choices and said is None):
        return _expected(chosen, split, delta)
    options = [_expected(chosen, replace(split, parts=_parts(finding, s)), delta) for s in ([said] if said else SHARES)]
    return min(options, key=lambda found: found.loss)


def _parts(finding: Sequence[bool], share: Fraction) -> tuple[Fraction, ...]:
    """Equal parts of this share for each statistic that finds keys, and of the rest for each other one."""
    keys = sum(finding)
    return tuple(share / keys if finds else (1 - share) / (len(finding) - keys) for finds in finding)


def _expected(chosen: Sequence[tuple[Candidates, Strategy]], split: Split, delta: Fraction) -> Found:
    every = variances(split, chosen)
    loss, needed = 0.0, list[float | None]()
    selections = sum(r.checked.private_keys for r, _ in chosen)
    for release, strategy in chosen:
        mine = [next(every) for _ in strategy.statistics]
        errors = [relative(release, i, strategy, mine) for i in range(len(release.calls))]
        if not release.checked.private_keys:
            loss += sum(errors)
            needed.append(None)
            continue
        units = _units(release, strategy, mine, split, delta / selections)
        value = worth(units, [_in_units(release, i, error) for i, error in enumerate(errors)])
        loss += value**-2 if value else inf
        needed.append(units)
    return Found(split, loss, tuple(needed))


def _units(release: Candidates, strategy: Strategy, variances: Sequence[float], split: Split, delta: Fraction) -> float:
    """About how many units a key must have to reach its threshold."""
    index, most, hidden = selecting(strategy), keys_of(release), delta / sides(release)
    statistic, spread = strategy.statistics[index], sqrt(variances[index])
    if not isinstance(statistic, Votes):
        needed = max(1 + spread * deviations(split, hidden / most), release.checked.min_units or 0)
    else:  # w falls and the rest grows with t, so that the largest is at an end
        needed = max(vote(t, statistic.bits) + spread * deviations(split, hidden / t) for t in (1, most))
    return needed / float(mean_vote(release, strategy))


def mean_vote(release: Candidates, strategy: Strategy) -> Fraction:
    """What a unit adds to a cell in which it has rows, on average: to the units or votes that are counted there."""
    known, statistic = typical(release), strategy.statistics[selecting(strategy)]
    vote = known.vote * 2**statistic.bits if isinstance(statistic, Votes) else 1
    return Fraction(known.groups * vote).limit_denominator(10**6)


def typical(release: Candidates) -> Typical:
    """What is known of units, or where that is nothing: any number of groups up to the limit, equally often."""
    bounding = release.checked.bounding
    if bounding.typical is not None:
        return bounding.typical
    most, unit = keys_of(release), bounding.contribution
    rows = 1.0 if unit.mass is None or unit.peak is None else min(float(unit.peak), float(unit.mass) / most)
    return Typical(1.0, 1.0, max(1.0, rows), _evenly(most))


@lru_cache(maxsize=256)
def _evenly(most: int) -> float:
    """The mean vote over all groups of units that have any number of groups up to this one, equally often."""
    if most > 1000:
        return 4 / (3 * sqrt(most))
    return sum(sqrt(t) for t in range(1, most + 1)) / sum(range(1, most + 1))


def _in_units(release: Candidates, index: int, error: float) -> tuple[float, float]:
    """An aggregate's variance in units of a key, and the part of it that is cut."""
    call, known = release.calls[index], typical(release)
    variance = error * whole(release, index) ** 2
    if call.units or call.clip:
        return variance, 1 - known.groups
    argument = release.checked.arguments[index]
    times = 1 if argument.recipe.counted or argument.value is None else SMALLER
    return variance * (times / known.rows_per_group) ** 2, 1 - known.groups * known.rows


# ---------------------------------------------------------------- the limits, where nobody named them


def key_limits(
    one: CheckedRelease,
    limits: Limits,
    told: Mapping[Kind, tuple[Amounts, Sequence[int]]],
    ask: Ask,
    releases: int,
) -> Limits:
    """The limits with which keys of all sizes are found and their numbers are right; and what is known of units.

    told: released histograms of units by their groups and by the rows of their largest group, each with the limits to
    choose from. releases: of the query.
    """
    groups, caps = told.get("groups") or (None, [limits.max_groups or 1])
    largest, peaks = told.get("largest") or (None, [limits.max_rows_per_group or limits.max_rows or 1])
    most_rows = limits.most("max_rows") if largest else limits.max_rows
    measured, shares = _Measured.of(one), [float(ask.keys_share)] if ask.keys_share else TRIED
    usual_rows = peaks[0] if largest is None else _twice_the_mean(largest)
    options = list[tuple[int, _Way, float, Typical]]()
    for cap in caps:
        kept, mean, usual = _groups_left(groups, cap)
        known = Typical(kept, *_rows_left(largest, usual_rows, usual_rows, usual), mean)
        ways = _ways(cap, kept, mean, ask, releases, one.bounding.contribution.replace)
        options += [(cap, way, share, known) for way in ways for share in shares]
    least = min(way.needed(measured, share) for _, way, share, _ in options)
    every = largest if groups is None else groups
    sizes = _octaves(least, 0.0 if every is None else sum(units for _, units in every))
    cap, way, share, known = max(
        options, key=lambda o: o[1].gain(measured, usual_rows, o[0], o[3], _groups_lost(groups, o[0]), o[2], sizes)
    )
    found = replace(limits, max_groups=cap, typical=known)
    if largest is None:
        return found
    errors = [way.error_by_size(measured, cap, peak, _loss(largest, peak), known, share, sizes) for peak in peaks]
    peak = peaks[errors.index(min(errors))]
    mass = min(peak * cap, most_rows or peak * cap)
    _, _, usual = _groups_left(groups, cap)
    known = Typical(known.groups, *_rows_left(largest, peak, mass / cap, usual), known.vote)
    # In so many groups with so many rows each: no unit that is capped to both has more, unless the steward says less.
    return replace(found, typical=known, max_rows_per_group=peak, max_rows=mass)


def _twice_the_mean(amounts: Amounts) -> int:
    """A limit that cuts few of these amounts, while it isn't known which one is best."""
    return max(1, round(2 * _over(amounts, lambda n: n) / sum(units for _, units in amounts)))


def _loss(largest: Amounts, peak: int) -> float:
    """The part of the rows of units' largest groups that a limit on rows in a group cuts."""
    return 1 - _over(largest, lambda n: min(n, peak)) / _over(largest, lambda n: n)


def _octaves(least: float, most: float) -> list[float]:
    """Sizes of keys in units, half an octave apart: from the smallest that is found up to all units, or two octaves."""
    steps = max(4, int(2 * log2(max(most, 1.0) / least)) if most > least else 0)
    return [least * 2.0 ** (step / 2) for step in range(steps + 1)]


def _groups_lost(groups: Amounts | None, cap: int) -> float:
    """The part of its units that a key loses to a cap, whose units have more groups than most.

    A unit with t groups counts t times: a key that few have is mostly one of several of its units.
    """
    if groups is None:
        return 0.0
    return 1 - _over(groups, lambda t: min(t, cap) * t) / _over(groups, lambda t: t * t)


def _groups_left(groups: Amounts | None, cap: int) -> tuple[float, float, float]:
    """Which part of units' groups a cap leaves, the mean vote of what it leaves, and how many that are for a unit."""
    if groups is None:
        return 1.0, _evenly(cap), (1 + cap) / 2
    left = _over(groups, lambda t: min(t, cap))
    votes = _over(groups, lambda t: sqrt(min(t, cap)))
    return left / _over(groups, lambda t: t), votes / left, max(1.0, left / sum(units for _, units in groups))


def _rows_left(largest: Amounts | None, peak: int, usual: float, groups: float) -> tuple[float, float]:
    """Which part of units' rows a limit on those in one group leaves, and about how many of them a group has.

    groups: that a unit has, on average. Those beside its largest are taken to have half of its rows. usual: how many
    rows a group has, where nothing is known of that.
    """
    if largest is None:
        return 1.0, max(1.0, usual)

    def rows(most: float) -> float:
        others = _over(largest, lambda n: min((1 + n) / 2, most))
        return _over(largest, lambda n: min(n, most)) + (groups - 1) * others

    left = rows(peak)
    return left / rows(inf), left / (groups * sum(units for _, units in largest))


def _over(amounts: Amounts, of: Callable[[float], float]) -> float:
    """The sum of a function over all units."""
    return sum(units * of(amount) for amount, units in amounts)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What a release measures beside its keys, about: numbers of rows, sums of values, numbers of units."""

    counts: int
    sums: int
    units: int

    @classmethod
    def of(cls, one: CheckedRelease) -> _Measured:
        rows = [a for a in one.arguments if not a.units and a.clip is None]
        sums = {str(a.value.sql) for a in rows if a.value is not None and not a.recipe.counted}
        counted = any(a.value is None or a.recipe.counted for a in rows)
        return cls(int(counted), len(sums), int(len(rows) < len(one.arguments)))

    @property
    def statistics(self) -> int:
        """A sum and a count are measured together."""
        return max(self.counts, self.sums) + self.units


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to find keys with one cap on a unit's groups.

    ends: what one unit adds to each of its keys, and what a threshold leaves for noise, if all of ε is spent on it; the
    largest sum counts. mean: what a unit adds to a key in which it has rows. noise: the deviation of noise on a vector
    of norm 1.
    """

    ends: tuple[tuple[float, float], ...]
    mean: float
    noise: float
    pure: bool

    @property
    def _power(self) -> float:
        return 1.0 if self.pure else 0.5  # Theorems SPLIT-1 and GAUSS-3

    def needed(self, measured: _Measured, share: float) -> float:
        """About how many units a key needs to be found, for this share of ε."""
        mine = share if measured.statistics else 1.0
        part: float = mine**self._power
        return max(own + noise / part for own, noise in self.ends) / self.mean

    def gain(
        self,
        measured: _Measured,
        peak: int,
        cap: int,
        known: Typical,
        lost: float,
        share: float,
        sizes: Sequence[float],
    ) -> float:
        """How right the numbers of keys of these sizes are: the sum of −log of their relative errors, above 1 none.

        A key that isn't found has an error of 1. So a cap that cuts a part of each key is weighed against noise that
        hides the small ones, and no size counts more than another. lost: the part of its units that a key loses.
        """
        needed, others = self.needed(measured, share), measured.statistics
        if not others:
            return -needed
        one = self.noise / ((1 - share) / others) ** self._power
        rows = one * peak * (cap if self.pure else sqrt(cap)) / known.rows_per_group
        counted = one * (cap if self.pure else sqrt(cap))
        together = sqrt(2) if measured.sums else 1.0  # a count that is measured with a sum has twice the variance
        noises = [together * rows] * measured.counts + [SMALLER * rows] * measured.sums + [counted] * measured.units
        gain = 0.0
        for step, size in enumerate(sizes):
            if size >= needed:
                logs = [log(min(1.0, max(hypot(lost, noise / size), LEAST_ERROR))) for noise in noises]
                gain -= LARGER**step * sum(logs) / len(noises)
        return gain

    def error_by_size(
        self,
        measured: _Measured,
        cap: int,
        peak: int,
        loss: float,
        known: Typical,
        share: float,
        sizes: Sequence[float],
    ) -> float:
        """The log error of the rows of a key, over keys of these sizes that are found: what a limit on them trades."""
        needed, others = self.needed(measured, share), measured.statistics
        if not others:
            return 0.0
        noise = self.noise / ((1 - share) / others) ** self._power * (cap if self.pure else sqrt(cap)) * peak
        noise /= known.rows_per_group  # of a key of so many units
        found = [(LARGER**step, size) for step, size in enumerate(sizes) if size >= needed]
        return sum(weight * log(min(1.0, max(hypot(loss, noise / size), LEAST_ERROR))) for weight, size in found)


def _ways(cap: int, kept: float, mean: float, ask: Ask, releases: int, replaced: bool) -> Iterator[_Way]:
    """A noisy count of units, or of votes, with each kind of noise that may be drawn; replaced: are units that?"""
    sides = 2 if replaced else 1
    for split, delta in splits_of(ask, True):
        norm = Sensitivity(Fraction(sides), Fraction(sides))  # Theorem REPLACE-2
        noise, pure = sqrt(split.variances([norm] * releases)[0]), split.noise.pure
        hidden = delta / (releases * sides)
        spread = noise * (cap if pure else sqrt(cap))
        yield _Way(((1.0, spread * deviations(split, hidden / cap)),), kept, noise, pure)
        if not pure and cap > 1:
            ends = tuple((1 / sqrt(t), noise * deviations(split, hidden / t)) for t in (1, cap))
            yield _Way(ends, kept * mean, noise, pure)
