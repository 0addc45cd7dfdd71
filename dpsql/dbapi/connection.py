"""connect(), Connection and Cursor, as PEP 249 wants them: a cursor asks one query at a time and hands out its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from dpsql.answer.model import Answer
from dpsql.core.errors import Error, PrivacyError
from dpsql.core.parameters import Parameters, Values
from dpsql.dbapi import types
from dpsql.dbapi.settings import changed, keywords, said_in, with_options
from dpsql.dbapi.types import Description, InterfaceError, ProgrammingError, described, translated
from dpsql.options import Request
from dpsql.policy.model import Policy
from dpsql.session import Engine, Session
from dpsql.sql.statements import statements


def connect(
    policy: str | Path | Policy | Engine = "policy.toml",
    *,
    analyst: str | None = None,
    ledger: str | Path | None = None,
    sources: Mapping[str, Any] | None = None,
    strict_engine: bool = False,
    **options: Any,
) -> Connection:
    """Open a policy; an engine that is open is shared, and stays open.

    options: what every query asks for, by the names of `Session.query`: epsilon, delta, max_rows, … or accuracy.
    """
    with translated():
        request = with_options(Request(), options)
        if isinstance(policy, Engine):
            return Connection(policy, policy.session(analyst), request)
        engine = Engine.open(policy, sources=sources, ledger=ledger, strict_engine=strict_engine)
        try:
            return Connection(engine, engine.session(analyst), request, owner=True)
        except BaseException:
            engine.close()
            raise


class Connection:
    """One analyst's connection. Several threads may share it; each takes cursors of its own."""

    Warning = types.Warning
    Error = types.Error
    InterfaceError = types.InterfaceError
    DatabaseError = types.DatabaseError
    DataError = types.DataError
    OperationalError = types.OperationalError
    IntegrityError = types.IntegrityError
    InternalError = types.InternalError
    ProgrammingError = types.ProgrammingError
    NotSupportedError = types.NotSupportedError

    def __init__(self, engine: Engine, session: Session, request: Request, *, owner: bool = False) -> None:
        """owner: the engine is closed with the connection."""
        self._engine, self._session, self._owner = engine, session, owner
        self._start = self.request = request
        self._closed = False

    @property
    def session(self) -> Session:
        """The session below: budgets, receipts, explanations."""
        self.require_open()
        return self._session

    @property
    def engine(self) -> Engine:
        """The engine below: the policy, and which tables and columns there are."""
        self.require_open()
        return self._engine

    @property
    def start(self) -> Request:
        """What it asked for when it was opened."""
        return self._start

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.require_open()
        return Cursor(self)

    def commit(self) -> None:
        """Nothing: what is paid is on disk before a row is read."""
        self.require_open()

    def rollback(self) -> None:
        """Nothing: what was paid stays paid."""
        self.require_open()

    def reset(self) -> None:
        """Take back what SET said: the next one who gets this connection from a pool starts as it was opened."""
        self.request = self._start

    def close(self) -> None:
        """Close it; its cursors can't be used any more."""
        if not self._closed:
            self._closed = True
            self._session.close()
            if self._owner:
                self._engine.close()

    def require_open(self) -> None:
        """Raise, if it is closed."""
        if self._closed:
            raise InterfaceError("this connection is closed; open another one: dpsql.dbapi.connect(…)")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


Row = tuple[Any, ...]


