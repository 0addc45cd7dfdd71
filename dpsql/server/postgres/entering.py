"""The beginning of a connection: whether it is encrypted, who it is, and what it asks for."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from time import monotonic
from typing import Protocol, assert_never

from dpsql.core.errors import ServerError
from dpsql.core.frozen import dataclass
from dpsql.server.core import Core, Who
from dpsql.server.postgres import messages as m
from dpsql.server.postgres.errors import Refused, incident_of
from dpsql.server.postgres.settings import Settings
from dpsql.server.postgres.tables import DATABASE
from dpsql.server.postgres.wire import Wire

TO_ENTER = 15.0  # seconds until it must be known who asks


class Doors(Protocol):
    """What is needed of the server to let somebody in."""

    core: Core
    tls: ssl.SSLContext | None
    needs_tls: bool

    def who(self, token: str) -> Who:
        """Whose token this is; ServerError where it is nobody's."""

    def cancel(self, process: int, secret: bytes) -> None:
        """Give up what the connection with this key waits for."""


@dataclass(frozen=True, slots=True, eq=False)
class Entered:
    """Who was let in. known: asks again, since a token may be revoked at any time; it ends the connection then."""

    who: Who
    known: Callable[[], Who]
    settings: Settings


def let_in(doors: Doors, wire: Wire) -> Entered | None:
    """Whoever is at the door; None where he only came to cancel a query. Refused where he isn't let in."""
    until = monotonic() + TO_ENTER
    startup = _startup(doors, wire, until)
    if startup is None:
        return None
    told = startup.parameters
    strange = [name for name in told if name.startswith("_pq_.")]
    if startup.minor or strange:
        wire.send(m.negotiate(strange))
    name = told.get("user", "")
    if told.get("database", "") not in ("", DATABASE, name):
        hint = f"the database is called {DATABASE}"
        raise Refused("3D000", "there is no database of this name", hint, fatal=True)
    if told.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise Refused("0A000", "there is nothing to replicate", fatal=True)
    if doors.needs_tls and not wire.is_encrypted:
        raise Refused("28000", "connections must be encrypted", "connect with sslmode=require", fatal=True)
    wire.send(m.ASK_PASSWORD)
    wire.flush()
    said = wire.next(until)
    if not isinstance(said, m.Password):
        raise m.ProtocolError("a password was asked for, and something else came")
    who = _known(doors, said.text)
    if name != who.name:
        hint = "connect as the user that the token was made for"
        raise Refused("28000", "the token is somebody else's", hint, fatal=True)
    return Entered(who, lambda: _known(doors, said.text), _settings(startup))


def _startup(doors: Doors, wire: Wire, until: float) -> m.Startup | None:
    for _ in range(4):  # at most one question about GSS, one about TLS, and then it is told who
        first = wire.first(until)
        match first:
            case m.Startup():
                return first
            case m.Cancel(process, secret):
                doors.cancel(process, secret)
                return None
            case m.Encrypt(gss) if gss or doors.tls is None or wire.is_encrypted:
                wire.answer_plain(b"N")
            case m.Encrypt():
                assert doors.tls is not None
                wire.answer_plain(b"S")
                wire.encrypt(doors.tls, until)
            case _:
                assert_never(first)
    raise m.ProtocolError("only questions about encryption came")


def _known(doors: Doors, token: str) -> Who:
    """Who this is, now. What is wrong with a token isn't told, and of what fails an incident's id alone."""
    try:
        return doors.who(token)
    except ServerError as error:
        hint = "the password is a token; the steward makes one: dpsql token add NAME"
        raise Refused("28P01", error.message, hint, fatal=True) from None
    except Exception as error:
        raise Refused.saying(incident_of(error, doors.core, "FATAL")) from None


def _settings(startup: m.Startup) -> Settings:
    try:
        return Settings(startup.parameters)
    except Refused as refused:
        raise Refused(refused.said.code, refused.said.message, refused.said.hint, fatal=True) from None
