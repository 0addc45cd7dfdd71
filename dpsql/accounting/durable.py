"""Small files that are written whole or not at all, and are on the disk when the call returns. What else is asked of a
system: does it lock files (without locks two processes could spend the same budget), and what time it is.

SQLite says "busy" of a lock that another process holds and of one that the system can't give; this tells them apart.
The ledger itself is left alone: closing a plain handle of it would drop the locks that this process has on it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpsql.core.errors import LedgerError


@contextmanager
def draft(path: Path, content: bytes) -> Iterator[Path]:
    """The content under another name beside `path`, synced and readable by its owner alone; gone afterwards."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        handle = os.open(made, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0), 0o600)
        try:
            rest = memoryview(content)
            while rest:
                taken = os.write(handle, rest)  # a disk that fills up may take a part
                if not taken:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                rest = rest[taken:]
            os.fsync(handle)
        finally:
            os.close(handle)
        yield made
    finally:
        with contextlib.suppress(OSError):  # nobody takes a draft for the file, and the first error is the one to tell
            made.unlink(missing_ok=True)


def create(path: Path, content: bytes) -> bool:
    """Make a new file; False, and nothing is changed, where there is one already."""
    with draft(path, content) as made:
        try:
            os.link(made, path)  # unlike a rename, never replaces a file
        except FileExistsError:
            return False
        finally:
            sync_folder(path.parent)
    return True


def write(path: Path, content: bytes) -> None:
    """Make a file, or replace it."""
    with draft(path, content) as made:
        replace(made, path)


def replace(old: Path, new: Path) -> None:
    """Rename a file, durably."""
    os.replace(old, new)  # noqa: PTH105 (one place where tests make calls of the system fail)
    sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Names that were made or changed in a folder last from now on."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_NONE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def are_missing(folder: Path) -> bool:
    """Does the system refuse to lock a new file in this folder? False where that can't be tried."""
    try:
        import fcntl
    except ImportError:  # elsewhere than on POSIX
        return False
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            fcntl.lockf(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _NONE
    return False


def without_locks(ledger: str) -> LedgerError:
    """The error for a ledger on a file system that can't lock it."""
    return LedgerError(
        f"the file system of the ledger {ledger} can't lock files, so other processes could spend at the same time",
        code="ledger-no-locks",
        hint="nothing was spent. Put the ledger and its key on a local disk: [budget] ledger = …",
    )


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def after(seconds: float) -> str:
    """The time so many seconds from now, as `now` writes it: two such texts compare as the times do."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
