"""What tells one state of many files from another without reading them: names, sizes, and times of their last change.

Theorem VERSION-1, Data too large to hash: that files with one listing hold one content is assumed. A listing is relied
on once it is as old as the coarsest clock is slow: until then a second write could carry the same times. How old it is
says another clock than this machine's, so that a file which may be that young has to stay as it is for as long here.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

SETTLED_NS = 2_000_000_000
"""Coarser than the clock of any file system in use (FAT: two seconds)."""
APART_NS = 300_000_000_000
"""How far the clock of a file system may be behind this machine's: a cluster's and a file server's is its own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its path or address, its size, when it was last changed, and what else says that it was.

    mark: another time that it has, or a store's own mark of this content, where there is one.
    """

    name: str
    size: int
    changed_ns: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """All files of a source, by name; state: what the source calls the present state (a snapshot, say)."""

    files: tuple[Entry, ...]
    state: str = ""


Listing: TypeAlias = Callable[[], Listed]
"""Lists the files of a source as they are now; a DataError where they are others than those that are open."""

_waited: set[Listed] = set()  # listings that this process has seen twice, long enough apart


def settled(table: str, listing: Listing) -> Listed:
    """The listing, once every later write must show in it. Waits for a moment where a file was just written."""
    found = listing()
    if found in _waited or not _is_young(found):
        return found
    # Whatever the clock of the files is, it goes on meanwhile: what is written from now on has later times.
    time.sleep(SETTLED_NS / 1e9)
    if listing() != found:
        raise DataError(
            f"table {table}: files changed while they were listed",
            code="source-busy",
            hint="wait until whatever writes them is done, then try again",
        )
    _waited.add(found)
    return found


def _is_young(found: Listed) -> bool:
    return max((file.changed_ns for file in found.files), default=0) >= time.time_ns() - SETTLED_NS - APART_NS


def list_files(table: str, files: Sequence[Path], state: str = "") -> Listed:
    """The listing of files that this machine sees."""
    entries = []
    for file in sorted(files):
        size, mtime, ctime, _ = stamp_of(table, file).split(":")
        # A copy may keep the mtime of its original: how young it is says the ctime, which nobody sets.
        changed, mark = (ctime, mtime) if os.name == "posix" else (mtime, ctime)  # elsewhere that of its creation
        entries.append(Entry(str(file), int(size), int(changed), mark))
    return Listed(tuple(entries), state)


def stamp_of(table: str, file: Path) -> str:
    """Size, mtime, ctime and inode of a file."""
    try:
        found = file.stat()
    except OSError as error:
        raise unreadable(table, file, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(
            f"table {table}: {file} is not a file",
            code="source-unreadable",
            hint="a folder's files: source = 'folder/*'",
        )
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def unreadable(table: str, file: Path, error: OSError) -> DataError:
    """What is said of a file that can't be read."""
    code = "source-missing" if isinstance(error, FileNotFoundError) else "source-unreadable"
    return DataError(
        f"table {table}: can't read {file}: {error.strerror}", code=code, hint="see its source in the policy"
    )
