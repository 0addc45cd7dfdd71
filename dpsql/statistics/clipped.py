"""Counts and sums that are clipped once for each unit and group."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from dpsql.core.frozen import dataclass
from dpsql.core.grid import MAX_INTEGER, MAX_SCALE, Grid, choose_grid
from dpsql.core.ranges import Range
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.core.types import Type
from dpsql.statistics.base import Clip, Integers, Quantity, Value
from dpsql.statistics.tally import Tally

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
