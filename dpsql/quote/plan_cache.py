"""Quotes of recent queries: who asks the same again, with the same options about the same data, gets the same one.

What a plan rests on besides its text is in its key: the versions of all data, the states of public files (a file that
changes and changes back is another state), and the promises that were verified.
"""

from __future__ import annotations

import threading

from dpsql.quote.model import Quote

MOST = 128
LARGEST = 10_000  # cells: more of them would take memory, and their query takes its time anyway

Key = tuple[object, ...]


class PlanCache:
    """The last quotes, by all that they rest on. Thread-safe."""

    def __init__(self) -> None:
        self._quotes: dict[Key, Quote] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Quote | None:
        with self._lock:
            found = self._quotes.pop(key, None)
            if found is not None:
                self._quotes[key] = found  # the last to go
            return found

    def put(self, key: Key, quote: Quote) -> None:
        """Keep it, unless it rests on more than the key says (releases of ranges), or holds a secret of one query."""
        cells = sum(step.cells.num_rows for step in quote.steps if step.cells is not None)
        secret = any(step.checked.bounding.cap is not None or step.matchings for step in quote.steps)
        found = quote.main.enough is not None  # ranges or limits come from releases: a better one may be stored later
        if found or quote.main.automatic or len(quote.stages) > 1 or secret or cells > LARGEST:
            return
        with self._lock:
            self._quotes[key] = quote
            if len(self._quotes) > MOST:
                del self._quotes[next(iter(self._quotes))]


def key_of(sql: str, request: object, data: Key) -> Key:
    """The text, what was asked for as it is written (1 and True are not the same), and what is known of the data."""
    if not isinstance(sql, str):
        raise TypeError(f"a query is a text, not {type(sql).__name__}")
    return sql, repr(request), data
