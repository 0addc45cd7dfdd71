"""The ledger: one durable account of everything that ever left dpsql under one total.

    Account    what one ledger file is an account of
    Spend      what one release asks for
    Receipt    one spend; reserved before the first private row is read, released when its noisy tables are stored
    Balance    total, spent, remaining
    Ledger     the file

A price is recorded before the first row is read and there is no way to take it back (Theorem LEDGER-1), so a crash at
any point leaves spent ≥ released. What several ask for at the same time is paid once (Theorem FLIGHT-1, claims.py).
All sums are exact rationals. What they are computed from is verified (Theorem LEDGER-2): events.py says what is
recorded, journal.py how it gets into the file and back.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import TypeVar

from dpsql.accounting import durable, stored, versions
from dpsql.accounting.account import Account, Balance, Entry, Quota, Receipt, Spend, State, check_account, check_spends
from dpsql.accounting.anchor import Anchor
from dpsql.accounting.claims import Claims, Overtaken, Watch
from dpsql.accounting.events import Event, read_cost
from dpsql.accounting.filters import Filter, make_filter, refusal
from dpsql.accounting.fingerprint import Source
from dpsql.accounting.journal import Journal, Witness, Writer, account_event
from dpsql.accounting.keys import DIGEST_BYTES, agrees, tag
from dpsql.accounting.store import BRIEFLY, Store, located
from dpsql.accounting.stored import Kept
from dpsql.accounting.versions import Sight
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, LedgerError

__all__ = ["Account", "Balance", "Entry", "Kept", "Ledger", "Overtaken", "Quota", "Receipt", "Source", "Spend"]

T = TypeVar("T")


class Ledger:
    """One account, shared by any number of threads and processes (but not across a fork)."""

    def __init__(
        self,
        path: Path | str,
        account: Account,
        *,
        anchor: Anchor | None = None,
        must_exist: bool = False,
        only_read: bool = False,
        anew: bool = False,
    ) -> None:
        """Open the ledger, or create it where there is none; refused when it is an account of something else.

        anchor: what tells an older copy of the ledger from the ledger. must_exist: a missing one is refused.
        only_read: one on a read-only mount is opened, too, for what it says. anew: steward's act, by which another
        account begins where the key of an earlier one is left.
        """
        check_account(account)
        self._account = account
        self._journal = Journal(path, account, anchor=anchor, must_exist=must_exist, only_read=only_read, anew=anew)
        self._claims = Claims(self._journal.store)
        try:
            with self._journal.looking():
                self._agree()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path | str, account: Account, *, anchor: Anchor | None = None) -> None:
        """Steward's act: begin a new account in a new file."""
        if Path(path).exists():
            raise LedgerError(
                f"the ledger {path} exists", code="ledger-exists", hint="use it as it is; it is never made anew"
            )
        cls(path, account, anchor=anchor, anew=True).close()

    @classmethod
    def rotate_key(cls, path: Path | str, *, anchor: Anchor | None = None) -> None:
        """Steward's act: a new key for the ledger; older copies of it are worth nothing with the new key."""
        journal = Journal(path, None, anchor=anchor, whole=True)
        try:
            journal.rotate()
        finally:
            journal.store.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Nothing is pending: what was reserved or recorded was durable when that returned."""
        self._store.close()

    def watch(self, witness: Witness) -> None:
        """Have every event told to a witness, from now on: on its disk before anything that was paid for is computed.

        Where that fails the price stays recorded, and nothing is answered.
        """
        self._journal.witness = witness

    @property
    def _store(self) -> Store:
        return self._journal.store

    @property
    def account(self) -> Account:
        return self._account

    @property
    def path(self) -> Path | None:
        """The file; None: it is in memory."""
        return located(self._store.name)

    def reserve(
        self,
        look: Callable[[], T],
        spends: Callable[[T], Sequence[Spend]],
        *,
        analyst: str = "",
        quota: Quota | None = None,
        patience: float | None = None,
        given_up: Callable[[], bool] = lambda: False,
    ) -> tuple[T, list[Receipt]]:
        """Look for what is stored, and pay for what isn't: what was found, and a receipt for each spend, in order.

        look: searches the stored releases; it may be called again, also inside the transaction, and only reads.
        spends: what is still to be paid, given what was found. All of it is recorded, durably and before the first
        private row is read, or none: BudgetError where it doesn't fit. It is as if the looking, the claims and the
        spends were one moment (Theorem FLIGHT-1).

        If somebody else is at work on one of these releases, this waits without paying, and then begins anew.
        patience: for how many seconds it waits, at most; given_up: asked about 20 times a second while it waits, also
        for the file. LedgerError "release-busy" or "ledger-busy" then, and nothing was spent. Whoever holds claims
        must not reserve: two could wait for each other. After Overtaken, `working` is left first.
        """
        until = None if patience is None else monotonic() + patience
        watch = Watch()
        with self._store.waiting(given_up=given_up):
            while True:
                with self._journal.looking() as state:  # what is recorded after this count is looked for once more
                    before = len(state.released)
                    found = look()
                wanted = spends(found)
                if not wanted:
                    return found, []
                with self._claiming() as (writer, receipts):
                    if len(self._journal.state.released) != before:
                        found = look()
                        wanted = spends(found)
                    keys = [spend.claim for spend in wanted if spend.claim]
                    busy = watch.busy(writer.db, keys)
                    if not busy:
                        receipts += self._pay(writer, wanted, analyst, quota)
                if not busy:
                    return found, receipts
                self._claims.wait(watch, keys, until, given_up)

    @contextmanager
    def _claiming(self) -> Iterator[tuple[Writer, list[Receipt]]]:
        """A write transaction, and the receipts that are given in it; their claims end with it if it fails."""
        receipts: list[Receipt] = []
        try:
            with self._journal.writing() as writer:
                yield writer, receipts
        except BaseException:
            if receipts:  # the anchor failed, or a signal came: nobody is at work on them
                self.give_back(receipts)
            raise

    def _pay(self, writer: Writer, spends: Sequence[Spend], analyst: str, quota: Quota | None) -> list[Receipt]:
        """Record spends and their claims, in a transaction; none: there is nothing to pay."""
        if not spends:
            return []
        time = durable.now()
        period = self._now(time)
        self._check_spends(spends, period, quota)
        receipts = [Receipt(secrets.token_hex(16), time, spend.cost, "reserved") for spend in spends]
        for receipt, spend in zip(receipts, spends, strict=True):
            price = spend.cost
            numbers = {"epsilon": price.epsilon, "delta": price.delta, "rho": price.rho, "parts": price.parts}
            body = {name: None if n is None else str(n) for name, n in numbers.items()}
            told = {"period": period, "analyst": analyst, "covers": None, "claimed": bool(spend.claim)}
            text = json.dumps(dict(spend.note), sort_keys=True, default=str)
            # Theorem LEDGER-1: on disk when the transaction ends, and nothing in this package removes it.
            writer.add(Event("spend", time, {**body, **told}, receipt.id, text))
        claimed = [(s.claim, receipt.id) for s, receipt in zip(spends, receipts, strict=True) if s.claim]
        self._claims.take(writer.db, claimed)  # Theorem FLIGHT-1: in the very transaction that pays
        return receipts

    def require_admitted(self, spends: Sequence[Spend], quota: Quota | None) -> None:
        """Refuse spends as `reserve` would if it came to pay for them now. Nothing is recorded."""
        with self._journal.looking():
            if spends:
                self._check_spends(spends, self._now(durable.now()), quota)

    def _check_spends(self, spends: Sequence[Spend], period: str, quota: Quota | None) -> None:
        """Raise where these can't be paid together, inside a transaction."""
        check_spends(spends, self._account.accountant)
        self._agree()
        self._check_open()
        price = sum((spend.cost for spend in spends), self._account.filter.nothing)
        if len(spends) > 1:  # what they are together can be less than the sum of what each is by itself (ZCDP-2)
            price = replace(price, epsilon=min(price.epsilon, self._account.filter.shown(price).epsilon))
        self._admit(price, period, quota)

    def give_back(self, receipts: Sequence[Receipt]) -> None:
        """Remove claims on which nobody works. Where that fails, or can't be done soon, others wait for one lease."""
        with suppress(LedgerError), self._store.waiting(seconds=BRIEFLY):
            with self._journal.looking() as state:
                claimed = [receipt.id for receipt in receipts if receipt.id in state.claimed]
            if claimed:
                self._claims.drop(claimed)

    @contextmanager
    def working(self, receipts: Sequence[Receipt]) -> Iterator[None]:
        """While the block lasts, others wait for the releases of these receipts; whoever leaves it early lets them on.

        The claims are renewed in a thread of their own, for the first time after a third of a lease. What wasn't
        recorded at the end, however it came, isn't claimed any longer.
        """
        with self._journal.looking() as state:
            claimed = [receipt.id for receipt in receipts if receipt.id in state.claimed]
        if not claimed:
            yield
            return
        try:
            with self._claims.renewed(claimed):
                yield
        finally:
            self.give_back(receipts)

    def _admit(self, price: Cost, period: str, quota: Quota | None) -> None:
        """Raise where the price doesn't fit into the account, or into the analyst's quota."""
        refusals: list[tuple[Fraction, BudgetError]] = []

        def ask(filter_: Filter, spent: Cost, who: str) -> None:
            if not filter_.admits(spent, price):  # Theorems COMP-1 and COMP-2
                fits = filter_.fits(filter_.remaining(spent), price)
                refusals.append((fits, refusal(filter_, spent, price, who)))

        ask(self._account.filter, self._sum(period), "")
        if quota is not None:
            share = make_filter(self._account.accountant, quota.epsilon, self._account.delta)
            ask(share, self._sum(period, quota.counts), quota.name)
        if refusals:  # the tightest: what it offers can be paid
            raise min(refusals, key=lambda r: r[0])[1]

    def record(self, receipt: Receipt, kept: Sequence[Kept]) -> Receipt:
        """Record a release and store its noisy tables, durably, before they are processed or shown; once a receipt.

        Overtaken, and nothing is written, if its claim ran out or is somebody else's by now: then nothing of what was
        measured may be shown. What is spent stays the same either way.
        """
        assert all(item.kind == "release" for item in kept), "answers are stored by `answered`"
        asked = durable.after(0)  # a wait for the file is nobody's fault
        with self._journal.writing(log_only=True) as writer:  # nothing is spent
            state = self._journal.state
            if receipt.id not in state.spends or receipt.id in state.released:
                raise _unknown_receipt(f"no reserved spend {receipt.id}", "recorded")
            # Theorem FLIGHT-1: that there must be a claim is said by the chain, not by the claims.
            if receipt.id in state.claimed and not self._claims.settle(writer.db, receipt.id, asked):
                raise Overtaken
            stored.record(writer, len(state.stored) + 1, "released", durable.now(), receipt.id, kept)
        return replace(receipt, state="released")

    def answered(self, receipt: Receipt, kept: Sequence[Kept]) -> None:
        """Store the answers that were made of a recorded release; once a receipt.

        They are views of its tables: where those were too large to keep, so are they.
        """
        assert all(item.kind == "answer" for item in kept), "noisy tables are stored by `record`"
        with self._journal.writing(log_only=True) as writer:  # nothing is spent
            state = self._journal.state
            if receipt.id not in state.released or receipt.id in state.answered:
                raise _unknown_receipt(f"no recorded release {receipt.id} without its answers", "answered")
            beside = kept if receipt.id in state.stored_by_receipt else []
            stored.record(writer, len(state.stored) + 1, "answered", durable.now(), receipt.id, beside)

    def stored(self, key: bytes, owner: str | None = None) -> list[tuple[str, Kept]]:
        """What was released under this key, the newest first, each with the id of the spend that paid for it.

        owner: what this analyst paid for, or the steward for everybody, alone.
        """
        return stored.releases(self._journal, key, owner)

    def stored_at(self, keys: Sequence[bytes], owner: str | None = None) -> tuple[tuple[int, ...], ...]:
        """For each key the places of what `stored` finds: while they are the same, it finds the same."""
        with self._journal.looking() as state:
            return tuple(tuple(stored.places(state, key, owner)) for key in keys)

    def owner(self, id: str) -> str | None:
        """Who paid for the spend with this very id; None where there is none."""
        with self._journal.looking() as state:
            return state.owners.get(id)

    def has_spends_of(self, analyst: str) -> bool:
        """Has this analyst ever spent anything?"""
        with self._journal.looking() as state:
            return analyst in state.payers

    def ids(self) -> tuple[str, ...]:
        """The ids of all spends, in the order in which they were made."""
        with self._journal.looking() as state:
            return tuple(state.spends)

    def has_stored(self) -> bool:
        """Is anything kept that later queries could be answered from?"""
        with self._journal.looking() as state:
            return bool(state.stored)

    def releases(self) -> int:
        """How many releases were recorded, by whomever: while it stays the same, so does what is stored of them."""
        with self._journal.looking() as state:
            return len(state.released)

    def knows(self, id: str) -> bool:
        """Whether there is a spend with this very id."""
        return any(entry.id == id for entry in self._entries(id)) if len(id) >= 4 else False

    def entry(self, id: str) -> Entry:
        """One spend, by its id or the beginning of it."""
        found = self._entries(id) if len(id) >= 4 else []
        if len(found) != 1:
            raise LedgerError(
                f"the ledger holds {'several releases' if found else 'no release'} {id}",
                code="receipt-unknown",
                hint="`dpsql budget --history` shows the id of each release; its first 8 characters will do",
            )
        return found[0]

    def kept(self, id: str) -> tuple[Entry, list[Kept]]:
        """One spend, and what was kept with it."""
        entry = self.entry(id)
        return entry, stored.of_receipt(self._journal, entry.id)

    def left(self, quota: Quota | None, price: Cost | None = None) -> Cost:
        """What may still be spent, of the account, and of the quota where that is less; price: if it were paid first.

        A price that doesn't fit leaves nothing.
        """
        first = self._account.filter.nothing if price is None else price
        with self._journal.looking():  # one for both: they are of the same moment
            self._agree()
            period = self._now(durable.now())
            left = self._account.filter.remaining(self._sum(period) + first)
            if quota is None:
                return left
            share = make_filter(self._account.accountant, quota.epsilon, self._account.delta)
            mine = share.remaining(self._sum(period, quota.counts) + first)
        tighter = mine.epsilon < left.epsilon if left.rho is None else (mine.rho or 0) < left.rho
        return Cost(mine.epsilon, left.delta, mine.rho, left.parts) if tighter else left

    @property
    def balance(self) -> Balance:
        """What all processes together have spent by now, and what is left."""
        with self._journal.looking():
            return self._balance()

    def _balance(self) -> Balance:
        """The balance, inside a transaction."""
        self._agree()
        period = self._now(durable.now())
        filter_, spent = self._account.filter, self._sum(period)
        sums: dict[str, Cost] = {}
        for (when, analyst), cost in self._journal.state.spent().items():
            if _within(when, period):
                sums[analyst] = sums[analyst] + cost if analyst in sums else cost
        by_analyst = {name: filter_.shown(sums[name]) for name in sorted(sums)}
        return Balance(filter_.total, filter_.shown(spent), filter_.remaining(spent), by_analyst, period)

    def history(self) -> list[Entry]:
        """Every spend, oldest first."""
        return self._entries()

    def _entries(self, prefix: str = "") -> list[Entry]:
        """The spends whose ids begin with this."""
        journal = self._journal
        with journal.reading() as db:
            if prefix:
                places = [place for id, place in journal.state.spends.items() if id.startswith(prefix)]
                spends = [spend for place in places for spend in journal.spends(db, [place])]
            else:
                spends = journal.spends(db, list(journal.state.spends.values()))
            released = journal.state.released
            bodies = {text: json.loads(text) for text in {text for _, _, text, _ in spends}}  # many are equal
            told = {text: (read_cost(body), body["analyst"], body["period"]) for text, body in bodies.items()}
            found = []
            for id, time, text, note in spends:
                cost, analyst, period = told[text]
                state: State = "released" if id in released else "reserved"
                found.append(Entry(id, time, cost, state, json.loads(note), analyst, period))
            return found

    @classmethod
    def accept_policy_change(
        cls, path: Path | str, account: Account, *, anchor: Anchor | None = None, unspent: bool = False
    ) -> list[str]:
        """Steward's act: the account's totals become these. Returns what changed, a line each; none: nothing did.

        unspent: only an account that nothing was ever spent on is changed.

        What was spent stays spent. Further tables are accepted at any time (Theorem EXTEND-1). Otherwise another
        relation or accountant is accepted only while nothing was spent at all: earlier spends would have to be
        converted by group privacy, which this version doesn't do.
        """
        check_account(account)
        journal = Journal(path, None, anchor=anchor)
        try:
            with journal.writing() as writer:
                recorded = journal.state.account
                assert recorded is not None
                lines = recorded.changes(account)
                if not lines or (unspent and journal.state.spends):
                    return []
                other = not recorded.same_kind(account) and not account.added(recorded)
                if other and journal.state.spends:
                    raise _other_kind(journal.store.name, lines)
                writer.add(account_event(account, forgets=other, closed=journal.state.closed))
                return lines
        finally:
            journal.store.close()

    def recognise(self, sources: Sequence[Source]) -> Mapping[str, str]:
        """Each table's data version; LedgerError "data-changed" if one isn't what the ledger recorded.

        A table that the ledger never saw is recorded. That reads its files in full, once; after that a file is read
        again only when its size, times or inode changed. A file that was written is a change, whatever it holds now.
        Objects in memory are hashed each time. A version is a random name: it tells nothing about the data.
        """
        return versions.recognise(self._journal, sources)

    def sights(self, sources: Sequence[Source]) -> dict[str, Sight]:
        """Each table's source beside the version that the ledger has of it; nothing is accepted or refused."""
        return versions.sights(self._journal, sources)

    def accept(self, found: Mapping[str, Sight], keep: Collection[str] = ()) -> dict[str, str]:
        """What was found is the present version of each table from now on; the budget stays as it is.

        keep: tables that were written anew with the rows of the present version, by the steward's word.
        """
        return versions.accept(self._journal, found, keep)

    def identify(self, sources: Sequence[Source]) -> Mapping[str, str]:
        """What tells each public table's contents apart; a change of them is nobody's to accept."""
        return versions.identify(self._journal, sources)

    def record_promise(self, table: str, promise: str, version: str, holds: bool) -> None:
        """Steward's act: what a check of this version found.

        The text must name all that the promise rests on besides the rows: its columns, their types, the unit.
        """
        versions.record_promise(self._journal, table, promise, version, holds)

    def promises(self, table: str, version: str) -> frozenset[str]:
        """The promises verified for exactly this version; a broken or an unchecked one is not among them."""
        return frozenset(promise for promise, holds in self.findings(table, version).items() if holds)

    def findings(self, table: str, version: str) -> dict[str, bool]:
        """What was found of each promise that was checked for exactly this version."""
        return versions.findings(self._journal, table, version)

    def state_of(self, table: str) -> str:
        """The present version of a table and how it was last seen: another one also where a refresh kept the version.

        What rests on it was found in the very files that are there now (Theorem PROMISE-1). Never shown.
        """
        with self._journal.looking() as state:
            present = state.present(table)
        return "" if present is None else f"{present[0]} {present[1].digest.hex()} {present[1].stamp.hex()}"

    def seal(self, purpose: str, content: bytes) -> bytes:
        """A tag under the ledger's key for what is written beside it: who lacks the key can't make it."""
        with self._journal.looking():
            return tag(self._journal.key, purpose, blake2b(content, digest_size=DIGEST_BYTES).digest())

    def is_sealed(self, its_tag: bytes, purpose: str, content: bytes) -> bool:
        """Is this the tag of that content, under the ledger's key as it is now?"""
        with self._journal.looking():
            return agrees(its_tag, self._journal.key, purpose, blake2b(content, digest_size=DIGEST_BYTES).digest())

    def checked(self, table: str) -> frozenset[str]:
        """The promises of a table that any check has spoken of, for whichever version."""
        return versions.checked(self._journal, table)

    def is_late(self, table: str, version: str) -> bool:
        """Was anything spent on this version before one of its promises was checked?"""
        return versions.is_late(self._journal, table, version)

    def keep_manifest(self, table: str, version: str, manifest: str) -> None:
        """Note what a version is made of, so that a steward can be told what differs in the next one."""
        versions.keep_manifest(self._journal, table, version, manifest)

    def manifest(self, table: str, version: str) -> str | None:
        """What a version is made of; None where it isn't known."""
        return versions.manifest(self._journal, table, version)

    def keyed(self, purpose: str, text: str) -> bytes:
        """A hash of 32 bytes that nobody can make without this ledger's secret."""
        return blake2b(text.encode(), key=self._journal.secret, digest_size=32, person=purpose.encode()).digest()

    def _agree(self) -> None:
        """The file must be an account of what this policy says, now and not just when it was opened."""
        recorded = self._journal.state.account
        assert recorded is not None
        if recorded == self._account:
            return
        lines = recorded.changes(self._account)
        if not recorded.same_kind(self._account) and not self._account.added(recorded):
            if self._journal.state.spends:
                raise _other_kind(self._store.name, lines)
            raise LedgerError(
                f"the policy was changed after the ledger {self._store.name} was made, and nothing was spent yet "
                f"({'; '.join(lines)})",
                code="policy-changed",
                hint="let the ledger follow the policy: `dpsql budget --accept-policy-change --steward`",
            )
        raise LedgerError(
            f"the policy isn't what the ledger {self._store.name} records ({'; '.join(lines)})",
            code="policy-changed",
            hint="if that is meant to be, the steward records it: `dpsql budget --accept-policy-change --steward`",
        )

    def _check_open(self) -> None:
        """A closed account pays nothing more; what it released stays."""
        if (closed := self._journal.state.closed) is not None:
            raise LedgerError(
                f"the account of the ledger {self._store.name} is closed: {closed}",
                code="account-closed",
                hint="what was released can still be shown: `dpsql budget --history`",
            )

    def _sum(self, period: str, counts: Callable[[str], bool] = lambda _: True) -> Cost:
        """What was spent in a period, by those analysts that count."""
        total = self._account.filter.nothing
        for (when, analyst), cost in self._journal.state.spent().items():
            if _within(when, period) and counts(analyst):
                total += cost  # Theorems COMP-1 and COMP-2
        return total

    def _now(self, time: str) -> str:
        """The period that a spend falls into: never one before the last, so that no clock can renew by going back."""
        return max(time[:7], self._journal.state.period) if self._account.renew else ""


def _within(when: str, period: str) -> bool:
    """Does a spend count in this period? An account for life counts them all, and its own spends count for ever."""
    return when == period or not when or not period


def _unknown_receipt(what: str, done: str) -> LedgerError:
    return LedgerError(
        f"the ledger holds {what}",
        code="receipt-unknown",
        hint=f"a receipt belongs to the ledger that gave it, and is {done} once",
    )


def _other_kind(name: str, lines: list[str]) -> LedgerError:
    # An account is for one neighbour relation: spends per row are many times as much per customer.
    return LedgerError(
        f"the ledger {name} is an account for another neighbour relation or accountant ({'; '.join(lines)})",
        code="policy-changed",
        hint="use a new ledger file ([budget] ledger = …), or undo the change: earlier spends would need conversion by "
        "group privacy",
    )
