"""What the benchmarks share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

DATA = Path(__file__).parent / "data"


def medians(runs: Sequence[Callable[[], object]], times: int) -> list[float]:
    """The median of each in seconds, taken in turns, so that what else the machine does meets all of them alike."""
    taken: list[list[float]] = [[] for _ in runs]
    for turn in range(times + 1):
        for run, seconds in zip(runs, taken, strict=True):
            start = time.perf_counter()
            run()
            if turn:  # the first is to warm up
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in taken]