class Cursor:
    """One query after the other. Not for several threads at once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid = None
        self._closed = False
        self._answers: list[Answer] = []
        self._show(None)

    def _show(self, answer: Answer | None) -> None:
        self._answer = answer
        self._rows = [] if answer is None else answer.rows
        self._next = 0

    # ---------------------------------------------------------------- asking

    def execute(self, operation: str, parameters: Values | None = None) -> Cursor:
        """Answer a query, or SET an option; both may stand in one text: SET dpsql.epsilon = 0.5; SELECT …

        parameters: a list for ? and $1, a mapping for $name. The same cursor is returned.
        """
        return self.executemany(operation, [parameters])

    def executemany(self, operation: str, seq_of_parameters: Iterable[Values | None]) -> Cursor:
        """Answer a query with one set of parameters after the other; each costs what it costs, and `nextset` goes on.

        What is refused ends it: what came before was paid for, and is stored, so that asking again is free for it.
        """
        self._require_open()
        self._answers = []
        self._show(None)
        for parameters in seq_of_parameters:
            with translated():
                values = Parameters.of(parameters) if parameters else None
                found = self._ask(operation, values)
            self._answers += [] if found is None else [found]
        self.nextset()
        return self

    def _ask(self, text: str, values: Parameters | None) -> Answer | None:
        """The answer to what stands behind SET; None if nothing does."""
        if not isinstance(text, str):
            raise ProgrammingError(f"a query is a text, not {type(text).__name__}")
        connection = self.connection
        session = connection.session
        try:
            pieces = statements(text)
            while pieces and (after := changed(pieces[0], connection.request, connection.start)) is not None:
                connection.request = after
                pieces.pop(0)
        except Error as error:
            raise error.locate(text) from None
        if not pieces:
            return None
        rest = pieces[0] if len(pieces) == 1 else _without(text, pieces[0])
        said = said_in(rest, values)
        options = keywords(connection.request, said)
        named = {"epsilon", "accuracy"} & {*said, *options}
        if named or connection.engine.policy.budget.query_epsilon is not None:
            return session.query(rest, **options, params=values)
        found = None if options.pop("fresh", False) else session.free(rest, **options, params=values)
        if found is None:
            raise PrivacyError(
                "no ε was named, and the policy has no query_epsilon",
                code="no-epsilon",
                hint="name one for the connection: connect(…, epsilon=0.5), or dpsql:///policy.toml?epsilon=0.5\n"
                "or for what follows: SET dpsql.epsilon = 0.5\n"
                "or in the query: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) …\n"
                "or in the policy: [budget] query_epsilon = 0.5",
            )
        return found

    # ---------------------------------------------------------------- what there is

    @property
    def description(self) -> list[Description] | None:
        """Of each column its name and kind; None where there is no answer."""
        return None if self._answer is None else [described(field) for field in self._answer.table.schema]

    @property
    def rowcount(self) -> int:
        """How many rows the answer has; -1 where there is none."""
        return -1 if self._answer is None else len(self._rows)

    @property
    def rownumber(self) -> int | None:
        """Which row comes next, from 0."""
        return None if self._answer is None else self._next

    @property
    def answer(self) -> Answer | None:
        """The answer itself: error bars, notes, what it cost, Arrow."""
        return self._answer

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        found = self.fetchmany(1)
        return found[0] if found else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows: so many, or `arraysize`."""
        self._require_answer()
        first = self._next
        self._next = min(len(self._rows), first + max(0, self.arraysize if size is None else size))
        return self._rows[first : self._next]

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        return self.fetchmany(len(self._rows))

    def nextset(self) -> bool | None:
        """Go on to the answer for the next set of parameters; None where there is none."""
        self._require_open()
        self._show(self._answers.pop(0) if self._answers else None)
        return None if self._answer is None else True

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # ---------------------------------------------------------------- the rest of PEP 249

    def setinputsizes(self, sizes: object) -> None:
        """Nothing: values say of which size they are."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing: answers are small."""

    def close(self) -> None:
        """End it; what it answered is gone."""
        self._closed, self._answers = True, []
        self._show(None)

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        self.connection.require_open()
        if self._closed:
            raise InterfaceError("this cursor is closed; take another one: connection.cursor()")

    def _require_answer(self) -> None:
        self._require_open()
        if self._answer is None:
            raise ProgrammingError("there are no rows to fetch: execute a query first")


def _without(text: str, first: str) -> str:
    """A text from its first query on, blank before it, so that errors point right."""
    start = len(first) - len(first.lstrip())
    return "".join(c if c == "\n" else " " for c in text[:start]) + text[start:]
