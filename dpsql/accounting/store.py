"""The file under a ledger: SQLite, opened so that what was committed survives a power cut.

Two rules keep other processes' commits safe, and both are easy to break by accident:
- once a ledger has its name, this package never opens it except through SQLite (closing a plain file handle would
  drop every lock that this process holds on it);
- `ledger.sqlite-wal` belongs to `ledger.sqlite`: the two are copied, moved and deleted together or not at all.
The folder must be on a local file system: SQLite's write-ahead log doesn't work over a network.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TypeVar

from dpsql.accounting import durable
from dpsql.accounting.durable import are_missing, without_locks
from dpsql.core.errors import LedgerError

T = TypeVar("T")

APPLICATION = 0x6470736C
"""Marks a SQLite file as a ledger of dpsql's ("dpsl")."""
SCHEMA_VERSION = 3
BUSY_SECONDS = 30.0
"""How long a process waits for another one that holds the file."""
STEP = 0.05
"""Seconds of one wait: SQLite's own can't be interrupted by a signal, and this loop can."""
BRIEFLY = 1.0
"""Seconds that are waited for what others need not wait for: it ends by itself."""
MEMORY = ":memory:"

SCHEMA = """
CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, time TEXT NOT NULL, receipt TEXT, body TEXT NOT NULL,
    note TEXT, link BLOB NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), count INTEGER NOT NULL, link BLOB NOT NULL,
    tag BLOB NOT NULL);
CREATE TABLE secret (ledger TEXT NOT NULL, salt BLOB NOT NULL, wrapped BLOB NOT NULL, tag BLOB NOT NULL);
CREATE TABLE stored (seq INTEGER PRIMARY KEY, receipt TEXT NOT NULL, kind TEXT NOT NULL, key BLOB NOT NULL,
    digest BLOB NOT NULL, facts TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE file (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, digest BLOB NOT NULL, tag BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE claim (key BLOB PRIMARY KEY, owner TEXT NOT NULL, receipt TEXT, lease_end TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'what was recorded is never forgotten'); END;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'what was recorded is never changed'); END;
"""
"""event: everything that privacy rests on (events.py), chained; head: how many there are and the last link, under the
key; secret: what fingerprints are keyed with, wrapped with the key; stored: noisy tables and answers, whose digests are
in the events that stored them; file: which contents a file had at its last stamp, each under the key; claim: who is at
work on which release, and until when others wait for him (claims.py; nothing private rests on it)."""

RESTORE = (
    "nothing was spent or changed. Restore the file from a backup; a new ledger file would be a new account, "
    "which forgets every earlier spend, so that is the steward's decision"
)


