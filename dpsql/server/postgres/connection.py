"""One client's connection, from its first message to its last: who it is, then round after round of statements."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from dpsql.core.errors import Error
from dpsql.core.frozen import dataclass
from dpsql.server.core import Who
from dpsql.server.postgres import messages as m
from dpsql.server.postgres.asking import Asker, Statement
from dpsql.server.postgres.results import Field, Refused, Result, incident_of, said_of
from dpsql.server.postgres.settings import REPORTED
from dpsql.server.postgres.twin import GivenUp, Twin
from dpsql.server.postgres.values import decoded
from dpsql.server.postgres.wire import Doors, Gone, Wire, let_in
from dpsql.sql.statements import statements

T = TypeVar("T")
MOST_KEPT = 1_000  # prepared statements, and portals


class Port(Doors, Protocol):
    """What a connection needs of the server that accepted it."""

    twin: Twin

    def enter(self, connection: Connection, who: Who) -> None:
        """Somebody is known now; Refused where he has too many connections."""


@dataclass(frozen=True, slots=True)
class Portal:
    """A statement with values for its parameters. results: the formats that were asked for; fields: as announced."""

    statement: Statement
    values: tuple[Any, ...]
    results: tuple[int, ...]
    fields: tuple[Field, ...] | None


class _Rows:
    """What is left of an executed portal's rows."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.rows: Iterator[tuple[Any, ...]] = iter(()) if result.fields is None else result.rows()
        self.is_done = False


class Cancelled(Exception):
    """The client gave up."""


