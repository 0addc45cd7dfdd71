"""What the benchmarks share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).parent / "data"


def median(run: Callable[[], object], times: int) -> float:
    """The median of so many runs in seconds, after one to warm up."""
    run()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
