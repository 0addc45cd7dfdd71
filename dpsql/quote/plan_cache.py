"""Quotes of recent queries: who asks the same again, with the same options about the same data, gets the same one.

What a plan rests on besides its text is in its key: the versions of all data, the states of public files (a file that
changes and changes back is another state), and the promises that were verified. A quote with counts of units or ranges
rests on what is stored, too: it is kept for as long as the same is found under the keys that were looked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field

from dpsql.analyze.catalog import Catalog
from dpsql.core.frozen import dataclass
from dpsql.quote.model import Quote
from dpsql.quote.stages import Statement
from dpsql.sql.parse import Tree

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


@dataclass(frozen=True, slots=True, eq=False)
class Analyzed:
    """A statement that was parsed and analyzed with seed ranges: where its quotes for every ε start.

    lock: held while a quote is made of it. Quotes are made of the same trees, whose nodes know one parent each.
    """

    statement: Statement
    catalog: Catalog
    lock: threading.RLock = field(default_factory=threading.RLock)


class AnalysisCache:
    """The last texts that were parsed, by text and parameters, and the last statements that were analyzed.

    These by text, named limits, and all that is known of data. Thread-safe.
    """

    def __init__(self) -> None:
        self._trees: dict[Key, Tree] = {}
        self._kept: dict[Key, Analyzed] = {}
        self._lock = threading.Lock()

    def tree(self, key: Key, parsed: Callable[[], Tree]) -> Tree:
        """The tree of a text; parsed: makes it where it isn't kept. One that names the present moment never is."""
        with self._lock:
            found = self._trees.pop(key, None)
        tree = parsed() if found is None else found
        if not tree.timed:
            with self._lock:
                self._trees[key] = tree
                if len(self._trees) > MOST:
                    del self._trees[next(iter(self._trees))]
        return tree

    def get(self, key: Key) -> Analyzed | None:
        """The statement that was kept for this."""
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found  # the last to go
            return found

    def put(self, key: Key, analyzed: Analyzed) -> None:
        """Keep it, unless it has so many cells that they would take memory."""
        if sum(release.cells or 0 for release in analyzed.statement.checked.releases) > LARGEST:
            return
        with self._lock:
            self._kept[key] = analyzed
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]


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
        """Keep it."""
        steps = [step for stage in quote.stages for step in stage.releases]
        cells = sum(step.cells.num_rows for step in steps if step.cells is not None)
        if cells > LARGEST:
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
