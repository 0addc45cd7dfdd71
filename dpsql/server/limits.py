"""How much one analyst may have under way, and how often he may ask: nobody takes the machine from the others.

What one analyst may spend, what a query would leave of it, and when to warn.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from time import monotonic
from typing import Literal

from dpsql.accounting.account import Quota
from dpsql.core.cost import Cost
from dpsql.core.errors import ServerError
from dpsql.core.frozen import dataclass

Kind = Literal["query", "explain", "again"]
"""again: waits for the answer to a request that came before it."""


class Slots:
    """Queries and explanations under way: so many of each analyst's, and of queries so many of all. Thread-safe."""

    def __init__(self, queries: int, each: int) -> None:
        self._all, self._most = queries, {"query": each, "explain": 1, "again": each}
        self._taken: Counter[tuple[str, Kind]] = Counter()
        self._moved = threading.Condition()

    @contextmanager
    def taken(self, analyst: str, kind: Kind) -> Iterator[None]:
        """Have a slot while the block lasts; ServerError where there is none. Nobody waits for one."""
        mine = (analyst, kind)
        with self._moved:
            if self._taken[mine] >= self._most[kind]:
                what = "an explanation" if kind == "explain" else f"{self._most[kind]} requests"
                raise ServerError(
                    f"you have {what} under way", code="too-many", hint="nothing was spent; ask when one is answered"
                )
            if kind == "query" and self.running >= self._all:
                raise ServerError(
                    "the server has too much to do", code="busy", hint="nothing was spent; ask again soon"
                )
            self._taken[mine] += 1
        try:
            yield
        finally:
            with self._moved:
                self._taken[mine] -= 1
                if not self._taken[mine]:
                    del self._taken[mine]
                self._moved.notify_all()

    @property
    def running(self) -> int:
        """How many queries are under way."""
        return sum(n for (_, kind), n in self._taken.items() if kind == "query")


class Buckets:
    """A token bucket for each name: so many requests a minute, and no more than that at once. Thread-safe."""

    MOST = 10_000  # names; those that haven't asked for longest are forgotten, which fills their buckets

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._level: dict[str, tuple[float, float]] = {}  # how full, and when that was
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Take one; ServerError where there is none left."""
        now = monotonic()
        with self._lock:
            level, then = self._level.pop(name, (float(self._rate), now))
            level = min(self._rate, level + (now - then) * self._rate / 60)
            self._level[name] = (max(level - 1, 0) if level >= 1 else level, now)
            if len(self._level) > self.MOST:
                del self._level[next(iter(self._level))]
        if level < 1:
            raise ServerError(
                f"more than {self._rate} requests in a minute",
                code="too-many",
                hint="nothing was spent; ask more slowly",
            )


WARN_AT = Fraction(4, 5)  # of a budget that is spent


@dataclass(frozen=True, slots=True)
class Budget:
    """What one analyst may spend: his quota where he has one, else the account's total; and what he has spent."""

    total: Cost
    spent: Cost
    """By this analyst."""
    remaining: Cost
    """What he could spend now: of the account, and of his quota where that is less."""
    quota: Fraction | None
    period: str

    warning: str | None
    """What to say when four fifths are gone."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an explained query would do to the budget. stored: it is free, because a stored release answers it."""

    stored: bool
    left: Cost
    left_after: Cost | None
    """None: it doesn't fit."""


def warning_of(total: Cost, own: Quota | None, left: Cost) -> str | None:
    """What to say where four fifths of a budget are gone: of the quota, where there is one, else of the account."""
    if own is not None:
        whole, rest = own.epsilon, left.epsilon
    else:
        whole, rest = (total.epsilon, left.epsilon) if total.rho is None else (total.rho, left.rho or Fraction(0))
    if rest > whole * (1 - WARN_AT):
        return None
    return f"{float(1 - rest / whole):.0%} of {'your quota' if own is not None else 'the budget'} is spent"
