"""Sum, count and average of one value, measured together without splitting the budget."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.arrays import minus, times
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Value
from dpsql.statistics.tally import Tally


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
