"""calibrate, for rows that leave one by one: a randomized response for each column, and the statement that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.analyze.responses import CheckedResponses, Response
from dpsql.core.cost import Conversion
from dpsql.mechanisms.budget import Split, budget_of
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.plan.nodes import Encode
from dpsql.quote.model import ResponseStep


def share_out(
    checked: Sequence[CheckedResponses], epsilon: Fraction, conversion: Conversion | None
) -> tuple[tuple[ResponseStep, ...], Split]:
    """Equal shares of the budget for all columns (Theorem RR-1: the columns of one row add up)."""
    budget = budget_of(epsilon, Fraction(0), conversion)
    each = budget.pure(Fraction(1, sum(len(one.columns) for one in checked)))
    steps = tuple(
        ResponseStep(
            one.name, one, _statement(one), tuple(RandomizedResponse(each, len(c.values)) for c in one.columns)
        )
        for one in checked
    )
    return steps, Split(budget, RandomizedResponse)


def _statement(checked: CheckedResponses) -> Encode:
    """Reads the columns that are randomised, and no others."""
    plan = checked.responses
    columns = zip(plan.columns, checked.columns, strict=True)
    return Encode(plan.input, tuple((f"c{i}", name, _listed(column)) for i, (name, column) in enumerate(columns)))


def _listed(column: Response) -> str | None:
    return None if column.type == "BOOLEAN" else column.type
