"""The Postgres port itself: it listens, gives each client a thread, and ends in order.

A thread for each client, and not a loop for all: queries block anyway, and a connection reads as it is written. How
many there may be is limited, for all and for each analyst.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from time import monotonic

from dpsql.core.errors import PolicyError
from dpsql.server.core import Core, Who
from dpsql.server.postgres.connection import Connection
from dpsql.server.postgres.results import Refused
from dpsql.server.postgres.twin import Twin
from dpsql.server.postgres.wire import Wire
from dpsql.server.settings import open_port

MOST, MOST_UNKNOWN, MOST_EACH = 200, 40, 30  # connections: of all, of those not yet known, of one analyst


class PostgresPort:
    """Listens from when it is made until it is closed."""

    def __init__(self, core: Core, who: Callable[[str], Who]) -> None:
        """who: whose token a text is; ServerError "unauthorized" where it is nobody's."""
        settings = core.settings
        if not settings.is_local and not settings.has_tls:
            raise PolicyError(
                f"postgres: {settings.host} can be reached from other machines, and tokens would travel in the clear",
                code="server-tls",
                hint="give tls_cert and tls_key; a proxy that does TLS for the page doesn't do it for Postgres",
            )
        self.core, self.twin = core, Twin(core)
        self.needs_tls = not settings.is_local
        self.tls: ssl.SSLContext | None = None
        if settings.tls_cert is not None and settings.tls_key is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                self.tls.load_cert_chain(settings.tls_cert, settings.tls_key)
            except (OSError, ValueError):
                raise PolicyError(
                    "server: tls_cert and tls_key can't be read as a certificate and its key",
                    code="server-tls",
                    hint="name two files in PEM, of which the key has no password",
                ) from None
        self._who = who
        self._lock = threading.Lock()
        self._connections: dict[int, tuple[Connection, threading.Thread]] = {}
        self._names: dict[int, str] = {}
        self._closed = False
        self._listener = open_port(settings.host, settings.postgres_port or 0, "postgres.port")
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._listen, name="dpsql-postgres", daemon=True)
        self._thread.start()

    def who(self, token: str) -> Who:
        """Whose token this is; ServerError where it is nobody's."""
        return self._who(token)

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with self._lock:
                unknown = len(self._connections) - len(self._names)
                full = self._closed or len(self._connections) >= MOST or unknown >= MOST_UNKNOWN
                if not full:
                    self._accepted(client)
            if full:
                client.close()

    def _accepted(self, client: socket.socket) -> None:
        process = secrets.randbelow(2**31 - 1) + 1
        while process in self._connections:
            process = secrets.randbelow(2**31 - 1) + 1
        wire = Wire(client, self.core.settings.max_body)
        connection = Connection(self, wire, process, secrets.token_bytes(4))
        thread = threading.Thread(
            target=self._serve, args=(connection, wire), name="dpsql-postgres-client", daemon=True
        )
        self._connections[process] = connection, thread
        thread.start()

    def _serve(self, connection: Connection, wire: Wire) -> None:
        try:
            connection.run()
        finally:
            wire.close()
            with self._lock:
                self._connections.pop(connection.process, None)
                self._names.pop(connection.process, None)

    def enter(self, connection: Connection, who: Who) -> None:
        """Somebody is known now; Refused where he has too many connections."""
        with self._lock:
            if Counter(self._names.values())[who.name] >= MOST_EACH:
                raise Refused("53300", "you have too many connections", "close some of them", fatal=True)
            self._names[connection.process] = who.name

    def cancel(self, process: int, secret: bytes) -> None:
        """Give up what the connection with this key waits for; nothing where the key is wrong."""
        with self._lock:
            found = self._connections.get(process)
        if found is not None and compare_digest(found[0].secret, secret):
            found[0].cancel()

    def close(self, seconds: float = 30.0) -> None:
        """Listen no longer; end connections when what they are at is answered, and after so many seconds anyway."""
        with self._lock:
            self._closed = True
            left = list(self._connections.values())
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(seconds)
        for connection, _ in left:
            connection.end()
        until = monotonic() + seconds
        for connection, thread in left:
            thread.join(max(0.0, until - monotonic()))
            connection.hang_up()  # nothing where it has ended
        self.twin.turns.finish(max(0.0, until - monotonic()))  # queries that were given up
        self.twin.close()
