"""The ledger: one durable account of everything that ever left dpsql under one total.

    Account    what one ledger file is an account of
    Receipt    one spend; reserved before the first private row is read, released when the answer has left
    Balance    total, spent, remaining
    Ledger     the file

A price is recorded before the first row is read and there is no way to take it back (Theorem LEDGER-1), so a crash at
any point leaves spent ≥ released. All sums are exact rationals.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path

from dpsql.accounting import versions
from dpsql.accounting.account import Account, Balance, Entry, Receipt, check_account, check_price
from dpsql.accounting.cost import ZERO, Cost
from dpsql.accounting.filters import admits, refusal, remaining
from dpsql.accounting.fingerprint import Source
from dpsql.accounting.store import Store
from dpsql.errors import LedgerError

__all__ = ["Account", "Balance", "Entry", "Ledger", "Receipt", "Source"]


class Ledger:
    """One account, shared by any number of threads and processes (but not across a fork)."""

    def __init__(self, path: Path | str, account: Account) -> None:
        """Open the ledger, or create it where there is none; refused when it is an account of something else."""
        check_account(account)
        self._account = account
        self._store = Store(path, lambda db: _record_account(db, account))
        self._spent, self._seen = ZERO, 0
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

    def reserve(self, price: Cost, note: Mapping[str, object]) -> Receipt:
        """Record the price, durably, before the first private row is read; BudgetError if it doesn't fit."""
        check_price(price)
        text = json.dumps(dict(note), sort_keys=True, default=str)
        receipt = Receipt(secrets.token_hex(16), versions.now(), price, "reserved")
        with self._store.transaction() as db:
            self._agree(db)
            spent = self._add_up(db)
            if not admits(self._account.total, spent, price):  # Theorem COMP-1
                raise refusal(self._account.total, spent, price)
            # Theorem LEDGER-1: on disk when the transaction ends, and nothing in this package removes it.
            db.execute(
                "INSERT INTO release (id, time, epsilon, delta, state, note, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    receipt.id,
                    receipt.time,
                    str(price.epsilon),
                    str(price.delta),
                    receipt.state,
                    text,
                    _checksum(spent + price),
                ),
            )
        return receipt

    def released(self, receipt: Receipt) -> Receipt:
        """Note that the answer has left; what is spent stays the same."""
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
        return replace(receipt, state="released")

    @property
    def balance(self) -> Balance:
        """What all processes together have spent by now, and what is left."""
        with self._store.snapshot() as db:
            self._agree(db)
            spent = self._add_up(db)
        total = self._account.total
        return Balance(total, spent, remaining(total, spent))

    def history(self) -> list[Entry]:
        """Every spend, oldest first."""
        with self._store.snapshot() as db:
            rows = db.execute("SELECT id, time, epsilon, delta, state, note FROM release ORDER BY seq").fetchall()
        return [
            Entry(id, time, Cost(self._number(epsilon), self._number(delta)), state, _parsed(self._store, note))
            for id, time, epsilon, delta, state, note in rows
        ]

    @classmethod
    def accept_policy_change(cls, path: Path | str, account: Account) -> list[str]:
        """Steward's act: the account's totals become these. Returns what changed, a line each; none: nothing did.

        What was spent stays spent. Another relation or accountant is accepted only while nothing was spent at all:
        earlier spends would have to be converted by group privacy, which this version doesn't do.
        """
        check_account(account)
        store = Store(path, None)
        try:
            with store.transaction() as db:
                recorded = _recorded_account(store, db)
                lines = recorded.changes(account)
                if not lines:
                    return []
                if not recorded.same_kind(account):
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
        if not recorded.same_kind(self._account):
            raise _other_kind(self._store.name, lines)
        raise LedgerError(
            f"the policy's budget isn't what the ledger {self._store.name} records ({'; '.join(lines)})",
            code="policy-changed",
            hint="if that is meant to be, the steward records it: `dpsql budget --accept-policy-change --steward`",
        )

    def _add_up(self, db: sqlite3.Connection) -> Cost:
        """Everything spent, reserved or released, by whichever process; only rows since the last look are added."""
        rows = db.execute(
            "SELECT epsilon, delta, COUNT(*), MAX(seq) FROM release WHERE seq > ? GROUP BY epsilon, delta",
            (self._seen,),
        ).fetchall()
        spent, seen = self._spent, self._seen
        for epsilon, delta, times, last in rows:
            spent += Cost(times * self._number(epsilon), times * self._number(delta))  # Theorem COMP-1
            seen = max(seen, last)
        # Spends are numbered without gaps, SQLite keeps the last number, and each spend has the checksum of the sum so
        # far: a spend that was lost or altered by a failing disk is noticed here.
        issued = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'release'").fetchone()
        checksum = db.execute("SELECT checksum FROM release WHERE seq = ?", (seen,)).fetchone()
        whole = seen - self._seen == sum(times for _, _, times, _ in rows)
        if not whole or issued != (None if seen == 0 else (seen,)) or (seen and checksum != (_checksum(spent),)):
            raise self._store.damaged()
        self._spent, self._seen = spent, seen
        return spent

    def _number(self, text: str) -> Fraction:
        return _number(self._store, text)


def _checksum(spent: Cost) -> bytes:
    numbers = (part for number in (spent.epsilon, spent.delta) for part in number.as_integer_ratio())
    return blake2b(" ".join(f"{number:x}" for number in numbers).encode(), digest_size=16).digest()


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
    row = db.execute("SELECT epsilon, delta, accountant, relation FROM account ORDER BY seq DESC LIMIT 1").fetchone()
    if row is None:
        raise store.damaged()
    epsilon, delta, accountant, relation = row
    _parsed(store, relation)
    return Account(_number(store, epsilon), _number(store, delta), accountant, relation)


def _record_account(db: sqlite3.Connection, account: Account) -> None:
    db.execute(
        "INSERT INTO account (time, epsilon, delta, accountant, relation) VALUES (?, ?, ?, ?, ?)",
        (versions.now(), str(account.epsilon), str(account.delta), account.accountant, account.relation),
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
