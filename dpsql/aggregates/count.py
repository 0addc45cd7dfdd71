"""COUNT(*), COUNT(x), COUNT(DISTINCT unit), COUNT(DISTINCT x)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dpsql.aggregates.base import Arrow, Call, Rational, Spread, saturated
from dpsql.statistics.base import Quantity


class Count:
    """A noisy integer; it may be negative."""

    name = "COUNT"
    description = (
        "COUNT(*), COUNT(x), COUNT(DISTINCT x): an integer, may be negative; APPROX_COUNT_DISTINCT(x) is the same"
    )

    def _quantity(self, call: Call) -> Quantity:
        if call.distinct:
            return Quantity("distinct", call.value, call.where)
        return Quantity("units", None, call.where) if call.units else call.present

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (self._quantity(call),)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        most = Fraction(1) if call.clip is None else Fraction(call.clip.high)
        return [{self._quantity(call): 1 / most}]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        return saturated(noisy[self._quantity(call)].rounded())

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        centre = noisy[self._quantity(call)].floats
        return Spread(centre, [(self._quantity(call), np.ones_like(centre))])

    def bounds(self, call: Call) -> tuple[float, float] | None:
        return None
