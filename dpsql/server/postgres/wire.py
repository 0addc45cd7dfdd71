"""One client's socket: whole messages in, whole messages out, with limits on sizes and on waiting.

Also the beginning of a connection: whether it is encrypted, who it is, and what it asks for.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Protocol, assert_never

from dpsql.core.errors import ServerError
from dpsql.core.frozen import dataclass
from dpsql.server.core import Core, Who
from dpsql.server.postgres import messages as m
from dpsql.server.postgres.messages import First, Message, ProtocolError, decode, decode_first
from dpsql.server.postgres.results import Refused, incident_of
from dpsql.server.postgres.settings import Settings
from dpsql.server.postgres.tables import DATABASE

FIRST_BYTES = 10_000  # of the first message
TOKEN_BYTES = 16_384  # of a message before it is known who asks
SLOW = 30.0  # seconds for a message that has begun, and for a client to take what it is sent
CHUNK = 65_536


class Gone(Exception):
    """The client went away, or is too slow."""


class Wire:
    """Reads and writes messages. Only its own connection's thread uses it, but for `hang_up`."""

    def __init__(self, client: socket.socket, most: int) -> None:
        """most: bytes of a message."""
        self._socket = client
        self._most = most
        self._out = bytearray()
        client.settimeout(SLOW)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def first(self, until: float) -> First:
        """The first message, which has no letter."""
        size = int.from_bytes(self._take(4, until), "big")
        if not 8 <= size <= FIRST_BYTES:
            raise ProtocolError("the first message has an impossible length")
        return decode_first(self._take(size - 4, until))

    def next(self, until: float | None = None) -> Message:
        """The next message. until: when it must have come; None: a client may be silent as long as it likes."""
        letter = self._take(1, until)
        size = int.from_bytes(self._take(4, until or monotonic() + SLOW), "big")
        if not 4 <= size <= (TOKEN_BYTES if until else self._most) + 4:
            raise ProtocolError(f"a message has at most {self._most} bytes")
        return decode(letter, self._take(size - 4, until or monotonic() + SLOW))

    def _take(self, size: int, until: float | None) -> bytes:
        pieces = bytearray()
        while len(pieces) < size:
            left = None if until is None else until - monotonic()
            if left is not None and left <= 0:
                raise Gone
            try:
                self._socket.settimeout(left)
                piece = self._socket.recv(min(CHUNK, size - len(pieces)))
            except OSError:
                raise Gone from None
            if not piece:
                raise Gone
            pieces += piece
        return bytes(pieces)

    def is_there(self) -> bool:
        """Is the client still there, as far as that is known? For whoever works for it while its thread waits."""
        try:
            readable, _, _ = select.select([self._socket], [], [], 0)
            return not readable or bool(socket.socket.recv(self._socket, 1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    def answer_plain(self, letter: bytes) -> None:
        """One byte, as the answer to whether it will be encrypted."""
        self._out += letter
        self.flush()

    def encrypt(self, context: ssl.SSLContext, until: float) -> None:
        """Go on in TLS. Nothing was read ahead, so nothing that was sent in the clear is taken for encrypted."""
        try:
            self._socket.settimeout(max(0.1, until - monotonic()))
            self._socket = context.wrap_socket(self._socket, server_side=True)
        except (OSError, ValueError):
            raise Gone from None

    @property
    def is_encrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    def send(self, data: bytes) -> None:
        """Send this, sooner or later."""
        self._out += data
        if len(self._out) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Send what waits. A client that doesn't take it in time is gone."""
        data, self._out = bytes(self._out), bytearray()
        try:
            self._socket.settimeout(SLOW)
            for start in range(0, len(data), CHUNK):
                self._socket.sendall(data[start : start + CHUNK])
        except OSError:
            raise Gone from None

    def linger(self) -> None:
        """Say that nothing more comes, and take what is still sent: else the last words may not arrive."""
        try:
            self._socket.settimeout(1.0)
            if not self.is_encrypted:
                self._socket.shutdown(socket.SHUT_WR)
                for _ in range(64):
                    if not self._socket.recv(CHUNK):
                        return
        except OSError:
            return

    def hang_up(self) -> None:
        """End it, from any thread: whoever waits for a message learns that nobody is there."""
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Let go of the socket."""
        try:
            self._socket.close()
        except OSError:
            return


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
