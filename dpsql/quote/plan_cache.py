"""Quotes of recent queries: who asks the same again, with the same options about the same data, gets the same one.

What a plan rests on besides its text is in its key: the versions of all data, the states of public files (a file that
changes and changes back is another state), and the promises that were verified. A quote with counts of units or ranges
rests on what is stored, too: it is kept for as long as nothing more is released.
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

    def get(self, key: Key, releases: int) -> Quote | None:
        """The quote that was kept for this; releases: how many there are by now."""
        with self._lock:
            for one in (key, (key, releases)):
                if (found := self._quotes.pop(one, None)) is not None:
                    self._quotes[one] = found  # the last to go
                    return found
        return None

    def put(self, key: Key, releases: int, quote: Quote) -> None:
        """Keep it, unless it holds a secret of one query; releases: how many there were, before and after it was made.

        What is stored grows with them alone, so while there are no more, every search finds the same tables.
        """
        steps = [step for stage in quote.stages for step in stage.releases]
        cells = sum(step.cells.num_rows for step in steps if step.cells is not None)
        secret = any(step.checked.bounding.cap is not None or step.matchings for step in steps)
        if secret or cells > LARGEST:
            return
        found = quote.main.enough is not None  # ranges or limits come from releases: a better one may be stored later
        rests = found or quote.main.automatic or quote.counts or len(quote.stages) > 1
        with self._lock:
            self._quotes[(key, releases) if rests else key] = quote
            if len(self._quotes) > MOST:
                del self._quotes[next(iter(self._quotes))]


def key_of(sql: str, request: object, data: Key) -> Key:
    """The text, what was asked for as it is written (1 and True are not the same), and what is known of the data."""
    if not isinstance(sql, str):
        raise TypeError(f"a query is a text, not {type(sql).__name__}")
    return sql, repr(request), data
