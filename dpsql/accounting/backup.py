"""A copy of a ledger while it is in use; and the way back, which forgets no spend.

An older copy has forgotten what was recorded since. A server writes each event into its audit log before a row is read
for it, so that the copy can be brought up to date from there: event by event, each under its link, until the chain is
the one that the anchor knows (Theorem LEDGER-2). Noisy tables aren't in the log: what was stored since the copy is
asked and paid for again.

Other accounts of the same data: ledgers that lie beside a policy or its sources and know the same files or tables.

Each keeps its own total, so what all of them released together may be more than any one of them says. Nothing is
written to them and nothing of theirs is shown but their names and how many releases they hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from dpsql.accounting import durable
from dpsql.accounting.anchor import Anchor
from dpsql.accounting.events import COLUMNS, Row
from dpsql.accounting.journal import Journal
from dpsql.accounting.keys import link
from dpsql.accounting.store import APPLICATION
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

    Nothing is changed where it is refused. The ledger that was there is kept under another name. The copy is brought
    up to date under a name that nobody opens: under the ledger's, others would spend from what forgot spends.
    """
    made = ledger.with_name(f".{ledger.name}.{secrets.token_hex(8)}.new")
    key = Path(f"{made}.key")
    try:
        key.symlink_to(os.path.realpath(f"{ledger}.key"))
        durable.create(made, copy.read_bytes())
        events = list(_events(log))
        had, added = _completed(made, events, anchor)
        if Path(f"{made}-wal").exists():
            raise _refused("what it lacks couldn't be written into it")
        before = _placed(made, ledger, log, len(events))
    except LedgerError as error:
        error.message, error.hint = (str(t).replace(str(made), str(ledger)) for t in (error.message, error.hint))
        raise
    except OSError as error:
        raise _refused(f"it can't be read ({error.strerror})") from None
    finally:
        for name in (key, made, Path(f"{made}-wal"), Path(f"{made}-shm")):
            name.unlink(missing_ok=True)
    return Restored(had, added, anchor is not None, before)


def _placed(made: Path, ledger: Path, log: Path, events: int) -> Path | None:
    """Give a completed copy the ledger's name; where the ledger lies that was there. Nobody's file is overwritten."""
    before = _aside(ledger)
    try:
        # From here on nobody spends from the one that was there: what was told of it meanwhile is known.
        if len(list(_events(log))) != events:
            raise _refused("the ledger was in use: its log has grown meanwhile")
        os.link(made, ledger)
    except FileExistsError:
        raise LedgerError(
            f"another ledger was made in the place of {ledger} meanwhile",
            code="restore",
            hint="it was left there. Stop whatever uses it; the ledger that was there before is "
            + ("none" if before is None else str(before)),
        ) from None
    except BaseException:
        if before is not None:
            _back(ledger, before)
        raise
    durable.sync_folder(ledger.parent)
    return before


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


MOST = 10_000  # files of one folder that are looked at
PAGE = 512  # the smallest that SQLite has
_OTHERS = ("parquet", "csv", "tsv", "gz", "new")  # a ledger in the making is called .new


def others(ledger: Path, tables: Iterable[str], files: Iterable[Path]) -> list[tuple[Path, int]]:
    """Ledgers in the folders of this ledger and of these files, other than this one, that serve some of the same."""
    paths, names = {str(f.absolute()) for f in files}, {t.lower() for t in tables}
    folders = {f for f in (ledger.absolute().parent, *(Path(p).parent for p in paths)) if f.is_dir()}
    found = []
    for candidate in sorted({f for folder in folders for f in _databases(folder)}):
        if candidate.name.endswith(("-wal", "-shm")) or candidate.resolve() == ledger.resolve():
            continue
        with contextlib.suppress(sqlite3.Error, OSError, ValueError, TypeError, KeyError):
            releases = _serves(candidate, names, paths)
            if releases is not None:
                found.append((candidate, releases))
    return found


def _databases(folder: Path) -> Iterator[Path]:
    """Files that may be ledgers, whatever they are called: a database is made of whole pages."""
    for file in islice(folder.iterdir(), MOST):
        with contextlib.suppress(OSError):
            ending, found = file.name.rpartition(".")[2].lower(), file.stat()
            if S_ISREG(found.st_mode) and found.st_size and not found.st_size % PAGE and ending not in _OTHERS:
                yield file


def _serves(ledger: Path, names: set[str], paths: set[str]) -> int | None:
    """How many releases a ledger holds, if it is one and served one of these tables or files."""
    # Without a log nobody has it open, and immutable keeps SQLite from leaving an empty one, of another owner, behind.
    how = "mode=ro" if Path(f"{ledger.resolve()}-wal").exists() else "immutable=1"
    connection = sqlite3.connect(f"{ledger.resolve().as_uri()}?{how}", uri=True, timeout=1)
    try:
        if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
            return None
        # Its key is not ours: what it says is not verified, and nothing rests on it.
        bodies = connection.execute("SELECT body FROM event WHERE kind = 'source'")
        served = {json.loads(body)["table"] for (body,) in bodies}
        (releases,) = connection.execute("SELECT COUNT(*) FROM event WHERE kind = 'spend'").fetchone()
        known = {path for (path,) in connection.execute("SELECT path FROM file")}
        known |= {path.rpartition("#")[0] for path in known}  # tables of a database file
        return int(releases) if served & names or known & paths else None
    finally:
        connection.close()
