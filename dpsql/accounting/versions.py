"""Data versions and the promises verified for them: the part of a ledger that speaks of the data.

A version is a random name for one state of one table's source. It begins with an event: the source was written (its
stamp is another one), or a steward's refresh. Neighbouring data sets agree on events, and on which promises were found
to hold (Theorem VERSION-1). What a source holds is compared as well, but only to refuse: where the stamp is another
one, equal contents keep no version, unless the steward's refresh says so.
"""

from __future__ import annotations

import secrets
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence

from dpsql.accounting import durable
from dpsql.accounting.events import Event, Seen
from dpsql.accounting.fingerprint import FileMark, Look, Source, fingerprint
from dpsql.accounting.journal import MANIFEST, Journal, Writer
from dpsql.accounting.keys import agrees
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Sight:
    """A table as it is now: the look at it, the version that the ledger has of it, and whether it is that version."""

    look: Look
    version: str | None
    same: bool


def sights(journal: Journal, sources: Sequence[Source]) -> dict[str, Sight]:
    """Each table's source beside the version that the ledger has of it; records nothing but marks of files.

    What an earlier dpsql recorded without a stamp is recorded as seen anew.
    """
    if not sources:  # all tables are objects, which are looked at once
        return {}
    looks, read = _looks(journal, sources)
    with journal.looking() as state:
        found = {name: _sight(look, state.present(name)) for name, look in looks.items()}
        anew = [n for n, s in found.items() if s.same and not _as_seen(s.look, state.present(n))]
    if anew or any(mark.settled for mark in read.values()):
        with journal.writing() as writer:
            # Marks are true whether or not the version is accepted, and spare the steward a second reading.
            _remember(writer, read)
            for name in anew:
                present = journal.state.present(name)
                if present is not None and _sight(looks[name], present).same:
                    _record(writer, name, looks[name], present[0])
    return found


def recognise(journal: Journal, sources: Sequence[Source]) -> Mapping[str, str]:
    """Each table's present version; new tables are recorded, changed ones are refused (see Ledger.recognise)."""
    found = sights(journal, sources)
    if any(sight.version is None for sight in found.values()):
        with journal.writing() as writer:
            for name, sight in found.items():
                if sight.version is None:
                    present = journal.state.present(name)
                    if present is None:
                        present = _record(writer, name, sight.look)
                    found[name] = _sight(sight.look, present)
    changed = [source for source in sources if not found[source.table].same]
    if changed:
        raise data_changed(changed)
    return {name: sight.version for name, sight in found.items() if sight.version is not None}


def data_changed(sources: Sequence[Source]) -> LedgerError:
    """What is said when a source isn't the version that the ledger has: that it was written, and nothing of rows."""
    names = sorted(source.table for source in sources)
    way = "`dpsql refresh --steward`"
    if any(source.chunks is not None for source in sources):  # no command line reaches an object in memory
        way = "dpsql.Engine.open(…, sources=…).refresh(steward=True), with the arguments of this call"
    return LedgerError(
        f"the data of table{'s' if len(names) > 1 else ''} {', '.join(names)} changed since the ledger recorded it",
        code="data-changed",
        hint=f"if that is meant to be, the steward records the new version and verifies its promises: {way}. The "
        'budget stays as it is. [data] on_change = "accept" in the policy lets queries go on by themselves',
    )


def _sight(look: Look, present: tuple[str, Seen] | None) -> Sight:
    if present is None:
        return Sight(look, None, False)
    version, seen = present
    # Theorem VERSION-1: another stamp is an event, whatever the source holds by now. The contents only refuse more:
    # clocks are coarse, and what was verified holds for the very data that was read (Theorem PROMISE-1).
    # That holds for a table of a database file, too: no look at its rows, or at where they lie, tells that only others
    # were written. An engine that finds nothing to change in a row writes nothing, and an empty table lies nowhere.
    same = look.digest == seen.digest and (look.stamp == seen.stamp or not seen.stamp)
    return Sight(look, version, same)


def _as_seen(look: Look, present: tuple[str, Seen] | None) -> bool:
    return present is not None and present[1] == Seen(look.digest, look.stamp)


def identify(journal: Journal, sources: Sequence[Source]) -> Mapping[str, str]:
    """What tells each source's contents apart, whether or not they ever changed: for public tables, which may."""
    looks, read = _looks(journal, sources)
    if any(mark.settled for mark in read.values()):
        with journal.writing() as writer:
            _remember(writer, read)
    return {name: look.digest.hex() for name, look in looks.items()}


