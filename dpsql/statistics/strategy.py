"""Which statistics to measure for the quantities that a query needs, so that none is paid for twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution
from dpsql.statistics.base import Choice, Making, Quantity, Spectrum, Statistic, Value, power_sum
from dpsql.statistics.choices import UNWEIGHTED, choices
from dpsql.statistics.counts import Count, Units
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.moments import MAX_CELLS, MAX_SPAN, Ask, Axis, Moments, asked, moments
from dpsql.statistics.sized import Sized, Sizing, sized
from dpsql.statistics.sums import Clipped, Joint, Sum

NoisyColumn = tuple[int, int]  # (statistic, column)
MAX_PARTS = 2**10  # into which the rows of one value are cut where several quantiles meet in it


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear combination of noisy integer columns, in natural units."""

    terms: tuple[tuple[NoisyColumn, Fraction], ...]

    @classmethod
    def of(cls, weights: Mapping[NoisyColumn, Fraction]) -> Linear:
        return cls(tuple(sorted((p, w) for p, w in weights.items() if w)))

    @classmethod
    def combine(cls, parts: Iterable[tuple[Linear, Fraction]]) -> Linear:
        weights: dict[NoisyColumn, Fraction] = {}
        for linear, factor in parts:
            for place, weight in linear.terms:
                weights[place] = weights.get(place, Fraction(0)) + weight * factor
        return cls.of(weights)

    def variance(self, variances: Sequence[Fraction]) -> Fraction:
        """Its variance, given that of one noise draw of each statistic (draws are independent)."""
        return sum((w * w * variances[place[0]] for place, w in self.terms), Fraction(0))


@dataclass(frozen=True, slots=True)
class Strategy:
    """The statistics of one release, and each needed quantity as a linear function of them."""

    statistics: tuple[Statistic, ...]
    estimates: Mapping[Quantity, Linear]

    @property
    def together(self) -> bool:
        """Does it measure several values, or FILTERs, at once?"""
        return any(isinstance(s, Moments) and len(s.axes) > 1 for s in self.statistics)

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """What choices look at."""
        return tuple(dict.fromkeys(s.spectrum for s in self.statistics if isinstance(s, Choice)))


@dataclass(frozen=True, slots=True)
class Fine:
    """Into how many parts a row can be divided where values are measured together.

    enough: so many that rounding is far below the noise; then it is worth trying wherever it isn't needed, too.
    """

    resolution: int
    enough: bool


SIZED = ("rows", "present", "total")  # the kinds of quantities that rows have weights in, where sizes are bounded
SIZES = (2, 3, 4, 5, 6)  # values and FILTERs that are measured together, at most
FEW = 16  # differences between statistics that tell the same
MANY, SMALL = 9, (2, 3)  # of so many, blocks of three are the best (Theorem MOMENTS-2); others aren't tried


def strategies(
    needs: Sequence[Quantity],
    where_text: Mapping[str | None, str],
    unit: Contribution,
    *,
    weight: int,
    rows_are_units: bool,
    fine: Fine,
    candidates: int,
    sizing: Sizing | None = None,
    most_values: int | None = None,
) -> list[Strategy]:
    """The candidates: sum and count measured jointly, or apart with the sums centred; several values at once.

    weight: the integer that stands for one whole row. rows_are_units: a unit has one row, so where its units are
    counted anyway the number of rows is the same number (Theorem KEY-1: one noisy count for both). candidates: how
    many a choice may have in one cell. sizing: one unit's size is bounded, and not its rows: then there is one way.
    most_values: how many different values of one unit count, where that isn't the limit on rows.
    They are remembered: who asks for the same aggregates of other rows, or again at another price, needs the same.
    """
    texts = tuple(value.text for need in needs for value in (need.value, need.second) if value is not None)
    named = tuple(where_text.items())
    given = (unit, weight, rows_are_units, fine, candidates, sizing, most_values)
    return list(_strategies(tuple(needs), texts, named, *given))


