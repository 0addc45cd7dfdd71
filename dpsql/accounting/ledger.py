"""The ledger: one durable account of everything that ever left dpsql under one total.

    Account    what one ledger file is an account of
    Receipt    one spend; reserved before the first private row is read, released when the answer has left
    Balance    total, spent, remaining
    Ledger     the file

A price is recorded before the first row is read and there is no way to take it back (Theorem LEDGER-1), so a crash at
any point leaves spent ≥ released. All sums are exact rationals. Rows are chained (chain.py).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from dpsql.accounting import stored, versions
from dpsql.accounting.account import Account, Balance, Entry, Quota, Receipt, check_account, check_price
from dpsql.accounting.chain import link
from dpsql.accounting.cost import Cost
from dpsql.accounting.filters import Filter, make_filter, refusal
from dpsql.accounting.fingerprint import Source
from dpsql.accounting.store import Store
from dpsql.accounting.stored import Kept
from dpsql.errors import BudgetError, LedgerError

__all__ = ["Account", "Balance", "Entry", "Kept", "Ledger", "Quota", "Receipt", "Source"]

_CHAINED = "id, time, period, analyst, epsilon, delta, rho, parts, note"


class Ledger:
    """One account, shared by any number of threads and processes (but not across a fork)."""

    def __init__(self, path: Path | str, account: Account) -> None:
        """Open the ledger, or create it where there is none; refused when it is an account of something else."""
        check_account(account)
        self._account = account
        self._store = Store(path, lambda db: _record_account(db, account))
        self._spent: dict[tuple[str, str], Cost] = {}  # by period and analyst
        self._seen, self._chain, self._period = (
            0,
            b"",
            "",
        )  # of the rows that were added up: the last, the last, the latest
        try:
            with self._store.snapshot() as db:
                self._agree(db)
                self._add_up(db)
        except BaseException:
            self._store.close()
            raise

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Nothing is pending: every spend was durable when `reserve` returned."""
        self._store.close()

    @property
    def account(self) -> Account:
        return self._account

    def reserve(
        self, price: Cost, note: Mapping[str, object], *, analyst: str = "", quota: Quota | None = None
    ) -> Receipt:
        """Record the price, durably, before the first private row is read; BudgetError if it doesn't fit."""
        return self.reserve_all([(price, note)], analyst=analyst, quota=quota)[0]

    def reserve_all(
        self, spends: Sequence[tuple[Cost, Mapping[str, object]]], *, analyst: str = "", quota: Quota | None = None
    ) -> list[Receipt]:
        """Record several prices with their notes at once: all of them, or none and BudgetError."""
        for price, _ in spends:
            check_price(price, self._account.accountant)
        time = versions.now()
        receipts = [Receipt(secrets.token_hex(16), time, price, "reserved") for price, _ in spends]
        with self._store.transaction() as db:
            self._agree(db)
            self._add_up(db)
            period, chain = self._now(time), self._chain
            self._admit(sum((price for price, _ in spends), self._account.filter.nothing), period, quota)
            for receipt, (price, note) in zip(receipts, spends, strict=True):
                numbers = [None if n is None else str(n) for n in (price.epsilon, price.delta, price.rho, price.parts)]
                text = json.dumps(dict(note), sort_keys=True, default=str)
                fields = (receipt.id, receipt.time, period, analyst, *numbers, text)
                chain = link(_secret(db), chain, fields)
                # Theorem LEDGER-1: on disk when the transaction ends, and nothing in this package removes it.
                db.execute(
                    f"INSERT INTO release ({_CHAINED}, chain, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*fields, chain, receipt.state),
                )
        return receipts

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

    def released(self, receipt: Receipt, kept: Sequence[Kept] = ()) -> Receipt:
        """Note that the answer has left, and keep it; what is spent stays the same."""
        with self._store.transaction() as db:
            done = db.execute(
                "UPDATE release SET state = 'released' WHERE id = ? AND state = 'reserved'", (receipt.id,)
            ).rowcount
            if done != 1:
                raise LedgerError(
                    f"the ledger holds no reserved spend {receipt.id}",
                    code="receipt-unknown",
                    hint="a receipt belongs to the ledger that gave it, and is released once",
                )
            stored.keep(db, _secret(db), receipt.id, kept)
        return replace(receipt, state="released")

    def stored(self, key: bytes) -> list[tuple[str, Kept]]:
        """What was released under this key, the newest first, each with the id of the spend that paid for it."""
        return stored.releases(self._store, key)

    def has_stored(self) -> bool:
        """Is anything kept that later queries could be answered from?"""
        return stored.any_kept(self._store)

    def entry(self, id: str) -> Entry:
        """One spend, by its id or the beginning of it."""
        found = self._entries("WHERE substr(id, 1, ?) = ?", (len(id), id)) if len(id) >= 4 else []
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
        return entry, stored.of_receipt(self._store, entry.id)

    def left(self, quota: Quota | None) -> Cost:
        """What may still be spent: of the account, and of the quota where that is less."""
        left = self.balance.remaining
        if quota is None:
            return left
        share = make_filter(self._account.accountant, quota.epsilon, self._account.delta)
        mine = share.remaining(self._sum(self.balance.period, quota.counts))
        tighter = mine.epsilon < left.epsilon if left.rho is None else (mine.rho or 0) < left.rho
        return Cost(mine.epsilon, left.delta, mine.rho, left.parts) if tighter else left

    @property
    def balance(self) -> Balance:
        """What all processes together have spent by now, and what is left."""
        with self._store.snapshot() as db:
            self._agree(db)
            self._add_up(db)
            period = self._now(versions.now())
        filter_, spent = self._account.filter, self._sum(period)
        names = sorted({analyst for when, analyst in self._spent if _within(when, period)})
        by_analyst = {n: filter_.shown(self._sum(period, n.__eq__)) for n in names}
        return Balance(filter_.total, filter_.shown(spent), filter_.remaining(spent), by_analyst, period)

    def history(self) -> list[Entry]:
        """Every spend, oldest first."""
        return self._entries("", ())

    def _entries(self, where: str, values: tuple[object, ...]) -> list[Entry]:
        with self._store.snapshot() as db:
            rows = db.execute(f"SELECT state, {_CHAINED} FROM release {where} ORDER BY seq", values).fetchall()
        return [
            Entry(id, time, self._cost(*numbers), state, _parsed(self._store, note), analyst, period)
            for state, id, time, period, analyst, *numbers, note in rows
        ]

    @classmethod
    def accept_policy_change(cls, path: Path | str, account: Account) -> list[str]:
        """Steward's act: the account's totals become these. Returns what changed, a line each; none: nothing did.

        What was spent stays spent. Further tables are accepted at any time (Theorem EXTEND-1). Otherwise another
        relation or accountant is accepted only while nothing was spent at all: earlier spends would have to be
        converted by group privacy, which this version doesn't do.
        """
        check_account(account)
        store = Store(path, None)
        try:
            with store.transaction() as db:
                recorded = _recorded_account(store, db)
                lines = recorded.changes(account)
                if not lines:
                    return []
                if not recorded.same_kind(account) and not account.added(recorded):
                    if db.execute("SELECT 1 FROM release LIMIT 1").fetchone() is not None:
                        raise _other_kind(store.name, lines)
                    db.execute("DELETE FROM promise")  # they were verified for other units
                _record_account(db, account)
                return lines
        finally:
            store.close()

    def recognise(self, sources: Sequence[Source]) -> Mapping[str, str]:
        """Each table's data version; LedgerError "data-changed" if one isn't what the ledger recorded.

        A table that the ledger never saw is recorded. That reads its files in full, once; after that a file is read
        again only when its size, times or inode changed, and only other contents are a change. Objects in memory
        are hashed each time. A version is a random name: it tells nothing about the data.
        """
        return versions.recognise(self._store, sources)

    def identify(self, sources: Sequence[Source]) -> Mapping[str, str]:
        """What tells each public table's contents apart; a change of them is nobody's to accept."""
        return versions.identify(self._store, sources)

    def accept_data_change(self, sources: Sequence[Source]) -> list[str]:
        """Steward's act: what is there now is the present version. Returns what changed; the budget doesn't."""
        return versions.accept(self._store, sources)

    def record_promise(self, table: str, promise: str, version: str, holds: bool) -> None:
        """Steward's act: what a check of this version found.

        The text must name all that the promise rests on besides the rows: its columns, their types, the unit.
        """
        versions.record_promise(self._store, table, promise, version, holds)

    def promises(self, table: str, version: str) -> frozenset[str]:
        """The promises verified for exactly this version; a broken or an unchecked one is not among them."""
        return versions.promises(self._store, table, version)

    def _agree(self, db: sqlite3.Connection) -> None:
        """The file must be an account of what this policy says, now and not just when it was opened."""
        recorded = _recorded_account(self._store, db)
        if recorded == self._account:
            return
        lines = recorded.changes(self._account)
        if not recorded.same_kind(self._account) and not self._account.added(recorded):
            raise _other_kind(self._store.name, lines)
        raise LedgerError(
            f"the policy isn't what the ledger {self._store.name} records ({'; '.join(lines)})",
            code="policy-changed",
            hint="if that is meant to be, the steward records it: `dpsql budget --accept-policy-change --steward`",
        )

    def _add_up(self, db: sqlite3.Connection) -> None:
        """Everything spent, reserved or released, by whichever process; only rows since the last look are added."""
        rows = db.execute(
            f"SELECT seq, chain, {_CHAINED} FROM release WHERE seq > ? ORDER BY seq", (self._seen,)
        ).fetchall()
        spent, seen, chain, period = dict(self._spent), self._seen, self._chain, self._period
        secret = _secret(db) if rows else b""
        alike: Counter[tuple[str, ...]] = Counter()  # spends of one period, analyst and price
        for seq, recorded, *fields in rows:
            # Spends are numbered without gaps and chained: a spend that was lost or altered is noticed here.
            if seq != seen + 1 or recorded != link(secret, chain, fields):
                raise self._store.damaged()
            seen, chain, period = seq, recorded, max(period, fields[2])
            alike[tuple(fields[2:8])] += 1
        for (when, analyst, *price), times in alike.items():
            cost = self._cost(*price).times(times)
            if (cost.rho is None) != (self._account.accountant == "basic"):
                raise self._store.damaged()
            before = spent.get((when, analyst))
            spent[when, analyst] = cost if before is None else before + cost
        # SQLite keeps the last number: the end of the chain can't be cut off unnoticed either.
        issued = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'release'").fetchone()
        if issued != (None if seen == 0 else (seen,)):
            raise self._store.damaged()
        self._spent, self._seen, self._chain, self._period = spent, seen, chain, period

    def _sum(self, period: str, counts: Callable[[str], bool] = lambda _: True) -> Cost:
        """What was spent in a period, by those analysts that count."""
        total = self._account.filter.nothing
        for (when, analyst), cost in self._spent.items():
            if _within(when, period) and counts(analyst):
                total += cost  # Theorems COMP-1 and COMP-2
        return total

    def _now(self, time: str) -> str:
        """The period that a spend falls into: never one before the last, so that no clock can renew by going back."""
        return max(time[:7], self._period) if self._account.renew else ""

    def _cost(self, epsilon: str, delta: str, rho: str | None, parts: str) -> Cost:
        number = self._number
        return Cost(number(epsilon), number(delta), None if rho is None else number(rho), number(parts))

    def _number(self, text: str) -> Fraction:
        return _number(self._store, text)


