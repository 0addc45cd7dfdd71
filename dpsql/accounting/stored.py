"""What left once, kept with its receipt: it may leave again for free (Theorem FREE-1).

This file keeps bytes and hands them out; reuse.py says what is in them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from dpsql.accounting.store import Store
from dpsql.frozen import dataclass

LARGEST = 64 << 20
"""Bytes. A larger answer isn't kept: asking again costs again."""
MOST, MOST_BYTES = 500, 64 << 20
"""Tables of one key that are looked through for one that answers: the newest, so many and no larger together."""

_Kind = Literal["release", "answer"]
_Row = tuple[str, _Kind, bytes, str, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Kept:
    """A noisy table under the key of its release plan, or a finished answer (whose key is empty)."""

    kind: _Kind
    key: bytes
    facts: str
    data: bytes


def keep(db: sqlite3.Connection, secret: bytes, receipt: str, items: Sequence[Kept]) -> None:
    """Store a release's tables and its answer; inside of the transaction that marks it as released."""
    if sum(len(i.data) + len(i.facts) for i in items) > LARGEST:
        return
    db.executemany(
        "INSERT INTO stored (receipt, kind, key, facts, data, digest) VALUES (?, ?, ?, ?, ?, ?)",
        [(receipt, i.kind, i.key, i.facts, i.data, _digest(secret, receipt, i)) for i in items],
    )


def any_kept(store: Store) -> bool:
    with store.snapshot() as db:
        return bool(db.execute("SELECT EXISTS (SELECT 1 FROM stored)").fetchone()[0])


def releases(store: Store, key: bytes) -> list[tuple[str, Kept]]:
    """The newest tables stored under this key, the last first, each with the id of the spend that paid for it."""
    rows: list[_Row] = []
    with store.snapshot() as db:
        found = db.execute(
            "SELECT receipt, kind, key, facts, data, digest FROM stored WHERE kind = 'release' AND key = ? "
            "ORDER BY seq DESC LIMIT ?",
            (key, MOST),
        )
        size = 0
        for row in found:
            size += len(row[3]) + len(row[4])
            if rows and size > MOST_BYTES:
                break
            rows.append(row)
        (secret,) = db.execute("SELECT key FROM secret").fetchone()
    return [(row[0], _checked(store, secret, row)) for row in rows]


def of_receipt(store: Store, receipt: str) -> list[Kept]:
    """Everything that was stored with one spend, in the order in which it was stored."""
    with store.snapshot() as db:
        rows = db.execute(
            "SELECT receipt, kind, key, facts, data, digest FROM stored WHERE receipt = ? ORDER BY seq", (receipt,)
        ).fetchall()
        (secret,) = db.execute("SELECT key FROM secret").fetchone()
    return [_checked(store, secret, row) for row in rows]


def _checked(store: Store, secret: bytes, row: _Row) -> Kept:
    receipt, kind, key, facts, data, digest = row
    kept = Kept(kind, key, facts, data)
    if _digest(secret, receipt, kept) != digest:
        raise store.damaged()
    return kept


def _digest(secret: bytes, receipt: str, kept: Kept) -> bytes:
    whole = blake2b(key=secret, digest_size=16, person=b"dpsql.stored")
    for field in (receipt.encode(), kept.kind.encode(), kept.key, kept.facts.encode(), kept.data):
        whole.update(len(field).to_bytes(8, "big"))
        whole.update(field)
    return whole.digest()
