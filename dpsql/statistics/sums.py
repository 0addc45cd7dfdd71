"""Sums of a value; counts and sums that are clipped once for each unit and group; sum, count and average of one value,
measured together without splitting the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from dpsql.core.arrays import minus, times
from dpsql.core.frozen import dataclass
from dpsql.core.grid import MAX_INTEGER, MAX_SCALE, Grid, choose_grid
from dpsql.core.ranges import Range
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.core.types import Type
from dpsql.statistics.base import Clip, Integers, Quantity, Tally, Value


@dataclass(frozen=True, slots=True)
class Sum:
    """Σ of the clipped value, on its grid; centred: of its distance to the middle of its range."""

    value: Value
    where: str | None
    centred: bool
    where_text: str = ""

    width = 1

    @property
    def centre(self) -> int:
        grid = self.value.grid
        return (grid.low + grid.high) // 2 if self.centred else 0

    @property
    def tallies(self) -> tuple[Tally, ...]:
        total = Tally("total", self.value.column, self.where)
        return (total, Tally("present", self.value.column, self.where)) if self.centred else (total,)

    @property
    def title(self) -> str:
        return f"{'centred sum' if self.centred else 'sum'} of {self.value.text}{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem SUM-1. A row adds at most its weight times the largest |integer − centre| of the grid, and nothing
        # where the value is NULL.
        grid = self.value.grid
        return unit.bounded(Fraction(grid.low - self.centre), Fraction(grid.high - self.centre))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [minus(tallies[0], times(tallies[1], self.centre)) if self.centred else tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        # A centred sum gives the total only together with the number of values: see strategy.py.
        kind = "distance" if self.centred else "total"
        return {Quantity(kind, self.value, self.where): (self.value.grid.step,)}


REACH = 2**20  # a double is cut at so many times the clip: past it, one row decides its unit's sum anyway


@dataclass(frozen=True, slots=True)
class Clipped:
    """Σ over units of what the unit's own rows in the cell add up to (in integers, exactly), moved into the clip.

    A unit without a row that counts adds nothing. It never has weights: a unit counts once in each of its cells.
    """

    value: Value | None
    where: str | None
    clip: Clip
    where_text: str = ""

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        column = self.value.column if self.value is not None and self.clip.kind != "rows" else None
        return (Tally(self.clip.kind, column, self.where, (self.clip.low, self.clip.high)),)

    @property
    def title(self) -> str:
        of = "rows" if self.value is None or self.clip.kind == "rows" else self.value.text
        what = "sum" if self.clip.kind == "total" else "count"
        return f"{what} of {of}, clipped per unit and group{self.where_text}"

    @property
    def step(self) -> Fraction:
        """What one integer stands for."""
        return self.value.grid.step if self.value is not None and self.clip.kind == "total" else Fraction(1)

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem CLIP-1. A unit adds to each of its cells one number in [low, high], or nothing: the bound of a unit
        # that has one row in each of at most `groups` cells.
        return unit.once_per_group.bounded(Fraction(self.clip.low), Fraction(self.clip.high))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        return [tallies[0]]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {Quantity("clipped", self.value, self.where, self.clip): (self.step,)}


def own_step(type_: Type) -> Fraction | None:
    """The step of the grid that a type's sums are exact on; None for doubles, and for decimals that are too wide."""
    if type_.is_integer or type_.is_boolean:
        return Fraction(1)
    if type_.is_decimal and (type_.width or 0) + (type_.scale or 0) + 1 <= 38:
        return Fraction(1, 10 ** (type_.scale or 0))
    return None


def row_grid(type_: Type, range_: Range, low: Fraction, high: Fraction, noise: Fraction) -> Grid:
    """The grid of values whose sums are clipped to [low, high] per unit and group.

    They need no range of their own: integers and decimals are added up as they are, doubles on a grid that the clip
    chooses.
    """
    step, most = own_step(type_), max(abs(low), abs(high))
    if step is not None and (noise / step > MAX_SCALE or most / step > MAX_INTEGER):
        step = None
    reach = REACH * most if step is None else MAX_INTEGER * step
    return choose_grid(type_, range_.clip(-reach, reach), noise)


def on_grid(grid: Grid, low: Fraction, high: Fraction) -> Clip:
    """The clip of sums in the integers of their grid; a binary grid's bounds are rounded outwards, like its rows'."""
    if grid.source == "float":
        return Clip("total", floor(low / grid.step), ceil(high / grid.step))
    return Clip("total", ceil(low / grid.step), floor(high / grid.step))


@dataclass(frozen=True, slots=True)
class Joint:
    """A = Σ(x − L), B = Σ(U − x) and, if rows are asked for, too, E = Σ(U − L)·[x IS NULL], in integers."""

    value: Value
    where: str | None
    rows: bool
    where_text: str = ""

    @property
    def width(self) -> int:
        return 3 if self.rows else 2

    @property
    def tallies(self) -> tuple[Tally, ...]:
        both = (Tally("total", self.value.column, self.where), Tally("present", self.value.column, self.where))
        return (*both, Tally("rows", None, self.where)) if self.rows else both

    @property
    def title(self) -> str:
        return f"sum and count{' (and rows)' if self.rows else ''} of {self.value.text} jointly{self.where_text}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem JOINT-1. A row adds to (A, B, E) non-negative integers whose sum is exactly weight · span: x is
        # rounded once and B is the rest. So the joint vector has ℓ₁ ≤ mass · span and no entry above peak · span.
        return unit.joint(Fraction(self.value.grid.span))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        grid = self.value.grid
        total, present = tallies[0], tallies[1]
        cells = [minus(total, times(present, grid.low)), minus(times(present, grid.high), total)]
        return [*cells, times(minus(tallies[2], present), grid.span)] if self.rows else cells

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        grid = self.value.grid
        pad = (Fraction(0),) if self.rows else ()
        one = Fraction(1, grid.span)
        found: dict[Quantity, tuple[Fraction, ...]] = {
            Quantity("present", self.value, self.where): (one, one, *pad),
            Quantity("total", self.value, self.where): (grid.high * one * grid.step, grid.low * one * grid.step, *pad),
        }
        if self.rows:
            found[Quantity("rows", None, self.where)] = (one, one, one)
        elif not self.value.nullable:
            found[Quantity("rows", None, self.where)] = (one, one)
        return found
