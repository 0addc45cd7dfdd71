"""What limits and ranges cut is part of every interval (Theorem CUT-1): how far they move what is shown, and which way.

All of it is computed from noisy tables and released counts of units: post-processing (Theorem POST-1). In each cell a
share t of the rows is lost, between none and t⁺. What else is added up there loses the same share of itself, give or
take: up to twice as much, or nothing. Cells lose different shares, by assumption at most SKEW times what all lose
together, and what single units make of that. A unit with values outside of a range has at most its width beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates.base import Rational
from dpsql.aggregates.loss import Loss, Share
from dpsql.aggregates.noisy import Noisy
from dpsql.core.exact import Integers, plus
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Quantity, Value
from dpsql.statistics.choices import CHOSEN

Floats = NDArray[np.float64]

SKEW = 3.0  # no group loses more than this many times the share that all lose together
LUMPS = 2.0  # standard deviations of how many cut units a group happens to have

ASSUMED = (
    f"± holds what is cut, if no group loses more than {SKEW:g} times the share that all lose together, no unit has "
    "far more than those that were counted, and a unit's values beyond a range are no more than its width"
)

_BY_UNIT = ("units", "clipped")  # what is counted for each unit and group: only limits on groups cut it


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """How far what is cut moves something in each cell: about, and at most down and up."""

    about: Floats
    down: Floats  # ≥ 0
    up: Floats  # ≥ 0

    def __bool__(self) -> bool:
        return bool(np.any(self.down > 0) or np.any(self.up > 0))


@np.errstate(all="ignore")  # a cell without an interval has no slopes
def moved_by_cut(
    noisy: Noisy,
    quantities: Mapping[Quantity, Rational],
    slopes: Sequence[tuple[Quantity, Floats]],
    centre: Floats,
    cells: NDArray[np.int64] | None = None,
) -> Moved | None:
    """How what is cut moves something with these slopes in each cell, and this value; None where nothing is cut.

    cells: those that the slopes are of; None: all, in their order.
    """
    loss = noisy.loss
    if loss is None or not slopes:
        return None
    together: dict[Quantity, Floats] = {}
    for quantity, slope in slopes:
        together[quantity] = together[quantity] + slope if quantity in together else slope
    count = len(next(iter(together.values())))
    about, down, up = np.zeros(count), np.zeros(count), np.zeros(count)
    for share, mine in _by_share(noisy, loss, together):
        if share.most > 0:
            one = _limited(loss, share, mine, quantities, noisy.count, centre, cells)
            about, down, up = about + one.about, down + one.down, up + one.up
    for one in _ranged(noisy, loss, together, quantities, cells):
        about, down, up = about + one.about, down + one.down, up + one.up
    found = Moved(*(np.where(np.isfinite(x), x, 0.0) for x in (about, down, up)))
    return found if found else None


# ---------------------------------------------------------------- limits


def _by_share(
    noisy: Noisy, loss: Loss, slopes: Mapping[Quantity, Floats]
) -> list[tuple[Share, Mapping[Quantity, Floats]]]:
    """The quantities by what is cut of them: along with rows, with units in groups, or of one sum by its own limit."""
    totals = {
        (value, call.where): total.share
        for total in loss.totals
        for call in (noisy.step.calls[total.aggregate],)
        for value in call.values[:1]
    }
    own = {q: s for q, s in slopes.items() if q.kind == "total" and (q.value, q.where) in totals}
    others = {q: s for q, s in slopes.items() if q not in own}
    found: list[tuple[Share, Mapping[Quantity, Floats]]]
    found = [(totals[q.value, q.where], {q: s}) for q, s in own.items() if q.value is not None]
    for share, by_unit in ((loss.rows, False), (loss.units, True)):
        mine = {q: s for q, s in others.items() if (q.kind in _BY_UNIT) == by_unit}
        if share is not None and mine:
            found.append((share, mine))
    return found


def _limited(
    loss: Loss,
    share: Share,
    slopes: Mapping[Quantity, Floats],
    quantities: Mapping[Quantity, Rational],
    count: int,
    centre: Floats,
    cells: NDArray[np.int64] | None,
) -> Moved:
    """What is cut along with all rows of a cell, and what of each quantity may be cut apart from that.

    Where everything is t times larger, an average stays as it is, and what moves it is divided by 1 + t, too.
    """
    most = _taken(_most(loss, share, slopes, quantities, count), cells)
    along = np.zeros(len(most))
    values: dict[object, Floats] = {}
    for quantity, slope in slopes.items():
        along = along + slope * _taken(_shown(quantity, quantities), cells)
        of = (quantity.value, quantity.second, quantity.where)
        moved = slope * _taken(_deviation(quantity, share, quantities, count, own=_is_own(loss, share)), cells)
        values[of] = values[of] + moved if of in values else moved
    apart = np.asarray(sum((np.abs(one) for one in values.values()), np.zeros(len(most))))
    degree = np.clip(np.where(centre == 0, 1.0, along / centre), 0.0, 1.0)
    apart = apart * (1 + most) ** (degree - 1)
    up, down = np.maximum(0.0, along + apart), np.maximum(0.0, apart - along)
    return Moved(share.about * along, most * down, most * up)


def _most(
    loss: Loss, share: Share, slopes: Mapping[Quantity, Floats], quantities: Mapping[Quantity, Rational], count: int
) -> Floats:
    """The largest share t⁺ that each cell may lose: of all that is lost, no more than all of it."""
    if not loss.keyed:
        return np.full(count, share.most)
    rows = _amounts(slopes, quantities, count) if _is_own(loss, share) else _rows(slopes, quantities, share, count)
    granular = LUMPS * np.sqrt(share.most * rows * share.lumps) / rows
    return np.asarray(np.minimum(SKEW * share.most + granular, share.most * np.maximum(rows.sum() / rows, 1.0)))


def _is_own(loss: Loss, share: Share) -> bool:
    """Is it what a limit on one unit's total cuts of a sum, not what is cut of rows?"""
    return any(share is total.share for total in loss.totals)


