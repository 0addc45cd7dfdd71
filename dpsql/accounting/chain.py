"""Rows that are chained: each carries a keyed hash of itself and of the row before it.

An edited, missing, inserted or reordered row breaks the chain from there on. The key lies in the same file, so this
detects failing disks and edits by hand, not somebody who computes the whole chain anew (Theorem LEDGER-1, A3).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

SIZE = 16


def link(secret: bytes, before: bytes, fields: Sequence[object]) -> bytes:
    """The hash of a row, given that of the row before it (b"" for the first)."""
    text = json.dumps([before.hex(), *fields], ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(errors="surrogatepass"), key=secret, digest_size=SIZE, person=b"dpsql.chain").digest()
