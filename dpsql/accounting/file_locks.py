"""Does a file system lock files? Without locks two processes could spend the same budget, so no ledger is used there.

SQLite says "busy" of a lock that another process holds and of one that the system can't give; this tells them apart.
The ledger itself is left alone: closing a plain handle of it would drop the locks that this process has on it.
"""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from dpsql.core.errors import LedgerError

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
