"""How far off what a release could measure would be, before any noise is made: what candidates are compared by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import inf

from dpsql.mechanisms.budget import Split
from dpsql.quote.candidates import Candidates
from dpsql.statistics.base import Quantity
from dpsql.statistics.counts import Units, Votes
from dpsql.statistics.strategy import Strategy

Floats = Mapping[Quantity, Sequence[tuple[tuple[int, int], float]]]


def variances(split: Split, chosen: Sequence[tuple[Candidates, Strategy]]) -> Iterator[float]:
    """Of each statistic, in their order."""
    for variance in split.variances([s.sensitivity(r.unit) for r, c in chosen for s in c.statistics]):
        try:
            yield float(variance)
        except OverflowError:
            yield inf


def relative(release: Candidates, index: int, strategy: Strategy, variances: Sequence[float]) -> float:
    """The variance of one aggregate, relative to the square of what one unit may add to it."""
    contrasts = _squares(release, index, strategy)
    total = sum(sum(square * variances[statistic] for statistic, square in contrast) for contrast in contrasts)
    return total / (max(1, len(contrasts)) * whole(release, index) ** 2)


def _squares(release: Candidates, index: int, strategy: Strategy) -> list[list[tuple[int, float]]]:
    """The squared weights of each contrast of an aggregate, with the statistic whose noise each is of.

    They are the same whatever the noise is, and are made once.
    """
    key = (index, id(strategy))  # it is kept, so nothing else has its id
    if key not in release.once:
        found = []
        floats = _floats(release, strategy)
        for contrast in release.contrasts[index]:
            weights: dict[tuple[int, int], float] = {}
            for quantity, factor in contrast:
                for place, weight in floats[quantity]:
                    weights[place] = weights.get(place, 0.0) + weight * factor
            found.append([(place[0], w * w) for place, w in weights.items()])
        release.once[key] = strategy, found
    squares: list[list[tuple[int, float]]] = release.once[key][1]
    return squares


def _floats(release: Candidates, strategy: Strategy) -> Floats:
    """The weights of each quantity's estimate, made once for all aggregates that look at it."""
    key = ("weights", id(strategy))
    if key not in release.once:
        found = {q: [(place, float(weight)) for place, weight in e.terms] for q, e in strategy.estimates.items()}
        release.once[key] = strategy, found
    floats: Floats = release.once[key][1]
    return floats


def whole(release: Candidates, index: int) -> float:
    """What one unit may add to an aggregate, relative to its largest value: its rows, or itself."""
    call = release.calls[index]
    return float(1 if call.units or call.clip else release.checked.bounding.rows or 1)


def selecting(strategy: Strategy) -> int:
    """Which of the statistics tells the keys that leave: the votes, where there are any, or the number of units."""
    places = range(len(strategy.statistics))
    votes = next((i for i in places if isinstance(strategy.statistics[i], Votes)), None)
    return next(i for i in places if _counts_units(strategy, i)) if votes is None else votes


def _counts_units(strategy: Strategy, index: int) -> bool:
    statistic = strategy.statistics[index]
    return isinstance(statistic, Units) and statistic.where is None


def keys_of(release: Candidates) -> int:
    """In how many groups a unit may be."""
    groups = release.checked.bounding.contribution.groups
    assert groups is not None
    return int(groups)


def sides(release: Candidates) -> int:
    """Over how many data sets the δ of a selection is divided: where a unit is replaced, both may have keys alone."""
    return 2 if release.checked.bounding.contribution.replace else 1  # Theorems KEY-1 and KEYW-1


def deviations(split: Split, p: Fraction) -> float:
    """About how many standard deviations of noise are exceeded with this small probability."""
    return split.noise.deviations(max(float(p), 1e-300))