class _Patience(threading.local):
    """How long a thread waits for other processes; seconds is None: as long as everybody."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        self.given_up: Callable[[], bool] = lambda: False


class Store:
    """One connection, guarded by a lock, to one ledger file (or to memory). Safe to share between threads."""

    def __init__(
        self, path: Path | str, fill: Callable[[sqlite3.Connection], None] | None, *, only_read: bool = False
    ) -> None:
        """Open the file; `fill` writes a new ledger's first rows (None: a missing file is an error).

        only_read: one that can't be written to is opened, too, if it can be read.
        """
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._patience = _Patience()
        self._path = located(path)
        self._inode: tuple[int, int] | None = None
        self.name = MEMORY if self._path is None else str(self._path)
        with self._explained():
            if self._path is None:
                if fill is None:
                    raise _missing(MEMORY)
                self._connection = _connect(MEMORY)
                write_schema(self._connection, fill)
                return
            _find_or_create(self._path, fill)
            self._inode = _inode(self._path)
            mode = _mode(self._path, only_read)
            where = f"{self._path.as_uri()}?{mode}"
            self._connection = self._patiently(lambda: _connect(where))
            try:
                self._patiently(lambda: self._check("delete" if mode == UNCHANGING else "wal"))
            except BaseException:
                self._connection.close()
                raise

    @contextmanager
    def transaction(self, *, log_only: bool = False) -> Iterator[sqlite3.Connection]:
        """A write transaction that no other process overlaps; on disk when the block has been left without error.

        In the main file, too, unless log_only: for what a copy that lacks the log may lack.
        """
        with self._begun("BEGIN IMMEDIATE") as connection:
            if not whole(connection):  # somebody else may have changed it since the opening
                raise self.damaged()
            yield connection
        if not log_only and self._path is not None:
            # What was committed is durable, in the log (Theorem LEDGER-1): nothing hangs on whether this succeeds.
            with self._lock, contextlib.suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def check_pages(self) -> None:
        """Refuse a file whose pages don't hang together, in the transaction that is under way. It reads all of it."""
        if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self.damaged()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A read transaction."""
        with self._begun("BEGIN") as connection:
            yield connection

    @contextmanager
    def waiting(self, *, seconds: float | None = None, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """How long this thread waits for other processes, as long as the block lasts; LedgerError "ledger-busy" then.

        given_up: asked about 20 times a second.
        """
        before = self._patience.seconds, self._patience.given_up
        self._patience.seconds, self._patience.given_up = seconds, given_up
        try:
            yield
        finally:
            self._patience.seconds, self._patience.given_up = before

    @property
    def writable(self) -> bool:
        """Can anything be recorded, as far as the file's rights say?"""
        return self._path is None or os.access(self._path, os.W_OK)

    def image(self) -> bytes:
        """The bytes of a file that holds what the transaction sees that is under way."""
        with self._lock, self._explained():
            return as_file(self._connection)

    def close(self) -> None:
        """Close the connection; a process that was forked off leaves its parent's alone."""
        if self._closed or self._pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            self._connection.close()

    @property
    def held(self) -> bool:
        """Does this very thread hold the lock, as it does inside a transaction?"""
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]  # what threading.Condition asks, too

    @property
    def under_way(self) -> sqlite3.Connection | None:
        """The transaction that this very thread is in, if any."""
        mine = self._pid == os.getpid() and self.held and not self._closed
        return self._connection if mine and self._connection.in_transaction else None

    def damaged(self) -> LedgerError:
        """The error for a ledger that doesn't say what a ledger says."""
        return LedgerError(f"the ledger {self.name} is damaged", code="ledger-damaged", hint=RESTORE)

    def unread(self) -> LedgerError:
        """The error for a ledger that couldn't be read again after something was committed."""
        return LedgerError(
            f"another process holds the ledger {self.name}, and what was just recorded couldn't be read back",
            code="ledger-failed",
            hint="nothing was answered; the price was recorded and stays charged. Try again when it is done",
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads of this process out, of a file that is still the one that was opened."""
        self._check_process()
        with self._lock, self._explained():
            self._check_there()
            yield

    def writes_of_others(self) -> int:
        """A number that is another one whenever another connection has committed (FACT-SQLITE-3).

        In a transaction it is that of its beginning; outside, that of now.
        """
        (found,) = self._patiently(lambda: self._connection.execute("PRAGMA data_version").fetchone())
        return int(found)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            # A forked copy of an in-memory account would spend the same budget twice, and SQLite
            # connections to files must not cross a fork either.
            raise LedgerError(
                "this ledger was opened before the process forked",
                code="ledger-forked",
                hint="connect in the new process instead of before it starts",
            )

    def _check_there(self) -> None:
        if self._closed:
            raise LedgerError("the ledger is closed", code="ledger-closed", hint="connect again")
        if self._path is not None and _inode(self._path) != self._inode:
            raise LedgerError(
                f"the ledger {self.name} was moved, deleted or replaced while it was in use",
                code="ledger-moved",
                hint="put it back (with its -wal file, if there is one) and connect again",
            )

    def _patiently(self, what: Callable[[], T]) -> T:
        """What this returns, once no other process holds the file: it is tried again and again, and a signal ends it.

        Where the file system has no locks nobody is waited for: SQLite calls that busy, too.
        """
        until = None
        while True:
            try:
                return what()
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY:
                    raise
                if until is None:
                    seconds = self._patience.seconds
                    until = monotonic() + (BUSY_SECONDS if seconds is None else seconds)
                    if self._path is not None and are_missing(self._path.parent):
                        raise without_locks(self.name) from None
                if monotonic() >= until or self._patience.given_up():
                    raise

    def _begin(self, begin: str) -> None:
        """One attempt to begin a transaction, which holds its lock then."""
        self._connection.execute(begin)
        if begin == "BEGIN":  # which takes no lock by itself
            try:
                self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _begun(self, begin: str) -> Iterator[sqlite3.Connection]:
        self._check_process()
        if self.under_way is not None:
            # SQLite would refuse it, too; but what is rolled back then is the transaction around this one.
            raise RuntimeError("a transaction of this thread is under way")
        with self._lock, self._explained():
            self._check_there()
            try:
                # Inside: an interrupt may come right after it succeeded, when the wait for other processes ends.
                self._patiently(lambda: self._begin(begin))
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self._connection.execute("ROLLBACK")
                raise

    def _check(self, mode: str) -> None:
        """Refuse what isn't a whole ledger of a format that this program knows. mode: what its journal must be."""
        one = self._connection.execute
        if one("PRAGMA application_id").fetchone() != (APPLICATION,):
            raise LedgerError(
                f"{self.name} is a database, but not a ledger of dpsql's",
                code="not-a-ledger",
                hint="name another file: [budget] ledger = … in the policy",
            )
        (version,) = one("PRAGMA user_version").fetchone()
        if version != SCHEMA_VERSION:
            older = isinstance(version, int) and version < SCHEMA_VERSION
            raise LedgerError(
                f"the ledger {self.name} has format {version}; this dpsql knows format {SCHEMA_VERSION}",
                code="ledger-version",
                hint="nothing was spent or changed. No released dpsql made such a ledger: use the version that did"
                if older
                else "upgrade dpsql; nothing was spent or changed",
            )
        if one("PRAGMA journal_mode").fetchone() != (mode,) or not whole(self._connection):
            raise self.damaged()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """SQLite's and the system's errors as ours: what happened, and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from None
        except UnicodeDecodeError:  # SQLite quotes damaged text in its message
            raise self.damaged() from None
        except OSError as error:
            raise self._unwritable(error.strerror or "the system refused") from None

    def _explain(self, error: sqlite3.Error) -> LedgerError:
        if getattr(error, "sqlite_errorcode", 0) in _LOCKING:
            return without_locks(self.name)
        match _code(error):
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return LedgerError(
                    f"the ledger {self.name} is held by another process, and was all the time that was waited for it",
                    code="ledger-busy",
                    hint="nothing was spent; try again when it is done",
                )
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
                return self._unwritable("it or its folder can't be written to")
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                return LedgerError(
                    f"the disk failed or is full while the ledger {self.name} was in use",
                    code="ledger-disk",
                    hint="nothing was answered; the price may have been recorded. Make room and try again",
                )
            case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
                return self.damaged()
            case _:
                return LedgerError(
                    f"the ledger {self.name} can't be used ({type(error).__name__})", code="ledger-failed", hint=RESTORE
                )

    def _unwritable(self, why: str) -> LedgerError:
        return LedgerError(
            f"the ledger {self.name} can't be opened: {why}",
            code="ledger-unwritable",
            hint="the ledger and its folder must exist and be writable for whoever runs queries, on a local disk",
        )


def located(path: Path | str) -> Path | None:
    """The file that is meant, whatever links lead to it; None: memory."""
    try:
        return None if str(path) == MEMORY else Path(path).resolve()
    except (ValueError, RuntimeError, OSError):  # a NUL, or links in a circle
        raise LedgerError(
            f"the ledger {str(path)!r} is not the name of a file",
            code="ledger-unwritable",
            hint="name another: [budget] ledger = … in the policy",
        ) from None


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LOCKING = tuple(
    getattr(sqlite3, f"SQLITE_IOERR_{name}")
    for name in ("LOCK", "RDLOCK", "UNLOCK", "CHECKRESERVEDLOCK", "SHMLOCK", "SHMMAP", "SHMOPEN")
)
"""What SQLite says where the system can't lock, or share what it locks by."""


UNCHANGING = "mode=ro&immutable=1"
"""How a file is opened that can't change. SQLite takes its journal for one that is deleted, whatever the file says."""


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary code: the low byte."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _mode(path: Path, only_read: bool) -> str:
    """How the file is opened. One on a file system that nobody here writes to, without a log, can't change."""
    if not only_read or os.access(path, os.W_OK):
        return "mode=rw"
    return "mode=ro" if not is_read_only(path) or Path(f"{path}-wal").exists() else UNCHANGING


def is_read_only(path: Path) -> bool:
    """Does the file lie on a file system that is mounted for reading alone?"""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _connect(where: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        where, uri=where != MEMORY, timeout=STEP, isolation_level=None, check_same_thread=False
    )
    # Theorem LEDGER-1 needs each commit on the disk before it returns: synchronous=FULL syncs the log at every
    # commit; fullfsync makes macOS do so, too. `transaction` says what is moved into the main file at once.
    try:
        for pragma in ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _find_or_create(path: Path, fill: Callable[[sqlite3.Connection], None] | None) -> None:
    # The log is looked for first: a process that creates the ledger right now makes the file before its log.
    orphan = Path(f"{path}-wal").exists()
    if path.is_dir():
        raise LedgerError(
            f"the ledger {path} is a folder", code="ledger-unwritable", hint="name a file: [budget] ledger = …"
        )
    if path.exists():
        if path.stat().st_size == 0:
            # Creation is atomic, so an empty file is never a new ledger: it was cut off, or put there by hand.
            raise LedgerError(
                f"the ledger {path} is an empty file",
                code="ledger-empty",
                hint="restore it from a backup. Only if nothing was ever spent from it, delete it, and begin a new "
                "account: `dpsql budget --create --steward`",
            )
        return
    if orphan:
        # SQLite would replay the old log into the new file.
        raise LedgerError(
            f"the ledger {path} is gone, but its log {path}-wal is there",
            code="ledger-incomplete",
            hint="put the ledger back beside its log. Only the steward may delete the log and begin a new account: "
            "`dpsql budget --create --steward`",
        )
    if fill is None:
        raise _missing(str(path))
    _create(path, fill)


def _missing(name: str) -> LedgerError:
    return LedgerError(
        f"there is no ledger {name}",
        code="ledger-missing",
        hint="if there was one, restore it with its key. Otherwise the first query creates it or, where the policy "
        "says must_exist = true, the steward: `dpsql budget --create --steward`",
    )


def _create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Make a whole ledger, or none: it gets its name when all of it is on the disk, unless somebody was faster.

    It is made in memory and written by calls that each say whether they worked. (When SQLite closes a file, it moves
    its log into it as well as it can, and doesn't say that the disk was full.)
    """
    connection = _connect(MEMORY)
    try:
        write_schema(connection, fill)
        image = as_file(connection)
    finally:
        connection.close()
    durable.create(path, image)


def as_file(connection: sqlite3.Connection) -> bytes:
    """What a database holds, as the bytes of a file."""
    image = bytearray(connection.serialize())
    image[18:20] = b"\2\2"  # the file format's numbers for "with a write-ahead log"
    return bytes(image)


def write_schema(connection: sqlite3.Connection, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Everything that a new ledger has, in one transaction."""
    connection.executescript(
        f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA_VERSION}; {SCHEMA}"
    )
    fill(connection)
    connection.execute("COMMIT")


def whole(connection: sqlite3.Connection) -> bool:
    """Has it the tables and triggers of a ledger, and no others?"""
    return _shape(connection) == _expected()


def _shape(connection: sqlite3.Connection) -> list[tuple[str, ...]]:
    # All but the indexes that tables have by themselves, and what ANALYZE leaves: no name makes a trigger SQLite's own.
    return connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE NOT (type = 'index' AND sql IS NULL) "
        "AND NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4')) ORDER BY name"
    ).fetchall()


@cache
def _expected() -> list[tuple[str, ...]]:
    """The tables and triggers of a ledger, to the letter: others could do anything when a row is written."""
    with closing(sqlite3.connect(MEMORY)) as empty:
        empty.executescript(SCHEMA)
        return _shape(empty)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