class Connection:
    """Runs in a thread of its own; `cancel` and `hang_up` may come from others."""

    def __init__(self, port: Port, wire: Wire, process: int, secret: bytes) -> None:
        self._port, self._wire = port, wire
        self.process, self.secret = process, secret
        self._asker: Asker
        self._statements: dict[str, Statement] = {}
        self._portals: dict[str, Portal] = {}
        self._open: dict[str, _Rows] = {}
        self._skipping = False  # after an error of the extended protocol, up to Sync
        self._lock = threading.Lock()
        self._busy, self._ending = False, False
        self._waits: queue.SimpleQueue[object] | None = None

    def hang_up(self) -> None:
        """End it now, from any thread."""
        self._wire.hang_up()

    def end(self) -> None:
        """End it when what it is at is answered, from any thread."""
        with self._lock:
            self._ending = True
            if not self._busy:
                self._wire.hang_up()

    def cancel(self) -> None:
        """Give up what it waits for, from any thread; nothing where it waits for nothing."""
        with self._lock:
            if self._waits is not None:
                self._waits.put(Cancelled())

    # ---------------------------------------------------------------- all of it

    def run(self) -> None:
        """Serve the client until it goes, or breaks the rules."""
        try:
            if self._entered():
                self._rounds()
        except Gone:
            return
        except m.ProtocolError as error:
            self._farewell(m.Said(severity="FATAL", code="08P01", message=str(error)))
        except Refused as refused:
            self._farewell(refused.said)
        except Exception as error:
            self._farewell(incident_of(error, self._port.core, "FATAL"))

    def _farewell(self, said: m.Said) -> None:
        try:
            self._wire.send(said.encoded())
            self._wire.flush()
            self._wire.linger()
        except Gone:
            return

    def _entered(self) -> bool:
        """Let the client in; False where it only came to cancel a query."""
        entered = let_in(self._port, self._wire)
        if entered is None:
            return False
        self._asker = Asker(self._port.core, self._port.twin, entered.known, entered.settings, self._interruptible)
        self._port.enter(self, entered.who)
        self._wire.send(m.AUTHENTICATED)
        for parameter, value in {**REPORTED, "session_authorization": entered.who.name}.items():
            self._wire.send(m.parameter(parameter, entered.settings.values.get(parameter.lower()) or value))
        self._wire.send(m.key(self.process, self.secret))
        self._ready()
        return True

    # ---------------------------------------------------------------- rounds

    def _rounds(self) -> None:
        while True:
            message = self._wire.next()
            if isinstance(message, m.Terminate):
                return
            with self._lock:
                self._busy = True
            if isinstance(message, m.Query):
                self._skipping = False
                self._simple(message.sql)
                self._ready()
            elif isinstance(message, m.Sync):
                self._skipping = False
                if not self._asker.in_transaction:
                    self._drop_portals()
                self._ready()
            elif isinstance(message, m.Flush):
                self._wire.flush()
            elif not self._skipping:
                self._skipping = not self._guarded(partial(self._extended, message), "")

    def _ready(self) -> None:
        self._wire.send(m.ready("T" if self._asker.in_transaction else "I"))
        self._wire.flush()
        with self._lock:
            self._busy = False
            ending = self._ending
        if ending:
            raise Refused("57P01", "the server is ending", "what was paid for is stored: ask again later", fatal=True)

    def _guarded(self, work: Callable[[], None], sql: str) -> bool:
        """Do it; False where it was refused, and the client was told why. sql: what the client sent."""
        try:
            work()
        except Refused as refused:
            if refused.fatal:
                raise
            self._wire.send(refused.said.encoded())
        except Error as error:
            self._wire.send(said_of(error, error.source if error.source is not None else sql).encoded())
        except Cancelled:
            hint = "what was paid for stays paid: ask again, and it is free"
            said = m.Said(severity="ERROR", code="57014", message="canceling statement due to user request", hint=hint)
            self._wire.send(said.encoded())
        except (Gone, m.ProtocolError):
            raise
        except Exception as error:
            self._wire.send(incident_of(error, self._port.core, "ERROR").encoded())
        else:
            return True
        return False

    def _simple(self, sql: str) -> None:
        """Each statement of a text in turn, up to the first that is refused."""
        self._statements.pop("", None)
        self._drop("")
        if not sql.strip(" \t\r\n;"):
            self._wire.send(m.EMPTY)
            return

        def each() -> None:
            for text in statements(sql):
                statement = self._asker.prepared(text)
                if statement.parameters:
                    raise Refused("42P02", "there is no parameter $1", "parameters are for prepared statements")
                result = self._ran(statement, ())
                fields = result.fields
                if fields is not None:
                    self._wire.send(m.row_description([f.column for f in fields], [0] * len(fields)))
                    for row in result.rows():
                        self._wire.send(m.data_row([f.wire.encode(v, 0) for f, v in zip(fields, row, strict=True)]))
                self._finish(result, result.tag)

        self._guarded(each, sql)

    def _ran(self, statement: Statement, values: Sequence[Any]) -> Result:
        result = self._asker.run(statement, values)
        if statement.verb in ("DEALLOCATE", "DISCARD"):
            word = statement.sql.replace(";", " ").split()[-1].strip('"')
            self._statements.pop(word, None)
            if word.upper() == "ALL":
                self._statements.clear()
        return result

    def _finish(self, result: Result, tag: str) -> None:
        if not self._asker.settings.is_quiet:
            for notice in result.notices:
                self._wire.send(notice.encoded())
        self._wire.send(m.complete(tag))

    # ---------------------------------------------------------------- the extended protocol

    def _extended(self, message: m.Message) -> None:
        match message:
            case m.Parse(name, sql, types):
                self._parse(name, sql, types)
            case m.Bind():
                self._bind(message)
            case m.Describe("S", name):
                self._describe_statement(self._statement(name))
            case m.Describe(_, name):
                self._describe_portal(name)
            case m.Execute(name, most):
                self._execute(name, most)
            case m.Close(kind, name):
                if kind == "S":
                    self._statements.pop(name, None)
                else:
                    self._drop(name)
                self._wire.send(m.CLOSED)
            case m.Unserved():
                raise Refused("0A000", "neither COPY nor calls of functions are served")
            case _:
                raise m.ProtocolError("this message has no place here")

    def _parse(self, name: str, sql: str, said: Sequence[int]) -> None:
        if name and name in self._statements:
            raise Refused("42P05", "a prepared statement of this name exists")
        if len(self._statements) >= MOST_KEPT:
            raise Refused("53400", f"a connection has at most {MOST_KEPT} prepared statements")
        if len(statements(sql)) > 1:
            raise Refused("42601", "cannot insert multiple commands into a prepared statement")
        self._statements[name] = self._asker.prepared(sql, said)
        self._wire.send(m.PARSED)

    def _statement(self, name: str) -> Statement:
        if name not in self._statements:
            raise Refused("26000", "there is no prepared statement of this name")
        return self._statements[name]

    def _bind(self, message: m.Bind) -> None:
        statement = self._statement(message.statement)
        oids = statement.parameters
        if len(message.values) != len(oids):
            raise Refused("08P01", f"the statement has {len(oids)} parameters, and {len(message.values)} values came")
        formats = _formats(message.formats, len(oids))
        values = tuple(decoded(v, o, f) for v, o, f in zip(message.values, oids, formats, strict=True))
        if len(self._portals) >= MOST_KEPT:
            raise Refused("53400", f"a connection has at most {MOST_KEPT} portals")
        self._drop(message.portal)
        self._portals[message.portal] = Portal(statement, values, message.results, None)
        self._wire.send(m.BOUND)

    def _describe_statement(self, statement: Statement) -> None:
        self._wire.send(m.parameter_description(statement.parameters))
        fields = None if _is_empty(statement) else self._asker.described(statement, None)
        self._announce(fields, ())

    def _describe_portal(self, name: str) -> None:
        portal = self._portal(name)
        if portal.statement.catalog is not None:  # it is free: the rows are there when it is executed
            self._open[name] = _Rows(self._ran(portal.statement, portal.values))
            fields = self._open[name].result.fields
        else:
            fields = None if _is_empty(portal.statement) else self._asker.described(portal.statement, portal.values)
        self._portals[name] = Portal(portal.statement, portal.values, portal.results, fields)
        self._announce(fields, portal.results)

    def _announce(self, fields: tuple[Field, ...] | None, asked: Sequence[int]) -> None:
        if fields is None:
            self._wire.send(m.NO_DATA)
        else:
            self._wire.send(m.row_description([f.column for f in fields], _formats(asked, len(fields))))

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise Refused("34000", "there is no portal of this name")
        return self._portals[name]

    def _execute(self, name: str, most: int) -> None:
        portal = self._portal(name)
        if _is_empty(portal.statement):
            self._wire.send(m.EMPTY)
            return
        if name not in self._open:
            self._open[name] = _Rows(self._ran(portal.statement, portal.values))
        left = self._open[name]
        fields = left.result.fields
        if fields is None:
            self._finish(left.result, left.result.tag)
            return
        wires = [f.wire for f in portal.fields or fields]  # as they were announced
        formats = _formats(portal.results, len(wires))
        sent = 0
        for row in islice(left.rows, most if most > 0 else None):
            self._wire.send(m.data_row([w.encode(v, f) for w, v, f in zip(wires, row, formats, strict=True)]))
            sent += 1
        if most > 0 and sent == most:
            self._wire.send(m.SUSPENDED)
        else:
            self._finish(left.result, left.result.tag)

    def _drop(self, portal: str) -> None:
        self._portals.pop(portal, None)
        self._open.pop(portal, None)

    def _drop_portals(self) -> None:
        self._portals.clear()
        self._open.clear()

    # ---------------------------------------------------------------- cancelling

    def _interruptible(self, work: Callable[[Callable[[], bool]], T]) -> T:
        """Do it in a thread of its own, and give up waiting where the client says so.

        What is paid for goes on, and is stored. What still waits for its turn isn't begun.
        """
        # Theorem HOLD-1. The query keeps its slot and its moment: giving up tells nothing of how far it was.
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        given_up = threading.Event()

        def do() -> None:
            try:
                done.put((work(lambda: not given_up.is_set() and self._wire.is_there()),))
            except BaseException as error:
                done.put(error)

        with self._lock:
            self._waits = done
        try:
            threading.Thread(target=do, name="dpsql-postgres-query", daemon=True).start()
            found = done.get()
        finally:
            given_up.set()
            with self._lock:
                self._waits = None
        if isinstance(found, GivenUp):
            raise Gone
        if isinstance(found, BaseException):
            raise found
        result: T = found[0]
        return result


def _is_empty(statement: Statement) -> bool:
    return not statement.verb and not statement.sql.strip(" \t\r\n;")


def _formats(asked: Sequence[int], count: int) -> list[int]:
    """The format of each of so many: none asked for is text, one is for all."""
    if len(asked) not in (0, 1, count) or any(one not in (0, 1) for one in asked):
        raise m.ProtocolError("formats are 0 or 1: none, one for all, or one for each")
    return [asked[0] if len(asked) == 1 else 0] * count if len(asked) < 2 else list(asked)
