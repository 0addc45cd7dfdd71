"""Hashes that hold a ledger together: links from event to event, and keyed tags.

    link    of an event: covers it and, through the link of the event before, everything that was ever recorded
    tag     a keyed hash, for what changes: the head (how many events, the last link), marks of files, the secret

Links have no key. The head has one, and whoever can't make its tag can't alter, drop, add or reorder an event: another
chain has another last link (collisions of a 256-bit hash apart). So a new key needs a new tag for the head only, and
an anchor's link stays true when the key is changed. The key lies outside of the file (keys.py, Theorem LEDGER-2).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

SIZE = 32
"""Bytes of a link and of a tag."""

Field = str | int | bytes | None


def link(before: bytes, fields: Sequence[Field]) -> bytes:
    """The link of an event, given that of the event before it (b"" for the first)."""
    return blake2b(_text(before, *fields), digest_size=SIZE, person=b"dpsql.link").digest()


def tag(key: bytes, purpose: str, *fields: Field) -> bytes:
    """A keyed hash; one made for one purpose never passes for another."""
    return blake2b(_text(*fields), key=key, digest_size=SIZE, person=f"dpsql.{purpose}".encode()).digest()


def agrees(found: object, key: bytes, purpose: str, *fields: object) -> bool:
    """Is this the tag of these fields? No other type or value is, whatever a damaged file holds."""
    if not isinstance(found, bytes) or any(not isinstance(f, str | int | bytes | None) for f in fields):
        return False
    return compare_digest(found, tag(key, purpose, *fields))  # type: ignore[arg-type]  # as was just checked


def _text(*fields: Field) -> bytes:
    """JSON, so that no two lists of fields look alike; bytes in hex, marked as such."""
    plain = [[f.hex()] if isinstance(f, bytes) else f for f in fields]
    return _encode(plain).encode()


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
