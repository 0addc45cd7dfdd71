"""The catalogs of the engine that the core has now, made when they are first asked for; and whose turn it is.

The catalogs that clients ask about tables and columns: what the policy says, in the shape of Postgres' own.

They are rows of an engine of its own that holds no row of any table, so that whatever is asked there is free and tells
nothing of the data. Rows are the same for all analysts: nobody's name, query or connection is among them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from dpsql.backends.choose import small_database
from dpsql.backends.small import Relation, SmallDatabase
from dpsql.core.errors import ServerError
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy
from dpsql.server.core import Core, Who
from dpsql.server.postgres.pg_catalog import Row, definitions, information_schema, pg_catalog, shown_types
from dpsql.server.postgres.relations import FIRST_MACROS, INFORMATION_SCHEMA, MACROS, PG_CATALOG
from dpsql.server.postgres.rewrite import INFO, PG
from dpsql.server.postgres.settings import DEFAULTS
from dpsql.server.postgres.tables import Schema, oid_of, tables_of

T = TypeVar("T")
PATIENCE = 60.0  # seconds that a connection waits for its analyst's other ones


@dataclass(frozen=True, slots=True)
class Names:
    """The policy's tables in lower case, and types of columns whose name has the same one everywhere."""

    tables: frozenset[str]
    columns: Mapping[str, int]


Ask = Callable[[Who, str, Mapping[str, Any]], T]


class GivenUp(Exception):
    """Nobody waits for it any more; nothing was asked."""


class Turns:
    """Lets connections of one analyst wait for each other, where the core would send the second one away.

    A BI tool asks for all charts of a page at once. The core's own limits hold as they are.
    """

    def __init__(self, paid: int) -> None:
        self._most = {"paid": paid, "free": 1}
        self._moved = threading.Condition()
        self._turns: dict[tuple[str, str], threading.Semaphore] = {}
        self.running = 0
        """How many ask, or wait for their turn."""

    def paid(self, wanted: Callable[[], bool], who: Who, ask: Ask[T], sql: str, options: Mapping[str, Any]) -> T:
        """Ask what may cost something, when it is this analyst's turn; GivenUp where it isn't wanted by then."""
        return self._asked("paid", wanted, lambda: ask(who, sql, options), who)

    def free(self, wanted: Callable[[], bool], who: Who, ask: Ask[T], sql: str, options: Mapping[str, Any]) -> T:
        """Ask what costs nothing, when it is this analyst's turn."""
        return self._asked("free", wanted, lambda: ask(who, sql, options), who)

    def _asked(self, kind: str, wanted: Callable[[], bool], ask: Callable[[], T], who: Who) -> T:
        with self._moved:
            turn = self._turns.setdefault((who.name, kind), threading.Semaphore(self._most[kind]))
            self.running += 1
        try:
            if not turn.acquire(timeout=PATIENCE):
                hint = "nothing was spent; ask when they are answered"
                raise ServerError("your other queries take too long", code="too-many", hint=hint)
            try:
                if not wanted():
                    raise GivenUp
                return ask()
            finally:
                turn.release()
        finally:
            with self._moved:
                self.running -= 1
                self._moved.notify_all()

    def finish(self, seconds: float) -> None:
        """Wait until nothing is under way, and at most so long."""
        with self._moved:
            self._moved.wait_for(lambda: not self.running, seconds)


class Twin:
    """What every connection asks about tables and columns. Thread-safe."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._engine: object = None
        self._names = Names(frozenset(), {})
        self._database: SmallDatabase | None = None
        self.turns = Turns(core.settings.max_running_each)
        self._busy = Turns(1)

    def schema(self, who: Who) -> Names:
        """Names of tables and columns."""
        self._made(who)
        return self._names

    def run(self, who: Who, sql: str) -> Any:
        """The rows of a query of catalogs; EngineError where it can't be answered."""
        database = self._made(who)
        return self._busy.free(lambda: True, who, lambda _, text, __: database.run(text), sql, {})

    def _made(self, who: Who) -> SmallDatabase:
        """The catalogs; made anew where the core has another engine, since data may have other columns then."""
        with self._lock:
            if self._database is None or self._engine is not self._core.engine:
                engine = self._core.engine
                schema = self._core.schema(who)
                made = catalogs(schema, engine.policy, DEFAULTS)
                self._names = _names(schema)
                self._database, self._engine = made, engine  # the old one goes when its last query is done
            return self._database

    def close(self) -> None:
        """Let go of the catalogs."""
        with self._lock, suppress(Exception):
            if self._database is not None:
                self._database.close()
                self._database = None


def _names(schema: Any) -> Names:
    found: dict[str, set[int]] = {}
    for table in schema:
        for column in table["columns"]:
            found.setdefault(str(column["name"]).lower(), set()).add(oid_of(str(column["type"]))[0])
    one = {name: next(iter(oids)) for name, oids in found.items() if len(oids) == 1}
    return Names(frozenset(str(table["name"]).lower() for table in schema), one)


_ZEROS: Mapping[str, object] = {
    "BOOLEAN": False, "UINTEGER": 0, "SMALLINT": 0, "INTEGER": 0, "BIGINT": 0, "FLOAT": 0.0
}  # fmt: skip


def catalogs(schema: Schema, policy: Policy, settings: Mapping[str, str]) -> SmallDatabase:
    """An engine that holds the catalogs. settings: those of Postgres' that are known, as they are at first."""
    known = tables_of(schema, policy)
    shown = (("oid", "UINTEGER"), ("shown", "VARCHAR"))
    return small_database(
        [
            *_relations(PG, PG_CATALOG, pg_catalog(known, settings), _ZEROS),
            *_relations(INFO, INFORMATION_SCHEMA, information_schema(known), {}),
            Relation(PG, "dpsql_types", shown, list(shown_types())),
            Relation(PG, "dpsql_definitions", shown, list(definitions(known))),
        ],
        {**FIRST_MACROS, **MACROS},
    )


def _relations(
    schema: str,
    known: Mapping[str, tuple[tuple[str, str], ...]],
    rows: Mapping[str, Sequence[Row]],
    empty: Mapping[str, object],
) -> Iterator[Relation]:
    """Each relation with its rows: what a row doesn't say is `empty` by its type, or NULL."""
    assert rows.keys() <= known.keys()
    for name, columns in known.items():
        told = rows.get(name, ())
        assert all(row.keys() <= {column for column, _ in columns} for row in told), name
        yield Relation(schema, name, columns, [[r.get(c, empty.get(kind)) for c, kind in columns] for r in told])
