"""VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import sqrt

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Floats, Rational, Recipe, Spread
from dpsql.core.arrays import column
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Quantity


@dataclass(frozen=True, slots=True)
class Variance(Recipe):
    """From noisy moments, clamped to what the range allows; NULL where the noisy count is too small."""

    name: str
    sample: bool  # over n − 1
    root: bool  # the standard deviation
    nodes: tuple[type[exp.Expr], ...]
    words: tuple[str, ...] = ()

    powers_of_values = True

    @property
    def description(self) -> str:
        return f"{self.name}(x): within x's range; NULL where the noisy count may be noise alone"

    def _first(self, call: Call) -> Quantity:
        return call.powers(1)

    def _second(self, call: Call) -> Quantity:
        return call.powers(2)

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (self._second(call), self._first(call), call.present)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        # n·(variance of u) moves like Σu² − 2μ·Σu + (2μ² − m₂)·n; where μ lies is unknown beforehand.
        return [
            {self._second(call): Fraction(4), self._first(call): -8 * mu, call.present: 4 * mu * mu}
            for mu in (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
        ]

    def examples(self, call: Call, rows: int) -> list[dict[Quantity, float]]:
        """The sums of a cell with so many rows, for values that are spread evenly, or lie at both ends."""
        return [
            {call.present: rows, self._first(call): rows / 2, self._second(call): rows * second}
            for second in (1 / 3, 1 / 2)
        ]

    def rows(self, call: Call) -> Quantity:
        return call.present

    def bounds(self, call: Call) -> tuple[float, float]:
        """Half of the values at each end; of a sample, two values."""
        span = self._span(call)
        most = span * span / (2 if self.sample else 4)
        return 0.0, sqrt(most) if self.root else most

    def _span(self, call: Call) -> float:
        assert call.value is not None
        return float(call.value.grid.span * call.value.grid.step)

    def _parts(self, call: Call, noisy: Mapping[Quantity, Rational]) -> tuple[Floats, Floats, Floats, Floats]:
        """n, mean and variance of u, and the factor for a sample; NaN where n is too small."""
        count = noisy[call.present].floats
        enough = count >= (1.5 if self.sample else 0.5)  # where COUNT(x) would say less, there is none
        n = np.where(enough, count, np.nan)
        mean = np.clip(noisy[self._first(call)].floats / n, 0.0, 1.0)
        variance = np.clip(noisy[self._second(call)].floats / n - mean**2, 0.0, 0.25)
        factor = n / (n - 1) if self.sample else np.ones_like(n)
        return n, mean, variance, factor

    def _answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Floats:
        _, _, variance, factor = self._parts(call, noisy)
        scaled = variance * np.where(np.isfinite(factor), factor, np.nan) * self._span(call) ** 2
        return np.sqrt(scaled) if self.root else scaled

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        values = self._answer(call, noisy)
        return column(values, np.isnan(values))

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        n, mean, variance, factor = self._parts(call, noisy)
        answer = self._answer(call, noisy)
        scale = factor * self._span(call) ** 2 / n
        if self.root:  # d√v = dv / 2√v; no first-order interval at 0
            scale = np.divide(scale, 2 * answer, out=np.full_like(answer, np.nan), where=answer > 0)
        second = variance + mean**2
        slopes = [
            (self._second(call), scale),
            (self._first(call), -2 * mean * scale),
            (call.present, (2 * mean**2 - second) * scale),
        ]
        return Spread(answer, slopes)


AGGREGATES = (
    Variance("VAR_POP", False, False, (exp.VariancePop,)),
    Variance("VAR_SAMP", True, False, (exp.Variance,), ("VARIANCE",)),
    Variance("STDDEV_POP", False, True, (exp.StddevPop,)),
    Variance("STDDEV_SAMP", True, True, (exp.Stddev, exp.StddevSamp)),
)
