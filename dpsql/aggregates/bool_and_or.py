"""BOOL_AND(b), BOOL_OR(b)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Rational, Recipe, Spread
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Quantity


@dataclass(frozen=True, slots=True)
class Either(Recipe):
    """Is there a row that decides (TRUE for OR, FALSE for AND)? Yes, where the noisy number of them is at least 1/2.

    NULL where neither the TRUE nor the FALSE rows have a noisy number of at least 1/2. One row alone is hidden by the
    noise, as it must be: the answer is reliable only where many rows decide, or none and many don't.
    """

    name: str
    deciding: bool
    nodes: tuple[type[exp.Expr], ...]

    takes = "condition"
    clips = "nothing"

    @property
    def description(self) -> str:
        said = "TRUE" if self.deciding else "FALSE"
        return f"{self.name}(b): {said} where the noisy number of {said} rows is at least 1/2; few such rows are hidden"

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (call.total, call.present)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        return [{call.total: Fraction(1)}, {call.total: Fraction(-1), call.present: Fraction(1)}]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        import pyarrow as pa

        true = noisy[call.total].floats
        false = noisy[call.present].floats - true
        decides, other = (true, false) if self.deciding else (false, true)
        yes = decides >= 0.5
        return pa.array(yes if self.deciding else ~yes, mask=~yes & (other < 0.5))

    def decides(self, call: Call) -> dict[Quantity, Fraction]:
        """The number of rows that decide."""
        return self.contrasts(call)[0 if self.deciding else 1]

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        nothing = np.full(len(noisy[call.total].numerators), np.nan)  # neither TRUE nor FALSE has an interval
        return Spread(nothing, [(call.total, nothing)])


AGGREGATES = (Either("BOOL_AND", False, (exp.LogicalAnd,)), Either("BOOL_OR", True, (exp.LogicalOr,)))
