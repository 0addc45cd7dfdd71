"""Where an output column's error comes from, and the interval of each of its rows (Theorem INTERVAL-1).

All of it is computed from noisy tables and from noise that is drawn afresh: post-processing (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import floor, isfinite, isnan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call, Rational
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.cut import Moved, Term, moved_aggregate, moved_expression
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.base import Quantity
from dpsql.statistics.strategy import NoisyColumn

Interval = tuple[Any, Any] | None
"""The ends of a row's interval: numbers, or dates or times like the values of its column."""
Moment = Literal["number", "date", "timestamp", "timestamp with time zone"]
Floats = NDArray[np.float64]

SET_SIZE = 2**40  # cell c of the release of grouping set i is numbered i · SET_SIZE + c
FEW = 0.95  # an average is NULL where this interval of its number of rows holds 0
TAILS = (0.5, 0.25, 0.1, 0.05, 0.025)  # of draws that lie beyond the ends that are kept of a simulation


@dataclass(frozen=True, slots=True)
class Origin:
    """An output column that shows one aggregate unchanged: of one release, or of the release of each grouping set."""

    releases: tuple[str, ...]
    aggregate: int


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """An output column whose error was simulated: for each of TAILS and each row the ends beyond which so many lie."""

    low: Floats  # a row of this array for each of TAILS; NaN where there is none
    high: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """An output column computed row by row: how it moves with each aggregate of its cell, to first order."""

    releases: tuple[str, ...]
    slopes: Mapping[int, Floats]  # by aggregate, one entry a row; NaN where there is none
    unit: float = 0.0  # to which it is rounded
    instead: Simulated | None = None  # where there is none


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """A column of values that were chosen: with this confidence the exact one lies between others that were."""

    low: Floats  # NaN where there is none; of dates in days, of times in microseconds since 1970
    high: Floats
    confidence: float
    moment: Moment = "number"


Error = Origin | Slopes | Simulated | Between


def row_intervals(
    error: Error, values: Sequence[Any], noisy: Sequence[Noisy], cells: Sequence[int] | None, confidence: float
) -> list[Interval] | None:
    """Each row's interval; None where the column has none at all. values: the column as it is shown."""
    match error:
        case Origin() if cells is not None:
            return _shown(error, noisy, cells, confidence)
        case Slopes() if cells is not None:
            return _propagated(error, values, noisy, cells, confidence)
        case Simulated():
            return _simulated(error, confidence)
        case Between():
            return _moments(error) if confidence <= error.confidence else None
        case _:
            return None


def _pairs(low: Floats, high: Floats) -> list[Interval]:
    """Ends as intervals: an infinite end isn't known, and NaN means that there is no interval."""
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return [None if isnan(a) or isnan(b) else (a, b) for a, b in ends]


def _moments(found: Between) -> list[Interval]:
    """The intervals of chosen values, in the type of their column."""
    pairs = _pairs(found.low, found.high)
    if found.moment == "number":
        return pairs
    return [
        None if pair is None else (_moment(pair[0], found.moment), _moment(pair[1], found.moment)) for pair in pairs
    ]


def _moment(number: float, kind: Moment) -> date | datetime | float:
    """A date or time; the number itself where Python has none so far away."""
    try:
        if kind == "date":
            return date(1970, 1, 1) + timedelta(days=floor(number))
        zone = UTC if kind == "timestamp with time zone" else None
        return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=round(number))
    except OverflowError:
        return number


# ---------------------------------------------------------------- an aggregate as it stands


def _shown(origin: Origin, noisy: Sequence[Noisy], cells: Sequence[int], confidence: float) -> list[Interval]:
    """Each row's interval: that of the cell that it shows."""
    rows: list[Interval] = [None] * len(cells)
    for i, release in enumerate(origin.releases):
        found = intervals(_named(noisy, release), origin.aggregate, confidence)
        for row, cell in enumerate(cells):
            if cell // SET_SIZE == i:
                rows[row] = found[cell % SET_SIZE]
    return rows


def _named(noisy: Sequence[Noisy], release: str) -> Noisy:
    return next(n for n in noisy if n.step.name == release)


