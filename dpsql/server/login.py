"""Browsers that have logged in: a cookie that scripts can't read, in the place of a token.

A cookie is worth what the token is worth that it was given for: when that one expires or is revoked, so is the cookie.
"""

from __future__ import annotations

import secrets
import threading
from time import monotonic

from dpsql.core.frozen import dataclass
from dpsql.server.tokens import Tokens, Who, digest_of, unknown

COOKIE = "dpsql_session"
HOURS = 12
LINK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Login:
    """Who has the cookie, until when, and the hash of the token that it was given for (None: a link's)."""

    who: Who
    until: float
    token: str | None


class Logins:
    """Cookies and links of one process; they end with it. Only their hashes are kept. Thread-safe."""

    MOST = 100  # of one name: nobody logs others out by logging in

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._lock = threading.Lock()
        self._cookies: dict[str, _Login] = {}
        self._links: dict[str, tuple[Who, float]] = {}  # and until when

    def link(self, who: Who) -> str:
        """A token that logs in once, and soon: it may stand in a log."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._links[digest_of(secret)] = who, monotonic() + LINK_SECONDS
        return secret

    def enter(self, token: str) -> tuple[str, Who]:
        """A cookie for whoever has this token, or this link; ServerError "unauthorized" for others."""
        digest = digest_of(token)
        with self._lock:
            who, until = self._links.pop(digest, (None, 0.0))
        if who is not None and monotonic() < until:
            return self.let_in(who, None)
        return self.let_in(self._tokens.who(token), digest)

    def let_in(self, who: Who, token: str | None) -> tuple[str, Who]:
        """A cookie for somebody who is known. token: the hash of what he is known by."""
        cookie = secrets.token_urlsafe(32)
        now = monotonic()
        with self._lock:
            self._cookies = {c: one for c, one in self._cookies.items() if one.until > now}
            mine = [c for c, one in self._cookies.items() if one.who.name == who.name]
            if len(mine) >= self.MOST:
                del self._cookies[mine[0]]
            self._cookies[digest_of(cookie)] = _Login(who, now + HOURS * 3600, token)
        return cookie, who

    def who(self, cookie: str) -> Who:
        """Whose cookie this is."""
        with self._lock:
            found = self._cookies.get(digest_of(cookie))
        if found is None or found.until <= monotonic():
            raise unknown()
        return found.who if found.token is None else self._tokens.find(found.token).who

    def leave(self, cookie: str) -> None:
        """Forget a cookie."""
        with self._lock:
            self._cookies.pop(digest_of(cookie), None)
