"""A ledger's events on their way to the file and back: chained, verified, anchored.

Nothing is believed that isn't covered by the head's keyed tag, and no event is believed before the head is reached:
    head ← tag (keys.py)    last link ← head    every event ← last link    every stored table ← event that stored it
or, for the events before a checkpoint (checkpoint.py),
    checkpoint ← tag    its link, and the links before it ← checkpoint    an event that is shown ← its link
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from dpsql.accounting import checkpoint, durable
from dpsql.accounting.account import Account
from dpsql.accounting.anchor import Anchor, Note
from dpsql.accounting.events import COLUMNS, Event, Malformed, Row, State
from dpsql.accounting.keys import DIGEST_BYTES, Field, Keys, agrees, link, tag
from dpsql.accounting.store import BRIEFLY, Store, located
from dpsql.core.errors import LedgerError

MANIFEST = "manifest "
"""How the path of a note begins that is about no file but says what a version is made of; paths of files are
absolute."""

Witness = Callable[[Callable[[int], list[tuple[Row, bytes]]]], None]
"""What is told after each commit, and before anything that was paid for is computed, how to get the events after a
place: it has them on the disk when it returns, or raises."""


class Writer:
    """Adds events in a transaction; the head follows once, at its end."""

    def __init__(self, db: sqlite3.Connection, key: bytes, count: int = 0, last: bytes = b"") -> None:
        self.db = db
        self.key = key
        self._start = count
        self.count, self.last = count, last
        self.added: list[tuple[Row, bytes]] = []
        self.marked = False  # is there anything new in the table `file`?

    def mark(self, path: str, stamp: str, digest: bytes) -> None:
        """Note something under the key, in place of what was noted of this path before."""
        self.marked = True
        self.db.execute(
            "INSERT OR REPLACE INTO file (path, stamp, digest, tag) VALUES (?, ?, ?, ?)",
            (path, stamp, digest, tag(self.key, "mark", path, stamp, digest)),
        )

    def add(self, event: Event) -> None:
        """Record an event after all others."""
        self._write(event.row(self.count + 1))

    def repeat(self, row: Row) -> None:
        """Record an event once more, to the letter, in a copy that lacks it. What it stored is lost, and its place
        says so."""
        self._write(row)
        for kind, key, digest in json.loads(row[4])["stored"] if row[1] in ("released", "answered") else ():
            self.db.execute(
                "INSERT INTO stored (receipt, kind, key, digest, facts, data) VALUES (?, ?, ?, ?, '', x'')",
                (row[3], kind, bytes.fromhex(key), bytes.fromhex(digest)),
            )

    def _write(self, row: Row) -> None:
        self.count, self.last = row[0], link(self.last, row)
        self.added.append((row, self.last))
        self.db.execute(f"INSERT INTO event ({COLUMNS}, link) VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, self.last))

    def finish(self) -> Note | None:
        """Write the head that covers what was added; None: nothing was."""
        if self.count == self._start:
            return None
        self.db.execute(
            "INSERT OR REPLACE INTO head (one, count, link, tag) VALUES (1, ?, ?, ?)",
            (self.count, self.last, tag(self.key, "head", self.count, self.last)),
        )
        return Note(self.count, self.last)


class Journal:
    """One ledger's events, verified up to the last look."""

    def __init__(
        self,
        path: Path | str,
        account: Account | None,
        *,
        anchor: Anchor | None = None,
        must_exist: bool = False,
        only_read: bool = False,
        anew: bool = False,
        whole: bool = False,
    ) -> None:
        """Open the ledger; without one, create it for this account (unless it must exist: then LedgerError).

        only_read: it is opened where nothing can be written, too. anew: also where a key says that there was one.
        whole: every record is read and verified, also those before the checkpoint.
        """
        file = located(path)
        self._keys = Keys(file)
        self._key, self._secret = b"", b""
        self._anchor = anchor
        self.witness: Witness | None = None
        self._state = State()
        self._whole = whole
        self._resumed = 0  # how many events the checkpoint covers that this opening began with
        self._stored = 0  # how many stored rows are known to be those of the chain
        self._seen: int | None = None  # how often others had written when all of it was verified; None: it isn't now
        self._marks: Mapping[str, tuple[str, bytes, bytes]] | None = None  # as they were then
        noted = self._noted()
        if file is None and (anchor is not None or must_exist):
            raise LedgerError(
                "the policy's ledger must be a file, and this one would be in memory",
                code="ledger-missing",
                hint="leave out ledger=':memory:', or anchor and must_exist in the policy's [budget]",
            )
        if noted is not None and file is not None and not file.exists():
            raise self._behind(f"the ledger {file} is gone", noted)
        create = account is not None and not must_exist
        fill = (lambda db: self._fill(db, account, anew)) if create and account is not None else None
        self.store = Store(path, fill, only_read=only_read)
        try:
            with self.store.snapshot() as db:
                self._catch_up(db)
                self._unwrap(db)
                self._held(noted)
                last = self._last
                self._opened = last.count
            behind = noted is None or noted.count < last.count
            if anchor is not None and behind and (self.store.writable or not only_read):
                anchor.write(last, self._link_at)
            if not only_read:
                self._tidy()
        except BaseException:
            self.store.close()
            raise

    def _tidy(self) -> None:
        """What can wait until nobody else is at work: the name of a new key, and a checkpoint.

        Where it fails, the ledger is what it was: the key counts under either name, and the next opening takes longer.
        """
        if self._keys.drafted or self._keys.unnamed:
            with suppress(LedgerError), self.store.waiting(seconds=None if self._keys.drafted else BRIEFLY):
                self.settle()
        if checkpoint.is_due(self._resumed, self._opened):
            with suppress(LedgerError), self.store.waiting(seconds=0), self.store.transaction() as db:
                self._catch_up(db)
                checkpoint.write(db, self._key, self.state)

    @property
    def state(self) -> State:
        """What the ledger says, to be read in `reading` or `writing` alone: other threads change it in between."""
        if not self.store.held:
            raise RuntimeError("a ledger's state is read inside a transaction of the same thread")
        return self._state

    @property
    def secret(self) -> bytes:
        """What fingerprints are keyed with; it stays the same when the key is changed."""
        return self._secret

    @property
    def key(self) -> bytes:
        """The ledger's key, as of the last look."""
        return self._key

    @contextmanager
    def looking(self) -> Iterator[State]:
        """What the ledger says by now, whoever wrote it. A transaction is only begun if others wrote since the last.

        What was verified stays verified while nobody writes (Theorem LEDGER-2), and SQLite tells whether anybody did.
        """
        with self.store.locked():
            if self.store.under_way is None and (self._seen is None or self._seen != self.store.writes_of_others()):
                with self.store.snapshot() as db:
                    self._catch_up(db)
            yield self.state

    def marks(self) -> Mapping[str, tuple[str, bytes, bytes]]:
        """What is noted of files, by path: stamp, digest and tag, which is for the caller to verify."""
        with self.looking():
            if self._marks is None:
                with self.reading() as db:
                    rows = db.execute(
                        "SELECT path, stamp, digest, tag FROM file WHERE substr(path, 1, ?) <> ? AND path <> ?",
                        (len(MANIFEST), MANIFEST, checkpoint.PATH),
                    ).fetchall()
                self._marks = {path: (stamp, digest, found) for path, stamp, digest, found in rows}
            return self._marks

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read transaction; `state` is what the ledger says in it.

        Inside a transaction of the same thread it is that one: what was read there stays what is read.
        """
        if (under_way := self.store.under_way) is not None:
            yield under_way
            return
        with self.store.snapshot() as db:
            self._catch_up(db)
            yield db

    @contextmanager
    def writing(self, *, log_only: bool = False) -> Iterator[Writer]:
        """A write transaction that no other process overlaps, on disk and anchored when the block has been left.

        log_only: where on the disk (`Store.transaction`); with an anchor always in the main file, too.

        `state` is what the ledger says before it. An error of the anchor comes after the commit: what was recorded
        stays recorded, and nothing is answered.
        """
        # Read before the transaction begins: whatever the anchor says by then is committed, and seen in it.
        noted = self._noted()
        with self.store.locked():
            with self.store.transaction(log_only=log_only and self._anchor is None) as db:
                self._catch_up(db)
                self._held(noted)
                writer = Writer(db, self._key, self.state.count, self._last.link)
                seen, self._seen = self._seen, None  # what is on the disk is only known after the commit
                yield writer
                note = writer.finish()
            # Committed, and chained here to what was verified: it needn't be read back.
            with self._intact():
                self.state.add_all(writer.added)
            self._stored, self._seen = len(self.state.stored), seen
            if writer.marked:
                self._marks = None
        if note is not None:
            try:
                self._tell(note)
            except LedgerError as error:
                if error.code == "ledger-busy":  # which says that nothing was spent
                    raise self.store.unread() from None
                raise

    def _tell(self, note: Note) -> None:
        """Tell the anchor and the witness what was committed."""
        if self._anchor is not None:
            self._anchor.write(note, self._link_at)  # Theorem LEDGER-2: before anything that was paid for is computed
        if self.witness is not None:
            self.witness(self._since)

    def _since(self, place: int) -> list[tuple[Row, bytes]]:
        """The events after this place, of whichever process, each with its link."""
        with self.store.snapshot() as db:
            self._catch_up(db)
            rows = db.execute(f"SELECT {COLUMNS} FROM event WHERE seq > ? ORDER BY seq", (place,)).fetchall()
            with self._intact():
                self._verify(rows, range(place + 1, self.state.count + 1))
            return [(row, self.state.link(row[0])) for row in rows]

    def spends(self, db: sqlite3.Connection, places: Sequence[int]) -> list[tuple[str, str, str, str]]:
        """The spends at these places, which are all there are from the first to the last: id, time, body and note."""
        if not places:
            return []
        rows = db.execute(
            f"SELECT {COLUMNS} FROM event WHERE seq BETWEEN ? AND ? AND kind = 'spend' ORDER BY seq",
            (places[0], places[-1]),
        ).fetchall()
        with self._intact():
            self._verify(rows, places)
            return [(id, time, body, note) for _, _, time, id, body, note in rows]

    def _verify(self, rows: Sequence[Row], places: Sequence[int]) -> None:
        """Refuse rows that aren't the events at these places: what lies on the disk may have been altered since they
        were verified, or lie before the checkpoint (Theorem LEDGER-2)."""
        if [row[0] for row in rows] != list(places) or not all(self.state.verifies(row[0], row) for row in rows):
            raise Malformed

    def rotate(self) -> None:
        """Change the key. At every moment one of the key files is the ledger's (Theorem LEDGER-2)."""
        prepared: list[bytes] = []
        try:
            self._change(prepared)
            self._key = prepared[0]
            self.settle()
        except LedgerError as error:
            # Whoever throws the new key away because the change failed may have lost the ledger.
            if prepared and (sure := self._tagged(prepared[0])) is not False:
                raise self._keys.changed(error, sure=sure is True) from None
            raise

    def settle(self) -> None:
        """Leave one key file, the ledger's: what an interrupted change left is finished."""
        with self.store.transaction() as db:
            self._catch_up(db)
            self._keys.settle(self._key)

    def _tagged(self, key: bytes) -> bool | None:
        """Is this the key that the head was committed under? None: that can't be told now."""
        try:
            with self.store.snapshot() as db:
                count, last, found = db.execute("SELECT count, link, tag FROM head").fetchone()
                return agrees(found, key, "head", count, last)
        except (LedgerError, TypeError):
            return None

    def _change(self, prepared: list[bytes]) -> None:
        """Put everything under a new key, which is listed in `prepared` before the ledger is told of it."""
        with self.writing() as writer:
            self._keys.settle(self._key)  # what an interrupted change left
            new = self._keys.prepare(self._key)
            prepared.append(new)
            writer.key = new
            marks = writer.db.execute("SELECT path, stamp, digest, tag FROM file").fetchall()
            writer.db.execute("DELETE FROM file")
            for path, stamp, digest, found in marks:
                if agrees(found, self._key, "mark", path, stamp, digest):
                    writer.mark(path, stamp, digest)
            writer.db.execute("DELETE FROM secret")
            wrap(writer.db, new, self.state.id, self._secret)
            writer.add(Event("key", durable.now(), {}))

    def _fill(self, db: sqlite3.Connection, account: Account, anew: bool) -> None:
        """The first events of a new ledger. Its key is on the disk before the ledger is."""
        begin(db, self._keys.for_new_ledger(anew=anew), secrets.token_bytes(DIGEST_BYTES), [account_event(account)])

    def _noted(self) -> Note | None:
        return None if self._anchor is None else self._anchor.read()

    @property
    def _last(self) -> Note:
        return Note(self.state.count, self.state.link(self.state.count))

    def _link_at(self, place: int) -> bytes | None:
        """The link of the event at this place, of whichever process; None where there is none."""
        with self.store.snapshot() as db:
            if place > self.state.count:
                self._catch_up(db)
            return self.state.link(place) if place <= self.state.count else None

    def _held(self, noted: Note | None) -> None:
        """The ledger must hold what the anchor knows, at its very place; it may hold more."""
        if noted is not None and (noted.count > self.state.count or self.state.link(noted.count) != noted.link):
            raise self._behind(
                f"the ledger {self.store.name} is not the one that was anchored, or an older copy", noted
            )

    def _behind(self, what: str, noted: Note) -> LedgerError:
        name = self._anchor.name if self._anchor is not None else ""
        return LedgerError(
            f"{what}: the anchor {name} knows its first {noted.count} events",
            code="ledger-rolled-back",
            hint="put the latest ledger back, with its -wal file if there is one: an older one forgets spends. Only "
            "the steward may begin a new account, by removing the anchor's note as well",
        )

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Verify and take in what was recorded since the last look, by whichever process."""
        with self._intact():
            if not self.state.count:
                self._resume(db)
            self._take_in(db)
        seen = self.store.writes_of_others()
        if seen != self._seen:
            self._seen, self._marks = seen, None

    def _resume(self, db: sqlite3.Connection) -> None:
        """Begin with what the checkpoint says, where there is one that what follows it continues up to the head.

        Theorem LEDGER-2, Checkpoint. Otherwise everything is verified, and the file's pages first.
        """
        self._head(db)
        resumed = None if self._whole else checkpoint.read(db, self._key)
        if resumed is not None:
            self._state, self._stored, self._resumed = resumed, len(resumed.stored), resumed.count
            try:
                self._take_in(db)
                return
            except (Malformed, ValueError, TypeError):  # of another ledger, or all of this one is damaged
                self._state, self._stored, self._resumed = State(), 0, 0
        self.store.check_pages()

    def _take_in(self, db: sqlite3.Connection) -> None:
        """Verify what follows the events that are known, and take it in. After an error it is half done."""
        count, last = self._head(db)
        rows = db.execute(f"SELECT {COLUMNS}, link FROM event WHERE seq > ? ORDER BY seq", (self.state.count,))
        seen, before, new = self.state.count, self._last.link, []
        for *fields, recorded in rows:
            seen, before = seen + 1, link(before, fields)
            # Gap-free and chained: what was lost, altered, inserted or moved is noticed here, or at the head.
            if fields[0] != seen or recorded != before:
                raise Malformed
            new.append((tuple(fields), before))
        if (seen, before) != (count, last):
            raise Malformed
        self.state.add_all(new)  # authentic, hence of its types
        self._check_stored(db)
        if self.state.account is None:
            raise Malformed

    def _check_stored(self, db: sqlite3.Connection) -> None:
        """The stored rows are those of the chain, one for one; their contents are verified when they are read."""
        known, chained = self._stored, self.state.stored[self._stored :]
        rows = db.execute("SELECT seq, receipt, kind, key, digest FROM stored WHERE seq > ? ORDER BY seq", (known,))
        if rows.fetchall() != [
            (place, i.receipt, i.kind, i.key, i.digest) for place, i in enumerate(chained, known + 1)
        ]:
            raise Malformed
        self._stored = known + len(chained)

    def _head(self, db: sqlite3.Connection) -> tuple[int, bytes]:
        """How many events there are and the last link, by the head's tag; a key that was changed is taken over."""
        rows = db.execute("SELECT count, link, tag FROM head").fetchall()
        if len(rows) != 1:
            raise Malformed
        count, last, found = rows[0]
        if not (self._key and agrees(found, self._key, "head", count, last)):
            self._key = self._matching(db, found, count, last)
        return count, last

    def _matching(self, db: sqlite3.Connection, found: object, count: object, last: object) -> bytes:
        keys = self._keys.candidates()
        for key in keys:
            if agrees(found, key, "head", count, last):
                return key
        # One tag that doesn't fit is damage; where the secret's doesn't either, it is the key.
        row = db.execute("SELECT ledger, salt, wrapped, tag FROM secret").fetchone()
        if row is not None and any(agrees(row[3], key, "secret", *row[:3]) for key in keys):
            raise Malformed
        raise self._keys.wrong()

    def _unwrap(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT ledger, salt, wrapped, tag FROM secret").fetchall()
        if len(rows) != 1 or rows[0][0] != self.state.id or not agrees(rows[0][3], self._key, "secret", *rows[0][:3]):
            raise self.store.damaged()
        _, salt, wrapped, _ = rows[0]
        self._secret = _pad(self._key, salt, wrapped)

    @contextmanager
    def _intact(self) -> Iterator[None]:
        """What can't be understood is damage."""
        try:
            yield
        except (Malformed, ValueError, TypeError, OverflowError, RecursionError):
            raise self.store.damaged() from None


def account_event(
    account: Account, *, forgets: bool = False, closed: str | None = None, time: str | None = None
) -> Event:
    """What the ledger is an account of from now on.

    forgets: promises that were verified for other units. closed: why nothing more is paid; None while it is open.
    """
    body = {
        "epsilon": str(account.epsilon),
        "delta": str(account.delta),
        "accountant": account.accountant,
        "relation": account.relation,
        "renew": account.renew,
        "closed": closed,
        "forgets": forgets,
    }
    return Event("account", time or durable.now(), body)


def begin(db: sqlite3.Connection, key: bytes, secret: bytes, events: Sequence[Event]) -> Note:
    """Write the beginning of a ledger into empty tables."""
    id = secrets.token_hex(16)
    writer = Writer(db, key)
    writer.add(Event("ledger", durable.now(), {"id": id}))
    for event in events:
        writer.add(event)
    wrap(db, key, id, secret)
    note = writer.finish()
    assert note is not None
    return note


def wrap(db: sqlite3.Connection, key: bytes, ledger: str, secret: bytes) -> None:
    """Keep the fingerprints' secret, so that it can't be read without the key."""
    salt = secrets.token_bytes(16)
    fields: tuple[Field, ...] = (ledger, salt, _pad(key, salt, secret))
    db.execute(
        "INSERT INTO secret (ledger, salt, wrapped, tag) VALUES (?, ?, ?, ?)", (*fields, tag(key, "secret", *fields))
    )


def _pad(key: bytes, salt: bytes, secret: bytes) -> bytes:
    """Exclusive or with a keyed hash of a fresh salt: the same step wraps and unwraps."""
    pad = blake2b(salt, key=key, digest_size=len(secret), person=b"dpsql.pad").digest()
    return bytes(a ^ b for a, b in zip(secret, pad, strict=True))
