"""The messages of Postgres' protocol, version 3: what clients send, decoded; what the server sends, encoded.

A message is a letter, a length and a body; the first one of a connection has no letter. Nothing here knows of sockets
or of SQL. A body that isn't what its letter says is a ProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from dpsql.core.frozen import dataclass

VERSION = 3 << 16  # 3.0; a client that speaks a later minor version is told to speak this one
SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102


class ProtocolError(Exception):
    """What came is not a message of the protocol. Its text is the server's own, and quotes nothing."""


# ---------------------------------------------------------------- what clients send


@dataclass(frozen=True, slots=True)
class Startup:
    """The first message: who wants in, and what it asks for. minor: the version after the point."""

    minor: int
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Encrypt:
    """Asks for TLS, or with gss for what isn't spoken here."""

    gss: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """Asks, on a connection of its own, that another one's query be given up."""

    process: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Password:
    """The token."""

    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """One or several statements, answered in text."""

    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepare a statement. types: of its parameters, as far as the client says; 0: the server finds out."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Make a portal of a statement: values for its parameters, and formats (0 text, 1 binary) of both."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """Which columns will there be? kind: S of a statement, P of a portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Answer a portal; at most so many rows, and 0 means all."""

    portal: str
    most: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a statement (S) or a portal (P)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The end of a round of the extended protocol."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what there is."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Goodbye."""


@dataclass(frozen=True, slots=True)
class Unserved:
    """A message of the protocol that isn't served: of COPY, or a call of a function."""

    letter: str


First: TypeAlias = Startup | Encrypt | Cancel
Message: TypeAlias = Password | Query | Parse | Bind | Describe | Execute | Close | Sync | Flush | Terminate | Unserved


class _Body:
    """Reads a body piece by piece."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ProtocolError("a message is shorter than it says")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text in a message has no end")
        try:
            return self.take(end - self._at).decode()
        except UnicodeDecodeError:
            raise ProtocolError("a text in a message isn't UTF-8") from None
        finally:
            self._at = end + 1

    def many16(self) -> tuple[int, ...]:
        return tuple(self.int16() for _ in range(self.int16()))

    def value(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self.take(size)

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def finished(self) -> None:
        if not self.is_done:
            raise ProtocolError("a message is longer than what it says")


def decode_first(data: bytes) -> First:
    """The first message of a connection, without its length."""
    body = _Body(data)
    code = body.int32()
    if code in (SSL_REQUEST, GSS_REQUEST):
        body.finished()
        return Encrypt(code == GSS_REQUEST)
    if code == CANCEL_REQUEST:
        return Cancel(body.int32(), body.take(len(data) - 8))
    if code >> 16 != 3:
        raise ProtocolError("only version 3 of the protocol is spoken here")
    found: dict[str, str] = {}
    while name := body.text():
        found[name] = body.text()
    body.finished()
    return Startup(code & 0xFFFF, found)


def decode(letter: bytes, data: bytes) -> Message:
    """A later message: its letter, and its body without the length."""
    body = _Body(data)
    message = _decoded(letter, body)
    if not isinstance(message, Unserved):
        body.finished()
    return message


def _decoded(letter: bytes, body: _Body) -> Message:
    match letter:
        case b"p":
            return Password(body.text())
        case b"Q":
            return Query(body.text())
        case b"P":
            return Parse(body.text(), body.text(), tuple(body.int32() & 0xFFFFFFFF for _ in range(body.int16())))
        case b"B":
            portal, statement, formats = body.text(), body.text(), body.many16()
            values = tuple(body.value() for _ in range(body.int16()))
            return Bind(portal, statement, formats, values, body.many16())
        case b"D":
            return Describe(_kind(body), body.text())
        case b"E":
            return Execute(body.text(), body.int32())
        case b"C":
            return Close(_kind(body), body.text())
        case b"S":
            return Sync()
        case b"H":
            return Flush()
        case b"X":
            return Terminate()
        case b"d" | b"c" | b"f" | b"F":
            return Unserved(letter.decode())
        case _:
            raise ProtocolError("this is no message of the protocol")


def _kind(body: _Body) -> str:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise ProtocolError("neither a statement nor a portal was named")
    return kind.decode()


# ---------------------------------------------------------------- what the server sends


@dataclass(frozen=True, slots=True)
class Column:
    """How a column is announced: its name, the number of its type, bytes of a value (-1: any), the type's modifier."""

    name: str
    oid: int
    size: int = -1
    modifier: int = -1


def message(letter: str, *pieces: bytes) -> bytes:
    """A letter, the length of what follows, and that."""
    body = b"".join(pieces)
    return letter.encode() + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text with the zero at its end; a zero inside of it would end it early."""
    return value.replace("\0", "").encode(errors="replace") + b"\0"


AUTHENTICATED = message("R", struct.pack("!i", 0))
ASK_PASSWORD = message("R", struct.pack("!i", 3))
PARSED, BOUND, CLOSED = message("1"), message("2"), message("3")
NO_DATA, EMPTY, SUSPENDED = message("n"), message("I"), message("s")


def negotiate(unknown: Sequence[str]) -> bytes:
    """Tells a client of a later version, or with options that aren't known, to go on with 3.0 and without them."""
    return message("v", struct.pack("!ii", 0, len(unknown)), *map(text, unknown))


def parameter(name: str, value: str) -> bytes:
    """The value of a setting that clients look at."""
    return message("S", text(name), text(value))


def key(process: int, secret: bytes) -> bytes:
    """With what this connection's queries can be cancelled."""
    return message("K", struct.pack("!i", process), secret)


def ready(status: str) -> bytes:
    """The next query may come. status: I, or T between BEGIN and COMMIT."""
    return message("Z", status.encode())


def row_description(columns: Iterable[Column], formats: Sequence[int]) -> bytes:
    """Which columns follow, and in which format."""
    pieces = [
        text(c.name) + struct.pack("!ihIhih", 0, 0, c.oid, c.size, c.modifier, f)
        for c, f in zip(columns, formats, strict=True)
    ]
    return message("T", struct.pack("!h", len(pieces)), *pieces)


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message("t", struct.pack("!H", len(oids)), *(struct.pack("!I", oid) for oid in oids))


def data_row(values: Iterable[bytes | None]) -> bytes:
    """One row."""
    pieces = [b"\xff\xff\xff\xff" if v is None else struct.pack("!i", len(v)) + v for v in values]
    return message("D", struct.pack("!h", len(pieces)), *pieces)


def complete(tag: str) -> bytes:
    """A statement is done: SELECT and how many rows, or what it was."""
    return message("C", text(tag))


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What an error or a notice says. position: of the character in the SQL, from 1."""

    severity: str
    code: str
    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = None

    def encoded(self) -> bytes:
        """As a message: of an error, or of a notice where the severity is one of those that interrupt nothing."""
        place = None if self.position is None else str(self.position)
        fields = {"S": self.severity, "V": self.severity, "C": self.code, "M": self.message}
        fields |= {k: v for k, v in (("D", self.detail), ("H", self.hint), ("P", place)) if v}
        letter = "E" if self.severity in ("ERROR", "FATAL") else "N"
        return message(letter, *(k.encode() + text(v) for k, v in fields.items()), b"\0")
