"""Admission: may this price still be paid? One function for each accountant.

Analysts choose the next query and its ε after they have seen answers, so the rule must be a privacy
filter (valid under full adaptivity), not just a composition theorem for prices fixed beforehand.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.accounting.cost import Cost, show_rounded
from dpsql.errors import BudgetError

SMALLEST_EPSILON = Fraction(1, 10**6)
"""No query can ask for less, so less than this is nothing."""


def admits(total: Cost, spent: Cost, price: Cost) -> bool:
    """Whether a release at this price keeps everything released so far within the totals; exact."""
    # Theorem COMP-1: Σε ≤ ε_total and Σδ ≤ δ_total is a fully adaptive filter. Equality is admitted.
    after = spent + price
    return after.epsilon <= total.epsilon and after.delta <= total.delta


def remaining(total: Cost, spent: Cost) -> Cost:
    """What is left; nothing (not less) when the steward lowered the totals below what was spent."""
    return Cost(max(total.epsilon - spent.epsilon, Fraction(0)), max(total.delta - spent.delta, Fraction(0)))


def refusal(total: Cost, spent: Cost, price: Cost) -> BudgetError:
    """The error for a price that was not admitted. It depends on the price and the ledger alone."""
    left = remaining(total, spent)
    fits = left.epsilon
    if price.delta > left.delta:
        # Both shrink together: by default a query's δ is proportional to its ε.
        fits = min(fits, price.epsilon * left.delta / price.delta)
    message = (
        f"the query costs {_pair(price, with_delta=price.delta > 0, up=True)}, "
        f"and {_pair(left, with_delta=total.delta > 0 or price.delta > 0, up=False)} is left"
    )
    if fits < SMALLEST_EPSILON:
        hint = "nothing more can be paid from this account: `dpsql budget --history` shows each release"
    else:
        hint = f"the largest epsilon that fits is {show_rounded(fits, up=False)}"
        if price.delta > left.delta:
            hint += f", with delta at most {show_rounded(left.delta, up=False)}"
    return BudgetError(message, code="budget-exhausted", hint=hint)


def _pair(cost: Cost, *, with_delta: bool, up: bool) -> str:
    text = f"epsilon = {show_rounded(cost.epsilon, up=up)}"
    return f"{text}, delta = {show_rounded(cost.delta, up=up)}" if with_delta else text