def intervals(noisy: Noisy, aggregate: int, confidence: float) -> list[Interval]:
    """For each cell of a release the interval of one of its aggregates; None where it has none."""
    call = noisy.step.calls[aggregate]
    recipe = RECIPES[call.function]
    quantities = NoisyQuantities(noisy)
    spread = recipe.spread(call, quantities)
    terms = _terms(noisy, weights_of(noisy, call, quantities))
    if terms is None:  # how far off a choice is depends on the data
        return [None] * noisy.count
    bounds = recipe.bounds(call)
    wide = widths(terms, confidence, noisy.count)
    wide[too_few(noisy, call, quantities)] = np.inf
    found = [_around(float(c), float(w), bounds) for c, w in zip(spread.centre, wide, strict=True)]
    moved = moved_aggregate(
        noisy, aggregate, quantities, _noise_in_rows(noisy, call, quantities, confidence), confidence
    )
    if moved is None:
        return found
    return [_wider(*one, bounds) for one in zip(found, moved.down, moved.up, strict=True)]


def _noise_in_rows(noisy: Noisy, call: Call, quantities: Mapping[Quantity, Rational], confidence: float) -> float:
    """Half of the width of the noise of a number that an aggregate is, in rows; of others, of the rows beside them.

    Of a sum: in the largest amount that a row can add.
    """
    needs = RECIPES[call.function].needs(call)
    if len(needs) != 1:
        needs = tuple(q for q in needs if q.kind in ("rows", "present"))[:1]
    for need in needs:
        terms = [(float(w), noisy.step.measurements[p[0]].noise) for p, w in noisy.step.estimates[need].terms]
        drawn = [(w, noise) for w, noise in terms if not isinstance(noise, NoisyMax)]
        if drawn and len(drawn) == len(terms):
            unit = float(call.magnitude) if need.kind in ("total", "clipped") and call.value is not None else 1.0
            return float(half_width(drawn, confidence)) / unit if unit else 0.0
    return 0.0


class NoisyQuantities(Mapping[Quantity, Rational]):
    """Each quantity of a release in each of its cells; computed when it is looked at: a column needs few of them."""

    def __init__(self, noisy: Noisy) -> None:
        self._noisy = noisy
        self._known: dict[Quantity, Rational] = {}

    def __getitem__(self, quantity: Quantity) -> Rational:
        found = self._known.get(quantity)
        if found is None:
            found = self._known[quantity] = self._noisy.estimate(self._noisy.step.estimates[quantity])
        return found

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self._noisy.step.estimates)

    def __len__(self) -> int:
        return len(self._noisy.step.estimates)


def weights_of(noisy: Noisy, call: Call, quantities: Mapping[Quantity, Rational]) -> dict[NoisyColumn, Floats]:
    """How an aggregate moves with each draw of noise, to first order, cell by cell."""
    weights: dict[NoisyColumn, Floats] = {}
    for quantity, slope in RECIPES[call.function].spread(call, quantities).slopes:
        for place, weight in noisy.step.estimates[quantity].terms:
            weights[place] = weights.get(place, np.zeros(noisy.count)) + slope * float(weight)
    return weights


def _terms(noisy: Noisy, weights: Mapping[NoisyColumn, Floats]) -> list[tuple[Floats, Noise]] | None:
    """Each draw's weight and noise; None where one of them chose."""
    drawn = [(w, noisy.step.measurements[place[0]].noise) for place, w in weights.items()]
    terms = [(w, noise) for w, noise in drawn if not isinstance(noise, NoisyMax)]
    return terms if len(terms) == len(drawn) else None


def widths(terms: Sequence[tuple[Floats, Noise]], confidence: float, count: int) -> Floats:
    """Half the width of each interval; infinite where a weight isn't known."""
    if not terms:  # a sum of what is always 0 is 0, and nothing was measured for it
        return np.zeros(count)
    wide = np.full(count, np.inf)
    finite = np.all([np.isfinite(w) for w, _ in terms], axis=0)
    if finite.any():
        wide[finite] = half_width([(w[finite], n) for w, n in terms], confidence)
    return wide


