"""The audit log: one line of JSON for each thing that was asked, for the steward alone.

Who, a hash of the SQL, price, receipt, outcome, an incident's id, and how long it took; durations are nowhere else.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dpsql.accounting.backup import LINE, line_of
from dpsql.accounting.clock import now
from dpsql.accounting.events import Row
from dpsql.core.errors import LedgerError

LATER = ("released", "answered")  # what became of a spend needn't be on the disk before anything else happens


class Audit:
    """An append-only file of lines, readable by its owner alone. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self._place = _last_place(path)
        self._torn = False

    def write(self, event: str, facts: Mapping[str, object]) -> None:
        """Add a line."""
        line = json.dumps({"time": now(), "event": event, **facts}, ensure_ascii=True, default=str)
        with self._lock:
            self._append([line])

    def _append(self, lines: Sequence[str]) -> None:
        """Write whole lines; OSError where a disk takes a part of them, which is ended before the next ones."""
        rest = memoryview(("\n" if self._torn else "").encode() + "".join(f"{line}\n" for line in lines).encode())
        self._torn = True
        while rest:  # mostly one call: lines of several processes don't mix
            taken = os.write(self._file, rest)
            if not taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            rest = rest[taken:]
        self._torn = False

    def witness(self, since: Callable[[int], list[tuple[Row, bytes]]]) -> None:
        """Write the ledger's events that aren't in the log yet, by whichever process they were recorded.

        They are on the disk before a row is read for what they pay for: an older copy of the ledger gets them back
        from here (accounting/backup.py).
        """
        with self._lock:
            rows = since(self._place)
            try:
                self._append([json.dumps({"event": LINE, **line_of(*one)}, ensure_ascii=True) for one in rows])
                if any(row[1] not in LATER for row, _ in rows):
                    os.fsync(self._file)
            except OSError as error:
                raise LedgerError(
                    f"the audit log {self.path} can't be written: {error.strerror}",
                    code="audit",
                    hint="nothing was answered; the price may have been recorded. Make room and try again",
                ) from None
            self._place = rows[-1][0][0] if rows else self._place

    def close(self) -> None:
        os.close(self._file)


def _last_place(path: Path) -> int:
    """The place of the ledger's last event in a log; a line that was cut off is ended, and told again."""
    last = 0
    content = path.read_bytes()
    for line in content.split(b"\n")[:-1]:
        with suppress(ValueError, KeyError, TypeError):
            said = json.loads(line)
            if said["event"] == LINE:
                last = int(said["seq"])
    if content and not content.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    return last


def hash_of(sql: str) -> str:
    """What tells one text from another in the log."""
    return sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()