@lru_cache(maxsize=256)
def _strategies(
    needs: Sequence[Quantity],
    texts: tuple[str, ...],  # of values: equal ones may be written in other words, which titles show
    where_items: tuple[tuple[str | None, str], ...],
    unit: Contribution,
    weight: int,
    rows_are_units: bool,
    fine: Fine,
    candidates: int,
    sizing: Sizing | None,
    most_values: int | None,
) -> tuple[Strategy, ...]:
    where_text = dict(where_items)
    if sizing is not None:
        return (_by_size(needs, sizing, where_text, unit, weight),)
    making = Making(where_text, unit.replace and not unit.keyed, weight, candidates)
    chosen: list[Statistic] = list(choices(needs, making))
    wanted = list(dict.fromkeys(_plain(needs)))
    shared = _shared(wanted) if rows_are_units else []
    asks = _asks([q for q in wanted if q not in shared])
    axes = len({axis for ask in asks for axis in ask.axes})
    sizes = (SIZES if axes < MANY else SMALL) if fine.enough and len(asks) > 1 else ()
    found: list[Strategy] = []
    for joint, size in ((True, 0), (False, 0), *((True, s) for s in sizes)):
        together = _together(asks, size, fine.resolution, where_text)
        if together is None:
            continue
        alone = _alone(wanted, together, where_text, unit, joint, weight, shared, rows_are_units, most_values)
        statistics = [*chosen, *together, *alone]
        if all(tuple(statistics) != other.statistics for other in found):
            estimates = _estimates(wanted, statistics, unit, weight, shared)
            found.append(Strategy(tuple(statistics), estimates))
        if size >= axes > 0:
            break
    return tuple(found)


def _by_size(
    needs: Sequence[Quantity], sizing: Sizing, where_text: Mapping[str | None, str], unit: Contribution, weight: int
) -> Strategy:
    """All that weighs rows in one statistic, so that each unit has one weight (Theorem SIZE-1); and counts of units."""
    wanted = list(dict.fromkeys(needs))
    weighed = [q for q in wanted if q.kind in SIZED]
    others = [q for q in wanted if q.kind not in SIZED]
    assert all(q.kind == "units" for q in others), "a limit on sizes bounds nothing else: ask may_have_size"
    statistics: list[Statistic] = [sized(weighed, sizing, where_text, weight)] if weighed else []
    statistics += [Units(q.where, where_text[q.where]) for q in others]
    return Strategy(tuple(statistics), _estimates(wanted, statistics, unit, weight, []))


def one_by_one(
    alone: Sequence[Strategy],
    needs: Sequence[Quantity],
    unit: Contribution,
    *,
    weight: int,
    rows_are_units: bool,
) -> Strategy | None:
    """What each aggregate would measure by itself, all of it: none has more noise than with an equal share of ε.

    None where choices are among them: those of one value are drawn together. None, too, where sizes are bounded: all
    that weighs a unit's rows rests on one weight.
    """
    statistics: list[Statistic] = []
    for statistic in (s for strategy in alone for s in strategy.statistics):
        if isinstance(statistic, Choice | Sized):
            return None
        if isinstance(statistic, Moments):
            known = [s for s in statistics if isinstance(s, Moments)]
            if any(replace(statistic, name=s.name) == s for s in known):
                continue
            statistic = replace(statistic, name=f"c{len(known)}")
        if statistic not in statistics:
            statistics.append(statistic)
    wanted = list(dict.fromkeys(_plain(needs)))
    shared = _shared(wanted) if rows_are_units else []
    return Strategy(tuple(statistics), _estimates(wanted, statistics, unit, weight, shared))


def _plain(needs: Iterable[Quantity]) -> Iterator[Quantity]:
    """Every value of a span of 0 is clipped to one constant: its total is a count."""
    for need in needs:
        yield need
        if need.kind == "total" and need.value is not None and need.value.grid.span == 0:
            yield power_sum(need.value, need.where, 0)


def _asks(wanted: Iterable[Quantity]) -> list[Ask]:
    """What could be measured together: the largest sets of axes first, each with the highest powers of all."""
    found = [ask for q in wanted if (ask := asked(q)) is not None and not _constant(ask)]
    return sorted(found, key=lambda ask: -len(ask.axes))


