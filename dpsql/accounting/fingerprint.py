"""Is this still the data that the ledger knows? Keyed fingerprints of sources.

A fingerprint is a BLAKE2b hash keyed with the ledger's secret, and nothing shows it: a plain hash of the contents
would let anyone who sees it test a guess of the data. It covers contents and, where there are several files, their
names, because a glob's file names say which files belong together. Folders like `year=2024` count as contents
(engines read them as a column).

A file is read in full the first time it is seen, and again only when its stamp (size, mtime, ctime, inode) differs
from the recorded one, so the second look costs one stat a file. What the stamp can't see: on systems without a change
time (Windows), contents replaced by others of the same size with the mtime set back; anywhere, a clock that was set
back to the very nanosecond of the last change. A stamp younger than two seconds is not relied on, because a second
write could carry the same time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

CHUNK = 4 << 20
SETTLED_NS = 2_000_000_000
"""Coarser than the clock of any file system in use (FAT: two seconds)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where one table's rows come from: files, or an object in memory.

    `files` are all files of the source (a glob expanded; a .duckdb file together with its .wal, if there is one).
    `chunks` gives a fresh iterator over bytes whose concatenation determines the rows (an Arrow IPC stream, say).
    `part` names what is read from the files when that isn't all of it: the table inside a .duckdb file.
    """

    table: str
    files: tuple[Path, ...] | None = None
    chunks: Callable[[], Iterator[bytes]] | None = None
    part: str = ""

    def __post_init__(self) -> None:
        if (self.files is None) == (self.chunks is None):
            raise ValueError("a source is either files or chunks")


@dataclass(frozen=True, slots=True)
class FileMark:
    """What is known of one file: the stamp it had when it was read, and the digest of its contents.

    Only a settled mark may be kept: an unsettled stamp is so young that a later write could carry the same one.
    """

    stamp: str
    digest: bytes
    settled: bool = True


def fingerprint(source: Source, secret: bytes, known: Mapping[str, FileMark]) -> tuple[bytes, Mapping[str, FileMark]]:
    """The source's fingerprint, and the marks of those files that had to be read for it."""
    whole = blake2b(key=secret, digest_size=32, person=b"dpsql.source")
    _add(whole, source.part.encode())
    if source.chunks is not None:
        contents = blake2b(key=secret, digest_size=32, person=b"dpsql.memory")
        for chunk in source.chunks():
            contents.update(chunk)
        _add(whole, contents.digest())
        return whole.digest(), {}
    files = sorted(Path(os.path.abspath(file)) for file in source.files or ())  # noqa: PTH100 (keep symlinks)
    if not files:
        raise DataError(
            f"table {source.table} has no files",
            code="source-missing",
            hint=f"nothing matches [tables.{source.table}] source = … in the policy",
        )
    read: dict[str, FileMark] = {}
    for file, name in zip(files, _names(files), strict=True):
        stamp = _stamp(source.table, file)
        mark = known.get(str(file))
        if mark is None or mark.stamp != stamp:
            mark = read[str(file)] = _read(source.table, file, secret)
        _add(whole, name.encode(errors="surrogateescape"))
        _add(whole, mark.digest)
    return whole.digest(), read


def _add(whole: blake2b, field: bytes) -> None:
    """Length first, so that no two lists of fields look alike."""
    whole.update(len(field).to_bytes(8, "big"))
    whole.update(field)


def _names(files: list[Path]) -> list[str]:
    """Each file's name below the folder they share (one file: none), starting at its first `key=value` folder."""
    shared = len(Path(os.path.commonpath(files)).parts)
    names = []
    for file in files:
        keyed = (place for place, part in enumerate(file.parts) if "=" in part and place < len(file.parts) - 1)
        names.append("/".join(file.parts[min(shared, next(keyed, shared)) :]))
    return names


def _stamp(table: str, file: Path) -> str:
    try:
        found = file.stat()
    except OSError as error:
        raise _unreadable(table, file, error) from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(
            f"table {table}: {file} is not a file",
            code="source-unreadable",
            hint="a folder's files: source = 'folder/*'",
        )
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_ino}"


def _read(table: str, file: Path, secret: bytes) -> FileMark:
    """Read the whole file, in chunks; refused if it changes meanwhile."""
    started = time.time_ns()
    before = _stamp(table, file)
    contents = blake2b(key=secret, digest_size=32, person=b"dpsql.file")
    chunk = memoryview(bytearray(CHUNK))
    try:
        with file.open("rb", buffering=0) as handle:
            while size := handle.readinto(chunk):
                contents.update(chunk[:size])
    except OSError as error:
        raise _unreadable(table, file, error) from None
    if _stamp(table, file) != before:
        raise DataError(
            f"table {table}: {file} changed while it was read",
            code="source-busy",
            hint="wait until whatever writes it is done, then try again",
        )
    _, mtime, ctime, _ = map(int, before.split(":"))
    changed = ctime if os.name == "posix" else mtime  # elsewhere ctime is the time of creation
    return FileMark(before, contents.digest(), settled=changed < started - SETTLED_NS)


def _unreadable(table: str, file: Path, error: OSError) -> DataError:
    code = "source-missing" if isinstance(error, FileNotFoundError) else "source-unreadable"
    return DataError(
        f"table {table}: can't read {file}: {error.strerror}", code=code, hint="see its source in the policy"
    )
