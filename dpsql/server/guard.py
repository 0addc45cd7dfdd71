"""What holds for every request, before anybody looks at it: how long it may be, where it may come from, and what a
browser may do with the reply."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import anyio

from dpsql.core.errors import ServerError
from dpsql.server.replies import error_reply, status_of
from dpsql.server.settings import Settings, is_loopback

SLOW = 30.0  # seconds that a request's body may take to come

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: Any, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in HEADERS}
                kept = [one for one in message.get("headers", []) if one[0].lower() not in names]
                message = {**message, "headers": [*kept, *HEADERS]}
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope, headers)
        body = b""
        if refused is None and scope["method"] not in ("GET", "HEAD"):
            try:
                with anyio.fail_after(SLOW):
                    body = await self._read(receive)
            except _TooLarge:
                refused = _too_large(self._settings.max_body)
            except TimeoutError:  # it would keep the server from ending
                refused = ServerError("the request came too slowly", code="too-slow", hint="send it at once")
        if refused is not None:
            await _reply(guarded, refused)
            return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent or scope["method"] in ("GET", "HEAD"):
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, guarded)

    def _refused(self, scope: Message, headers: dict[str, str]) -> ServerError | None:
        """What is wrong with a request by its head alone."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._knows(host):
            # A name of somebody else's that leads here (DNS rebinding) would make his page one of ours.
            return ServerError("the server isn't known by this name", code="forbidden", hint="use its own address")
        if origin is not None and scope["method"] not in ("GET", "HEAD") and not self._is_own(origin, host):
            return ServerError("the request comes from another site's page", code="forbidden", hint="use the page here")
        size = headers.get("content-length", "")
        if size.isascii() and size.isdigit() and int(size) > self._settings.max_body:
            return _too_large(self._settings.max_body)
        return None

    def _knows(self, host: str) -> bool:
        """May the server be called so? On a loopback address, only by names of this machine."""
        settings = self._settings
        if not settings.is_local or settings.behind_proxy:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        known = None if settings.origin is None else urlsplit(settings.origin).netloc
        return is_loopback(name) or name == settings.host or (known is not None and host == known)

    def _is_own(self, origin: str, host: str) -> bool:
        if self._settings.origin is not None:
            return origin == self._settings.origin.rstrip("/")
        scheme = "https" if self._settings.has_tls or self._settings.behind_proxy else "http"
        return origin == f"{scheme}://{host}"

    async def _read(self, receive: Receive) -> bytes:
        """The whole body, or _TooLarge as soon as it is."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b""
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._settings.max_body:
                raise _TooLarge
            if not message.get("more_body", False):
                return b"".join(parts)


class _TooLarge(Exception):
    pass


def _too_large(most: int) -> ServerError:
    return ServerError(f"the request is longer than {most:,} bytes", code="request-size", hint="ask for less at once")


async def _reply(send: Send, error: ServerError) -> None:
    body = json.dumps(error_reply(error)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "http.response.body", "body": body})
