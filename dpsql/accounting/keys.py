"""The key of a ledger: 32 random bytes that lie outside of its file.

By default in `<ledger>.key`, as hexadecimal text that its owner alone can read; or in the environment,
DPSQL_LEDGER_KEY. It is made before the ledger is, and never made anew for a ledger that exists: without its key
nothing in a ledger can be trusted. Whoever has a copy of both files can write any history; of an older copy that is put
back with its key only an anchor tells (anchor.py, Theorem LEDGER-2).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from dpsql.accounting import durable
from dpsql.errors import LedgerError

VARIABLE = "DPSQL_LEDGER_KEY"
NEXT = "DPSQL_LEDGER_KEY_NEW"
SIZE = 32
OTHERS = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP
"""What a key file's mode must not grant: anything to everybody, or writing to its group."""


class Keys:
    """Where the key of one ledger is found; None: a ledger in memory, whose key is kept here."""

    def __init__(self, ledger: Path | None) -> None:
        self._ledger = ledger
        self._memory = secrets.token_bytes(SIZE) if ledger is None else b""
        self._file = Path(f"{ledger}.key")
        self._next = Path(f"{ledger}.key.new")

    def for_new_ledger(self) -> bytes:
        """The key for a new ledger: one that lies there (somebody creates the same ledger), or a new one."""
        if not self._outside_file and not self._file.exists():
            durable.create(self._file, _text(secrets.token_bytes(SIZE)))
        return self.candidates()[0]

    def candidates(self) -> list[bytes]:
        """Keys that may be the ledger's, the likeliest first; LedgerError if there is none.

        While a new key is being introduced there are two files, and which one counts is for the ledger to say. The
        first is looked at again in case that it was replaced after the first look.
        """
        if self._ledger is None:
            return [self._memory]
        if (text := os.environ.get(VARIABLE)) is not None:
            return [_parsed(text, f"the environment's {VARIABLE}")]
        found: dict[bytes, None] = {}
        problem: LedgerError | None = None
        for file in (self._file, self._next, self._file):
            try:
                key = _read(file)
            except LedgerError as error:
                problem = problem or error
            else:
                found |= {} if key is None else {key: None}
        if not found:
            raise problem or self._missing()
        return list(found)

    def prepare(self) -> bytes:
        """A new key, on the disk before the ledger is told of it (with the environment: from DPSQL_LEDGER_KEY_NEW)."""
        new = secrets.token_bytes(SIZE)
        if self._ledger is None:
            self._memory = new
        elif VARIABLE in os.environ:
            return self._from_environment()
        else:
            durable.write(self._next, _text(new))
        return new

    def settle(self, key: bytes) -> None:
        """Leave one key file, that of the key in use. Only under the ledger's write lock: then none is on its way."""
        if self._outside_file or not self._next.exists():
            return
        if key in self._readable(self._file):
            self._next.unlink(missing_ok=True)
        elif key in self._readable(self._next):
            durable.replace(self._next, self._file)

    @property
    def _outside_file(self) -> bool:
        return self._ledger is None or VARIABLE in os.environ

    def _readable(self, file: Path) -> list[bytes]:
        with contextlib.suppress(LedgerError):
            key = _read(file)
            return [] if key is None else [key]
        return []

    def _from_environment(self) -> bytes:
        text = os.environ.get(NEXT)
        if text is None:
            raise LedgerError(
                f"the key is in {VARIABLE}, and there is no new one in {NEXT}",
                code="key-missing",
                hint=f"make one (python -c 'import secrets; print(secrets.token_hex(32))'), set {NEXT} to it, and run "
                f"this again; afterwards it is the value of {VARIABLE}",
            )
        new = _parsed(text, f"the environment's {NEXT}")
        if [new] == self.candidates():
            raise LedgerError(f"{NEXT} is the key in use", code="key-unchanged", hint="set it to another key")
        return new

    def _missing(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self._ledger} is there, but its key {self._file} is not",
            code="key-missing",
            hint=f"put the key back beside the ledger, or into {VARIABLE}: without it nothing in the ledger can be "
            "trusted, and no new one is ever made for it",
        )

    def wrong(self) -> LedgerError:
        """The error for a ledger that was written with another key."""
        where = f"the key in {VARIABLE}" if VARIABLE in os.environ else f"the key {self._file}"
        return LedgerError(
            f"{where} is not that of the ledger {self._ledger}",
            code="key-wrong",
            hint=f"use the ledger's own key: in {self._ledger}.key, or in {VARIABLE}, which is looked at first. If the "
            "key was changed (dpsql budget --rotate-key), use the new one; a backup needs the key of its own time",
        )


def _text(key: bytes) -> bytes:
    return f"{key.hex()}\n".encode()


def _parsed(text: str, where: str) -> bytes:
    with contextlib.suppress(ValueError):
        key = bytes.fromhex(text.strip())
        if len(key) == SIZE:
            return key
    raise LedgerError(
        f"{where} is not a key: 64 hexadecimal digits",
        code="key-damaged",
        hint="use the key that the ledger was made with; a new one opens no old ledger",
    )


def _read(file: Path) -> bytes | None:
    """A key file's key; None where there is no such file."""
    try:
        with file.open("rb") as handle:
            if os.name == "posix" and os.fstat(handle.fileno()).st_mode & OTHERS:
                raise LedgerError(
                    f"the key {file} can be read or written by others",
                    code="key-exposed",
                    hint=f"whoever knows it can rewrite the ledger unnoticed: chmod 600 {file}, and if anybody may "
                    "have seen it: dpsql budget --rotate-key --steward",
                )
            content = handle.read(1000)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LedgerError(
            f"the key {file} can't be read: {error.strerror}",
            code="key-unreadable",
            hint=f"whoever runs queries needs the ledger's key: as owner of this file, or in {VARIABLE}",
        ) from None
    return _parsed(content.decode("ascii", errors="replace"), str(file))
