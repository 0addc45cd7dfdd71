"""Count, sum and sum of squares of one value, measured together without splitting the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpsql.analyze.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Value
from dpsql.statistics.exact import minus, times
from dpsql.statistics.tally import Tally

RESOLUTION_BITS = 20  # at most: a row's three parts add up to 2^bits
MAX_SPAN = 2**21  # the value's own integers: span² · resolution stays below 2⁶³


@dataclass(frozen=True, slots=True)
class Moments:
    """The Bernstein basis of u = (x − L)/(U − L): Σ(1−u)², Σ2u(1−u), Σu² and, for rows without a value, Σ1.

    Each in units of 1/resolution of the value's grid.
    """

    value: Value
    where: str | None
    rows: bool
    where_text: str = ""

    @property
    def width(self) -> int:
        return 4 if self.rows else 3

    @property
    def resolution(self) -> int:
        return self.value.grid.resolution

    @property
    def tallies(self) -> tuple[Tally, ...]:
        column = self.value.column
        three = (
            Tally("total", f"{column}b0", self.where),
            Tally("total", f"{column}b2", self.where),
            Tally("present", column, self.where),
        )
        return (*three, Tally("rows", None, self.where)) if self.rows else three

    @property
    def title(self) -> str:
        return (
            f"count, sum and squares{' (and rows)' if self.rows else ''} of {self.value.text} jointly{self.where_text}"
        )

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem MOMENTS-1. The parts of a row are non-negative integers that add up to resolution · weight: two of
        # them are rounded down, the third is the rest.
        return unit.joint(Fraction(self.resolution))

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        first, last, present = tallies[0], tallies[1], tallies[2]
        parts = [first, minus(minus(times(present, self.resolution), first), last), last]
        return [*parts, times(minus(tallies[3], present), self.resolution)] if self.rows else parts

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        grid = self.value.grid
        pad = (Fraction(0),) if self.rows else ()
        one, half, none = Fraction(1, self.resolution), Fraction(1, 2 * self.resolution), Fraction(0)
        low, span = grid.low * grid.step, grid.span * grid.step
        found: dict[Quantity, tuple[Fraction, ...]] = {
            Quantity("present", self.value, self.where): (one, one, one, *pad),
            Quantity("first", self.value, self.where): (none, half, one, *pad),  # Σu
            Quantity("second", self.value, self.where): (none, none, one, *pad),  # Σu²
            Quantity("total", self.value, self.where): (
                low * one, low * one + span * half, (low + span) * one, *pad,
            ),
        }  # fmt: skip
        if self.rows:
            found[Quantity("rows", None, self.where)] = (one, one, one, one)
        elif not self.value.nullable:
            found[Quantity("rows", None, self.where)] = (one, one, one)
        return found
