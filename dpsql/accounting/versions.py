"""Data versions and the promises verified for them: the part of a ledger that speaks of the data.

A version is a random name for one state of one table's source. Neighbouring data sets agree on two facts that are kept
here: that the steward replaced one version by another, and which promises were found to hold.
"""

from __future__ import annotations

import secrets
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

from dpsql.accounting import clock
from dpsql.accounting.chain import agrees, tag
from dpsql.accounting.events import Event
from dpsql.accounting.fingerprint import FileMark, Source, fingerprint
from dpsql.accounting.journal import Journal, Writer
from dpsql.core.errors import LedgerError


def recognise(journal: Journal, sources: Sequence[Source]) -> Mapping[str, str]:
    """Each table's present version; new tables are recorded, changed ones are refused (see Ledger.recognise)."""
    digests, read = _fingerprints(journal, sources)
    with journal.reading():
        found = {name: journal.state.present(name) for name in digests}
    if any(mark.settled for mark in read.values()) or any(current is None for current in found.values()):
        with journal.writing() as writer:
            # Marks are true whether or not the version is accepted, and spare the steward a second reading.
            _remember(writer, read)
            for name, digest in digests.items():
                found[name] = journal.state.present(name) or _record(writer, name, digest)
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


def identify(journal: Journal, sources: Sequence[Source]) -> Mapping[str, str]:
    """What tells each source's contents apart, whether or not they ever changed: for public tables, which may."""
    digests, read = _fingerprints(journal, sources)
    if any(mark.settled for mark in read.values()):
        with journal.writing() as writer:
            _remember(writer, read)
    return {name: digest.hex() for name, digest in digests.items()}


def accept(journal: Journal, sources: Sequence[Source]) -> list[str]:
    """Record what is there now as the present version; returns a line for each table that changed."""
    digests, read = _fingerprints(journal, sources)
    lines = []
    with journal.writing() as writer:
        _remember(writer, read)
        for name, digest in digests.items():
            current = journal.state.present(name)
            if current is None or current[1] != digest:
                _record(writer, name, digest)
                lines.append(f"{name}: first version recorded" if current is None else f"{name}: new version recorded")
    return lines


def record_promise(journal: Journal, table: str, promise: str, version: str, holds: bool) -> None:
    """What a check of this version found; the latest finding counts."""
    with journal.writing() as writer:
        if version not in journal.state.versions.get(table, {}):
            raise LedgerError(
                f"the ledger has no such version of table {table}", code="version-unknown", hint="run the check again"
            )
        body = {"table": table, "version": version, "promise": promise, "holds": bool(holds)}
        writer.add(Event("promise", clock.now(), body))


def promises(journal: Journal, table: str, version: str) -> frozenset[str]:
    """The promises that a check of exactly this version of the table found to hold, and no later one found broken."""
    with journal.reading():
        found = journal.state.promises.get((table, version), {})
        return frozenset(promise for promise, holds in found.items() if holds)


class _Marks(Mapping[str, FileMark]):
    """The marks that are on record, verified one by one as they are asked for.

    One without its keyed tag is as good as none: its file is read again (Theorem LEDGER-2).
    """

    def __init__(self, key: bytes, rows: Mapping[str, tuple[str, bytes, bytes]]) -> None:
        self._key = key
        self._rows = rows

    def __getitem__(self, path: str) -> FileMark:
        stamp, digest, found = self._rows[path]
        if not agrees(found, self._key, "mark", path, stamp, digest):
            raise KeyError(path)
        return FileMark(stamp, digest)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _fingerprints(journal: Journal, sources: Sequence[Source]) -> tuple[dict[str, bytes], dict[str, FileMark]]:
    """Outside any transaction: reading a large file must not keep other processes waiting."""
    known: Mapping[str, FileMark] = {}
    if any(source.files for source in sources):
        with journal.reading() as db:
            rows = db.execute("SELECT path, stamp, digest, tag FROM file")
            known = _Marks(journal.key, {path: (stamp, digest, found) for path, stamp, digest, found in rows})
    read: dict[str, FileMark] = {}
    digests: dict[str, bytes] = {}
    for source in sources:
        if source.table in digests:
            raise ValueError(f"two sources for table {source.table}")
        digests[source.table], marks = fingerprint(source, journal.secret, ChainMap(read, known))  # type: ignore[arg-type]  # only its first map is ever written to
        read.update(marks)
    return digests, read


def _record(writer: Writer, name: str, digest: bytes) -> tuple[str, bytes]:
    """A new version, even where the data came back to an earlier state: that they did is no public fact."""
    version = secrets.token_hex(16)
    writer.add(Event("source", clock.now(), {"table": name, "version": version, "digest": digest.hex()}))
    return version, digest


def _remember(writer: Writer, read: Mapping[str, FileMark]) -> None:
    writer.db.executemany(
        "INSERT OR REPLACE INTO file (path, stamp, digest, tag) VALUES (?, ?, ?, ?)",
        [
            (path, mark.stamp, mark.digest, tag(writer.key, "mark", path, mark.stamp, mark.digest))
            for path, mark in read.items()
            if mark.settled and path.isprintable()  # a name that is no text can't be kept: its file is read again
        ],
    )
