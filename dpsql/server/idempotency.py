"""Idempotency-Key: a reply that was lost on its way is fetched again, and nothing is paid twice.

A key belongs to a name and to one request. Whoever sends it again, also while the first one is under way, gets what the
first one got: the answer, or its failure. What was turned away before it was looked at may be tried again. Each analyst
has so many keys of his own: nobody makes another's be forgotten, and him pay twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any, TypeVar, cast

from dpsql.core.errors import Error, ServerError

T = TypeVar("T")
Waiting = Callable[[], AbstractContextManager[float]]
MOST, SECONDS = 100, 3600.0  # requests of one analyst that are remembered, and for how long
LONGEST = 200  # characters of a key
TURNED_AWAY = frozenset({"too-many", "busy"})


class _Flight:
    """One request that has a key: how it ended, when it has."""

    def __init__(self, request: str) -> None:
        self.request, self.begun = request, monotonic()
        self.ended = threading.Event()
        self.found: Any = None
        self.error: Error | None = None


class Flights:
    """The last requests that had keys, of each analyst. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, dict[str, _Flight]] = {}  # of each name, by their keys, the oldest first
        self._swept = monotonic()

    def once(
        self, name: str, key: str, request: str, work: Callable[[], T], waiting: Waiting, keeps: Callable[[T], bool]
    ) -> T:
        """What `work` returns or raises, which is done once for this name and key. request: tells requests apart.

        waiting: has room for one more who waits, and for how many seconds. keeps: whether something is small enough to
        be remembered. What isn't is stored in the ledger anyway.
        """
        if not 1 <= len(key) <= LONGEST or not key.isascii() or not key.isprintable():
            raise _bad(f"an Idempotency-Key has 1 to {LONGEST} printable characters")
        with self._lock:
            self._forget(name, key not in self._flights.get(name, ()))
            mine = self._flights.setdefault(name, {})
            flight = mine.get(key)
            first = flight is None
            if flight is None:
                flight = mine[key] = _Flight(request)
        if flight.request != request:
            raise _bad("this Idempotency-Key was used for another request")
        if first:
            self._fly(name, key, flight, work, keeps)
        elif not flight.ended.is_set():
            with waiting() as patience:
                if not flight.ended.wait(patience):
                    raise ServerError("the first of these requests is under way", code="busy", hint="ask again soon")
        if flight.error is not None:
            raise flight.error
        return cast(T, flight.found)

    def _fly(self, name: str, key: str, flight: _Flight, work: Callable[[], T], keeps: Callable[[T], bool]) -> None:
        kept = False
        try:
            flight.found = work()
            kept = keeps(flight.found)
        except Error as error:
            flight.error = error
            kept = error.code not in TURNED_AWAY
        except BaseException:
            flight.error = ServerError("the first of these requests failed", code="busy", hint="ask again")
            raise
        finally:
            if not kept:
                with self._lock:
                    self._flights[name].pop(key)  # it was under way, and so it is there
            flight.ended.set()

    def _forget(self, name: str, one_more: bool) -> None:
        """Let go of what is too old or too much of this analyst's, and of everybody's, now and then.

        one_more: there must be room for that. What is under way stays.
        """
        now = monotonic()
        everybody = now - self._swept > SECONDS / 60
        self._swept = now if everybody else self._swept
        for one in [*self._flights] if everybody else [name] if name in self._flights else []:
            flights = self._flights[one]
            ended = [key for key, flight in flights.items() if flight.ended.is_set()]
            over = max(0, len(flights) - MOST + (one_more and one == name))
            for i, key in enumerate(ended):
                if i < over or now - flights[key].begun > SECONDS:
                    del flights[key]
            if not flights:
                del self._flights[one]


def _bad(message: str) -> Error:
    return ServerError(message, code="bad-request", hint="send a new random key with each new request")
