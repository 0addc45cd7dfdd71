"""The process around the core: it opens the policy, listens, and ends in order."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import uvicorn

from dpsql.server.core import Core
from dpsql.server.http import Http
from dpsql.server.postgres.server import PostgresPort
from dpsql.server.settings import Settings, open_port
from dpsql.server.tokens import Who
from dpsql.session import Engine


def serve(
    engine: Engine, settings: Settings, *, ready: Callable[[str, str | None, int | None], None], link: Who | None
) -> None:
    """Serve until a signal ends it; what is under way then is answered first, and the engine is closed.

    ready: called with the address, with a link that logs this person in once, and with the Postgres port if there is
    one, when the server listens.
    """
    core = Core(engine, settings)
    http = Http(core)
    secret = None if link is None else http.logins.link(link)
    postgres = None
    try:
        postgres = None if settings.postgres_port is None else PostgresPort(core, http.everybody.who)
        number = None if postgres is None else postgres.port
        asyncio.run(listen(http, settings, lambda address, _: ready(address, secret, number)))
    finally:
        if postgres is not None:
            postgres.close(settings.ending)
        core.close()


async def listen(http: Http, settings: Settings, listening: Callable[[str, Callable[[], None]], None]) -> None:
    """Listen until a signal comes. listening: is told the address, and what ends it."""
    with ExitStack() as ports:
        main = ports.enter_context(open_port(settings.host, settings.port, "server.port"))
        aside = None
        if settings.metrics_port is not None:
            aside = ports.enter_context(open_port("127.0.0.1", settings.metrics_port, "server.metrics_port"))
        await _listen(http, settings, listening, main, aside)


async def _listen(
    http: Http,
    settings: Settings,
    listening: Callable[[str, Callable[[], None]], None],
    main: socket.socket,
    aside: socket.socket | None,
) -> None:
    """aside: for the steward's monitoring."""
    config = uvicorn.Config(
        http.app(),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=settings.ending,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, ValueError, RuntimeError):  # not the main thread: whoever started it ends it
            loop.add_signal_handler(one, server.end)
    announce = asyncio.create_task(_announce(server, settings, listening))
    beside = None
    if aside is not None:
        beside = _Server(uvicorn.Config(http.metrics_app(), log_config=None, lifespan="off"))
        monitoring = asyncio.create_task(beside.serve([aside]))
    await server.serve([main])
    announce.cancel()
    if beside is not None:
        beside.end()
        await monitoring


async def _announce(server: _Server, settings: Settings, listening: Callable[[str, Callable[[], None]], None]) -> None:
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    listening(f"{'https' if settings.has_tls else 'http'}://{host}:{port}", server.end)


class _Server(uvicorn.Server):
    """uvicorn's server without its own way to take signals."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()

    def end(self) -> None:
        """Listen no longer; end when what is under way is answered."""
        self.should_exit = True
