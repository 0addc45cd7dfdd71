"""What a ledger is an account of, and the values it hands out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpsql.accounting.cost import Cost, show_rounded
from dpsql.errors import BudgetError, LedgerError

LONGEST = 1000
TOO_LONG = 10**1000
"""Digits of a price's numerator or denominator: exact sums of finer ones would only cost time."""


@dataclass(frozen=True, slots=True)
class Account:
    """What one ledger file is an account of: totals, how spends add up, and for which neighbour relation."""

    epsilon: Fraction
    delta: Fraction
    accountant: str
    relation: str
    """Canonical JSON of adjacency, units, links and domains of the private tables."""

    @property
    def total(self) -> Cost:
        return Cost(self.epsilon, self.delta)

    def changes(self, new: Account) -> list[str]:
        """What another account has otherwise, a line each."""
        lines = [
            f"{name}: {show_rounded(before, up=False)} -> {show_rounded(after, up=False)}"
            for name, before, after in (("epsilon", self.epsilon, new.epsilon), ("delta", self.delta, new.delta))
            if before != after
        ]
        if self.accountant != new.accountant:
            lines.append(f"accountant: {self.accountant} -> {new.accountant}")
        if self.relation != new.relation:
            found = _json_changes("relation", json.loads(self.relation), json.loads(new.relation))
            lines += found or ["relation: the same in another notation"]
        return lines

    def same_kind(self, other: Account) -> bool:
        """Whether spends under the one are spends under the other, as they stand."""
        return self.accountant == other.accountant and self.relation == other.relation


State = Literal["reserved", "released"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of one spend. Both states are spent."""

    id: str
    time: str
    cost: Cost
    state: State


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: a receipt, and what was noted with it."""

    id: str
    time: str
    cost: Cost
    state: State
    note: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Balance:
    """What the account holds."""

    total: Cost
    spent: Cost
    remaining: Cost


def check_account(account: Account) -> None:
    """Refuse what can't be an account."""
    for number in (account.epsilon, account.delta):
        if not isinstance(number, Fraction) or number < 0:
            raise ValueError("totals are Fractions, not negative")
        if _too_fine(number):
            raise LedgerError(
                f"a total has more than {LONGEST} digits", code="account-digits", hint="write it with fewer digits"
            )
    if account.accountant != "basic":
        raise LedgerError(
            f"unknown accountant {account.accountant!r}", code="accountant-unknown", hint='use accountant = "basic"'
        )
    if not isinstance(json.loads(account.relation), dict):
        raise ValueError("a relation is a JSON object")


def check_price(price: Cost) -> None:
    """Refuse what can't be a price, above all a negative one."""
    if price.rho is not None:
        raise ValueError("a price in rho can't be paid from a basic account")
    for number in (price.epsilon, price.delta):
        if not isinstance(number, Fraction) or number < 0:
            raise ValueError("a price is a Fraction, and a negative one would be a refund")
        if _too_fine(number):
            raise BudgetError(
                f"the price has more than {LONGEST} digits", code="price-digits", hint="give epsilon with fewer digits"
            )


def _too_fine(number: Fraction) -> bool:
    return number.numerator >= TOO_LONG or number.denominator >= TOO_LONG


def _json_changes(place: str, before: object, after: object) -> list[str]:
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [line for key in keys for line in _json_changes(f"{place}.{key}", before.get(key), after.get(key))]
    return [f"{place}: {json.dumps(before)} -> {json.dumps(after)}"]
