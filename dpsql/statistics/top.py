"""The groups with the largest counts or sums: only which they are leaves, not how large."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.arrays import times
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Contribution, Sensitivity
from dpsql.statistics.base import Integers, Quantity, Statistic, Tally
from dpsql.statistics.counts import Count, Units
from dpsql.statistics.distinct import Distinct
from dpsql.statistics.sums import Sum

SCORES = (Count, Distinct, Sum, Units)  # whose move in a single cell is known


@dataclass(frozen=True, slots=True)
class Top:
    """The `count` cells in which a statistic of one column is largest (or least), in their order."""

    score: Statistic
    count: int
    largest: bool

    width = 1

    @property
    def tallies(self) -> tuple[Tally, ...]:
        return self.score.tallies

    @property
    def title(self) -> str:
        which = f"{self.count} cells" if self.count > 1 else "cell"
        return f"{which} with the {'largest' if self.largest else 'least'} {self.score.title}"

    def sensitivity(self, unit: Contribution) -> Sensitivity:
        # Theorem CHOOSE-1: each of the winners loses what one unit moves a single cell's score by; twice that where
        # scores don't all move in one direction.
        match self.score:
            case Units():
                move, monotone = Fraction(1), not unit.replace
            case Count():
                move, monotone = unit.single_cell(Fraction(0), Fraction(1))
            case Distinct():
                move, monotone = self.score.single_cell(unit)
            case Sum():
                grid = self.score.value.grid
                move, monotone = unit.single_cell(Fraction(grid.low), Fraction(grid.high))
            case _:
                raise AssertionError("no rule says how far one unit moves this in a cell")
        loss = self.count * move * (1 if monotone else 2)
        return Sensitivity(loss, loss**2, choice=True)

    def columns(self, tallies: Sequence[Integers]) -> list[Integers]:
        """The scores; they never leave."""
        return [times(column, 1 if self.largest else -1) for column in self.score.columns(tallies)]

    def quantities(self) -> dict[Quantity, tuple[Fraction, ...]]:
        return {}  # nothing that anything else could be computed from
