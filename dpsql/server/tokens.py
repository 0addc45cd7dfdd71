"""Who may ask: names with random tokens, of which only hashes are kept.

A token is 256 random bits, shown once. The file holds its SHA-256: whoever reads the file can't ask with it, and there
is nothing to guess, so that a plain hash is enough. The server looks at the file again when it changes: a token that
was revoked is worth nothing from the next request on.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Literal, Protocol, get_args

from dpsql.core.errors import LedgerError, ServerError
from dpsql.core.frozen import dataclass
from dpsql.session import checked_analyst

Role = Literal["analyst", "steward"]
ROLES: tuple[Role, ...] = get_args(Role)
PREFIX = "dpsql_"


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks, as the server knows it: by a token, never by what a client says of itself."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token. id: what it is called when it is listed and revoked."""

    id: str
    name: str
    role: Role
    digest: str
    made: str
    expires: str | None

    @property
    def who(self) -> Who:
        return Who(self.name, self.role)

    def is_valid(self, now: datetime) -> bool:
        """Has it not expired?"""
        return self.expires is None or now < datetime.fromisoformat(self.expires)


def unknown() -> ServerError:
    """The one answer to everybody who isn't known, whatever is wrong with the token."""
    return ServerError(
        "the server doesn't know you: the token is missing, wrong, expired or revoked",
        code="unauthorized",
        hint="send the header Authorization: Bearer TOKEN; the steward makes one: dpsql token add NAME",
    )


def digest_of(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Known(Protocol):
    """What knows people by a token."""

    def who(self, token: str) -> Who:
        """Whose token this is; ServerError "unauthorized" where it is nobody's."""


class Everybody:
    """The server's own tokens, and those of an issuer, which look otherwise: three parts with dots between them."""

    def __init__(self, tokens: Tokens, issuer: Known | None) -> None:
        self._tokens, self._issuer = tokens, issuer

    def who(self, token: str) -> Who:
        if self._issuer is not None and token.count(".") == 2:
            return self._issuer.who(token)
        return self._tokens.who(token)


class Tokens:
    """The tokens of one file. Thread-safe; other processes may write the file meanwhile."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._known: dict[str, Token] = {}

    def who(self, token: str) -> Who:
        """Whose token this is; ServerError "unauthorized" where it is nobody's."""
        return self.find(digest_of(token)).who

    def find(self, digest: str) -> Token:
        """The token with this hash, as long as it is valid."""
        found = self._read().get(digest)
        if found is None or not found.is_valid(datetime.now(UTC)):
            raise unknown()
        return found

    def all(self) -> list[Token]:
        """All tokens, expired ones too, the oldest first."""
        return list(self._read().values())

    def add(self, name: str, role: Role = "analyst", expires: timedelta | None = None) -> tuple[str, Token]:
        """Make a token: the secret, which is nowhere else, and what is kept of it."""
        secret = PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC).replace(microsecond=0)
        end = None if expires is None else (now + expires).isoformat()
        digest = digest_of(secret)
        made = Token(secrets.token_hex(4), checked_analyst(name), role, digest, now.isoformat(), end)
        with self._changing() as tokens:
            tokens[digest] = made
        return secret, made

    def revoke(self, name_or_id: str) -> list[Token]:
        """Take away the token of this id, or all of this name; those that were taken away."""
        with self._changing() as tokens:
            gone = [t for t in tokens.values() if name_or_id in (t.id, t.name)]
            for one in gone:
                del tokens[one.digest]
        return gone

    def _read(self) -> dict[str, Token]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return {}
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        with self._lock:
            if stamp != self._stamp:
                self._known, self._stamp = self._load(), stamp
            return self._known

    def _load(self) -> dict[str, Token]:
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))["tokens"]
            tokens = [Token(**one) for one in listed]
            assert all(token.role in ROLES for token in tokens)
        except (OSError, ValueError, TypeError, KeyError, AssertionError):
            raise LedgerError(
                f"the tokens' file {self.path} can't be read",
                code="tokens",
                hint="restore it from a backup; or move it away, and make new tokens: dpsql token add NAME",
            ) from None
        return {token.digest: token for token in tokens}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """The tokens, to be changed: written whole, by one process at a time, for its owner's eyes alone."""
        guard = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            flock(guard, LOCK_EX)
            tokens = self._load() if self.path.exists() else {}
            yield tokens
            text = json.dumps({"tokens": [asdict(token) for token in tokens.values()]}, indent=2)
            draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
            handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            os.close(guard)