def _constant(ask: Ask) -> bool:
    return any(isinstance(axis, Value) and axis.grid.span == 0 for axis in ask.powers)


def _together(
    asks: Sequence[Ask], size: int, resolution: int, where_text: Mapping[str | None, str]
) -> list[Moments] | None:
    """Joint statistics of at most `size` axes each; 0: only of what can't be told otherwise. None: too large."""
    blocks: list[tuple[set[Axis], list[Ask]]] = []
    for ask in asks:
        needed = ask.relative or sum(isinstance(axis, Value) for axis in ask.axes) > 1
        fits = all(a.grid.span <= MAX_SPAN for a in ask.powers if isinstance(a, Value))
        if not fits or not (needed or (size and (ask.axes or blocks))):
            continue
        held = [b for b in blocks if ask.axes <= b[0]]
        room = [b for b in blocks if len(b[0] | ask.axes) <= size] if ask.axes else []
        block = max(held or room, key=lambda b: len(b[0] & ask.axes), default=None)
        if block is None:
            blocks.append(block := (set(), []))
        block[0].update(ask.axes)
        block[1].append(ask)
    for axes, mine in blocks:  # counts of rows that are divided anyway cost nothing
        mine += [ask for ask in asks if not ask.powers and ask.axes <= axes and ask not in mine]
    made = [moments(f"c{i}", mine, resolution, where_text) for i, (_, mine) in enumerate(blocks)]
    return None if size and any(one.width > MAX_CELLS for one in made) else made


def _alone(
    wanted: Sequence[Quantity],
    together: Sequence[Moments],
    where_text: Mapping[str | None, str],
    unit: Contribution,
    joint: bool,
    weight: int,
    shared: Sequence[Quantity],
    rows_are_units: bool,
    most_values: int | None,
) -> list[Statistic]:
    """A statistic for each value that is not measured together with others."""
    statistics: list[Statistic] = []
    for need in wanted:
        if need.kind != "total" or any(m.weights(need) is not None for m in together):
            continue
        assert need.value is not None
        value, where = need.value, need.where
        count, rows = power_sum(value, where, 0) in wanted, Quantity("rows", None, where) in wanted
        if value.grid.span == 0:
            continue
        if joint and (count or rows):
            statistics.append(Joint(value, where, rows and value.nullable, where_text[where]))
        else:
            statistics.append(Sum(value, where, count, where_text[where]))
    given = {q for s in statistics for q in s.quantities()}
    for need in wanted:
        if need.kind in ("rows", "present") and need not in given and need not in shared:
            if all(m.weights(need) is None for m in together):
                statistics.append(Count(need.value, need.where, where_text[need.where]))
        elif need.kind == "clipped":
            assert need.clip is not None
            statistics.append(Clipped(need.value, need.where, need.clip, where_text[need.where]))
        elif need.kind == "distinct":
            assert need.value is not None and unit.mass is not None
            most, own = int(unit.mass / weight) if most_values is None else most_values, most_values is not None
            statistics.append(Distinct(need.value, need.where, most, weight, where_text[need.where], own))
        elif need.kind == "units":
            statistics.append(Units(need.where, where_text[need.where], rows_are_units))
    return statistics


def _shared(wanted: Sequence[Quantity]) -> list[Quantity]:
    """Where each row is a unit: the numbers of rows that are a wanted number of units, and are counted as that."""
    return [q for q in wanted if q.kind == "rows" and Quantity("units", None, q.where) in wanted]


