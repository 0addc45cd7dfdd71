"""What public tables say of themselves, asked once: planning one query asks the same again, and so do later queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.analyze.domains import PublicEngine
from dpsql.analyze.variables import Arrow
from dpsql.sql.as_sql import as_sql

MOST = 1_000  # answers
LARGEST = 2**20  # bytes of one: more would take memory


class Recall:
    """A public engine that remembers its answers for as long as the public tables are in one state. Thread-safe.

    state: tells that state; a file that changes and changes back is in another one. An answer is kept only if the state
    was the same before it was asked for and after: what is remembered is what would be answered now.
    """

    def __init__(self, engine: PublicEngine, state: Callable[[], object]) -> None:
        self._engine, self._state = engine, state
        self._of: object = state()
        self._known: dict[str, list[tuple[Mapping[str, Arrow], Arrow]]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def is_of(self, engine: PublicEngine, state: object) -> bool:
        """Is what it remembers still so?"""
        return engine is self._engine and state == self._of

    def table(self, query: exp.Query, tables: Mapping[str, Arrow]) -> Arrow:
        """Run a query over public tables and these Arrow tables, unless that is known."""
        text = as_sql(query)
        with self._lock:
            before = list(self._known.get(text, ()))
        for given, answer in before:
            if _same(given, tables):
                return answer
        answer = self._engine.table(query, tables)
        if sum(one.nbytes for one in (answer, *tables.values())) <= LARGEST and self._state() == self._of:
            with self._lock:
                if self._count >= MOST:
                    self._known.clear()
                    self._count = 0
                self._known.setdefault(text, []).append((dict(tables), answer))
                self._count += 1
        return answer

    def run(self, query: exp.Query, tables: Mapping[str, Arrow]) -> tuple[Arrow, list[str]]:
        return self._engine.run(query, tables)

    def apart(self, query: exp.Query, tables: Mapping[str, Arrow], seconds: float) -> Arrow:
        return self._engine.apart(query, tables, seconds)

    @property
    def memo(self) -> dict[object, Arrow]:
        return self._engine.memo


def _same(some: Mapping[str, Arrow], others: Mapping[str, Arrow]) -> bool:
    """Are these the same tables under the same names?"""
    return some.keys() == others.keys() and all(t is others[n] or t.equals(others[n]) for n, t in some.items())
