"""AVG(x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Floats, Rational, Recipe, Spread
from dpsql.core.arrays import column
from dpsql.statistics.base import Quantity


class Average(Recipe):
    """Noisy sum over noisy count, clamped to the range; NULL where the count isn't positive, or may be noise alone."""

    name = "AVG"
    description = "AVG(x): within x's range; NULL where the noisy count may be noise alone"
    nodes: tuple[type[exp.Expr], ...] = (exp.Avg,)
    words: tuple[str, ...] = ("MEAN", "FAVG")
    summed = True
    per_group_instead = "or divide: SUM(x, {bounds}) / COUNT(*, contribution_bounds_per_group => (0, 5))"

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (call.total, call.present)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        # n·(AVG − μ) moves like Σx − μ·n; where in the range μ lies is unknown beforehand.
        low, high = self._bounds(call)
        half = (high - low) / 2 or Fraction(1)
        return [
            {call.total: 1 / half, call.present: -(low + (high - low) * Fraction(quarter, 4)) / half}
            for quarter in (1, 2, 3)
        ]

    def _bounds(self, call: Call) -> tuple[Fraction, Fraction]:
        assert call.value is not None
        grid = call.value.grid
        return grid.low * grid.step, grid.high * grid.step

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        mean, positive = self._mean(call, noisy)
        return column(mean, ~positive)

    def _mean(self, call: Call, noisy: Mapping[Quantity, Rational]) -> tuple[Floats, NDArray[np.bool_]]:
        low, high = self._bounds(call)
        total, count = noisy[call.total].floats, noisy[call.present].floats
        positive = count >= 0.5  # where COUNT(x) would say 0, there is no average
        mean = np.divide(total, count, out=np.zeros_like(total), where=positive)
        return np.clip(mean, float(low), float(high)), positive

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        mean, positive = self._mean(call, noisy)
        count = noisy[call.present].floats
        per_row = np.divide(1.0, count, out=np.full_like(count, np.nan), where=positive)
        return Spread(mean, [(call.total, per_row), (call.present, -mean * per_row)])

    def rows(self, call: Call) -> Quantity:
        return call.present

    def bounds(self, call: Call) -> tuple[float, float] | None:
        return self.averages(call)

    def averages(self, call: Call) -> tuple[float, float]:
        low, high = self._bounds(call)
        return float(low), float(high)


AGGREGATES = (Average(),)