def _amounts(slopes: Mapping[Quantity, Floats], quantities: Mapping[Quantity, Rational], count: int) -> Floats:
    """About how much each cell's sum is, and no less than a thousandth of the average."""
    (quantity,) = slopes
    sizes = np.abs(quantities[quantity].floats)
    return np.asarray(np.maximum(sizes, max(sizes.sum() / max(count, 1) / 1000, 1e-300)))


def _rows(
    slopes: Mapping[Quantity, Floats], quantities: Mapping[Quantity, Rational], share: Share, count: int
) -> Floats:
    """About how many rows (or units) each cell has, at least one: as measured, or an equal part of all."""
    plain = [q for q in quantities if q.kind in ("rows", "units") and q.where is None]
    mine = [q for q in slopes if q.kind in ("rows", "units", "present")]
    if found := [*plain, *mine]:
        return np.maximum(quantities[found[0]].floats, 1.0)
    return np.full(count, max(share.kept / max(count, 1), 1.0))


def _deviation(
    quantity: Quantity, share: Share, quantities: Mapping[Quantity, Rational], count: int, *, own: bool
) -> Floats:
    """By how much, for each share that is lost, what is lost of a quantity may differ from that share of it.

    own: the share is of this very sum, so that there is no difference while all values have one sign.

    All rows are what the share is of, NULL or not. Of those that pass a filter up to twice as many may be lost, or
    none. What is lost of a sum has an average no further from the sum's own than the nearer end of the range is.
    """
    if quantity.where is None and quantity.kind in ("rows", "units", "present"):
        return np.zeros(count)
    value = _shown(quantity, quantities)
    if not _crosses_zero(quantity):
        return np.zeros(count) if own else np.abs(value)
    assert quantity.value is not None
    low, high = _ends(quantity.value)
    rows = _rows({}, quantities, share, count)
    mean = np.clip(value / rows, low, high)
    return np.asarray(rows * np.minimum(mean - low, high - mean))


def _crosses_zero(quantity: Quantity) -> bool:
    """May it be of either sign?"""
    if quantity.kind not in ("total", "clipped") or quantity.value is None:
        return False
    low, high = _ends(quantity.value)
    return low < 0 < high


