"""Counts, sums, squares, products and higher powers of one or several values, measured together without a split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import comb, prod

from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Tally, Value, power_sum

RESOLUTION_BITS = 30  # at most: a row's parts add up to 2^bits
MAX_SPAN = 2**62  # of the value's own integers: x − L fits BIGINT
MAX_CELLS = 100

Axis = Value | str  # a value, which is there where it is finite; or a FILTER's column, which is there where it is TRUE
Pattern = tuple[int, ...]  # which of the axes are there


@dataclass(frozen=True, slots=True)
class Ask:
    """A sum over the rows in which these axes are there, of a product of powers of u = (x − L)/(U − L)."""

    axes: frozenset[Axis]
    powers: Mapping[Axis, int]
    relative: bool = False  # to the range: nothing but a division of rows tells it

    @property
    def degree(self) -> int:
        return max(self.powers.values(), default=0)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows with one of these patterns, each divided over Π(degree + 1) cells."""

    patterns: tuple[Pattern, ...]
    degrees: tuple[int, ...]  # one for each axis


@dataclass(frozen=True, slots=True)
class Moments:
    """The tensor Bernstein basis of several values: a row divides `resolution` over the cells of its part, exactly.

    A value of degree n is divided into n + 1 cells, cell i with the share C(n, i)·uⁱ·(1−u)ⁿ⁻ⁱ.
    """

    name: str  # its columns in the statement start with it
    axes: tuple[Axis, ...]
    never: tuple[frozenset[str | None], ...]  # for each axis, in which rows it never lacks: None for all rows
    parts: tuple[Part, ...]
    resolution: int
    title: str

    @property
    def cells(self) -> tuple[tuple[Part, tuple[int, ...]], ...]:
        """Each column: its part, and how often each axis came out high."""
        return _cells(self.parts)

    @property
    def width(self) -> int:
        return len(self.cells)

    def degree(self, axis: Axis) -> int:
        """How finely an axis is divided, where it is divided most."""
        place = self.axes.index(axis)
        return max(part.degrees[place] for part in self.parts)

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return tuple(Tally("total", f"{self.name}_{i}") for i in range(self.width))

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem MOMENTS-1. What a row adds to the cells are non-negative integers that add up to resolution · weight,
        # or nothing: it has one pattern, hence one part, and each split leaves a part and the rest.
        return unit.joint(Fraction(self.resolution))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return list(tallies)

    def weights(self, quantity: Quantity) -> tuple[Fraction, ...] | None:
        """The quantity as a linear function of the cells; None where they don't tell it."""
        return _weights(self, quantity)

    def _told(self, quantity: Quantity) -> tuple[Fraction, ...] | None:
        if quantity.kind == "total":
            assert quantity.value is not None
            grid, value, where = quantity.value.grid, quantity.value, quantity.where
            count, first = (self.weights(power_sum(value, where, power)) for power in (0, 1))
            if count is None or first is None:
                return None
            low, span = grid.low * grid.step, grid.span * grid.step
            return tuple(low * n + span * u for n, u in zip(count, first, strict=True))
        ask = asked(quantity)
        if ask is None or not ask.axes <= set(self.axes):
            return None
        places = {i for i, axis in enumerate(self.axes) if axis in ask.axes}
        for i in places:  # a value that is never NULL where a FILTER holds tells nothing of other rows
            axis = self.axes[i]
            if isinstance(axis, Value) and not axis.nullable and not {None, quantity.where} & self.never[i]:
                return None
        powers = {i: ask.powers[axis] for i, axis in enumerate(self.axes) if axis in ask.powers}
        covered = {pattern for part in self.parts for pattern in part.patterns}
        if any(places <= set(pattern) and pattern not in covered for pattern in patterns(self.axes, self.never)):
            return None
        found: list[Fraction] = []
        for part, index in self.cells:
            inside = {places <= set(pattern) for pattern in part.patterns}
            if len(inside) > 1:
                return None
            if False in inside:
                found.append(Fraction(0))
                continue
            if any(part.degrees[i] < p for i, p in powers.items()):
                return None
            high, all_ = (prod(comb(n, p) for n, p in _pairs(of, powers)) for of in (index, part.degrees))
            found.append(Fraction(high, all_ * self.resolution))
        return tuple(found)

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        offers = ((q, self.weights(q)) for q in dict.fromkeys(self._offered()))
        return {q: weights for q, weights in offers if weights is not None}

    def _offered(self) -> Iterator[Quantity]:
        """All that could be asked of these axes: powers of each value, and products of two."""
        values = [(axis, self.degree(axis)) for axis in self.axes if isinstance(axis, Value)]
        for where in (None, *(axis for axis in self.axes if isinstance(axis, str))):
            yield Quantity("rows", None, where)
            for x, degree in values:
                yield Quantity("present", x, where)
                yield Quantity("total", x, where)
                yield from (power_sum(x, where, i) for i in range(degree + 1))
            for (x, i), (y, j) in combinations(values, 2):
                yield from (power_sum(x, where, a, y, b) for a in range(i + 1) for b in range(j + 1))


