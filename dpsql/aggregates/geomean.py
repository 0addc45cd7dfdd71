"""GEOMEAN(x), GEOMETRIC_MEAN(x)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from sqlglot import exp

from dpsql.aggregates.average import Average
from dpsql.aggregates.base import Arrow, Call, Rational, Spread
from dpsql.core.arrays import column
from dpsql.statistics.base import Quantity


class GeometricMean(Average):
    """e to the noisy average of LN(x), which is the call's value: x needs a range above 0."""

    name = "GEOMEAN"
    description = "GEOMEAN(x), GEOMETRIC_MEAN(x): EXP(AVG(LN(x))); x needs a range above 0"
    nodes = ()
    words = ("GEOMEAN", "GEOMETRIC_MEAN")
    clips = "nothing"
    summed = False  # a unit's total of logarithms says nothing of how much it counts for
    per_group_instead = ""
    above_zero = True

    def value(self, argument: exp.Expr) -> exp.Expr:
        return exp.Ln(this=argument)  # Theorem POST-1: e to the average of the logarithms

    def written_end(self, end: float) -> float:
        return float(f"{math.exp(min(end, 709.78)):.9g}")  # ends of logarithms are rounded outward

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        mean, positive = self._mean(call, noisy)
        return column(np.exp(mean), ~positive)

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        of_logs = super().spread(call, noisy)
        centre = np.exp(of_logs.centre)
        with np.errstate(over="ignore"):  # an error that no float holds is infinite
            return Spread(centre, [(q, slope * centre) for q, slope in of_logs.slopes])

    def bounds(self, call: Call) -> tuple[float, float] | None:
        low, high = self._bounds(call)
        return math.exp(low), math.exp(high)


AGGREGATES = (GeometricMean(),)
