"""Browsers that have logged in: a cookie that scripts can't read, in the place of a token.

A cookie is worth what the token is worth that it was given for: when that one expires or is revoked, so is the cookie.

Bearer tokens of an OIDC issuer: signed by its keys, for this audience, not expired; a claim names the analyst.

Issuer, audience and algorithms are the steward's settings. Nothing that a token says of itself chooses a key's address
or an algorithm that isn't among them.
"""

from __future__ import annotations

import json
import secrets
import threading
from contextlib import suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from dpsql.core.errors import Error, PolicyError, PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.server.settings import Oidc
from dpsql.server.tokens import Tokens, Who, digest_of, unknown
from dpsql.session import checked_analyst

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


FRESH, AGAIN = 600.0, 30.0
"""Seconds that keys of an address are used; and between two looks, where a token names a key that isn't known."""
LARGEST = 1 << 20  # bytes of a set of keys
LEEWAY = 30  # seconds that clocks may differ by
_WRONG = (JoseError, Error, ValueError, TypeError, KeyError)  # what tokens and sets of keys may fail with


class Issuer:
    """An issuer whose tokens are believed. Thread-safe."""

    def __init__(self, settings: Oidc) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._keys: KeySet | None = None
        self._read = self._tried = -inf  # when they were read; and when that was tried last

    def who(self, token: str) -> Who:
        """Whose token this is; ServerError "unauthorized" where it isn't believed, whatever is wrong with it."""
        said = self._settings
        registry = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={"essential": True, "value": said.issuer},
            aud={"essential": True, "value": said.audience},
            exp={"essential": True},
        )
        try:
            found = self._decoded(token)
            registry.validate(found)
            name = _name_of(found[said.claim])
        except _WRONG:
            raise unknown() from None
        return Who(name, "steward" if name in said.stewards else "analyst")

    def _decoded(self, token: str) -> dict[str, Any]:
        """The claims of a token whose signature holds; keys are looked at again where none fits."""
        algorithms = list(self._settings.algorithms)
        try:
            return dict(jwt.decode(token, self._known(FRESH), algorithms=algorithms).claims)
        except (JoseError, ValueError):
            return dict(jwt.decode(token, self._known(AGAIN), algorithms=algorithms).claims)

    def _known(self, seconds: float) -> KeySet:
        """The issuer's keys, no older than this where that can be had.

        An address that doesn't answer isn't asked again for a while: everybody else would wait with whoever asks.
        """
        with self._lock:
            now = monotonic()
            if now - self._read > seconds and now - self._tried > AGAIN:
                self._tried = now
                with suppress(*_WRONG):
                    self._keys, self._read = KeySet.import_key_set(self._loaded()), monotonic()
            if self._keys is None or now - self._read > FRESH:
                raise unknown()
            return self._keys

    def _loaded(self) -> Any:
        place = self._settings.keys
        try:
            if not place.startswith("https://"):
                return json.loads(Path(place).read_bytes()[:LARGEST])
            import httpx

            reply = httpx.get(place, timeout=10, follow_redirects=False).raise_for_status()
            return json.loads(reply.content[:LARGEST])
        except Exception:
            raise PolicyError(
                "oidc.keys can't be read", code="oidc-keys", hint="name the issuer's jwks_uri, or a file with its keys"
            ) from None


def _name_of(said: object) -> str:
    """The analyst that a claim names. It must be the name itself: nobody becomes another by a blank, or by no name."""
    if not isinstance(said, str) or (name := checked_analyst(said)) != said:
        raise PrivacyError("a claim isn't a name", code="analyst", hint="the issuer must say it as the steward does")
    return name