def too_few(noisy: Noisy, call: Call, quantities: Mapping[Quantity, Rational]) -> NDArray[np.bool_]:
    """Cells whose noisy number of rows may be noise alone: an average of them would say nothing (Theorem POST-1)."""
    rows = RECIPES[call.function].rows(call)
    if rows is None:
        return np.zeros(noisy.count, dtype=np.bool_)
    terms = [(float(w), noisy.step.measurements[p[0]].noise) for p, w in noisy.step.estimates[rows].terms]
    drawn = [(w, noise) for w, noise in terms if not isinstance(noise, NoisyMax)]
    least = float(half_width(drawn, FEW)) if drawn else 0.0
    return np.asarray(quantities[rows].floats <= least)


def _wider(interval: Interval, down: float, up: float, bounds: tuple[float, float] | None) -> Interval:
    """An interval with what may be cut (Theorem CUT-1). An end is infinite where nobody knows how much that is."""
    if interval is None:
        return None
    low, high = interval[0] - float(down), interval[1] + float(up)
    return (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))


def _around(centre: float, width: float, bounds: tuple[float, float] | None) -> Interval:
    if width == float("inf"):
        return bounds
    low, high = centre - width, centre + width
    return (max(low, bounds[0]), min(high, bounds[1])) if bounds is not None else (low, high)


# ---------------------------------------------------------------- computed row by row


def _propagated(
    error: Slopes, values: Sequence[Any], noisy: Sequence[Noisy], cells: Sequence[int], confidence: float
) -> list[Interval]:
    """To first order: what each draw adds to each aggregate, and that to the column."""
    wide = moved(error.releases, error.slopes, noisy, cells, confidence) + error.unit
    shown = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    cut = cut_of(error.releases, error.slopes, shown, noisy, cells)
    instead = [None] * len(wide) if error.instead is None else _simulated(error.instead, confidence)
    return [
        other
        if value is None or not isfinite(w) or not isfinite(value)
        else (float(value) - w - down, float(value) + w + up)
        for value, w, down, up, other in zip(
            values, wide.tolist(), cut.down.tolist(), cut.up.tolist(), instead, strict=True
        )
    ]


