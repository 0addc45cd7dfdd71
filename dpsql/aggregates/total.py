"""SUM(x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Rational, Recipe, Spread, decimals, saturated
from dpsql.core.arrays import column
from dpsql.statistics.base import Quantity

BIGINT_MAGNITUDE = 2**31  # 2³² rows of it still fit BIGINT


class Total(Recipe):
    """A noisy sum: an integer for integers, DECIMAL(38, s) for decimals, DOUBLE otherwise; a noisy 0 where empty."""

    name = "SUM"
    description = "SUM(x): x clipped to its range; integers stay integers; an empty group is a noisy 0"
    nodes = (exp.Sum,)
    words = ("FSUM", "KAHAN_SUM", "SUMKAHAN")
    takes = "number or boolean"
    skips_zero = True
    adds_up = True
    clips = "sums"
    summed = True
    one_number = True
    ranks_groups = True

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (call.total,)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        return [{call.total: 1 / call.magnitude if call.magnitude else Fraction(1)}]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        assert call.type is not None
        total = noisy[call.total]
        if call.type.is_integer or call.type.is_boolean:
            if call.magnitude <= BIGINT_MAGNITUDE:
                return saturated(total.rounded())
            return decimals(total.rounded(), 0)
        if call.type.is_decimal:
            scale = call.type.scale or 0
            return decimals(total.rounded(scale), scale)
        return column(total.floats)

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        centre = noisy[call.total].floats
        return Spread(centre, [(call.total, np.ones_like(centre))])


AGGREGATES = (Total(),)
