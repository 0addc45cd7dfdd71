"""The folder for what doesn't fit into memory: rows, so it is its owner's alone to read, and goes with its process.

A process holds a lock on a file in its folder for as long as it lives. So a folder whose lock nobody holds is that of a
process that was killed, and whoever comes next removes it; one without a lock file is left alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp

from dpsql.core.errors import PolicyError
from dpsql.policy.settings import EngineSettings

try:
    import fcntl
except ImportError:  # no such locks here: folders that a killed process left behind stay
    fcntl = None  # type: ignore[assignment]

PREFIX = "dpsql-engine-"
LOCK = "lock"


class Spill:
    """One engine's folder, made and locked."""

    def __init__(self, base: Path) -> None:
        self.path = Path(mkdtemp(prefix=PREFIX, dir=base))
        self._pid = os.getpid()
        try:
            self._lock: int | None = _hold(self.path)
        except OSError:
            rmtree(self.path, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Remove the folder with all that is in it; a process that was forked off leaves its parent's alone."""
        if self._lock is not None and self._pid == os.getpid():
            rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def make_spill(settings: EngineSettings, policy_folder: Path) -> Spill | None:
    """An engine's folder; None where the settings let nothing be written. Folders of dead processes go first."""
    if not settings.spills:
        return None
    where = "anywhere"
    try:
        base = Path(gettempdir()) if settings.folder is None else policy_folder / settings.folder
        where = f"in {base}"
        sweep(base)
        return Spill(base)
    except OSError as error:
        raise PolicyError(
            f"engine.folder: no temporary folder can be made {where}: {error.strerror or type(error).__name__}",
            code="no-folder",
            hint="name one that exists and can be written to: [engine] folder, or DPSQL_ENGINE_FOLDER; with "
            '[engine] spill = "0GB" none is needed, and what doesn\'t fit into memory fails',
        ) from None


def _hold(folder: Path) -> int:
    """The lock of a new folder. It gets its name once it is held: by that name, nobody ever finds it free."""
    draft = folder / "new"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    with suppress(OSError):  # where a file system has no locks, the folder has no lock file, and nobody removes it
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.rename(folder / LOCK)
    return descriptor


def sweep(base: Path) -> None:
    """Remove what processes of one's own left here when they were killed. Never follows a link."""
    for folder in _own(base) if fcntl is not None else ():
        try:
            descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # being made, or removed, or no folder of ours
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rmtree(folder, ignore_errors=True)
        except OSError:  # its process is alive
            continue
        finally:
            os.close(descriptor)


def _own(base: Path) -> list[Path]:
    try:
        with os.scandir(base) as entries:
            return [Path(e.path) for e in entries if e.name.startswith(PREFIX) and _is_own_folder(e)]
    except OSError:  # a folder that can be written to and not be listed
        return []


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:  # it went away meanwhile
        return False
