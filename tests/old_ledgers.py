"""Ledgers of formats 1 and 2, written as earlier versions wrote them: by hand, with no code of the package's own."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from typing import Any

from dpsql.accounting.fingerprint import Source, fingerprint
from dpsql.accounting.ledger import Account, Kept

ROW = '{"adjacency":"add_remove","tables":{"t":{"unit":"row"}}}'
ACCOUNT = Account(Fraction(5), Fraction(1, 10**6), "basic", ROW)
SECRET = bytes(range(100, 132))
TIME = "2025-01-02T03:04:05.678+00:00"

ONE = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE account (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, accountant TEXT NOT NULL, relation TEXT NOT NULL);
CREATE TABLE release (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, time TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('reserved', 'released')),
    note TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE file (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE source (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    name TEXT NOT NULL, version TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE promise (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    name TEXT NOT NULL, version TEXT NOT NULL, promise TEXT NOT NULL, holds INTEGER NOT NULL);
CREATE TRIGGER release_is_never_deleted BEFORE DELETE ON release
    BEGIN SELECT RAISE(ABORT, 'a spend is never refunded'); END;
CREATE TRIGGER release_is_never_changed BEFORE UPDATE OF seq, id, time, epsilon, delta, note, checksum ON release
    BEGIN SELECT RAISE(ABORT, 'a spend is never refunded'); END;
"""

TWO = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE account (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, accountant TEXT NOT NULL, relation TEXT NOT NULL,
    renew TEXT NOT NULL, chain BLOB NOT NULL);
CREATE TABLE release (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, time TEXT NOT NULL,
    period TEXT NOT NULL, analyst TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT,
    parts TEXT NOT NULL, note TEXT NOT NULL, chain BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'released')));
CREATE TABLE stored (seq INTEGER PRIMARY KEY AUTOINCREMENT, receipt TEXT NOT NULL REFERENCES release (id),
    kind TEXT NOT NULL CHECK (kind IN ('release', 'answer')), key BLOB NOT NULL,
    facts TEXT NOT NULL, data BLOB NOT NULL, digest BLOB NOT NULL);
CREATE INDEX stored_by_key ON stored (kind, key);
CREATE INDEX stored_by_receipt ON stored (receipt);
CREATE TABLE file (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE source (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    name TEXT NOT NULL, version TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE promise (seq INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL,
    name TEXT NOT NULL, version TEXT NOT NULL, promise TEXT NOT NULL, holds INTEGER NOT NULL);
CREATE TRIGGER release_is_never_deleted BEFORE DELETE ON release
    BEGIN SELECT RAISE(ABORT, 'a spend is never refunded'); END;
CREATE TRIGGER release_is_never_changed
    BEFORE UPDATE OF seq, id, time, period, analyst, epsilon, delta, rho, parts, note, chain ON release
    BEGIN SELECT RAISE(ABORT, 'a spend is never refunded'); END;
CREATE TRIGGER release_is_never_taken_back BEFORE UPDATE OF state ON release WHEN NEW.state <> 'released'
    BEGIN SELECT RAISE(ABORT, 'a release is never taken back'); END;
CREATE TRIGGER account_is_never_deleted BEFORE DELETE ON account
    BEGIN SELECT RAISE(ABORT, 'an account is never forgotten'); END;
CREATE TRIGGER account_is_never_changed BEFORE UPDATE ON account
    BEGIN SELECT RAISE(ABORT, 'an account is never rewritten'); END;
"""

SPENDS = [("a" * 32, "1/3", "0", "released"), ("b" * 32, "1/7", "1/10000000", "reserved"),
          ("c" * 32, "1/2", "0", "released")]  # fmt: skip
KEPT = {"c" * 32: [Kept("release", b"key", '{"x": 1}', b"noisy c"), Kept("answer", b"", "{}", b"answer c" * 2000)],
        "a" * 32: [Kept("release", b"key", '{"x": 2}', b"noisy a")]}  # fmt: skip


def chained(before: bytes, fields: list[Any]) -> bytes:
    text = json.dumps([before.hex(), *fields], ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(), key=SECRET, digest_size=16, person=b"dpsql.chain").digest()


def _sum(epsilon: Fraction, delta: Fraction) -> bytes:
    numbers = (part for number in (epsilon, delta) for part in number.as_integer_ratio())
    return blake2b(" ".join(f"{number:x}" for number in numbers).encode(), digest_size=16).digest()


def _digest(receipt: str, kept: Kept) -> bytes:
    whole = blake2b(key=SECRET, digest_size=16, person=b"dpsql.stored")
    for field in (receipt.encode(), kept.kind.encode(), kept.key, kept.facts.encode(), kept.data):
        whole.update(len(field).to_bytes(8, "big"))
        whole.update(field)
    return whole.digest()


def old_ledger(format: int, folder: Path, account: Account = ACCOUNT, name: str = "l.sqlite") -> Path:
    """A ledger as that version wrote it: two accounts, three spends, versions, promises, a mark and stored answers."""
    path, data = folder / name, folder / "t.csv"
    data.write_text("a\n1\n")
    look, marks = fingerprint(Source("t", (data,)), SECRET, {})
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(f"PRAGMA application_id = {0x6470736C}; PRAGMA user_version = {format}; {(ONE, TWO)[format - 1]}")
    db.execute("INSERT INTO secret VALUES (?)", (SECRET,))
    chain = b""
    for epsilon in ("1", str(account.epsilon)):
        fields = [TIME, epsilon, str(account.delta), "basic", account.relation]
        if format == 2:
            fields.append("")
            chain = chained(chain, fields)
            fields.append(chain)  # type: ignore[arg-type]  # a column of bytes
        marks_ = ", ".join("?" * len(fields))
        db.execute(f"INSERT INTO account VALUES (NULL, {marks_})", fields)
    chain, spent = b"", (Fraction(0), Fraction(0))
    for number, (id, epsilon, delta, state) in enumerate(SPENDS):
        note = json.dumps({"sql": f"SELECT {number}"})
        spent = (spent[0] + Fraction(epsilon), spent[1] + Fraction(delta))
        if format == 2:
            row = [id, TIME, "", "ada" if number else "", epsilon, delta, None, "0", note]
            chain = chained(chain, row)
            db.execute(f"INSERT INTO release VALUES (NULL, {', '.join('?' * 11)})", (*row, chain, state))
        else:
            row = [id, TIME, epsilon, delta, state, note, _sum(*spent)]  # type: ignore[list-item]  # a column of bytes
            db.execute("INSERT INTO release VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)
    if format == 2:
        for id, items in KEPT.items():
            for i in items:
                row = [id, i.kind, i.key, i.facts, i.data, _digest(id, i)]  # type: ignore[list-item]  # as above
                db.execute("INSERT INTO stored VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
    db.execute("INSERT INTO source VALUES (NULL, ?, 't', 'v1', ?)", (TIME, b"earlier"))
    db.execute("INSERT INTO source VALUES (NULL, ?, 't', 'v2', ?)", (TIME, look.digest))
    for promise, holds in (("rows=1", 1), ("key=id", 1), ("key=id", 0)):
        db.execute("INSERT INTO promise VALUES (NULL, ?, 't', 'v2', ?, ?)", (TIME, promise, holds))
    for file, mark in marks.items():
        db.execute("INSERT INTO file VALUES (?, ?, ?)", (file, mark.stamp, mark.digest))
    db.close()
    path.chmod(0o600)
    return path
