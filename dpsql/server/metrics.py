"""Numbers for the steward's monitoring, in the text format of Prometheus.

What is counted is counted when a request has ended, and so after the moment at which a paid one is answered. How long
requests took, and with whom, is for the steward: the port is on a loopback address and asks for a steward's token.
"""

from __future__ import annotations

import threading
from collections import Counter

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
