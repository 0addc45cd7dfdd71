"""What left once, kept with its receipt: it may leave again for free (Theorem FREE-1).

This file keeps bytes and hands them out; reuse.py says what is in them. Noisy tables are kept before they are processed
any further, answers afterwards. The event by which a thing was kept names its digest, and nothing is handed out that
doesn't have it (Theorem LEDGER-2).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from dpsql.accounting.events import Event, Item, State
from dpsql.accounting.journal import Journal, Writer
from dpsql.core import STEWARD
from dpsql.core.frozen import dataclass

LARGEST = 64 << 20
"""Bytes. Larger tables aren't kept, nor is what became of them: asking again costs again."""
MOST, MOST_BYTES = 500, 64 << 20
"""Tables of one key that are looked through for one that answers: the newest, so many and no larger together."""

_Kind = Literal["release", "answer"]


@dataclass(frozen=True, slots=True)
class Kept:
    """A noisy table under the key of its release plan, or a finished answer (whose key is empty)."""

    kind: _Kind
    key: bytes
    facts: str
    data: bytes


def record(
    writer: Writer, place: int, event: Literal["released", "answered"], time: str, receipt: str, kept: Sequence[Kept]
) -> int:
    """Record this event of a spend, and keep what belongs to it from this place on; how many things were kept."""
    items = [] if sum(len(i.data) + len(i.facts) for i in kept) > LARGEST else kept
    digests = [digest(receipt, item) for item in items]
    listed = [[i.kind, i.key.hex(), d.hex()] for i, d in zip(items, digests, strict=True)]
    writer.add(Event(event, time, {"stored": listed}, receipt))
    writer.db.executemany(
        "INSERT INTO stored (seq, receipt, kind, key, digest, facts, data) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (seq, receipt, i.kind, i.key, d, i.facts, i.data)
            for seq, (i, d) in enumerate(zip(items, digests, strict=True), place)
        ],
    )
    return len(items)


def releases(journal: Journal, key: bytes, owner: str | None = None) -> list[tuple[str, Kept]]:
    """The newest tables stored under this key, the last first, each with the id of the spend that paid for it.

    owner: those alone that this analyst paid for, or the steward for everybody.
    """
    with journal.looking() as state:
        if key not in state.stored_by_key:
            return []
    found: list[tuple[str, Kept]] = []
    size = 0
    with journal.reading() as db:
        state = journal.state
        for place in reversed(places(state, key, owner)[-MOST:]):
            item = state.stored[place - 1]
            kept = _read(journal, db, place, item)
            if kept is None:
                continue
            size += len(kept.facts) + len(kept.data)
            if found and size > MOST_BYTES:
                break
            found.append((item.receipt, kept))
    return found


def places(state: State, key: bytes, owner: str | None = None) -> Sequence[int]:
    """Where the tables stored under this key lie: nothing else is ever stored at the same place."""
    found = state.stored_by_key.get(key, ())
    if owner is None:
        return found
    return [place for place in found if state.owners[state.stored[place - 1].receipt] in (owner, STEWARD)]


def of_receipt(journal: Journal, receipt: str) -> list[Kept]:
    """Everything that was stored with one spend, in the order in which it was stored."""
    with journal.reading() as db:
        places = journal.state.stored_by_receipt.get(receipt, [])
        found = [_read(journal, db, place, journal.state.stored[place - 1]) for place in places]
        return [] if None in found else [kept for kept in found if kept is not None]


def _read(journal: Journal, db: sqlite3.Connection, place: int, item: Item) -> Kept | None:
    """What lies at a place; None where a copy was brought up to date that had lost it (backup.py)."""
    row = db.execute("SELECT facts, data FROM stored WHERE seq = ?", (place,)).fetchone()
    if row is None or not isinstance(row[0], str) or not isinstance(row[1], bytes):
        raise journal.store.damaged()
    if row == ("", b""):
        return None
    kept = Kept("release" if item.kind == "release" else "answer", item.key, *row)
    if digest(item.receipt, kept) != item.digest:
        raise journal.store.damaged()
    return kept


def digest(receipt: str, kept: Kept) -> bytes:
    """A hash of all that is kept, and of whose it is."""
    whole = blake2b(digest_size=32, person=b"dpsql.stored")
    for field in (receipt.encode(), kept.kind.encode(), kept.key, kept.facts.encode(), kept.data):
        whole.update(len(field).to_bytes(8, "big"))
        whole.update(field)
    return whole.digest()
