"""Is this still the data that the ledger knows? Keyed fingerprints of sources.

A look at a source has two halves. Its *stamp* says that it was written: names of files and the times of their last
change, and nothing that depends on a row, so that neighbours agree on it (Theorem VERSION-1). Its *digest* says what it
holds. Both are BLAKE2b hashes keyed with the ledger's secret, and nothing shows them: a plain hash of the contents
would let anyone who sees it test a guess of the data. Names count where there are several files, because a glob's file
names say which files belong together; folders like `year=2024` count as contents (engines read them as a column).

Of a table inside of a database file its rows are hashed, and not the file. That the file was written is an event for
each of its tables, whichever was written.

A file is read in full the first time it is seen, and again only when its stamp (size, mtime, ctime, inode) differs
from the recorded one, so the second look costs one stat a file. What the stamp can't see: on systems without a change
time (Windows), contents replaced by others of the same size with the mtime set back; anywhere, a clock that was set
back to the very nanosecond of the last change. A stamp younger than two seconds is not relied on, because a second
write could carry the same time. Files that are too large to be read here are only listed.

What tells one state of many files from another without reading them: names, sizes, and times of their last change.

Theorem VERSION-1, Data too large to hash: that files with one listing hold one content is assumed. A listing is relied
on once it is as old as the coarsest clock is slow: until then a second write could carry the same times. How old it is
says another clock than this machine's, so that a file which may be that young has to stay as it is for as long here.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

CHUNK = 4 << 20
SIZE = 32  # bytes of a digest


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a source shows: when it was written, and what it holds. Keyed, and shown to nobody.

    files: the digest of each file, by its name.
    """

    stamp: bytes
    digest: bytes
    files: Mapping[str, bytes] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one table's rows come from: files, an object in memory, or files that are only listed.

    `files` are all files of the source (a glob expanded; a .duckdb file together with its .wal, if there is one).
    `chunks` gives a fresh iterator over bytes whose concatenation determines the rows (an Arrow IPC stream, say).
    `part` names what is read from the files when that isn't all of it: the table inside a .duckdb file; `inside` says
    what its rows are, given a secret. `event` is the stamp of an object in memory, which has no times of its own.
    `listing` is for files too large to read: what they are listed as stands for what they hold.
    """

    table: str
    files: tuple[Path, ...] | None = None
    chunks: Callable[[], Iterator[bytes]] | None = None
    part: str = ""
    inside: Callable[[bytes], bytes] | None = None
    event: str = ""
    listing: Listing | None = None

    def __post_init__(self) -> None:
        if sum(way is not None for way in (self.files, self.chunks, self.listing)) != 1:
            raise ValueError("a source is files, chunks or a listing")


@dataclass(frozen=True, slots=True)
class FileMark:
    """What is known of one file: the stamp it had when it was read, and the digest of its contents.

    Only a settled mark may be kept: an unsettled stamp is so young that a later write could carry the same one.
    """

    stamp: str
    digest: bytes
    settled: bool = True


def fingerprint(source: Source, secret: bytes, known: Mapping[str, FileMark]) -> tuple[Look, Mapping[str, FileMark]]:
    """A look at the source, and the marks of those files that had to be read for it."""
    if source.chunks is not None:
        return _object(source, secret), {}
    if source.listing is not None:
        return _listed(source, source.listing, secret), {}
    files = sorted(Path(os.path.abspath(file)) for file in source.files or ())  # noqa: PTH100 (keep symlinks)
    if not files:
        raise DataError(
            f"table {source.table} has no files",
            code="source-missing",
            hint=f"nothing matches [tables.{source.table}] source = … in the policy",
        )
    stamps = [stamp_of(source.table, file) for file in files]
    written = _keyed(secret, b"dpsql.stamp")
    called = names(files)
    for name, stamp in zip(called, stamps, strict=True):
        _add(written, name.encode(errors="surrogateescape"))
        _add(written, _times(stamp).encode())
    if source.inside is not None:
        return _table(source, source.inside, files, stamps, written.digest(), secret, known)
    whole = _keyed(secret, b"dpsql.source")
    _add(whole, source.part.encode())
    read: dict[str, FileMark] = {}
    digests = {}
    for file, name, stamp in zip(files, called, stamps, strict=True):
        mark = known.get(str(file))
        if mark is None or mark.stamp != stamp:
            mark = read[str(file)] = _read(source.table, file, secret)
            if mark.stamp != stamp:
                raise _busy(source.table, file)
        _add(whole, name.encode(errors="surrogateescape"))
        _add(whole, mark.digest)
        digests[name] = mark.digest
    return Look(written.digest(), whole.digest(), files=digests), read


def _object(source: Source, secret: bytes) -> Look:
    """An object in memory: all of it is hashed."""
    assert source.chunks is not None
    contents = _keyed(secret, b"dpsql.memory")
    for chunk in source.chunks():
        contents.update(chunk)
    whole, written = _keyed(secret, b"dpsql.source"), _keyed(secret, b"dpsql.stamp")
    _add(whole, source.part.encode())
    _add(whole, contents.digest())
    _add(written, source.event.encode())
    return Look(written.digest(), whole.digest(), files={"": contents.digest()})


def _listed(source: Source, listing: Listing, secret: bytes) -> Look:
    """Files that nobody reads here (Theorem VERSION-1, Data too large to hash). The stamp leaves sizes out."""
    found = settled(source.table, listing)
    written, whole = _keyed(secret, b"dpsql.stamp"), _keyed(secret, b"dpsql.listing")
    for hashed in (written, whole):
        _add(hashed, found.state.encode())
    files = {}
    for file in found.files:
        name = file.name.encode(errors="surrogateescape")
        times = f"{file.changed_ns}:{file.mark}".encode()
        one = _keyed(secret, b"dpsql.listing")
        for said in (name, times):
            _add(written, said)
            _add(one, said)
        _add(one, str(file.size).encode())
        files[file.name] = one.digest()
        _add(whole, files[file.name])
    return Look(written.digest(), whole.digest(), files)


def _table(
    source: Source,
    inside: Callable[[bytes], bytes],
    files: list[Path],
    stamps: list[str],
    written: bytes,
    secret: bytes,
    known: Mapping[str, FileMark],
) -> tuple[Look, Mapping[str, FileMark]]:
    """A table of a database file, which is looked at again only when the file was written."""
    name, stamp = f"{files[0]}#{source.part}", " ".join(stamps)
    mark, read = known.get(name), {}
    if mark is None or mark.stamp != stamp or len(mark.digest) != SIZE:
        started = time.time_ns()
        found = inside(secret)
        if [stamp_of(source.table, file) for file in files] != stamps:
            raise _busy(source.table, files[0])
        whole = _keyed(secret, b"dpsql.rows")
        _add(whole, source.part.encode())
        _add(whole, found)
        mark = read[name] = FileMark(stamp, whole.digest(), settled=all(_is_settled(s, started) for s in stamps))
    return Look(written, mark.digest, {"": mark.digest}), read


def _keyed(secret: bytes, person: bytes) -> blake2b:
    return blake2b(key=secret, digest_size=SIZE, person=person)


def _add(whole: blake2b, field: bytes) -> None:
    """Length first, so that no two lists of fields look alike."""
    whole.update(len(field).to_bytes(8, "big"))
    whole.update(field)


def names(files: Sequence[Path]) -> list[str]:
    """Each file's name below the folder they share (one file: none), starting at its first `key=value` folder."""
    shared = len(Path(os.path.commonpath(files)).parts)
    found = []
    for file in files:
        keyed = (place for place, part in enumerate(file.parts) if "=" in part and place < len(file.parts) - 1)
        found.append("/".join(file.parts[min(shared, next(keyed, shared)) :]))
    return found