@lru_cache(maxsize=1024)
def _weights(of: Moments, quantity: Quantity) -> tuple[Fraction, ...] | None:
    """Asked for several times while candidates are compared."""
    return of._told(quantity)


def _pairs(of: Sequence[int], powers: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    return ((of[i], p) for i, p in powers.items())


@lru_cache(maxsize=256)
def _cells(parts: tuple[Part, ...]) -> tuple[tuple[Part, tuple[int, ...]], ...]:
    return tuple((part, index) for part in parts for index in product(*(range(d + 1) for d in part.degrees)))


def asked(quantity: Quantity) -> Ask | None:
    """A quantity as a sum of powers; None where it is none (units, what is clipped per unit)."""
    value, other = quantity.value, quantity.second
    axes = frozenset(axis for axis in (quantity.where, value, other) if axis is not None)
    match quantity.kind:
        case "rows" | "present":
            return Ask(axes, {})
        case "total":
            assert value is not None
            return Ask(axes, {value: 1})
        case "first" | "second":
            assert value is not None
            return Ask(axes, {value: 1 if quantity.kind == "first" else 2}, True)
        case "moment":
            assert value is not None
            powers = dict(zip((value, other), quantity.powers, strict=True))
            return Ask(axes, {axis: power for axis, power in powers.items() if axis is not None and power}, True)
        case _:
            return None


def patterns(axes: Sequence[Axis], never: Sequence[frozenset[str | None]]) -> Iterator[Pattern]:
    """Which axes can be there together: any of them, and always a value that never lacks where a FILTER holds."""
    for size in range(len(axes), -1, -1):
        for chosen in combinations(range(len(axes)), size):
            held = {None, *(axis for i in chosen if isinstance(axis := axes[i], str))}
            if all(i in chosen or not never[i] & held for i in range(len(axes))):
                yield chosen


def moments(name: str, asks: Iterable[Ask], resolution: int, texts: Mapping[str | None, str]) -> Moments:
    """The coarsest division of rows that tells all of this.

    Patterns that no ask tells apart are one part, each part is divided no more than what it is asked for needs.
    """
    wanted = list(asks)
    axes = tuple(dict.fromkeys(axis for ask in wanted for axis in sorted(ask.axes, key=_order)))
    never = tuple(frozenset(_never(axis, wanted)) for axis in axes)
    found: dict[tuple[int, ...], list[Pattern]] = {}
    for pattern in patterns(axes, never):
        there = {axes[i] for i in pattern}
        inside = tuple(i for i, ask in enumerate(wanted) if ask.axes <= there)
        if inside:
            found.setdefault(inside, []).append(pattern)
    parts = tuple(
        Part(tuple(group), tuple(max((wanted[i].powers.get(axis, 0) for i in inside), default=0) for axis in axes))
        for inside, group in found.items()
    )
    return Moments(name, axes, never, parts, resolution, _title(axes, wanted, texts))


def _never(axis: Axis, wanted: Iterable[Ask]) -> Iterator[str | None]:
    """In which rows it never lacks: a value's range is that of the rows it is asked of."""
    if isinstance(axis, Value) and not axis.nullable:
        for ask in wanted:
            if axis in ask.axes:
                yield next((a for a in ask.axes if isinstance(a, str)), None)


def _order(axis: Axis) -> tuple[bool, str]:
    return (isinstance(axis, Value), axis.column if isinstance(axis, Value) else axis)


def _title(axes: Sequence[Axis], wanted: Sequence[Ask], texts: Mapping[str | None, str]) -> str:
    values = [axis.text for axis in axes if isinstance(axis, Value)]
    degree = max(ask.degree for ask in wanted)
    crossed = any(len(ask.powers) > 1 for ask in wanted)
    words = ["count", *(["sum"] if degree else []), *(["squares"] if degree > 1 else [])]
    words += [*(["products"] if crossed else []), *(["third powers"] if degree > 2 else [])]
    words += ["fourth powers"] if degree > 3 else []
    rows = any(not any(isinstance(axis, Value) for axis in ask.axes) for ask in wanted)
    filters = [texts[axis].removeprefix(" where ") for axis in axes if isinstance(axis, str)]
    what = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    if not values:
        return f"count of rows by {', '.join(filters)} jointly"
    always = all(axis in ask.axes for ask in wanted for axis in axes if isinstance(axis, str))
    where = f"{' where' if always else ' by'} {', '.join(filters)}" if filters else ""
    listed = values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"
    return f"{what}{' (and rows)' if rows else ''} of {listed} jointly{where}"
