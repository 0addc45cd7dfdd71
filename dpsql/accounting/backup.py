"""A copy of a ledger while it is in use; and the way back, which forgets no spend.

An older copy has forgotten what was recorded since. A server writes each event into its audit log before a row is read
for it, so that the copy can be brought up to date from there: event by event, each under its link, until the chain is
the one that the anchor knows (Theorem LEDGER-2). Noisy tables aren't in the log: what was stored since the copy is
asked and paid for again.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from dpsql.accounting import durable
from dpsql.accounting.anchor import Anchor
from dpsql.accounting.chain import link
from dpsql.accounting.events import COLUMNS, Row
from dpsql.accounting.journal import Journal
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass

LINE = "ledger"
"""What such a line of the log is called."""


def line_of(row: Row, its_link: bytes) -> dict[str, object]:
    """An event as a line of the log says it: to the letter, so that its link can be computed again."""
    names = COLUMNS.split(", ")
    return {**dict(zip(names, row, strict=True)), "link": its_link.hex()}


def backup(ledger: Path, copy: Path, *, anchor: Anchor | None = None) -> int:
    """Write a whole, verified copy of a ledger that may be in use; how many events it has."""
    journal = Journal(ledger, None, anchor=anchor, whole=True)
    try:
        with journal.reading():
            count = journal.state.count
            image = journal.store.image()
    finally:
        journal.store.close()
    if not durable.create(copy, image):
        raise LedgerError(f"{copy} exists", code="backup-exists", hint="name another file: copies aren't replaced")
    return count


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of a copy: how many events it had, how many it got back, and whether an anchor knows the end."""

    had: int
    added: int
    anchored: bool
    before: Path | None
    """Where the ledger lies that was there before."""


def restore(ledger: Path, copy: Path, log: Path, *, anchor: Anchor | None = None) -> Restored:
    """Put a copy in the ledger's place, with all that the log knows besides; refused where that isn't all.

    Nothing is changed where it is refused. The ledger that was there is kept under another name.
    """
    before = _aside(ledger)
    try:
        if not durable.create(ledger, copy.read_bytes()):
            raise LedgerError(f"{ledger} exists", code="backup-exists", hint="stop whatever uses it, and try again")
        had, added = _completed(ledger, list(_events(log)), anchor)
    except BaseException as error:
        for name in (ledger, Path(f"{ledger}-wal"), Path(f"{ledger}-shm")):
            name.unlink(missing_ok=True)
        if before is not None:
            _back(ledger, before)
        if isinstance(error, OSError):
            raise _refused(f"it can't be read ({error.strerror})") from None
        raise
    return Restored(had, added, anchor is not None, before)


def _completed(ledger: Path, events: Sequence[tuple[Row, bytes]], anchor: Anchor | None) -> tuple[int, int]:
    """Add the events that a ledger lacks, and compare its end with the anchor's note."""
    noted = None if anchor is None else anchor.read()
    journal = Journal(ledger, None, whole=True)
    try:
        with journal.writing() as writer:
            had = journal.state.count
            links = {place: journal.state.link(place) for place in range(1, had + 1)}
            for row, its_link in events:
                place = row[0]
                if place in links:  # two servers may have told it
                    if links[place] != its_link:
                        raise _refused(f"the log is of another ledger: event {place} isn't the copy's")
                    continue
                if place != writer.count + 1 or link(writer.last, row) != its_link:
                    raise _refused(f"the log has no unbroken chain: what was event {writer.count + 1}?")
                writer.repeat(row)
                links[place] = its_link
            added = writer.count - had
        with journal.reading():
            count = journal.state.count
            held = noted is None or (noted.count <= count and journal.state.link(noted.count) == noted.link)
        if not held:
            assert noted is not None
            raise _refused(f"the anchor knows {noted.count} events, and copy and log together have {count}")
    finally:
        journal.store.close()
    return had, added


def _events(log: Path) -> Iterator[tuple[Row, bytes]]:
    """The ledger's events in a log, in its order. A line that was cut off is none: where it is missed, the chain is
    broken."""
    for line in log.read_bytes().split(b"\n"):
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            if said["event"] == LINE:
                row = tuple(said[name] for name in COLUMNS.split(", "))
                yield (row[0], row[1], row[2], row[3], row[4], row[5]), bytes.fromhex(said["link"])


def _aside(ledger: Path) -> Path | None:
    """Give the present ledger another name; None where there is none."""
    if not ledger.exists():
        return None
    aside = ledger.with_name(f"{ledger.name}.before-{secrets.token_hex(4)}")
    for ending in ("-wal", "-shm", ""):
        if Path(f"{ledger}{ending}").exists():
            durable.replace(Path(f"{ledger}{ending}"), Path(f"{aside}{ending}"))
    return aside


def _back(ledger: Path, aside: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        if Path(f"{aside}{ending}").exists():
            os.replace(f"{aside}{ending}", f"{ledger}{ending}")  # noqa: PTH105 (as it was)
    durable.sync_folder(ledger.parent)


def _refused(why: str) -> LedgerError:
    return LedgerError(
        f"the copy can't take the ledger's place: {why}",
        code="restore",
        hint="nothing was changed. Use a later copy, or the whole log: an older ledger forgets spends",
    )