def cut_of(
    releases: Sequence[str],
    slopes: Mapping[int, Floats],
    values: Floats,
    noisy: Sequence[Noisy],
    cells: Sequence[int],
) -> Moved:
    """What is cut of an expression with these slopes and values, row by row (Theorem CUT-1)."""
    places = np.asarray(cells, dtype=np.int64)
    found = Moved(np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places)))
    for i, release in enumerate(releases):
        rows = np.flatnonzero(places // SET_SIZE == i)
        table = _named(noisy, release)
        if table.bias is None or not len(rows):
            continue
        quantities = NoisyQuantities(table)
        mine = places[rows] % SET_SIZE
        terms: list[Term] = []
        for aggregate, slope in slopes.items():
            call = table.step.calls[aggregate]
            spread = RECIPES[call.function].spread(call, quantities)
            terms += [(aggregate, quantity, slope[rows] * own[mine]) for quantity, own in spread.slopes]
        if (one := moved_expression(table, terms, values[rows], mine, quantities)) is not None:
            found.about[rows], found.down[rows], found.up[rows] = one.about, one.down, one.up
    return found


@np.errstate(all="ignore")
def moved(
    releases: Sequence[str],
    slopes: Mapping[int, Floats],
    noisy: Sequence[Noisy],
    cells: Sequence[int],
    confidence: float,
) -> Floats:
    """Half the width of what noise does to an expression with these slopes, row by row; infinite where unknown.

    Aggregates may share draws: what a draw does to all of them is added up before its size is looked at.
    """
    places = np.asarray(cells, dtype=np.int64)
    wide = np.full(len(places), np.inf)
    for i, release in enumerate(releases):
        rows = np.flatnonzero(places // SET_SIZE == i)
        table = _named(noisy, release)
        quantities = NoisyQuantities(table)
        mine = places[rows] % SET_SIZE
        weights: dict[NoisyColumn, Floats] = {}
        for aggregate, slope in slopes.items():
            for place, weight in weights_of(table, table.step.calls[aggregate], quantities).items():
                weights[place] = weights.get(place, np.zeros(len(rows))) + slope[rows] * weight[mine]
        terms = _terms(table, weights)
        if terms is not None and len(rows):
            wide[rows] = widths(terms, confidence, len(rows))
    return wide


# ---------------------------------------------------------------- simulated


@np.errstate(all="ignore")  # numbers that no double holds have no interval
def summary(draws: Floats, values: Floats, *, by_row: bool) -> Simulated:
    """What is kept of draws, which have a line for each row; NaN where a draw has no value. values: the answer.

    The exact table is the noisy one less its noise, which is symmetric: fresh noise on the noisy table gives values as
    likely as those of the exact one, so that their quantiles are the ends. Where a row hangs on many cells, and the
    draws lie on one side of the answer (a maximum of noisy numbers is too large), the answer is off to that side, too:
    the ends are extended to the other side by as much.
    """
    draws = np.where(np.isfinite(draws), draws, np.nan)
    ordered = np.sort(draws, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1)
    low = np.stack([_rank(ordered, count, tail) for tail in TAILS])
    high = np.stack([_rank(ordered, count, 1 - tail) for tail in TAILS])
    if not by_row:
        below, equal = (test(draws, values[:, None]).sum(axis=1) for test in (np.less, np.equal))
        share = (below + equal / 2) / np.maximum(count, 1)
        aside = np.abs(share - 0.5) > ASIDE
        low, high = (
            np.where(aside, np.minimum(low, 2 * values - high), low),
            np.where(aside, np.maximum(high, 2 * values - low), high),
        )
    low, high = (np.where(np.isfinite(ends), ends, np.nan) for ends in (low, high))
    known = (count >= PRESENT * draws.shape[1]) & np.isfinite(values)
    return Simulated(np.where(known, low, np.nan), np.where(known, high, np.nan))


def widened(found: Simulated, cut: Simulated) -> Simulated:
    """Ends that hold also what may be cut; where that leaves no row, as they are."""
    return Simulated(np.fmin(found.low, cut.low), np.fmax(found.high, cut.high))


def open_ended(found: Simulated) -> Simulated:
    """No ends, where there were any: nobody knows how much was cut."""
    return Simulated(np.where(np.isnan(found.low), np.nan, -np.inf), np.where(np.isnan(found.high), np.nan, np.inf))


ASIDE = 0.1  # more than this share of the draws away from half: they lie on one side
PRESENT = 0.9  # of the draws must have a row, for it to have an interval


def _rank(ordered: Floats, count: NDArray[np.int64], share: float) -> Floats:
    """The value that this share of draws lies below, between two of them."""
    place = np.clip(share * (count + 1) - 1, 0, np.maximum(count - 1, 0))
    before = np.floor(place).astype(np.int64)
    after = np.minimum(before + 1, np.maximum(count - 1, 0))
    rows = np.arange(len(ordered))
    lower, upper = ordered[rows, before], ordered[rows, after]
    return np.asarray(lower + np.where(upper > lower, (place - before) * (upper - lower), 0.0))


def _simulated(error: Simulated, confidence: float) -> list[Interval]:
    tail = (1 - confidence) / 2
    return _pairs(_end(error.low, tail), _end(error.high, tail))


@np.errstate(all="ignore")
def _end(ends: Floats, tail: float) -> Floats:
    """The end beyond which this share lies: between those that are kept, and beyond the last as an exponential tail.

    The tails of Laplace noise are exponential, and those of Gaussian noise are thinner.
    """
    places = -np.log(TAILS)
    place = -np.log(tail)
    if place <= places[-1]:
        right = max(1, int(np.searchsorted(places, place)))
        left = right - 1
        at = (place - places[left]) / (places[right] - places[left])
        found = ends[left] + at * (ends[right] - ends[left])
    else:
        slope = (ends[-1] - ends[2]) / (places[-1] - places[2])
        found = ends[-1] + slope * (place - places[-1])
    return np.asarray(np.where(np.isinf(ends[-1]), ends[-1], found))  # not known at any confidence
