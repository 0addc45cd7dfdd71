"""Older ledgers, brought to the present format in one transaction: every spend, version, promise, answer and total.

    format 1    running sums of ε and δ, each with a checksum
    format 2    accounts and spends in two chains; analysts, periods, ρ; stored answers. Its key lay in the file itself,
                and data versions, promises and marks of files had no hash: they are taken as they are found

What the old format can verify is verified first, and a ledger that fails is left as it is; so is one that couldn't be
opened afterwards. An older format has no key: beside a key, a ledger of one is refused (it may be a forged one in the
place of the key's own, and would be signed) unless the steward says that the key is to be replaced.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dpsql.accounting import clock, stored
from dpsql.accounting.account import Account
from dpsql.accounting.anchor import Anchor
from dpsql.accounting.chain import tag
from dpsql.accounting.events import Event, Malformed, number
from dpsql.accounting.journal import Journal, Writer, account_event, begin
from dpsql.accounting.keys import Keys
from dpsql.accounting.store import OLDER, SCHEMA, SCHEMA_VERSION, Store, whole
from dpsql.core.errors import LedgerError

_TABLES = ("secret", "account", "release", "stored", "file", "source", "promise")
_FIELDS = ("id", "time", "period", "analyst", "epsilon", "delta", "rho", "parts", "note")


def upgrade(path: Path | str, *, anchor: Anchor | None = None, replace_key: bool = False) -> int | None:
    """Steward's act: bring an older ledger to the present format. The format that it had; None: the present one.

    replace_key: a key that is there already isn't that of another ledger, and gives way.
    """
    noted = None if anchor is None else anchor.read()
    store = Store(path, None, older=True)
    try:
        if store.format not in OLDER:
            return None
        if noted is not None:
            raise LedgerError(
                f"the ledger {store.name} has format {store.format}, and was anchored with a later one",
                code="ledger-rolled-back",
                hint="it is an older copy, from before it was upgraded: put the latest one back",
            )
        done = _rewrite(store, Keys(Path(store.name)), replace_key)
    finally:
        store.close()
    _settle(path)
    if anchor is not None:
        Journal(path, None, anchor=anchor).store.close()  # an opening notes how far the ledger has come
    return store.format if done else None


def _settle(path: Path | str) -> None:
    journal = Journal(path, None)
    try:
        journal.settle()
    finally:
        journal.store.close()


def _rewrite(store: Store, keys: Keys, replace_key: bool) -> bool:
    """False, and nothing is changed, where another process was faster."""
    with store.transaction() as db:
        (now,) = db.execute("PRAGMA user_version").fetchone()
        if now == SCHEMA_VERSION:
            return False
        if now != store.format:
            raise store.damaged()
        db.execute("PRAGMA secure_delete = ON")  # the old key and secret must not stay in pages that are free now
        try:
            old = _Old(store.format, db)
            events = list(old.events())
            key = keys.for_upgrade(replace=replace_key)
            _written(db, old, key, events)
            _check(store, db, key)
        except (ValueError, TypeError, LookupError, ZeroDivisionError, sqlite3.OperationalError, _Damaged, Malformed):
            raise store.damaged() from None
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    store.empty_log()
    return True


def _written(db: sqlite3.Connection, old: _Old, key: bytes, events: list[Event]) -> None:
    """Put the new tables into the old ones' place."""
    for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {trigger}")
    for table in old.tables:
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _statements(SCHEMA):
        db.execute(statement)
    note = begin(db, key, old.secret, events)
    writer = Writer(db, key, note.count, note.link)
    place = 1
    for receipt, time in old.released():
        place += stored.record(writer, place, "released", time, receipt, old.kept(receipt))
    writer.add(Event("upgraded", clock.now(), {"from": old.format}))
    for mark in db.execute("SELECT path, stamp, digest FROM old_file").fetchall():
        db.execute("INSERT INTO file (path, stamp, digest, tag) VALUES (?, ?, ?, ?)", (*mark, tag(key, "mark", *mark)))
    for table in old.tables:
        db.execute(f"DROP TABLE old_{table}")
    writer.finish()


def _check(store: Store, db: sqlite3.Connection, key: bytes) -> None:
    """All that an opening verifies: nothing is committed that the present format would refuse."""
    if not whole(db) or db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise _Damaged
    Journal.verify(store, db, key)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: executescript would end the transaction."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text.strip()
            text = ""


class _Damaged(Exception):
    """Something that the old format vouches for isn't so."""


