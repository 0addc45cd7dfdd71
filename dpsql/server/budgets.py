"""What one analyst may spend, what a query would leave of it, and when to warn."""

from __future__ import annotations

from fractions import Fraction

from dpsql.accounting.account import Quota
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass

WARN_AT = Fraction(4, 5)  # of a budget that is spent


@dataclass(frozen=True, slots=True)
class Budget:
    """What one analyst may spend: his quota where he has one, else the account's total; and what he has spent."""

    total: Cost
    spent: Cost
    """By this analyst."""
    remaining: Cost
    """What he could spend now: of the account, and of his quota where that is less."""
    quota: Fraction | None
    period: str

    warning: str | None
    """What to say when four fifths are gone."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an explained query would do to the budget. stored: it is free, because a stored release answers it."""

    stored: bool
    left: Cost
    left_after: Cost | None
    """None: it doesn't fit."""


def warning_of(total: Cost, own: Quota | None, left: Cost) -> str | None:
    """What to say where four fifths of a budget are gone: of the quota, where there is one, else of the account."""
    if own is not None:
        whole, rest = own.epsilon, left.epsilon
    else:
        whole, rest = (total.epsilon, left.epsilon) if total.rho is None else (total.rho, left.rho or Fraction(0))
    if rest > whole * (1 - WARN_AT):
        return None
    return f"{float(1 - rest / whole):.0%} of {'your quota' if own is not None else 'the budget'} is spent"
