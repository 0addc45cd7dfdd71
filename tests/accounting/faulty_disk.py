"""A disk that fails, or loses its power: everything that a process writes, seen and spoiled call by call.

Python's own calls (os.open, write, fsync, link, replace, unlink) are wrapped, and SQLite's are, too: its default VFS is
patched through ctypes, so that each file's xWrite, xTruncate, xSync and the VFS's xOpen and xDelete come by here first.
The patches are for a whole process, so this is imported only by disk_driver.py, which has one of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FULL, IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE, IOERR_DELETE = 13, 778, 1034, 1546, 2570
SECTOR = 512

_P = ctypes.c_void_p
# SQLite keeps the pointer to a name, and looks for parameters behind it: it must be passed on as it is.
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, _P, ctypes.c_int, _P)
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_char_p, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _P, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The beginning of sqlite3_vfs."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("size", ctypes.c_int),
        ("longest", ctypes.c_int),
        ("next", _P),
        ("name", ctypes.c_char_p),
        ("data", _P),
        ("open", _P),
        ("delete", _P),
    ]


class _Methods(ctypes.Structure):
    """sqlite3_io_methods: its version, then eighteen functions."""

    _fields_ = [
        ("version", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("close", "read", "write", "truncate", "sync")),
        *((f"other{n}", ctypes.c_void_p) for n in range(13)),
    ]


@dataclass
class Disk:
    """What was done to the disk, in order, and which call is to fail."""

    trace: list[tuple[Any, ...]] = field(default_factory=list)
    calls: int = 0
    fail_at: int = 0
    """The number of the call that fails; 0: none does."""
    full: bool = False
    """All later writes fail, too, while syncs work and names can still be made: a disk that stays full."""
    torn: bool = False
    """Half of a failing write gets through."""

    def fails(self, write: bool = False) -> bool:
        self.calls += 1
        return self.fail_at > 0 and (self.calls == self.fail_at or (self.full and write and self.calls > self.fail_at))

    def install(self) -> None:
        """Patch Python and SQLite. AttributeError where SQLite's functions can't be reached."""
        self._patch_python()
        self._patch_sqlite()

    def _patch_python(self) -> None:
        names: dict[int, str] = {}
        real = {name: getattr(os, name) for name in ("open", "close", "write", "fsync", "link", "replace", "unlink")}

        def check() -> None:
            if self.fails():
                raise OSError(errno.ENOSPC if self.calls % 2 else errno.EIO, "the disk failed")

        def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & os.O_CREAT:
                check()
            handle: int = real["open"](path, flags, *rest, **named)
            names[handle] = os.fspath(path)
            if flags & os.O_CREAT:
                self.trace.append(("create", names[handle]))
            return handle

        def closed(handle: int) -> None:
            names.pop(handle, None)
            real["close"](handle)

        def write(handle: int, data: Any) -> int:
            if handle not in names:
                return int(real["write"](handle, data))
            place = os.lseek(handle, 0, os.SEEK_CUR)
            failed = self.fails(write=True)
            if failed and not self.torn:
                raise OSError(errno.ENOSPC, "the disk is full")
            data = bytes(data)[: len(data) // 2] if failed else bytes(data)
            self.trace.append(("write", names[handle], place, data))
            return int(real["write"](handle, data))

        def fsync(handle: int) -> None:
            check()
            real["fsync"](handle)
            self.trace.append(("sync", names[handle]))

        def link(source: Any, target: Any) -> None:
            check()
            real["link"](source, target)
            self.trace.append(("link", os.fspath(source), os.fspath(target)))

        def replace(source: Any, target: Any) -> None:
            check()
            real["replace"](source, target)
            self.trace.append(("replace", os.fspath(source), os.fspath(target)))

        def unlink(path: Any, **named: Any) -> None:
            check()
            real["unlink"](path, **named)
            self.trace.append(("unlink", os.fspath(path)))

        new = {"open": opened, "close": closed, "write": write, "fsync": fsync, "link": link, "replace": replace}
        for name, function in {**new, "unlink": unlink}.items():
            setattr(os, name, function)

    def _patch_sqlite(self) -> None:
        import _sqlite3

        library = ctypes.CDLL(_sqlite3.__file__)
        find = library.sqlite3_vfs_find
        find.restype, find.argtypes = ctypes.POINTER(_Vfs), [ctypes.c_char_p]
        vfs = find(None).contents
        real_open, real_delete = _OPEN(vfs.open), _DELETE(vfs.delete)
        names: dict[int, str] = {}
        patched: dict[int, _Methods] = {}
        keep: list[Any] = []

        def methods(address: int) -> _Methods:
            if address not in patched:
                copy = _Methods.from_buffer_copy(_Methods.from_address(address))
                for name, function in self._file_methods(copy, names).items():
                    keep.append(function)
                    setattr(copy, name, ctypes.cast(function, _P))
                patched[address] = copy
            return patched[address]

        def opened(this: int, pointer: int | None, file: int, flags: int, out: int) -> int:
            name = os.fsdecode(ctypes.string_at(pointer)) if pointer else "?"
            new = pointer is not None and not Path(name).exists()
            status = int(real_open(this, pointer, file, flags, out))
            at = _P.from_address(file)
            if status == 0 and at.value:
                names[file] = name
                if new:
                    self.trace.append(("create", name))
                at.value = ctypes.addressof(methods(at.value))
            return status

        def delete(this: int, name: bytes, sync: int) -> int:
            if self.fails():
                return IOERR_DELETE
            status = int(real_delete(this, name, sync))
            if status == 0:
                self.trace.append(("unlink", os.fsdecode(name)))
                if sync:
                    self.trace.append(("sync", str(Path(os.fsdecode(name)).parent)))
            return status

        for slot, function in (("open", _OPEN(opened)), ("delete", _DELETE(delete))):
            keep.append(function)
            setattr(vfs, slot, ctypes.cast(function, _P))
        self._kept = keep, patched

    def _file_methods(self, real: _Methods, names: dict[int, str]) -> dict[str, Any]:
        real_write, real_truncate, real_sync = _WRITE(real.write), _TRUNCATE(real.truncate), _SYNC(real.sync)

        def write(file: int, data: int, size: int, place: int) -> int:
            failed = self.fails(write=True)
            if failed and not self.torn:
                return FULL
            size = size // 2 if failed else size
            self.trace.append(("write", names[file], place, ctypes.string_at(data, size)))
            status = int(real_write(file, data, size, place))
            return IOERR_WRITE if failed else status

        def truncate(file: int, size: int) -> int:
            if self.fails():
                return IOERR_TRUNCATE
            self.trace.append(("truncate", names[file], size))
            return int(real_truncate(file, size))

        def sync(file: int, flags: int) -> int:
            if self.fails():
                return IOERR_FSYNC
            status = int(real_sync(file, flags))
            self.trace.append(("sync", names[file]))
            if names[file].endswith("-wal"):  # SQLite syncs the folder of a new log, too
                self.trace.append(("sync", str(Path(names[file]).parent)))
            return status

        return {"write": _WRITE(write), "truncate": _TRUNCATE(truncate), "sync": _SYNC(sync)}


class Image:
    """What a disk may hold when the power goes: what was synced, and any part of what was not.

    Contents of files are lost write by write and sector by sector, in any order, until they are synced. Names are made,
    changed and removed in order, and any number of the last ones is lost until their folder is synced (as with the
    file systems that keep a journal).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names: dict[str, int] = {}  # as a running system sees them
        self._synced_names: dict[str, int] = {}
        self._later_names: list[tuple[str, int | None]] = []
        self._synced: dict[int, bytes] = {}
        self._later: dict[int, list[tuple[int, bytes | None]]] = {}

    def apply(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("create", name):
                if name not in self._names:
                    node = len(self._synced)
                    self._synced[node], self._later[node] = b"", []
                    self._name(name, node)
            case ("write", name, place, data):
                self._later[self._names[name]].append((place, data))
            case ("truncate", name, size):
                self._later[self._names[name]].append((size, None))
            case ("sync", name) if name == self._folder:
                self._synced_names, self._later_names = dict(self._names), []
            case ("sync", name):
                node = self._names[name]
                self._synced[node] = _written(self._synced[node], self._later[node])
                self._later[node] = []
            case ("link", source, target):
                self._name(target, self._names[source])
            case ("replace", source, target):
                self._name(target, self._names[source])
                self._name(source, None)
            case ("unlink", name):
                self._name(name, None)
            case _:
                raise AssertionError(operation)

    def _name(self, name: str, node: int | None) -> None:
        self._later_names.append((name, node))
        if node is None:
            self._names.pop(name, None)
        else:
            self._names[name] = node

    def after(self, lost: Callable[[int], int], torn: Callable[[], bool]) -> dict[str, bytes]:
        """The files when the power is back. lost: how many of so many names; torn: is this sector lost?"""
        names = dict(self._synced_names)
        for name, node in self._later_names[: len(self._later_names) - lost(len(self._later_names))]:
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node
        files = {}
        for name, node in names.items():
            kept: list[tuple[int, bytes | None]] = []
            for place, data in self._later[node]:
                if data is None:
                    kept += [] if torn() else [(place, None)]
                else:
                    pieces = range(0, len(data), SECTOR)
                    kept += [(place + p, data[p : p + SECTOR]) for p in pieces if not torn()]
            files[name] = _written(self._synced[node], kept)
        return files

    def states(self, seed: int, some: int) -> list[dict[str, bytes]]:
        """What was synced alone; everything; names without contents; and some that are left to chance."""
        chance = random.Random(seed)
        found = [
            self.after(lambda n: n, lambda: True),
            self.after(lambda n: 0, lambda: False),
            self.after(lambda n: 0, lambda: True),
            self.after(lambda n: n, lambda: False),
        ]
        found += [self.after(lambda n: chance.randint(0, n), lambda: chance.random() < 0.5) for _ in range(some)]
        return found


def _written(content: bytes, operations: list[tuple[int, bytes | None]]) -> bytes:
    whole = bytearray(content)
    for place, data in operations:
        if data is None:
            del whole[place:]
        else:
            whole += bytes(max(0, place - len(whole)))
            whole[place : place + len(data)] = data
    return bytes(whole)
