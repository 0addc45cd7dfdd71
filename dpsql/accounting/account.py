"""What a ledger is an account of, and the values it hands out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Literal

from dpsql.accounting.filters import Filter, make_filter
from dpsql.core import STEWARD
from dpsql.core.cost import Cost, show_rounded
from dpsql.core.errors import BudgetError, LedgerError
from dpsql.core.frozen import dataclass

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
    renew: str = ""
    """ "" for never; "monthly": each calendar month (UTC) has the totals for itself, which is the steward's decision
    and no theorem."""

    @property
    def filter(self) -> Filter:
        return make_filter(self.accountant, self.epsilon, self.delta)

    @property
    def total(self) -> Cost:
        return self.filter.total

    def changes(self, new: Account) -> list[str]:
        """What another account has otherwise, a line each."""
        lines = [
            f"{name}: {show_rounded(before, up=False)} -> {show_rounded(after, up=False)}"
            for name, before, after in (("epsilon", self.epsilon, new.epsilon), ("delta", self.delta, new.delta))
            if before != after
        ]
        for name, was, now in (("accountant", self.accountant, new.accountant), ("renew", self.renew, new.renew)):
            if was != now:
                lines.append(f"{name}: {was or 'never'} -> {now or 'never'}")
        if added := new.added(self):
            lines += [f"new table {name}" for name in added]
        elif self.relation != new.relation:
            found = _json_changes("relation", json.loads(self.relation), json.loads(new.relation))
            lines += found or ["relation: the same in another notation"]
        return lines

    def same_kind(self, other: Account) -> bool:
        """Whether spends under the one are spends under the other, as they stand."""
        return self.accountant == other.accountant and self.relation == other.relation

    def added(self, earlier: Account) -> list[str]:
        """The tables that this relation has besides those of an earlier one, which it leaves as they were.

        Empty where anything else differs, too. Spends under the earlier one are spends under this one (Theorem
        EXTEND-1).
        """
        before, now = json.loads(earlier.relation), json.loads(self.relation)
        if self.accountant != earlier.accountant or before.get("adjacency") != "add_remove":
            return []
        old, new = before.get("tables", {}), now.get("tables", {})
        if {**before, "tables": {}} != {**now, "tables": {}} or any(new.get(name) != old[name] for name in old):
            return []
        return sorted(new.keys() - old.keys())


State = Literal["reserved", "released"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of one spend. Both states are spent.

    reused: nothing was spent this time; the id is that of the spend whose stored release answered.
    untested: the engine that measured it, where that is one that dpsql was not tested with.
    paid: of a reused one, what the release cost when it was paid for.
    """

    id: str
    time: str
    cost: Cost
    state: State
    reused: bool = False
    untested: str = ""
    paid: Cost | None = None


@dataclass(frozen=True, slots=True)
class Spend:
    """What one release asks of the ledger.

    claim: what tells the release apart from all others, so that whoever asks for the same one at the same time waits
    for it instead of paying, too; b"": it is shared with nobody.
    """

    cost: Cost
    note: Mapping[str, object]
    claim: bytes = b""


def untested_of(note: Mapping[str, object]) -> str:
    """The untested engine that a spend's note names, if any."""
    return str(note.get("untested", ""))


@dataclass(frozen=True, slots=True)
class Quota:
    """What an analyst may spend, under the shared totals. A quota, not a guarantee: analysts can talk."""

    name: str
    epsilon: Fraction
    but: frozenset[str] | None = None
    """None: the spends of this name; otherwise those of everybody who isn't named here, together."""

    def counts(self, analyst: str) -> bool:
        if analyst == STEWARD:
            return False
        return analyst == self.name if self.but is None else analyst not in self.but


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history: a receipt, and what was noted with it."""

    id: str
    time: str
    cost: Cost
    state: State
    note: Mapping[str, object]
    analyst: str = ""
    period: str = ""


@dataclass(frozen=True, slots=True)
class Balance:
    """What the account holds (in the current period, where it renews)."""

    total: Cost
    spent: Cost
    remaining: Cost
    analysts: Mapping[str, Cost] = field(default_factory=dict, compare=False)
    """What each analyst has spent; "" is whoever gave no name."""
    period: str = ""


def check_account(account: Account) -> None:
    """Refuse what can't be an account."""
    for number in (account.epsilon, account.delta):
        if not isinstance(number, Fraction) or number < 0:
            raise ValueError("totals are Fractions, not negative")
        if _too_fine(number):
            raise LedgerError(
                f"a total has more than {LONGEST} digits", code="account-digits", hint="write it with fewer digits"
            )
    if account.accountant not in ("basic", "zcdp"):
        raise LedgerError(
            f"unknown accountant {account.accountant!r}",
            code="accountant-unknown",
            hint='use accountant = "basic" or "zcdp"',
        )
    if account.accountant == "zcdp" and not 0 < account.delta < 1:
        raise LedgerError(
            "a zcdp account needs delta > 0: ρ means an ε only at some δ",
            code="needs-delta",
            hint='[budget] delta = 1e-6, or accountant = "basic"',
        )
    if account.renew not in ("", "monthly"):
        raise LedgerError(
            f"unknown renewal {account.renew!r}", code="renew-unknown", hint='use renew = "monthly", or leave it out'
        )
    if not isinstance(json.loads(account.relation), dict):
        raise ValueError("a relation is a JSON object")


def check_spends(spends: Sequence[Spend], accountant: str) -> None:
    """Refuse what can't be reserved together."""
    for spend in spends:
        check_price(spend.cost, accountant)
    claims = [spend.claim for spend in spends if spend.claim]
    assert len(set(claims)) == len(claims), "one release is paid once: two spends have the same claim"


def check_price(price: Cost, accountant: str) -> None:
    """Refuse what can't be a price, above all a negative one."""
    if (price.rho is not None) != (accountant == "zcdp"):
        raise ValueError(f"a price {'without' if price.rho is None else 'in'} rho isn't one of a {accountant} account")
    for number in (price.epsilon, price.delta, price.parts, Fraction(0) if price.rho is None else price.rho):
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