def _estimates(
    wanted: Sequence[Quantity],
    statistics: Sequence[Statistic],
    unit: Contribution,
    weight: int,
    shared: Sequence[Quantity],
) -> dict[Quantity, Linear]:
    offers: dict[Quantity, list[Linear]] = {}
    for index, statistic in enumerate(statistics):
        for quantity, weights in _offers(statistic, wanted):
            whole = 1 if quantity.kind in UNWEIGHTED else weight
            linear = Linear.of({(index, column): w / whole for column, w in enumerate(weights)})
            offers.setdefault(quantity, []).append(linear)
            if quantity.kind == "units" and Quantity("rows", None, quantity.where) in shared:
                offers.setdefault(Quantity("rows", None, quantity.where), []).append(linear)
    estimates = _reconciled(offers, [s.sensitivity(unit).l1 ** 2 for s in statistics])
    for need in wanted:
        if need in estimates:
            continue
        assert need.kind == "total" and need.value is not None, need
        estimates[need] = _total(need.value, need.where, estimates)
    return {q: estimates[q] for q in wanted}


def _offers(statistic: Statistic, wanted: Sequence[Quantity]) -> Iterator[tuple[Quantity, tuple[Fraction, ...]]]:
    if not isinstance(statistic, Moments):
        yield from statistic.quantities().items()
        return
    for quantity in wanted:  # it could tell many more
        weights = statistic.weights(quantity)
        if weights is not None:
            yield quantity, weights


def _reconciled(offers: Mapping[Quantity, Sequence[Linear]], variances: Sequence[Fraction]) -> dict[Quantity, Linear]:
    """The best linear unbiased estimate of each quantity, where several statistics tell the same (POST-1, GLS-1).

    Two offers for one quantity differ by noise alone. What an estimate has in common with such differences is taken
    off it, which helps also quantities that only one statistic tells.
    """
    first = {q: found[0] for q, found in offers.items()}
    differences = [_sum([(o, 1), (found[0], -1)]) for found in offers.values() for o in found[1:]]
    if not differences:
        return first
    if len(differences) > FEW:  # of very many, the same quantity alone
        return {q: _average(found, variances) for q, found in offers.items()}
    places = {p: i for i, p in enumerate(dict.fromkeys(p for d in differences for p, _ in d.terms))}
    spread = np.sqrt([float(variances[statistic]) for statistic, _ in places])
    along = np.column_stack([_column(d, places) * spread for d in differences])
    across = np.column_stack([_column(e, places) * spread for e in first.values()])
    size = np.linalg.norm(along, axis=0)  # quantities come in units of their own
    shares = np.linalg.lstsq(along / size, across, rcond=1e-9)[0] / size[:, None]
    return {
        quantity: _sum([(linear, 1), *((d, -_rational(c)) for d, c in zip(differences, column, strict=True))])
        for (quantity, linear), column in zip(first.items(), shares.T, strict=True)
    }


def _average(offers: Sequence[Linear], variances: Sequence[Fraction]) -> Linear:
    precisions = [1 / offer.variance(variances) for offer in offers]
    whole = sum(precisions, Fraction(0))
    return Linear.combine((offer, p / whole) for offer, p in zip(offers, precisions, strict=True))


def _sum(parts: Iterable[tuple[Linear, Fraction | int]]) -> Linear:
    return Linear.combine((linear, Fraction(factor)) for linear, factor in parts if factor)


def _column(linear: Linear, places: Mapping[NoisyColumn, int]) -> NDArray[np.float64]:
    column = np.zeros(len(places))
    for place, weight in linear.terms:
        if place in places:
            column[places[place]] = float(weight)
    return column


def _rational(share: float) -> Fraction:
    """To six digits: any share leaves an estimate unbiased, and one that is nearly the best costs next to nothing."""
    _, exponent = frexp(share)
    return Fraction(ldexp(share, -exponent)).limit_denominator(1000) * Fraction(2) ** exponent


def _total(value: Value, where: str | None, estimates: Mapping[Quantity, Linear]) -> Linear:
    """A total from its parts: Σx = Σ(x − c) + c · (number of values)."""
    count = estimates[power_sum(value, where, 0)]
    distance = estimates.get(Quantity("distance", value, where))
    if distance is None:
        return Linear.combine([(count, value.grid.low * value.grid.step)])
    centre = Sum(value, where, True).centre * value.grid.step
    return Linear.combine([(distance, Fraction(1)), (count, centre)])
