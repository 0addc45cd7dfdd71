"""COUNT(*), COUNT(x), COUNT(DISTINCT unit), COUNT(DISTINCT x); APPROX_COUNT_DISTINCT(x) and COUNT_IF(c) are short."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Rational, Recipe, Spread, saturated
from dpsql.aggregates.form import Clips, Form
from dpsql.statistics.base import Quantity


class Count(Recipe):
    """A noisy integer; it may be negative."""

    name = "COUNT"
    description = (
        "COUNT(*), COUNT(x), COUNT(DISTINCT x): an integer, may be negative; APPROX_COUNT_DISTINCT(x) is the same"
    )
    nodes: tuple[type[exp.Expr], ...] = (exp.Count,)
    words: tuple[str, ...] = ("COUNT_STAR",)
    takes = "anything"
    starred = True
    zero_where_empty = True
    clips: Clips = "rows"
    counts_distinct = True
    one_number = True
    ranks_groups = True

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


class CountIf(Form):
    """COUNT(*) FILTER (WHERE c)."""

    name = "COUNT_IF"
    description = "COUNT_IF(c): COUNT(*) FILTER (WHERE c)"
    nodes = (exp.CountIf,)
    takes = "condition"
    condition = True
    zero_where_empty = True
    clips = "nothing"
    answered = True


class ApproxCountDistinct(Form):
    """COUNT(DISTINCT x): noise is all that is approximate about it."""

    name = "APPROX_COUNT_DISTINCT"
    nodes = (exp.ApproxDistinct,)
    distinct_of = Count.name
    zero_where_empty = True


AGGREGATES = (Count(), CountIf(), ApproxCountDistinct())
