"""A ledger as one analyst sees it: whose stored releases answer him, and what he is told of the spends behind them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal, Protocol

from dpsql.accounting.account import Account, Entry, untested_of
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.stored import Kept
from dpsql.core import STEWARD
from dpsql.core.errors import LedgerError

Share = Literal["open", "all", "own"]
"""open: everybody's releases answer, and everybody knows whose they are, as for people who read the ledger's file;
all: everybody's answer, under other ids and without their times; own: only one's own."""


class Releases(Protocol):
    """What was released before, for whoever looks for an answer in it."""

    @property
    def account(self) -> Account: ...
    def stored(self, key: bytes) -> list[tuple[str, Kept]]: ...
    def entry(self, id: str) -> Entry: ...
    def history(self) -> Sequence[Entry]: ...


class View:
    """A ledger as an analyst sees it. Make one for each session: it remembers what it called others' spends."""

    def __init__(self, ledger: Ledger, analyst: str, share: Share) -> None:
        self._ledger, self._analyst, self._share = ledger, analyst, share
        self._others: dict[str, str] = {}  # their ids, by what they are called here

    @property
    def account(self) -> Account:
        return self._ledger.account

    @property
    def scope(self) -> str:
        """What tells apart whose releases are found; the same for all who find the same."""
        return f"own {self._analyst}" if self._share == "own" else ""

    @property
    def naming(self) -> str:
        """What tells apart which releases are found, and what their spends are called; the same where both are."""
        return "" if self._share == "open" else f"{self._share} {self._analyst}"

    def stored(self, key: bytes) -> list[tuple[str, Kept]]:
        """What was released under this key, the newest first, each with the id of the spend that paid for it."""
        found = self._ledger.stored(key, self._analyst if self._share == "own" else None)
        return found if self._share == "open" else [(self._called(id), kept) for id, kept in found]

    @property
    def has_learned(self) -> bool:
        """Has the steward ever paid for histograms for everybody?"""
        return self._ledger.has_spends_of(STEWARD)

    def is_learned(self, id: str) -> bool:
        """Whether the steward paid for the spend that `stored` calls so."""
        return self._ledger.owner(self._others.get(id, id)) == STEWARD

    def stored_at(self, keys: Sequence[bytes]) -> tuple[tuple[int, ...], ...]:
        """For each key the places of what `stored` finds: while they are the same, it finds the same."""
        return self._ledger.stored_at(keys, self._analyst if self._share == "own" else None)

    def history(self) -> Sequence[Entry]:
        """The spends at which an earlier answer may be found, oldest first."""
        found = self._ledger.history()
        return [e for e in found if e.analyst == self._analyst] if self._share == "own" else found

    def entry(self, id: str) -> Entry:
        """A spend, by its id; of another's, what it cost and nothing else."""
        whole = self._others.get(id) or self._meant(id)
        if whole is None:
            return self._ledger.entry(id)
        entry = self._ledger.entry(whole)
        untested = untested_of(entry.note)
        return Entry(id, "", entry.cost, entry.state, {"untested": untested} if untested else {})

    def own(self, id: str) -> Entry:
        """A spend of this analyst's own, by its whole id; anybody's, by a part of it, for whoever has no name.

        Another's is answered like one that there isn't.
        """
        if not self._analyst and self._share == "open":
            return self._ledger.entry(id)
        if self._ledger.owner(id) != self._analyst:
            raise LedgerError(
                "the ledger holds no release of yours with this id",
                code="receipt-unknown",
                hint="it takes the whole id, as the answer's receipt and your history show it",
            )
        return self._ledger.entry(id)

    def _called(self, id: str) -> str:
        """An id as it is told: one's own as it is, another's under a name that leads nowhere."""
        if self._ledger.owner(id) == self._analyst:
            return id
        alias = self._alias(id)
        self._others[alias] = id
        return alias

    def _alias(self, id: str) -> str:
        return self._ledger.keyed("dpsql.alias", f"{self._analyst} {id}").hex()[:32]

    def _meant(self, alias: str) -> str | None:
        """The spend that another session of this analyst's called so, as kept quotes do; None: there is none."""
        if self._share == "open" or self._ledger.owner(alias) is not None:
            return None
        found = next((id for id in self._ledger.ids() if self._alias(id) == alias), None)
        if found is not None:
            self._others[alias] = found
        return found


def own_claim(claim: bytes, scope: str) -> bytes:
    """A claim among those who find each other's releases: nobody waits for one that he wouldn't find."""
    if not claim or not scope:
        return claim
    return blake2b(claim + scope.encode(), digest_size=32, person=b"dpsql.own").digest()
