"""Full readings of columns that came to no end: they are free, and repeats of them would be free without end.

A reading may fail for memory, disk or time as often as somebody asks for it (Theorem SCAN-1, Parts of a source; attack
65). Whoever repeats it within the limits below gets the words of the first failure at once, and nothing is read. That
it failed is no news to him; which rows there are decides nothing else.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from threading import Lock
from time import monotonic

from dpsql.core.frozen import dataclass

REST = 600.0
"""Seconds for which columns that couldn't be read together aren't read again, by whomever."""
MOST = 3
"""Failed readings that count against an analyst at the same time: then he has nothing more read for nothing."""
SHARE = 9.0
"""For how many times a query's time limit a failed reading counts against its analyst, at least for REST: of the time
in which he could have columns read, readings that fail take less than a third. How long each took changes nothing."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reading that failed: of which columns of which version, for whom, and until when it is remembered."""

    version: str
    columns: frozenset[str]
    analyst: str
    rests_until: float
    counts_until: float


class FailedReadings:
    """What failed lately. Threads may use it at the same time."""

    def __init__(self, limit: float) -> None:
        """limit: for how many seconds one reading may run."""
        self._counts_for = max(REST, SHARE * limit)
        self._lock = Lock()
        self._failures: list[Failure] = []

    def add(self, version: str, columns: AbstractSet[str], analyst: str) -> None:
        """Remember a reading that has just failed."""
        now = monotonic()
        failure = Failure(version, frozenset(columns), analyst, now + REST, now + self._counts_for)
        with self._lock:
            self._failures.append(failure)

    def refuse(self, version: str, columns: AbstractSet[str], analyst: str) -> bool:
        """Is a reading of these columns for this analyst a repeat, or one too many?

        Others of the columns that failed together may be the cause, so that fewer of them are no repeat.
        """
        now = monotonic()
        with self._lock:
            self._failures = [one for one in self._failures if one.counts_until > now]
            again = [one for one in self._failures if one.rests_until > now and one.version == version]
            his = [one for one in self._failures if one.analyst == analyst]
        return len(his) >= MOST or any(one.columns <= columns for one in again)
