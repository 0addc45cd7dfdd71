"""Which statistics to measure for the quantities that a query needs, so that none is paid for twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.analyze.sensitivity import Contribution
from dpsql.statistics.base import UNWEIGHTED, Choice, Quantity, Statistic, Value
from dpsql.statistics.clipped import Clipped
from dpsql.statistics.count import Count
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.joint import Joint
from dpsql.statistics.moments import Moments
from dpsql.statistics.ranks import Extreme, Quantiles
from dpsql.statistics.tally import Spectrum
from dpsql.statistics.total import Sum
from dpsql.statistics.units import Units

Place = tuple[int, int]  # (statistic, column)
MAX_PARTS = 2**10  # into which the rows of one value are cut where several quantiles meet in it


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear combination of noisy integer columns, in natural units."""

    terms: tuple[tuple[Place, Fraction], ...]

    @classmethod
    def of(cls, weights: Mapping[Place, Fraction]) -> Linear:
        return cls(tuple(sorted((p, w) for p, w in weights.items() if w)))

    @classmethod
    def combine(cls, parts: Iterable[tuple[Linear, Fraction]]) -> Linear:
        weights: dict[Place, Fraction] = {}
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
    def spectra(self) -> tuple[Spectrum, ...]:
        """What choices look at."""
        return tuple(dict.fromkeys(s.spectrum for s in self.statistics if isinstance(s, Choice)))


def strategies(
    needs: Sequence[Quantity],
    where_text: Mapping[str | None, str],
    unit: Contribution,
    *,
    weight: int,
    rows_are_units: bool,
    candidates: int,
) -> list[Strategy]:
    """The candidates: sum and count measured jointly, or apart with the sums centred.

    weight: the integer that stands for one whole row. rows_are_units: a unit has one row, so where its units are
    counted anyway the number of rows is the same number (Theorem KEY-1: one noisy count for both). candidates: how
    many a choice may have in one cell.
    """
    chosen = list(_choices(needs, where_text, unit, weight, candidates))
    found: list[Strategy] = []
    for joint in (True, False):
        strategy = _strategy(needs, where_text, unit, joint, weight, rows_are_units, chosen)
        if all(strategy.statistics != other.statistics for other in found):
            found.append(strategy)
    return found


def _strategy(
    needs: Sequence[Quantity],
    where_text: Mapping[str | None, str],
    unit: Contribution,
    joint: bool,
    weight: int,
    rows_are_units: bool,
    chosen: Sequence[Statistic],
) -> Strategy:
    wanted = list(dict.fromkeys(needs))
    statistics: list[Statistic] = list(chosen)
    shared = _shared(wanted) if rows_are_units else []
    for need in wanted:
        if need.kind == "second":
            assert need.value is not None
            rows = Quantity("rows", None, need.where) in wanted
            statistics.append(Moments(need.value, need.where, rows and need.value.nullable, where_text[need.where]))
    given = {q for s in statistics for q in s.quantities()}
    for need in [n for n in wanted if n not in given]:
        if need.kind != "total":
            continue
        assert need.value is not None
        value, where = need.value, need.where
        count = Quantity("present", value, where) if value.nullable else Quantity("rows", None, where)
        rows = Quantity("rows", None, where) in wanted
        text = where_text[where]
        if value.grid.span == 0:  # every value is clipped to one constant: its total is a count
            wanted.append(count)
        elif joint and (count in wanted or rows):
            statistics.append(Joint(value, where, rows and value.nullable, text))
        elif count in wanted:
            statistics.append(Sum(value, where, True, text))
        else:
            statistics.append(Sum(value, where, False, text))
    given = {q for s in statistics for q in s.quantities()}
    for need in dict.fromkeys(wanted):
        if need.kind in ("rows", "present") and need not in given and need not in shared:
            statistics.append(Count(need.value, need.where, where_text[need.where]))
        elif need.kind == "clipped":
            assert need.clip is not None
            statistics.append(Clipped(need.value, need.where, need.clip, where_text[need.where]))
        elif need.kind == "distinct":
            assert need.value is not None and unit.mass is not None
            statistics.append(Distinct(need.value, need.where, int(unit.mass / weight), weight, where_text[need.where]))
        elif need.kind == "units":
            statistics.append(Units(need.where, where_text[need.where], rows_are_units))
    estimates = _estimates(list(dict.fromkeys(wanted)), statistics, unit, weight, shared)
    return Strategy(tuple(statistics), estimates)


def _choices(
    needs: Sequence[Quantity], where_text: Mapping[str | None, str], unit: Contribution, weight: int, candidates: int
) -> Iterator[Statistic]:
    """Extremes one by one; all quantiles of one value together."""
    single = unit.replace and not unit.keyed
    shares: dict[tuple[Value, str | None], set[Fraction]] = {}
    for need in dict.fromkeys(needs):
        if need.kind == "quantile":
            assert need.value is not None and need.at is not None
            shares.setdefault((need.value, need.where), set()).add(need.at)
        elif need.kind in ("least", "greatest"):
            assert need.value is not None
            yield Extreme(need.value, need.where, need.kind == "greatest", weight, single, where_text[need.where])
    for (value, where), at in shares.items():
        parts = 1 if len(at) == 1 else max(1, min(MAX_PARTS, candidates // (value.grid.span + 1)))
        yield Quantiles(value, where, tuple(sorted(at)), parts, single, where_text[where])


def _shared(wanted: Sequence[Quantity]) -> list[Quantity]:
    """The numbers of rows that are numbers of units which are wanted, too."""
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
        for quantity, weights in statistic.quantities().items():
            whole = 1 if quantity.kind in UNWEIGHTED else weight
            linear = Linear.of({(index, column): w / whole for column, w in enumerate(weights)})
            offers.setdefault(quantity, []).append(linear)
            if quantity.kind == "units" and Quantity("rows", None, quantity.where) in shared:
                offers.setdefault(Quantity("rows", None, quantity.where), []).append(linear)
    # Several unbiased estimates of one quantity are averaged, the better one more: they are there anyway (POST-1).
    variances = [s.sensitivity(unit).l1 ** 2 for s in statistics]
    estimates = {q: _average(found, variances) for q, found in offers.items()}
    for need in wanted:
        if need in estimates:
            continue
        assert need.kind == "total" and need.value is not None, need
        estimates[need] = _total(need.value, need.where, estimates)
    return {q: estimates[q] for q in wanted}


def _average(offers: Sequence[Linear], variances: Sequence[Fraction]) -> Linear:
    precisions = [1 / offer.variance(variances) for offer in offers]
    whole = sum(precisions, Fraction(0))
    return Linear.combine((offer, p / whole) for offer, p in zip(offers, precisions, strict=True))


def _total(value: Value, where: str | None, estimates: Mapping[Quantity, Linear]) -> Linear:
    """A total from its parts: Σx = Σ(x − c) + c · (number of values)."""
    count = estimates[Quantity("present", value, where) if value.nullable else Quantity("rows", None, where)]
    distance = estimates.get(Quantity("distance", value, where))
    if distance is None:
        return Linear.combine([(count, value.grid.low * value.grid.step)])
    centre = Sum(value, where, True).centre * value.grid.step
    return Linear.combine([(distance, Fraction(1)), (count, centre)])
