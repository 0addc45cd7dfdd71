"""What limits cut, in intervals: how far the rows that may be missing from a cell can move what is shown (CUT-1).

All of it is computed from noisy tables and released counts of units: post-processing (Theorem POST-1). A limit cuts at
most so much in all cells together, and any cell may have lost all of that. No cell has lost more than so many times
what it kept. Nothing is assumed of how groups differ. The rows that are missing may have any values of the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call, Rational
from dpsql.aggregates.clipping_bias import Clipping, ClippingBias
from dpsql.aggregates.noisy import Noisy
from dpsql.core.arrays import Integers, plus
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Quantity, Value
from dpsql.statistics.choices import CHOSEN

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_BY_UNIT = ("units", "clipped")  # what is counted for each unit and group: only limits on groups cut it
_STEPS = (0.25, 0.5, 1.0)  # of the rows that may be missing, at which an aggregate is looked at
_MOST_CORNERS = 16  # ways in which the missing rows' values may lie at the ends of their ranges


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """How far what is cut moves something in each cell: about, and at most down and up. Infinite: nobody knows."""

    about: Floats
    down: Floats  # ≥ 0
    up: Floats  # ≥ 0

    def __bool__(self) -> bool:
        return bool(np.any(self.down > 0) or np.any(self.up > 0))


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """The rows and units that may be missing from each cell of a table, and about which part of its rows are."""

    rows: Floats
    units: Floats
    values: Floats
    share: float
    share_of_units: float

    def of(self, kind: str) -> tuple[Floats, float]:
        """What may be missing of a kind of quantities, and about which part of them is."""
        match _cut_as(kind):
            case "units":
                return self.units, self.share_of_units
            case "values":
                return self.values, 0.0  # others may have the same values: about how many are lost, nobody knows
            case _:
                return self.rows, self.share


def _cut_as(kind: str) -> str:
    """By which limits a kind of quantities is cut."""
    return "units" if kind in _BY_UNIT else "values" if kind == "distinct" else "rows"


def missing_from(noisy: Noisy, noise: float, confidence: float, quantities: Mapping[Quantity, Rational]) -> Missing:
    """What may be missing from each cell. noise: half of the width of the noise of a number of rows."""
    bias = noisy.bias or ClippingBias()
    kept = _rows_kept(noisy, quantities) + noise
    rows = np.zeros(noisy.count)
    for clipping in bias.rows:
        rows = rows + _at_most(clipping, confidence, noise, kept)
    units = np.zeros(noisy.count)
    if bias.units is not None:
        units = _at_most(bias.units, confidence, noise, kept)
    values = rows
    if bias.values is not None:
        values = np.full(noisy.count, bias.values.at_most(confidence, noise))
        if bias.left_out is not None:
            values = values + _at_most(bias.left_out, confidence, noise, _values_kept(noisy, quantities) + noise)
    kept_share = float(np.prod([1 - clipping.share for clipping in bias.rows]))
    share = 1 / kept_share - 1 if kept_share > 0 else 0.0
    of_units = 0.0 if bias.units is None else bias.units.share / max(1 - bias.units.share, 1e-9)
    return Missing(rows, units, values, share, of_units)


def _at_most(clipping: Clipping, confidence: float, noise: float, kept: Floats) -> Floats:
    if not clipping.known:
        return np.full(len(kept), np.inf)
    return np.minimum(clipping.at_most(confidence, noise), np.maximum(kept, 0.0) * (clipping.times - 1))


def _rows_kept(noisy: Noisy, quantities: Mapping[Quantity, Rational]) -> Floats:
    """The rows (or units) that each cell shows; infinite where neither was measured."""
    for kind in ("rows", "present", "units"):
        for quantity in quantities:
            if quantity.kind == kind and quantity.where is None:
                return quantities[quantity].floats
    return np.full(noisy.count, np.inf)


def _values_kept(noisy: Noisy, quantities: Mapping[Quantity, Rational]) -> Floats:
    """The most different values that each cell shows of anything."""
    found = [numbers.floats for quantity, numbers in quantities.items() if quantity.kind == "distinct"]
    return np.max(found, axis=0) if found else np.full(noisy.count, np.inf)


# ---------------------------------------------------------------- one aggregate


@np.errstate(all="ignore")  # a cell without an answer has no interval
def moved_aggregate(
    noisy: Noisy, aggregate: int, quantities: Mapping[Quantity, Rational], noise: float, confidence: float
) -> Moved | None:
    """How far what is cut moves one aggregate in each cell; None where nothing is cut.

    It is computed again with the missing rows, for each way in which their values may lie at the ends of the range, or
    at the mean. An average, a variance or a correlation is extreme at such a way, or close to it.
    """
    bias = noisy.bias
    if bias is None or not bias.cuts:
        return None
    call = noisy.step.calls[aggregate]
    recipe = RECIPES[call.function]
    needs = recipe.needs(call)
    missing = missing_from(noisy, noise, confidence, quantities)
    kinds = {_cut_as(q.kind) for q in needs}
    amount, share = missing.of(needs[0].kind if len(kinds) == 1 else "rows")
    if not np.any(amount > 0):
        return None
    centre = recipe.spread(call, quantities).centre
    if not np.isfinite(amount).all():
        return _unknown(call, needs, centre)
    ends = [centre]
    for added in _additions(bias, aggregate, call, needs, quantities, amount):
        ends.append(recipe.spread(call, _Added(quantities, added)).centre)
    table = np.stack(ends)
    low, high = np.fmin.reduce(table, axis=0), np.fmax.reduce(table, axis=0)
    grows = (
        all(q.kind in ("rows", "present", "total", "units", "clipped", "distinct") for q in needs) and len(needs) == 1
    )
    about = centre * share if grows else np.zeros(noisy.count)
    down, up = (np.where(np.isfinite(x), np.maximum(x, 0.0), 0.0) for x in (centre - low, high - centre))
    return Moved(np.where(np.isfinite(about), about, 0.0), down, up)


def _unknown(call: Call, needs: Sequence[Quantity], centre: Floats) -> Moved:
    """Nobody knows how much is missing: a number of rows is a lower bound, and a sum of one sign a bound, too."""
    nothing, anything = np.zeros(len(centre)), np.full(len(centre), np.inf)
    down = any(_low(q) < 0 for q in needs) or len(needs) > 1
    up = any(_high(q) > 0 for q in needs) or len(needs) > 1
    return Moved(nothing, anything if down else nothing, anything if up else nothing)


def _low(quantity: Quantity) -> float:
    """The least that one row adds."""
    if quantity.kind == "clipped" and quantity.clip is not None and quantity.value is None:
        return float(quantity.clip.low)
    if quantity.kind not in ("total", "clipped") or quantity.value is None:
        return 0.0
    if quantity.clip is not None:
        return float(quantity.clip.low * quantity.value.grid.step)
    return float(quantity.value.grid.low * quantity.value.grid.step)


def _high(quantity: Quantity) -> float:
    """The most that one row adds."""
    if quantity.kind == "clipped" and quantity.clip is not None:
        step = 1 if quantity.value is None else quantity.value.grid.step
        return float(quantity.clip.high * step)
    if quantity.kind != "total" or quantity.value is None:
        return 1.0
    return float(quantity.value.grid.high * quantity.value.grid.step)


Point = Mapping[Value, Floats]
"""Where the missing rows of each cell lie, relative to the range of each value: 0 its low end, 1 its high end."""


def _additions(
    bias: ClippingBias,
    aggregate: int,
    call: Call,
    needs: Sequence[Quantity],
    quantities: Mapping[Quantity, Rational],
    amount: Floats,
) -> Iterator[Mapping[Quantity, Floats]]:
    """What the missing rows may add to each quantity."""
    count = len(amount)
    corners = [
        {value: np.full(count, float(end)) for value, end in zip(call.values, ends, strict=True)}
        for ends in product((0, 1), repeat=len(call.values))
    ]
    middle = _means(call, quantities, count)
    points = corners if middle is None else [*corners, middle]
    for point in points:
        whole = _rows_at(bias, aggregate, call, point, amount)
        for step in _STEPS if len(needs) > 1 else (1.0,):
            yield {q: whole * step * _of_one_row(q, point) for q in needs}
    if len(needs) > 2:  # variances and their kind: some of the rows at one end, and some at another
        for i, one in enumerate(points):
            for other in points[i + 1 :]:
                halves = [_rows_at(bias, aggregate, call, p, amount) / 2 for p in (one, other)]
                yield {q: halves[0] * _of_one_row(q, one) + halves[1] * _of_one_row(q, other) for q in needs}


def _means(call: Call, quantities: Mapping[Quantity, Rational], count: int) -> Point | None:
    """The point of the means of the rows that are there; None for one quantity alone."""
    means: dict[Value, Floats] = {}
    for place, value in enumerate(call.values):
        first = call.powers(1, 0) if place == 0 else call.powers(0, 1)
        rows = call.powers(0, 0)
        if first not in quantities or rows not in quantities:
            return None
        mean = quantities[first].floats / np.maximum(quantities[rows].floats, 1.0)
        means[value] = np.clip(np.where(np.isfinite(mean), mean, 0.5), 0.0, 1.0)
    return means or None


def _rows_at(bias: ClippingBias, aggregate: int, call: Call, point: Point, amount: Floats) -> Floats:
    """How many rows may be missing if they lie at a point: fewer where values count for the size of a unit (SIZE-1)."""
    scale = None if bias.sizes is None else bias.sizes.get(aggregate)
    if scale is None or call.value is None:
        return amount
    of_values = np.abs(_at(call.value, point)) / scale
    each = of_values + (1.0 if bias.counted else 0.0)
    return np.divide(amount, each, out=np.zeros_like(amount), where=each > 0)


def _at(value: Value, point: Point) -> Floats:
    grid = value.grid
    low, span = float(grid.low * grid.step), float(grid.span * grid.step)
    return low + span * point[value]


def _of_one_row(quantity: Quantity, point: Point) -> Floats | float:
    """What one row at a point adds to a quantity."""
    match quantity.kind:
        case "total":
            assert quantity.value is not None
            return _at(quantity.value, point)
        case "clipped":
            return (
                _high(quantity)
                if quantity.value is None
                else np.where(point[quantity.value] > 0, _high(quantity), _low(quantity))
            )
        case "first" | "second":
            assert quantity.value is not None
            return point[quantity.value] ** (1 if quantity.kind == "first" else 2)
        case "moment":
            assert quantity.value is not None
            first = point[quantity.value] ** quantity.powers[0]
            return first if quantity.second is None else first * point[quantity.second] ** quantity.powers[1]
        case _:
            return 1.0


class _Added(Mapping[Quantity, Rational]):
    """Quantities with something added to some of them."""

    def __init__(self, quantities: Mapping[Quantity, Rational], added: Mapping[Quantity, Floats]) -> None:
        self._quantities, self._added = quantities, added

    def __getitem__(self, quantity: Quantity) -> Rational:
        found = self._quantities[quantity]
        if quantity not in self._added:
            return found
        return Rational(found.floats + self._added[quantity], 1)

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self._quantities)

    def __len__(self) -> int:
        return len(self._quantities)


# ---------------------------------------------------------------- computed row by row


Term = tuple[int, Quantity, Floats]
"""Of an expression: an aggregate, a quantity that it is made of, and how the expression moves with that, row by row."""


@np.errstate(all="ignore")
def moved_expression(
    noisy: Noisy,
    terms: Sequence[Term],
    values: Floats,
    cells: NDArray[np.int64],
    quantities: Mapping[Quantity, Rational],
) -> Moved | None:
    """How far what is cut moves an expression with these slopes and values; None where nothing is cut.

    cells: that its rows show. To first order; what doesn't grow with its cell (a ratio) moves less the more is missing.
    """
    bias = noisy.bias
    if bias is None or not bias.cuts or not terms:
        return None
    missing = missing_from(noisy, 0.0, CONFIDENCE, quantities)
    about, down, up = (np.zeros(len(cells)) for _ in range(3))
    for kind in ("rows", "units", "distinct"):
        amount, share = missing.of(kind)
        mine = [term for term in terms if _cut_as(term[1].kind) == _cut_as(kind)]
        if not mine or not np.any(amount > 0):
            continue
        amount = amount[cells]
        least, most = _reach(noisy, bias, mine, amount)
        along = sum((slope * quantities[q].floats[cells] for _, q, slope in mine), np.zeros(len(cells)))
        degree = np.clip(np.where(values == 0, 1.0, along / values), 0.0, 1.0)
        kept = np.maximum(_rows_kept(noisy, quantities)[cells], 1.0)
        damped = np.where(np.isfinite(amount), (1 + amount / kept) ** (degree - 1), 1.0)
        about, down, up = about + share * along, down - least * damped, up + most * damped
    found = Moved(*(np.where(np.isnan(x), 0.0, x) for x in (about, down, up)))
    return found if found else None


def _reach(noisy: Noisy, bias: ClippingBias, terms: Sequence[Term], amount: Floats) -> tuple[Floats, Floats]:
    """The least and the most that the missing rows of each cell add to an expression."""
    wheres: dict[str | None, tuple[Floats, Floats]] = {}
    groups: dict[object, list[Term]] = {}
    for term in terms:
        quantity = term[1]
        groups.setdefault((quantity.where, quantity.value, quantity.second), []).append(term)
    for members in groups.values():
        ends = np.stack([_added_at(noisy, bias, members, corner, amount) for corner in _corners(members, len(amount))])
        where = members[0][1].where
        low, high = wheres.get(where, (np.zeros(len(amount)), np.zeros(len(amount))))
        wheres[where] = (low + ends.min(axis=0), high + ends.max(axis=0))
    least, most = wheres.pop(None, (np.zeros(len(amount)), np.zeros(len(amount))))
    for low, high in wheres.values():  # a missing row passes a FILTER, or it doesn't
        least, most = least + np.minimum(low, 0.0), most + np.maximum(high, 0.0)
    return np.minimum(least, 0.0), np.maximum(most, 0.0)


def _corners(members: Sequence[Term], count: int) -> list[Point]:
    values = list(dict.fromkeys(v for _, q, _ in members for v in (q.value, q.second) if v is not None))
    ends = list(product((0, 1), repeat=len(values)))[:_MOST_CORNERS]
    return [{v: np.full(count, float(e)) for v, e in zip(values, one, strict=True)} for one in ends]


def _added_at(noisy: Noisy, bias: ClippingBias, members: Sequence[Term], corner: Point, amount: Floats) -> Floats:
    """What missing rows that lie at a corner add to an expression."""
    added = np.zeros(len(amount))
    for aggregate, quantity, slope in members:
        whole = amount
        if quantity.value is not None:
            whole = _rows_at(bias, aggregate, noisy.step.calls[aggregate], corner, amount)
        one = slope * _of_one_row(quantity, corner)
        added = added + np.where(one == 0, 0.0, whole * one)
    return added


# ---------------------------------------------------------------- for simulations


def with_what_is_cut(
    noisy: Noisy,
    own: Mapping[Quantity, Rational],
    drawn: Mapping[Quantity, Rational],
    draws: int,
    random: np.random.Generator,
) -> dict[Quantity, Rational]:
    """Quantities of many draws of a table, each with what may be cut of it.

    own: the table's own; drawn: those of all its draws, one after the other. All cells of a draw share one amount,
    between nothing and the most that may be cut: they lose it in proportion to their rows, or one cell loses it all.
    """
    found = dict(drawn)
    bias = noisy.bias
    if bias is None or not bias.cuts:
        return found
    missing = missing_from(noisy, 0.0, CONFIDENCE, own)
    whole = {kind: _total(bias, kind) for kind in ("rows", "units", "values")}
    part = _shared_out(_rows_kept(noisy, own), draws, random)
    size = random.random(draws).repeat(noisy.count)
    for quantity, numbers in drawn.items():
        if quantity.kind in CHOSEN:
            continue
        most = np.tile(missing.of(quantity.kind)[0], draws)
        rows = np.minimum(part * whole[_cut_as(quantity.kind)] * size, most)
        point = {
            v: random.random(draws).repeat(noisy.count) for v in (quantity.value, quantity.second) if v is not None
        }
        shift = _rows_of_quantity(noisy, bias, quantity, point, rows) * _of_one_row(quantity, point)
        found[quantity] = Rational(
            plus(numbers.numerators, _integers(shift * numbers.denominator)), numbers.denominator
        )
    return found


def _total(bias: ClippingBias, kind: str) -> float:
    """The most that is cut in all cells together; 0 where nobody knows, which is said elsewhere."""
    every = bias.rows
    if kind == "units":
        every = () if bias.units is None else (bias.units,)
    elif kind == "values" and bias.values is not None:
        every = tuple(one for one in (bias.values, bias.left_out) if one is not None)
    amounts = [clipping.at_most(CONFIDENCE) for clipping in every]
    return sum(amount for amount in amounts if np.isfinite(amount))


def _shared_out(kept: Floats, draws: int, random: np.random.Generator) -> Floats:
    """For each cell of each draw its part of what all cells lose."""
    count = len(kept)
    if count == 0:  # no key was found
        return np.zeros(0)
    even = np.maximum(np.where(np.isfinite(kept), kept, 1.0), 1e-9)
    parts = np.tile(even / even.sum(), (draws, 1))
    alone = random.random(draws) < 0.5
    parts[alone] = 0.0
    parts[np.flatnonzero(alone), random.integers(0, count, int(alone.sum()))] = 1.0
    return np.asarray(parts.ravel())


def _rows_of_quantity(noisy: Noisy, bias: ClippingBias, quantity: Quantity, point: Point, rows: Floats) -> Floats:
    for aggregate, call in enumerate(noisy.step.calls):
        if quantity.value is not None and call.value == quantity.value:
            return _rows_at(bias, aggregate, call, point, rows)
    return rows


def _integers(numbers: Floats) -> Integers:
    numbers = np.where(np.isfinite(numbers), numbers, 0.0)
    if np.abs(numbers).max(initial=0.0) < 2.0**62:
        return np.rint(numbers).astype(np.int64)
    return np.array([int(n) for n in numbers], dtype=object)
