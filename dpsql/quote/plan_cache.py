"""Quotes of recent queries: who asks the same again, with the same options about the same data, gets the same one.

What a plan rests on besides its text is in its key: the versions of all data, the states of public files (a file that
changes and changes back is another state), and the promises that were verified. A quote with counts of units or ranges
rests on what is stored, too: it is kept for as long as the same is found under the keys that were looked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from dpsql.core.frozen import dataclass
from dpsql.quote.model import Quote

MOST = 128
LARGEST = 10_000  # cells: more of them would take memory, and their query takes its time anyway

Key = tuple[object, ...]
Places = tuple[tuple[int, ...], ...]
At = Callable[[Sequence[bytes]], Places]
"""Where releases are stored under these keys. At one place is never anything else."""


@dataclass(frozen=True, slots=True)
class Rests:
    """What was found when a quote was made: under which keys, and where."""

    keys: tuple[bytes, ...] = ()
    places: Places = ()


class PlanCache:
    """The last quotes, by all that they rest on. Thread-safe."""

    def __init__(self) -> None:
        self._quotes: dict[Key, tuple[Quote, Rests]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, at: At) -> Quote | None:
        """The quote that was kept for this; at: where releases are stored by now."""
        with self._lock:
            found = self._quotes.pop(key, None)
            if found is None:
                return None
            self._quotes[key] = found  # the last to go
        quote, rests = found
        return quote if not rests.keys or at(rests.keys) == rests.places else None

    def put(self, key: Key, quote: Quote, rests: Rests) -> None:
        """Keep it, unless it holds a secret of one query."""
        steps = [step for stage in quote.stages for step in stage.releases]
        cells = sum(step.cells.num_rows for step in steps if step.cells is not None)
        secret = any(step.checked.bounding.cap is not None or step.matchings for step in steps)
        if secret or cells > LARGEST:
            return
        with self._lock:
            self._quotes.pop(key, None)
            self._quotes[key] = quote, rests
            if len(self._quotes) > MOST:
                del self._quotes[next(iter(self._quotes))]


def key_of(sql: str, request: object, data: Key) -> Key:
    """The text, what was asked for as it is written (1 and True are not the same), and what is known of the data."""
    if not isinstance(sql, str):
        raise TypeError(f"a query is a text, not {type(sql).__name__}")
    return sql, repr(request), data
