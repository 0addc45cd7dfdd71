"""At which ε a query was asked before: where to look first for what is stored."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby

from dpsql.accounting.view import Releases
from dpsql.core.cost import Cost

MOST = 4  # of them, the largest


def before(text: str, ledger: Releases) -> list[Fraction]:
    """What was paid at once for this text, its ranges and limits included, as ε; the largest first.

    A hint where to look, which decides nothing: notes aren't verified, and ρ isn't exactly the ε that was asked for.
    """
    wanted, filter_ = _plain(text), ledger.account.filter
    found: set[Fraction] = set()
    for _, entries in groupby(ledger.history(), key=lambda entry: entry.time):
        together = list(entries)
        if any(_plain(str(entry.note.get("sql", ""))) == wanted for entry in together):
            total: Cost = sum((entry.cost for entry in together[1:]), together[0].cost)
            exact = total.rho is None
            found.add(total.epsilon if exact else filter_.shown(total).epsilon * Fraction(999, 1000))
    return sorted((epsilon for epsilon in found if epsilon), reverse=True)[:MOST]


def _plain(text: str) -> str:
    return " ".join(text.split())