def _read(table: str, file: Path, secret: bytes) -> FileMark:
    """Read the whole file, in chunks; refused if it changes meanwhile."""
    started = time.time_ns()
    before = stamp_of(table, file)
    contents = _keyed(secret, b"dpsql.file")
    chunk = memoryview(bytearray(CHUNK))
    try:
        with file.open("rb", buffering=0) as handle:
            while size := handle.readinto(chunk):
                contents.update(chunk[:size])
    except OSError as error:
        raise unreadable(table, file, error) from None
    if stamp_of(table, file) != before:
        raise _busy(table, file)
    return FileMark(before, contents.digest(), settled=_is_settled(before, started))


def _times(stamp: str) -> str:
    """The half of a stamp that says when: the other half, size and inode, depends on what was written, and on where."""
    _, mtime, ctime, _ = stamp.split(":")
    return f"{mtime}:{ctime}"


def _is_settled(stamp: str, started: int) -> bool:
    _, mtime, ctime, _ = map(int, stamp.split(":"))
    changed = ctime if os.name == "posix" else mtime  # elsewhere ctime is the time of creation
    return changed < started - SETTLED_NS


def _busy(table: str, file: Path) -> DataError:
    return DataError(
        f"table {table}: {file} changed while it was read",
        code="source-busy",
        hint="wait until whatever writes it is done, then try again",
    )


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
