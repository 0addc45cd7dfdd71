"""The key of a ledger: 32 random bytes that lie outside of its file.

By default in `<ledger>.key`, as hexadecimal text that its owner alone can read; or in the environment,
DPSQL_LEDGER_KEY. It is made before the ledger is (in `<ledger>.key.new`, which gets its own name when the ledger has
one), and never made anew for a ledger that exists: without its key nothing in a ledger can be trusted. So a key without
its ledger says that the ledger is gone, and only the steward begins another account. While a key is changed, the new
one lies in `<ledger>.key.new`, with a tag under the old one: a file that somebody else put there is not believed.
Whoever has a copy of both files can write any history; of an older copy that is put back with its key only an anchor
tells (anchor.py, Theorem LEDGER-2).

Hashes that hold a ledger together: links from event to event, and keyed tags.

    link    of an event: covers it and, through the link of the event before, everything that was ever recorded
    tag     a keyed hash, for what changes: the head (how many events, the last link), marks of files, the secret

Links have no key. The head has one, and whoever can't make its tag can't alter, drop, add or reorder an event: another
chain has another last link (collisions of a 256-bit hash apart). So a new key needs a new tag for the head only, and
an anchor's link stays true when the key is changed. The key lies outside of the file
(Theorem LEDGER-2).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

from dpsql.accounting import durable
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass

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
        # Where a link points to: the key that is replaced is the one there, and the link stays.
        self._file = Path(f"{ledger}.key") if ledger is None else Path(os.path.realpath(f"{ledger}.key"))
        self._next = Path(f"{self._file}.new")
        self.drafted = False
        """Was a key for a new ledger written here? Whoever was faster may have made the ledger with another one."""

    def for_new_ledger(self, *, anew: bool = False) -> bytes:
        """The key for a new ledger, on the disk; LedgerError where a key says that there was a ledger already.

        anew: the steward's word that another account begins.
        """
        if not self._outside_file:
            assert self._ledger is not None
            # In this order: whoever creates the same ledger gives the key its name after the ledger has its own.
            if not os.path.lexists(self._file):
                self.drafted = durable.create(self._next, _text(secrets.token_bytes(SIZE)))
            elif not anew and not self._ledger.exists():
                raise gone(self._ledger)
        return self.candidates()[0]

    @property
    def unnamed(self) -> bool:
        """Has the key of a new ledger not got its own name yet?"""
        return not self._outside_file and not os.path.lexists(self._file) and self._next.exists()

    def candidates(self) -> list[bytes]:
        """Keys that may be the ledger's, the likeliest first; LedgerError if there is none.

        While a new key is being introduced there are two files, and which one counts is for the ledger to say. The
        first is looked at again in case that it was replaced after the first look. The second counts with its tag under
        the key in the first; where there is no first (the ledger was just made), it stands for it.
        """
        if self._ledger is None:
            return [self._memory]
        if (text := os.environ.get(VARIABLE)) is not None:
            return [_parsed(text, f"the environment's {VARIABLE}")]
        found: dict[bytes, None] = {}
        problem: LedgerError | None = None
        following: _Written | None = None
        for file in (self._file, self._next, self._file):
            try:
                written = self._read(file)
            except LedgerError as error:
                problem = problem or error
                continue
            if file == self._next:
                following = written
            elif written is not None:
                found[written.key] = None
        if following is not None and (following.follows(found) or not (found or problem)):
            found[following.key] = None
        if not found:
            raise problem or self._missing()
        return list(found)

    def prepare(self, old: bytes) -> bytes:
        """A new key, on the disk before the ledger is told of it (with the environment: from DPSQL_LEDGER_KEY_NEW)."""
        new = secrets.token_bytes(SIZE)
        if self._ledger is None:
            self._memory = new
        elif VARIABLE in os.environ:
            return self._from_environment()
        else:
            durable.write(self._next, _text(new, tag(old, "nextkey", new)))
        return new

    def settle(self, key: bytes) -> None:
        """Leave one key file, that of the key in use. Only under the ledger's write lock: then none is on its way."""
        if self._outside_file or not self._next.exists():
            return
        if key in self._readable(self._file):
            self._next.unlink(missing_ok=True)
        elif key in self._readable(self._next):
            durable.write(self._file, _text(key))
            self._next.unlink(missing_ok=True)

    @property
    def _outside_file(self) -> bool:
        return self._ledger is None or VARIABLE in os.environ

    def _readable(self, file: Path) -> list[bytes]:
        with contextlib.suppress(LedgerError):
            written = self._read(file)
            return [] if written is None else [written.key]
        return []

    def _read(self, file: Path) -> _Written | None:
        return _read(file, self._ledger)

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

    def changed(self, error: LedgerError, *, sure: bool) -> LedgerError:
        """The error for a change of the key after which something failed: both keys must be kept."""
        new = f"in {NEXT}" if self._outside_file else f"in {self._next} or, later, {self._file}"
        use = f"set {VARIABLE} to it" if self._outside_file else "it is found there by itself"
        return LedgerError(
            f"the ledger {self._ledger} {'has' if sure else 'may have'} the NEW key ({new}), but {error.message}",
            code=error.code,
            hint=f"keep both keys, and throw none away. The ledger opens with the new one: {use}. Repair what failed, "
            "then look at the budget (dpsql budget): that finishes it",
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


def is_beside(ledger: Path) -> bool:
    """Is there a key in a file beside this ledger?"""
    return VARIABLE not in os.environ and os.path.lexists(f"{ledger}.key")


def gone(ledger: Path) -> LedgerError:
    """The error for a ledger that isn't there, though its key is."""
    return LedgerError(
        f"the ledger {ledger} is gone: its key is there, so there was one, and what it spent stays spent",
        code="ledger-missing",
        hint="put it back. A new account, with the whole budget, is for the steward to begin: "
        "`dpsql budget --create --steward`",
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """What a key file says: a key and, while it is new, the tag under the one before it."""

    key: bytes
    tag: bytes = b""

    def follows(self, keys: Iterable[bytes]) -> bool:
        return any(agrees(self.tag, old, "nextkey", self.key) for old in keys)


def _text(key: bytes, its_tag: bytes = b"") -> bytes:
    return f"{key.hex()} {its_tag.hex()}".rstrip().encode() + b"\n"


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


def owners_of(ledger: Path | None) -> set[int]:
    """Whose key files are believed: root's, one's own, and those of the ledger's owner."""
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        owners |= set() if ledger is None else {ledger.stat().st_uid}
    return owners


def _read(file: Path, ledger: Path | None) -> _Written | None:
    """What a key file says; None where there is no such file."""
    try:
        with file.open("rb") as handle:
            found = os.fstat(handle.fileno())
            if os.name == "posix" and found.st_uid not in owners_of(ledger):
                raise LedgerError(
                    f"the key {file} belongs to somebody else (user {found.st_uid})",
                    code="key-exposed",
                    hint="a key is root's, your own, or that of the ledger's owner: another may have been put there "
                    "with a history of its maker's own. Put the ledger's key back",
                )
            if os.name == "posix" and found.st_mode & OTHERS:
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
    key, _, its_tag = content.decode("ascii", errors="replace").strip().partition(" ")
    return _Written(_parsed(key, str(file)), _parsed(its_tag, str(file)) if its_tag else b"")


DIGEST_BYTES = 32
"""Of a link and of a tag."""

Field = str | int | bytes | None


def link(before: bytes, fields: Sequence[Field]) -> bytes:
    """The link of an event, given that of the event before it (b"" for the first)."""
    return blake2b(_encoded(before, *fields), digest_size=DIGEST_BYTES, person=b"dpsql.link").digest()


def tag(key: bytes, purpose: str, *fields: Field) -> bytes:
    """A keyed hash; one made for one purpose never passes for another."""
    return blake2b(_encoded(*fields), key=key, digest_size=DIGEST_BYTES, person=f"dpsql.{purpose}".encode()).digest()


def agrees(found: object, key: bytes, purpose: str, *fields: object) -> bool:
    """Is this the tag of these fields? No other type or value is, whatever a damaged file holds."""
    if not isinstance(found, bytes) or any(not isinstance(f, str | int | bytes | None) for f in fields):
        return False
    return compare_digest(found, tag(key, purpose, *fields))  # type: ignore[arg-type]  # as was just checked


def _encoded(*fields: Field) -> bytes:
    """JSON, so that no two lists of fields look alike; bytes in hex, marked as such."""
    plain = [[f.hex()] if isinstance(f, bytes) else f for f in fields]
    return _encode(plain).encode()


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
