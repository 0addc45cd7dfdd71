"""What is remembered of finished work: the very bytes of its files, beside the ledger that paid for them.

A record is written whole before the first file gets its name. So a run that ends in between is finished by the next one
with the same bytes, and work that is finished is never paid for again, also where the data are others by now. All of a
record has left dpsql already (Theorem FREE-1).
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

from dpsql.answer.files import beside
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file, and of its receipt where it has one."""

    file: bytes
    receipt: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """Finished work: the releases that it rests on, and the content of each of its files."""

    releases: tuple[str, ...]
    contents: tuple[Content, ...]


@dataclass(frozen=True, slots=True)
class Records:
    """The records beside one ledger; folder is None for a ledger in memory, which remembers none."""

    folder: Path | None

    @classmethod
    def beside(cls, ledger: Path | None) -> Records:
        """Those of the ledger in this file."""
        return cls(None if ledger is None else ledger.with_name(f"{ledger.name}.runs"))

    def find(self, digest: str, knows: Callable[[str], bool]) -> Record | None:
        """The record of finished work; None where there is none, or where the ledger doesn't know its releases.

        knows: whether the ledger has a release of this id. Records may outlive a ledger.
        """
        if self.folder is None:
            return None
        try:
            record = _read((self.folder / f"{digest}.json").read_bytes())
        except OSError:
            return None
        return record if record is not None and all(map(knows, record.releases)) else None

    def keep(self, digest: str, record: Record, *, replace: bool = False) -> Record:
        """Put a record on the disk, whole; the one that counts: an earlier one, unless it is to be replaced."""
        if self.folder is None:
            return record
        path = self.folder / f"{digest}.json"
        try:
            self.folder.mkdir(exist_ok=True)
            handle, temporary = beside(path)
            try:
                with handle:
                    handle.write(_written(record))
                    handle.flush()
                    os.fsync(handle.fileno())
                if not replace and _linked(temporary, path):
                    return record
                if not replace and (earlier := self.find(digest, record.releases.__contains__)) is not None:
                    return earlier
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(
                f"{path} can't be written: {error.strerror}",
                code="output",
                hint="what was paid for is stored in the ledger: run the job again once there is room",
            ) from None
        return record


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file a second name, if nobody has that yet. False also where the disk knows no such thing."""
    try:
        path.hardlink_to(temporary)
    except OSError:
        return False
    return True


def _written(record: Record) -> bytes:
    files = [
        {"file": _text(one.file), "receipt": None if one.receipt is None else _text(one.receipt)}
        for one in record.contents
    ]
    return json.dumps({"dpsql": FORMAT, "releases": list(record.releases), "files": files}).encode()


def _read(data: bytes) -> Record | None:
    """The record; None where it isn't one: then its work is done once more, from what the ledger stores."""
    try:
        found = json.loads(data)
        files: Sequence[dict[str, str | None]] = found["files"]
        contents = tuple(Content(_bytes(one["file"]) or b"", _bytes(one["receipt"])) for one in files)
        return Record(tuple(map(str, found["releases"])), contents) if found["dpsql"] == FORMAT else None
    except (ValueError, KeyError, TypeError):
        return None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
