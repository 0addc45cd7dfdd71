"""Data versions and the promises verified for them: the part of a ledger that speaks of the data.

A version is a random name for one state of one table's source. Neighbouring data sets agree on two facts that are kept
here: that the steward replaced one version by another, and which promises were found to hold.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections import ChainMap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dpsql.accounting.fingerprint import FileMark, Source, fingerprint
from dpsql.accounting.store import Store
from dpsql.errors import LedgerError


def now() -> str:
    """The time, as ledgers write it: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def recognise(store: Store, sources: Sequence[Source]) -> Mapping[str, str]:
    """Each table's present version; new tables are recorded, changed ones are refused (see Ledger.recognise)."""
    digests, read = _fingerprints(store, sources)
    with store.snapshot() as db:
        found = {name: _current(db, name) for name in digests}
    if any(mark.settled for mark in read.values()) or any(current is None for current in found.values()):
        with store.transaction() as db:
            # Marks are true whether or not the version is accepted, and spare the steward a second reading.
            _remember(db, read)
            for name, digest in digests.items():
                found[name] = _current(db, name) or _record(db, name, digest)
    changed = sorted(name for name, current in found.items() if current is None or current[1] != digests[name])
    if changed:
        plural = "s" if len(changed) > 1 else ""
        raise LedgerError(
            f"the data of table{plural} {', '.join(changed)} changed since the ledger recorded it",
            code="data-changed",
            hint="if that is meant to be, the steward records the new version: "
            "`dpsql budget --accept-data-change --steward`. The budget stays as it is",
        )
    return {name: current[0] for name, current in found.items() if current is not None}


def identify(store: Store, sources: Sequence[Source]) -> Mapping[str, str]:
    """What tells each source's contents apart, whether or not they ever changed: for public tables, which may."""
    digests, read = _fingerprints(store, sources)
    if any(mark.settled for mark in read.values()):
        with store.transaction() as db:
            _remember(db, read)
    return {name: digest.hex() for name, digest in digests.items()}


def accept(store: Store, sources: Sequence[Source]) -> list[str]:
    """Record what is there now as the present version; returns a line for each table that changed."""
    digests, read = _fingerprints(store, sources)
    lines = []
    with store.transaction() as db:
        _remember(db, read)
        for name, digest in digests.items():
            current = _current(db, name)
            if current is None or current[1] != digest:
                _record(db, name, digest)
                lines.append(f"{name}: first version recorded" if current is None else f"{name}: new version recorded")
    return lines


def record_promise(store: Store, table: str, promise: str, version: str, holds: bool) -> None:
    """What a check of this version found; the latest finding counts."""
    with store.transaction() as db:
        if db.execute("SELECT 1 FROM source WHERE name = ? AND version = ?", (table, version)).fetchone() is None:
            raise LedgerError(
                f"the ledger has no such version of table {table}", code="version-unknown", hint="run the check again"
            )
        db.execute(
            "INSERT INTO promise (time, name, version, promise, holds) VALUES (?, ?, ?, ?, ?)",
            (now(), table, version, promise, int(holds)),
        )


def promises(store: Store, table: str, version: str) -> frozenset[str]:
    """The promises that a check of exactly this version of the table found to hold, and no later one found broken."""
    with store.snapshot() as db:
        rows = db.execute(
            "SELECT promise, holds FROM promise WHERE name = ? AND version = ? ORDER BY seq", (table, version)
        ).fetchall()
    latest = dict(rows)
    return frozenset(promise for promise, holds in latest.items() if holds == 1)


def _fingerprints(store: Store, sources: Sequence[Source]) -> tuple[dict[str, bytes], dict[str, FileMark]]:
    """Outside any transaction: reading a large file must not keep other processes waiting."""
    with store.snapshot() as db:
        (secret,) = db.execute("SELECT key FROM secret").fetchone()
        known = {path: FileMark(*mark) for path, *mark in db.execute("SELECT path, stamp, digest FROM file")}
    read: dict[str, FileMark] = {}
    digests: dict[str, bytes] = {}
    for source in sources:
        if source.table in digests:
            raise ValueError(f"two sources for table {source.table}")
        digests[source.table], marks = fingerprint(source, secret, ChainMap(read, known))
        read.update(marks)
    return digests, read


def _current(db: sqlite3.Connection, name: str) -> tuple[str, bytes] | None:
    row: tuple[str, bytes] | None = db.execute(
        "SELECT version, digest FROM source WHERE name = ? ORDER BY seq DESC LIMIT 1", (name,)
    ).fetchone()
    return row


def _record(db: sqlite3.Connection, name: str, digest: bytes) -> tuple[str, bytes]:
    """A new version, even where the data came back to an earlier state: that they did is no public fact."""
    version = secrets.token_hex(16)
    db.execute("INSERT INTO source (time, name, version, digest) VALUES (?, ?, ?, ?)", (now(), name, version, digest))
    return version, digest


def _remember(db: sqlite3.Connection, read: Mapping[str, FileMark]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO file (path, stamp, digest) VALUES (?, ?, ?)",
        [(path, mark.stamp, mark.digest) for path, mark in read.items() if mark.settled],
    )