def _shown(quantity: Quantity, quantities: Mapping[Quantity, Rational]) -> Floats:
    """A quantity in each cell; none where noise alone makes it fall below 0."""
    value = quantities[quantity].floats
    if _crosses_zero(quantity) or (quantity.value is not None and _ends(quantity.value)[1] <= 0):
        return value
    return np.maximum(value, 0.0)


def _ends(value: Value) -> tuple[float, float]:
    grid = value.grid
    return float(grid.low * grid.step), float(grid.high * grid.step)


# ---------------------------------------------------------------- ranges


def _ranged(
    noisy: Noisy,
    loss: Loss,
    slopes: Mapping[Quantity, Floats],
    quantities: Mapping[Quantity, Rational],
    cells: NDArray[np.int64] | None,
) -> list[Moved]:
    """Values beyond the ends of a range: on which side isn't known, the end that is further from 0 is likelier."""
    found: dict[tuple[Value, str | None], tuple[float, float]] = {}
    for one in loss.outside:
        call = noisy.step.calls[one.aggregate]
        if one.place < len(call.values):
            found[call.values[one.place], call.where] = one.about, one.most
    moves = []
    for quantity, slope in slopes.items():
        for place, value in enumerate((quantity.value, quantity.second)):
            units = None if value is None else found.get((value, quantity.where))
            if units is None or value is None or quantity.kind in ("present", "distinct"):
                continue
            low, high = _ends(value)
            reach = high - low if quantity.kind == "total" else 2.0 ** max(1, _power(quantity, place)) - 1
            mine = _taken(_portion(loss, quantities[quantity].floats, units[1]), cells)
            even = _taken(_portion(loss, quantities[quantity].floats, units[1], skew=1.0, lumps=0.0), cells)
            wide = np.abs(slope) * units[1] * mine * reach
            sign = 1.0 if abs(high) >= abs(low) or quantity.kind != "total" else -1.0
            moves.append(Moved(sign * slope * units[0] * even * reach / 2, wide, wide))
    return moves


def _power(quantity: Quantity, place: int) -> int:
    return {"first": 1, "second": 2}.get(quantity.kind, quantity.powers[place])


def _portion(loss: Loss, values: Floats, units: float, *, skew: float = SKEW, lumps: float = LUMPS) -> Floats:
    """Which part of the units with a value outside each cell may hold, by its part of what is added up."""
    if not loss.keyed:
        return np.ones(len(values))
    whole = np.abs(values).sum()
    part = np.abs(values) / whole if whole else np.full(len(values), 1 / max(len(values), 1))
    return np.minimum(1.0, skew * part + lumps * np.sqrt(part / max(units, 1.0)))


def _taken(values: Floats, cells: NDArray[np.int64] | None) -> Floats:
    return values if cells is None else values[cells]


# ---------------------------------------------------------------- for simulations


def with_what_is_cut(
    noisy: Noisy,
    own: Mapping[Quantity, Rational],
    drawn: Mapping[Quantity, Rational],
    draws: int,
    random: np.random.Generator,
) -> dict[Quantity, Rational]:
    """Quantities of many draws of a table, each with what may be cut of it, evenly between the least and the most.

    own: the table's own; drawn: those of all its draws, one after the other.
    """
    found = dict(drawn)
    for quantity, numbers in drawn.items():
        moved = None
        if quantity.kind not in CHOSEN:
            moved = moved_by_cut(noisy, own, [(quantity, np.ones(noisy.count))], own[quantity].floats)
        if moved is not None:
            down, up = np.tile(moved.down, draws), np.tile(moved.up, draws)
            shift = (random.random(len(up)) * (down + up) - down) * numbers.denominator
            found[quantity] = Rational(plus(numbers.numerators, _integers(shift)), numbers.denominator)
    return found


def _integers(numbers: Floats) -> Integers:
    if np.abs(numbers).max(initial=0.0) < 2.0**62:
        return np.rint(numbers).astype(np.int64)
    return np.array([int(n) for n in numbers], dtype=object)
