"""From a policy to its ledger: what it is an account of, where it lies, and who may spend how much of it."""

from __future__ import annotations

from pathlib import Path

from dpsql.accounting.account import Account, Quota
from dpsql.accounting.anchor import Anchor, CommandAnchor, FileAnchor
from dpsql.accounting.ledger import Ledger
from dpsql.core import STEWARD
from dpsql.policy.model import Policy


def account(policy: Policy) -> Account:
    """What the ledger is an account of."""
    budget = policy.budget
    renew = "" if budget.renew == "never" else budget.renew
    return Account(budget.epsilon, budget.delta, budget.accountant, policy.relation(), renew)


def anchor(policy: Policy, ledger: str | Path | None = None) -> Anchor | None:
    """What tells an older copy of the ledger from the ledger; None where the policy names nothing."""
    match policy.budget.anchor:
        case None:
            return None
        case str(path):
            return FileAnchor(policy.folder / path)
        case command:
            return CommandAnchor(command, Path(ledger or policy.ledger_path))


def open_ledger(policy: Policy, ledger: str | Path | None = None, *, only_read: bool = False) -> Ledger:
    """The policy's ledger, or the one that the caller names, under the conditions that the policy sets.

    only_read: one on a read-only mount will do.
    """
    path = policy.ledger_path if ledger is None else ledger
    note, must_exist = anchor(policy, path), policy.budget.must_exist
    return Ledger(path, account(policy), anchor=note, must_exist=must_exist, only_read=only_read)


def quota(policy: Policy, analyst: str) -> Quota | None:
    """The part of the budget that this analyst may spend; None: all of it, as the steward may."""
    if analyst == STEWARD:
        return None
    quotas = policy.budget.analysts
    if analyst in quotas and analyst != "*":
        return Quota(analyst, quotas[analyst])
    return Quota("everybody else", quotas["*"], frozenset(quotas)) if "*" in quotas else None
