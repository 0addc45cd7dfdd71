"""connect() and Connection, as PEP 249 wants them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from dpsql.dbapi import exceptions
from dpsql.dbapi.cursor import Cursor
from dpsql.dbapi.exceptions import InterfaceError, translated
from dpsql.dbapi.settings import with_options
from dpsql.options import Request
from dpsql.policy.model import Policy
from dpsql.session import Engine, Session


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

    Warning = exceptions.Warning
    Error = exceptions.Error
    InterfaceError = exceptions.InterfaceError
    DatabaseError = exceptions.DatabaseError
    DataError = exceptions.DataError
    OperationalError = exceptions.OperationalError
    IntegrityError = exceptions.IntegrityError
    InternalError = exceptions.InternalError
    ProgrammingError = exceptions.ProgrammingError
    NotSupportedError = exceptions.NotSupportedError

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
