"""The audit log: one line of JSON for each thing that was asked, for the steward alone.

Who, a hash of the SQL, price, receipt, outcome, an incident's id, and how long it took; durations are nowhere else.

Numbers for the steward's monitoring, in the text format of Prometheus.

What is counted is counted when a request has ended, and so after the moment at which a paid one is answered. How long
requests took, and with whom, is for the steward: the port is on a loopback address and asks for a steward's token.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from dpsql.accounting.backup import LINE, line_of
from dpsql.accounting.durable import now
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


BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # seconds


class Metrics:
    """Counts of ended requests, by what was asked and how it ended. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Counter[tuple[str, str]] = Counter()
        self._within: Counter[tuple[str, float]] = Counter()
        self._seconds: Counter[str] = Counter()

    def add(self, event: str, outcome: str, seconds: float) -> None:
        """Count one."""
        with self._lock:
            self._ended[event, outcome] += 1
            self._seconds[event] += seconds  # type: ignore[assignment]  # Counter adds numbers of any kind
            for bound in BOUNDS:
                self._within[event, bound] += seconds <= bound

    def text(self, spent: float, total: float, running: int) -> str:
        """All of it. spent, total: of the account, in ε (or ρ); running: queries under way."""
        with self._lock:
            lines = ["# TYPE dpsql_requests_total counter"]
            lines += [
                f'dpsql_requests_total{{event="{event}",outcome="{outcome}"}} {n}'
                for (event, outcome), n in sorted(self._ended.items())
            ]
            lines.append("# TYPE dpsql_request_seconds histogram")
            for event in sorted(self._seconds):
                count = sum(n for (one, _), n in self._ended.items() if one == event)
                label = f'event="{event}"'
                lines += [
                    f'dpsql_request_seconds_bucket{{{label},le="{bound:g}"}} {self._within[event, bound]}'
                    for bound in BOUNDS
                ]
                lines.append(f'dpsql_request_seconds_bucket{{{label},le="+Inf"}} {count}')
                lines.append(f"dpsql_request_seconds_sum{{{label}}} {self._seconds[event]:.6f}")
                lines.append(f"dpsql_request_seconds_count{{{label}}} {count}")
        for name, value in (("budget_spent", spent), ("budget_total", total), ("queries_running", running)):
            lines += [f"# TYPE dpsql_{name} gauge", f"dpsql_{name} {value:g}"]
        return "\n".join(lines) + "\n"