class _Old:
    """What an old ledger says, verified as far as its format can."""

    def __init__(self, format: int, db: sqlite3.Connection) -> None:
        self.format, self._db = format, db
        ((self.secret,),) = db.execute("SELECT key FROM secret").fetchall()
        if len(self.secret) != 32:
            raise _Damaged
        self.tables = tuple(t for t in _TABLES if format > 1 or t != "stored")
        self._stored: dict[str, list[int]] = {}
        if format > 1:
            for seq, receipt in db.execute("SELECT seq, receipt FROM stored ORDER BY seq"):
                self._stored.setdefault(receipt, []).append(seq)
        self._accounts = self._read_accounts()
        self._spends = self._read_spends()
        self._check_stored()

    def events(self) -> Iterator[Event]:
        """Accounts, versions, promises and spends; what was released follows."""
        accounts = [(time, Account(number(e), number(d), *rest)) for time, e, d, *rest in self._accounts]
        for time, account in accounts:
            yield account_event(account, time=time)
        for time, *seen in self._db.execute("SELECT time, name, version, digest FROM source ORDER BY seq"):
            name, version, digest = seen
            yield Event("source", time, {"table": name, "version": version, "digest": digest.hex()})
        for time, *found in self._db.execute("SELECT time, name, version, promise, holds FROM promise ORDER BY seq"):
            name, version, promise, holds = found
            yield Event("promise", time, {"table": name, "version": version, "promise": promise, "holds": holds == 1})
        for spend in self._spends:
            names = ("period", "analyst", "epsilon", "delta", "rho", "parts")
            body = {name: spend[name] for name in names} | {"covers": None, "claimed": False}
            yield Event("spend", spend["time"], body, spend["id"], spend["note"])

    def released(self) -> list[tuple[str, str]]:
        """The spends whose answers have left, in the order in which what was kept of them was stored."""
        done = [(s["id"], s["time"]) for s in self._spends if s["state"] == "released"]
        return sorted(done, key=lambda spend: self._stored.get(spend[0], [0])[0])

    def kept(self, receipt: str) -> list[stored.Kept]:
        """What was kept of a spend, after its tables were renamed."""
        rows = []
        for seq in self._stored.get(receipt, []):
            ask = "SELECT kind, key, facts, data FROM old_stored WHERE seq = ?"
            rows.append(stored.Kept(*self._db.execute(ask, (seq,)).fetchone()))
        return rows

    def _read_accounts(self) -> list[tuple[Any, ...]]:
        columns = "time, epsilon, delta, accountant, relation" + (", renew, chain" if self.format > 1 else ", '', ''")
        rows = self._numbered("account", columns)
        chain = b""
        for *fields, recorded in rows:
            chain = _link(self.secret, chain, fields)
            if self.format > 1 and recorded != chain:
                raise _Damaged
            if not isinstance(json.loads(fields[4]), dict):
                raise _Damaged
        if not rows:
            raise _Damaged
        return [tuple(fields) for *fields, _ in rows]

    def _read_spends(self) -> list[dict[str, Any]]:
        if self.format > 1:
            columns = ", ".join(_FIELDS) + ", chain, state"
        else:
            columns = "id, time, '', '', epsilon, delta, NULL, '0', note, checksum, state"
        chain, epsilon, delta, found = b"", Fraction(0), Fraction(0), []
        for *fields, recorded, state in self._numbered("release", columns):
            spend = dict(zip(_FIELDS, fields, strict=True))
            chain = _link(self.secret, chain, fields)
            epsilon, delta = epsilon + number(spend["epsilon"]), delta + number(spend["delta"])
            if recorded != (chain if self.format > 1 else _checksum(epsilon, delta)):
                raise _Damaged
            if state not in ("reserved", "released") or not isinstance(json.loads(spend["note"]), dict):
                raise _Damaged
            found.append(spend | {"state": state})
        return found

    def _check_stored(self) -> None:
        """Every stored row has its keyed digest, and belongs to a spend that was released."""
        done = {spend["id"] for spend in self._spends if spend["state"] == "released"}
        if not self._stored.keys() <= done:
            raise _Damaged
        for receipt, places in self._stored.items():
            for seq in places:
                ask = "SELECT kind, key, facts, data, digest FROM stored WHERE seq = ?"
                *fields, digest = self._db.execute(ask, (seq,)).fetchone()
                if digest != _digest(self.secret, receipt, stored.Kept(*fields)):
                    raise _Damaged

    def _numbered(self, table: str, columns: str) -> list[tuple[Any, ...]]:
        """The rows of a table, which are numbered without gaps up to the last number that was given."""
        rows = self._db.execute(f"SELECT seq, {columns} FROM {table} ORDER BY seq").fetchall()
        issued = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        if [row[0] for row in rows] != list(range(1, len(rows) + 1)) or (issued or (0,))[0] != len(rows):
            raise _Damaged
        return [row[1:] for row in rows]


def _link(secret: bytes, before: bytes, fields: list[Any]) -> bytes:
    """The hash of a row in format 2."""
    text = json.dumps([before.hex(), *fields], ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(errors="surrogatepass"), key=secret, digest_size=16, person=b"dpsql.chain").digest()


def _checksum(epsilon: Fraction, delta: Fraction) -> bytes:
    """The hash of a running sum in format 1."""
    numbers = (part for number in (epsilon, delta) for part in number.as_integer_ratio())
    return blake2b(" ".join(f"{number:x}" for number in numbers).encode(), digest_size=16).digest()


def _digest(secret: bytes, receipt: str, kept: stored.Kept) -> bytes:
    """The hash of a stored row in format 2."""
    whole = blake2b(key=secret, digest_size=16, person=b"dpsql.stored")
    for field in (receipt.encode(), kept.kind.encode(), kept.key, kept.facts.encode(), kept.data):
        whole.update(len(field).to_bytes(8, "big"))
        whole.update(field)
    return whole.digest()