def _within(when: str, period: str) -> bool:
    """Does a spend count in this period? An account for life counts them all, and its own spends count for ever."""
    return when == period or not when or not period


def _secret(db: sqlite3.Connection) -> bytes:
    (secret,) = db.execute("SELECT key FROM secret").fetchone()
    return bytes(secret)


def _number(store: Store, text: str) -> Fraction:
    try:
        number = Fraction(text)
    except (ValueError, TypeError, ZeroDivisionError):
        raise store.damaged() from None
    if number < 0:
        raise store.damaged()
    return number


def _parsed(store: Store, text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, TypeError):
        raise store.damaged() from None
    if not isinstance(value, dict):
        raise store.damaged()
    return value


def _recorded_account(store: Store, db: sqlite3.Connection) -> Account:
    """The last account on record; the earlier ones are chained to it."""
    rows = db.execute(
        "SELECT seq, chain, time, epsilon, delta, accountant, relation, renew FROM account ORDER BY seq"
    ).fetchall()
    chain = b""
    for place, (seq, recorded, *fields) in enumerate(rows, 1):
        if seq != place or recorded != link(_secret(db), chain, fields):
            raise store.damaged()
        chain = recorded
    if not rows or db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'account'").fetchone() != (len(rows),):
        raise store.damaged()
    epsilon, delta, accountant, relation, renew = rows[-1][3:]
    _parsed(store, relation)
    return Account(_number(store, epsilon), _number(store, delta), accountant, relation, renew)


def _record_account(db: sqlite3.Connection, account: Account) -> None:
    last = db.execute("SELECT chain FROM account ORDER BY seq DESC LIMIT 1").fetchone()
    fields = (
        versions.now(), str(account.epsilon), str(account.delta), account.accountant, account.relation, account.renew
    )  # fmt: skip
    db.execute(
        "INSERT INTO account (time, epsilon, delta, accountant, relation, renew, chain) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*fields, link(_secret(db), b"" if last is None else last[0], fields)),
    )


def _other_kind(name: str, lines: list[str]) -> LedgerError:
    # An account is for one neighbour relation: spends per row are many times as much per customer.
    return LedgerError(
        f"the ledger {name} is an account for another neighbour relation or accountant ({'; '.join(lines)})",
        code="policy-changed",
        hint="use a new ledger file ([budget] ledger = …), or undo the change: earlier spends would need conversion by "
        "group privacy.\nWhile nothing was spent, the steward may record it: "
        "`dpsql budget --accept-policy-change --steward`",
    )
