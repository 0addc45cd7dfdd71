"""A public moment before which nothing is seen of what was computed from private rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The moment came before the work was done."""


class Hold:
    """When a paid query is answered: so many seconds after it came, whatever it found and however long that took.

    seconds, limit: the time as a number and as it was written. It is public, and no function of private rows.
    """

    def __init__(self, seconds: float, limit: str) -> None:
        self.seconds, self.limit = seconds, limit
        self._begun = self.until = monotonic()

    def settle(self) -> None:
        """Settle the moment, when all is paid and no row was read yet.

        It is counted from the beginning; where planning, or waiting for somebody else, took more than half of the
        time, from now.
        """
        now = monotonic()
        first = self._begun + self.seconds
        self.until = first if first - now >= self.seconds / 2 else now + self.seconds

    def held(self, work: Iterable[T]) -> Iterator[T]:
        """What `work` makes, all of it, when the moment has come; or what it failed with.

        Late: it isn't done by then. Whatever else it made or will make is seen by nobody: how far it came would tell
        more than whether it was done. It goes on in its thread until it finds that its time is up.
        """
        made: list[T] = []
        ended: list[BaseException | None] = []

        def run() -> None:
            try:
                for one in work:
                    made.append(one)
                ended.append(None)
            except BaseException as error:  # it belongs to whoever waits
                ended.append(error)

        threading.Thread(target=run, name="dpsql-held", daemon=True).start()
        while (left := self.until - monotonic()) > 0:
            time.sleep(left)
        # The one look: what is seen here is all that the moment tells (Assumption HOLD-1).
        finished = list(ended)
        if not finished:
            raise Late
        if finished[0] is not None:
            raise finished[0]
        yield from made
