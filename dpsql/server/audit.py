"""The audit log: one line of JSON for each thing that was asked, for the steward alone.

Who, a hash of the SQL, price, receipt, outcome, an incident's id, and how long it took; durations are nowhere else.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from dpsql.accounting.clock import now


class Audit:
    """An append-only file of lines, readable by its owner alone. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def write(self, event: str, facts: Mapping[str, object], *, durable: bool = False) -> None:
        """Add a line. durable: it is on the disk when this returns."""
        line = json.dumps({"time": now(), "event": event, **facts}, ensure_ascii=True, default=str) + "\n"
        with self._lock:
            os.write(self._file, line.encode())  # one call: lines of several processes don't mix
            if durable:
                os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)


def hash_of(sql: str) -> str:
    """What tells one text from another in the log."""
    return sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()