def accept(journal: Journal, found: Mapping[str, Sight], keep: Collection[str]) -> dict[str, str]:
    """Record what was found as the present version of each table, and return these versions.

    keep: tables whose version stays, by the steward's word; what was verified for it is forgotten, since it was
    verified for other files. What is the present version already stays it, too, also where another process has just
    accepted it.
    """
    versions = {}
    with journal.writing() as writer:
        for name, sight in found.items():
            present = journal.state.present(name)
            if present is None or not _sight(sight.look, present).same:
                stays = present[0] if present is not None and name in keep and present[0] == sight.version else None
                present = _record(writer, name, sight.look, stays, forgets=stays is not None)
            versions[name] = present[0]
    return versions


def record_promise(journal: Journal, table: str, promise: str, version: str, holds: bool) -> None:
    """What a check of this version found; the latest finding counts."""
    with journal.writing() as writer:
        if version not in journal.state.versions.get(table, {}):
            raise LedgerError(
                f"the ledger has no such version of table {table}", code="version-unknown", hint="run the check again"
            )
        body = {"table": table, "version": version, "promise": promise, "holds": bool(holds)}
        writer.add(Event("promise", durable.now(), body))


def findings(journal: Journal, table: str, version: str) -> dict[str, bool]:
    """What checks of exactly this version of the table found, each promise by its latest one."""
    with journal.looking() as state:
        return dict(state.promises.get((table, version), {}))


def checked(journal: Journal, table: str) -> frozenset[str]:
    """All promises of a table that any check has spoken of, for whichever version."""
    with journal.looking() as state:
        known = state.promises.items()
        return frozenset(promise for (name, _), found in known if name == table for promise in found)


def is_late(journal: Journal, table: str, version: str) -> bool:
    """Was anything spent on this version before one of its promises was checked?"""
    with journal.looking() as state:
        return (table, version) in state.late


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


def _looks(journal: Journal, sources: Sequence[Source]) -> tuple[dict[str, Look], dict[str, FileMark]]:
    """Outside any transaction: reading a large file must not keep other processes waiting."""
    known: Mapping[str, FileMark] = {}
    if any(source.files for source in sources):
        with journal.looking():
            known = _Marks(journal.key, journal.marks())
    read: dict[str, FileMark] = {}
    looks: dict[str, Look] = {}
    for source in sources:
        if source.table in looks:
            raise ValueError(f"two sources for table {source.table}")
        looks[source.table], marks = fingerprint(source, journal.secret, ChainMap(read, known))  # type: ignore[arg-type]  # only its first map is ever written to
        read.update(marks)
    return looks, read


def _record(
    writer: Writer, name: str, look: Look, version: str | None = None, *, forgets: bool = False
) -> tuple[str, Seen]:
    """A new version, even where the data came back to an earlier state: that they did is no public fact.

    version: the present one, which is seen anew. forgets: what was verified for it (Theorem PROMISE-1).
    """
    seen = Seen(look.digest, look.stamp)
    version = version or secrets.token_hex(16)
    told: dict[str, object] = {"digest": seen.digest.hex(), "stamp": seen.stamp.hex()}
    if forgets:
        told["forgets"] = True
    writer.add(Event("source", durable.now(), {"table": name, "version": version, **told}))
    return version, seen


# ---------------------------------------------------------------- what a version is made of, for the steward


def keep_manifest(journal: Journal, table: str, version: str, manifest: str) -> None:
    """Note what a version is made of, in place of what was noted of the version before; under the key, like a mark."""
    with journal.writing() as writer:
        writer.mark(MANIFEST + table, version, manifest.encode())


def manifest(journal: Journal, table: str, version: str) -> str | None:
    """What this version is made of; None where nobody noted it."""
    name = MANIFEST + table
    with journal.reading() as db:
        row = db.execute("SELECT stamp, digest, tag FROM file WHERE path = ?", (name,)).fetchone()
        if row is None or row[0] != version or not agrees(row[2], journal.key, "mark", name, *row[:2]):
            return None
        return bytes(row[1]).decode()


def _remember(writer: Writer, read: Mapping[str, FileMark]) -> None:
    for path, mark in read.items():
        if mark.settled and path.isprintable():  # a name that is no text can't be kept: its file is read again
            writer.mark(path, mark.stamp, mark.digest)
