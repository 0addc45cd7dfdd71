"""Signatures under receipts: an Ed25519 key beside the ledger, and what whoever has its public half can check.

    <ledger>.sign     the secret key as hexadecimal text, readable by its owner alone, and below it the public halves of
                      keys that it replaced; or DPSQL_SIGNING_KEY in the environment
    ed25519:‹base64›  a public key, as it is handed out
    a file of keys    public keys, one a line, each with the name that its reader gives it; # begins a comment

A signature says: somebody who had the secret key stated this. It is made with a key of its own and not with the
ledger's, so that a new key for the ledger leaves receipts that travel as they are. The key that a document names is
never believed by itself: a reader says which keys are to be believed, and got those some other way.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsql.accounting import durable
from dpsql.accounting.keys import OTHERS, owners_of
from dpsql.core.errors import DataError, LedgerError
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass

VARIABLE = "DPSQL_SIGNING_KEY"
SIZE = 32
KIND = "ed25519:"
PURPOSE = b"dpsql receipt\n"  # no other thing that is ever signed begins like this
LONGEST = 16 << 20  # bytes of a document
MOST_KEYS = 1 << 20  # bytes of a file of keys


class Signer:
    """The key that signs receipts of one ledger; None: of one in memory, which has none of its own."""

    def __init__(self, ledger: Path | None) -> None:
        self._ledger = ledger
        self.file = None if ledger is None else Path(os.path.realpath(f"{ledger}.sign"))

    @property
    def public(self) -> str:
        """The public half, as it is handed out. A key that isn't there yet is made."""
        return _public(_private(self._secret()))

    @property
    def retired(self) -> list[str]:
        """The public halves of keys that it replaced, each with the day on which that was."""
        if VARIABLE in os.environ or self.file is None or (content := self._content()) is None:
            return []
        return content[1:]

    def check(self) -> None:
        """Refuse now what would fail once something is to be signed: a key or a library that isn't there."""
        _private(self._secret())

    def sign(self, statement: Mapping[str, Any]) -> bytes:
        """A signed document: the statement, and under it whose signature that is. The statement holds no floats."""
        key = _private(self._secret())
        value = base64.b64encode(key.sign(_signed(statement))).decode()
        document = {"statement": statement, "signature": {"key": _public(key), "value": value}}
        return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()

    def rotate(self) -> str:
        """Steward's act: a new key. What the old one signed stays signed; its public half is kept."""
        if VARIABLE in os.environ or self.file is None:
            raise LedgerError(
                f"the signing key is in {VARIABLE}" if self.file else "a ledger in memory has no signing key",
                code="signing-key",
                hint=f"set {VARIABLE} to another one: 64 hexadecimal digits",
            )
        old = [f"{self.public} replaced {durable.now()[:10]}", *self.retired]
        durable.write(self.file, "\n".join([secrets.token_hex(SIZE), *old, ""]).encode())
        return self.public

    def _secret(self) -> bytes:
        if (text := os.environ.get(VARIABLE)) is not None:
            return _parsed(text, f"the environment's {VARIABLE}")
        if self.file is None:
            raise LedgerError(
                "a ledger in memory has no key to sign with",
                code="signing-key",
                hint=f"use a ledger in a file, or set {VARIABLE} to 64 hexadecimal digits",
            )
        if self._content() is None:
            try:
                durable.create(self.file, f"{secrets.token_hex(SIZE)}\n".encode())
            except OSError as error:
                raise LedgerError(
                    f"the signing key {self.file} can't be made: {error.strerror}",
                    code="signing-key",
                    hint=f"make its folder writable once, or set {VARIABLE} to 64 hexadecimal digits",
                ) from None
        content = self._content()
        return _parsed(content[0] if content else "", str(self.file))

    def _content(self) -> list[str] | None:
        """The lines of the key's file; None where there is none."""
        assert self.file is not None
        try:
            with self.file.open("rb") as handle:
                found = os.fstat(handle.fileno())
                if os.name == "posix" and (found.st_mode & OTHERS or found.st_uid not in owners_of(self._ledger)):
                    raise LedgerError(
                        f"the signing key {self.file} can be read or written by others, or is somebody else's",
                        code="key-exposed",
                        hint=f"whoever knows it can sign anything: chmod 600 {self.file}, and if anybody may have seen "
                        "it: dpsql key --rotate --steward",
                    )
                content = handle.read(MOST_KEYS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(
                f"the signing key {self.file} can't be read: {error.strerror}",
                code="signing-key",
                hint=f"whoever signs receipts needs it: as owner of this file, or in {VARIABLE}",
            ) from None
        return content.decode("ascii", errors="replace").splitlines()


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement whose signature holds: the key, and the name that the reader has for it."""

    statement: Mapping[str, Any]
    key: str
    name: str


def signed_by(document: bytes, keys: Mapping[str, str], where: str) -> Signed:
    """What a signed document states, if one of these keys signed it as it stands; DataError otherwise.

    keys: public keys that are believed, with names. where: what errors call the document.
    """
    statement, key, value = _read(document, where)
    if key not in keys:
        raise DataError(
            f"{where} was signed with a key that you don't name",
            code="receipt-key",
            hint=f"its key is {key}: whether that is the right one only its owner can tell you (dpsql key), in another "
            "way than with this file. If it is: --key, or a line in your file of keys",
        )
    errors = extra("cryptography.exceptions", "sign", "a signature")
    ed25519 = extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", "a signature")
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(_decoded(key)).verify(value, _signed(statement))
    except (errors.InvalidSignature, ValueError):
        raise DataError(
            f"{where} was changed after it was signed: its signature doesn't hold",
            code="receipt-forged",
            hint="believe none of it, nor the file it came with; ask whoever made it for both once more",
        ) from None
    return Signed(statement, key, keys[key])


def read_keys(text: str) -> dict[str, str]:
    """Public keys with their names, from a key itself or from the path of a file of them."""
    if text.startswith(KIND):
        return _listed([text], "--key")
    try:
        with Path(text).open("rb") as handle:
            content = handle.read(MOST_KEYS)
    except OSError as error:
        raise DataError(
            f"{text} is no public key, and can't be read as a file of keys: {error.strerror}",
            code="no-key",
            hint=f"a key looks like {KIND}… and its owner has it: dpsql key",
        ) from None
    return _listed(content.decode("utf-8-sig", errors="replace").splitlines(), text)


def _listed(lines: Sequence[str], where: str) -> dict[str, str]:
    found = {}
    for line in lines:
        key, _, name = line.partition("#")[0].strip().partition(" ")
        if key:
            _decoded(key, where)
            found[key] = name.strip()
    if not found:
        raise DataError(f"{where} holds no public key", code="no-key", hint=f"one a line: {KIND}… name")
    return found


def _private(secret: bytes) -> Any:
    ed25519 = extra("cryptography.hazmat.primitives.asymmetric.ed25519", "sign", "a signature")
    return ed25519.Ed25519PrivateKey.from_private_bytes(secret)


def _public(key: Any) -> str:
    return KIND + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def _decoded(key: str, where: str = "the receipt") -> bytes:
    try:
        raw = base64.b64decode(key.removeprefix(KIND), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # One key has one text: another spelling of the same bytes would be another entry in a list of keys.
    if len(raw) != SIZE or KIND + base64.b64encode(raw).decode() != key:
        raise DataError(f"{where}: {key[:60]!r} is no public key", code="no-key", hint=f"one looks like {KIND}…")
    return raw


def _parsed(text: str, where: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise LedgerError(
            f"{where} is not a signing key: 64 hexadecimal digits",
            code="key-damaged",
            hint="put the right one back; or, where it is lost, remove it: a new one is made, and readers need its "
            "public half (dpsql key)",
        )
    return secret


def _signed(statement: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: canonical JSON, whatever spaces and order a document has."""
    text = json.dumps(statement, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return PURPOSE + text.encode()


def _read(document: bytes, where: str) -> tuple[dict[str, Any], str, bytes]:
    """The statement, the key and the signature of a document that says just that, each thing once."""
    try:
        if len(document) > LONGEST:
            raise ValueError("too long")
        found = json.loads(document, object_pairs_hook=_once, parse_float=_no_float, parse_constant=_no_float)
        if set(found) != {"statement", "signature"} or set(found["signature"]) != {"key", "value"}:
            raise ValueError("other parts")
        statement, signature = found["statement"], found["signature"]
        if not isinstance(statement, dict) or not isinstance(signature["key"], str):
            raise ValueError("other types")
        return statement, signature["key"], base64.b64decode(signature["value"], validate=True)
    except (ValueError, TypeError, RecursionError):  # broken JSON, base64 and UTF-8 are ValueErrors, too
        raise DataError(
            f"{where} is not a signed receipt, or not a whole one",
            code="receipt-damaged",
            hint="ask whoever made it for the file and its receipt once more",
        ) from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no name stands twice: two readers could see two things."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_float(text: str) -> Any:
    raise ValueError(f"{text}: numbers are whole")
