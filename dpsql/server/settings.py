"""server.toml: where the server listens, who may ask, and what keeps one analyst from another.

    [server]     host, port, tls_cert, tls_key, behind_proxy, origin, reply_after, share, tokens, audit, metrics_port,
                 max_body, max_running, max_running_each, rate
    [oidc]       issuer, audience, keys, algorithms, claim, stewards
    [postgres]   port

Keys of [server] may come from the environment instead: DPSQL_SERVER_PORT=8080.

A port to listen on; or in words why there is none.
"""

from __future__ import annotations

import ipaddress
import socket
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.policy.reader import Section, Unfit, show
from dpsql.policy.settings import Duration, read_timeout

Share = Literal["own", "all"]
SHARES: tuple[Share, ...] = ("own", "all")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a pair of keys: with one of a shared secret, whoever checks tokens could make them."""


@dataclass(frozen=True, slots=True)
class Oidc:
    """Whose bearer tokens are believed, besides the server's own, and who they say is asking."""

    issuer: str
    audience: str
    keys: str
    """Where the issuer's public keys are: an https address, or a file, in JWKS."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    claim: str = "sub"
    stewards: tuple[str, ...] = ()
    """The analysts of these names are stewards."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server is told. Paths are absolute."""

    tokens: Path
    audit: Path
    host: str = "127.0.0.1"
    port: int = 8642
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    origin: str | None = None
    """The address that browsers know the server by, where that isn't the one that it listens on."""
    reply_after: Duration = Duration(Fraction(2), "2s")
    """When a paid query is answered, counted from its arrival; what takes longer fails."""
    share: Share = "own"
    """Whose stored releases are free again: one's own, or everybody's."""
    metrics_port: int | None = None
    max_body: int = 256 << 10
    """Bytes of a request."""
    max_running: int = 16
    """Queries under way, of all analysts together."""
    max_running_each: int = 2
    """Queries under way of one analyst; and of explanations one."""
    rate: int = 600
    """Requests of one analyst in a minute."""
    oidc: Oidc | None = None
    postgres_port: int | None = None

    @property
    def seconds(self) -> float:
        """`reply_after` as a number."""
        return float(self.reply_after.seconds)

    @property
    def ending(self) -> int:
        """Seconds that clients are waited for when the server is told to end: longer than any query takes."""
        return 30 + int(4 * self.seconds)

    @property
    def is_local(self) -> bool:
        """Does it listen where only this machine can ask?"""
        return is_loopback(self.host)

    @property
    def has_tls(self) -> bool:
        return self.tls_cert is not None


def is_loopback(host: str) -> bool:
    """Is it an address that only this machine reaches?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _whole(least: int, most: int, example: str) -> Callable[[object], int]:
    def read(written: object) -> int:
        number = int(written) if isinstance(written, str) and written.isascii() and written.isdigit() else written
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise Unfit(f"must be a whole number from {least:,} to {most:,}, not {show(written)}", f"write {example}")
        return number

    return read


def _text(written: object) -> str:
    if not isinstance(written, str) or not written.strip() or not written.isprintable():
        raise Unfit(f"must be a non-empty text, not {show(written)}", 'write it in quotes: "…"')
    return written.strip()


def _flag(written: object) -> bool:
    if isinstance(written, str) and written.lower() in ("true", "false", "1", "0"):
        return written.lower() in ("true", "1")
    if not isinstance(written, bool):
        raise Unfit(f"must be true or false, not {show(written)}", "write true or false")
    return written


def _share(written: object) -> Share:
    for one in SHARES:
        if written == one:
            return one
    raise Unfit(f'must be "own" or "all", not {show(written)}', 'write share = "own"')


_PATHS = ("tokens", "audit", "tls_cert", "tls_key")
_READERS: Mapping[str, Callable[[object], Any]] = {
    "host": _text,
    "port": _whole(0, 65535, "port = 8642"),
    "tls_cert": _text,
    "tls_key": _text,
    "behind_proxy": _flag,
    "origin": _text,
    "reply_after": read_timeout,
    "share": _share,
    "tokens": _text,
    "audit": _text,
    "metrics_port": _whole(0, 65535, "metrics_port = 9642"),
    "max_body": _whole(1024, 16 << 20, "max_body = 262144"),
    "max_running": _whole(1, 1000, "max_running = 16"),
    "max_running_each": _whole(1, 100, "max_running_each = 2"),
    "rate": _whole(1, 100_000, "rate = 600"),
}


def read_settings(
    file: Path | None, policy: Path, environment: Mapping[str, str], said: Mapping[str, object] | None = None
) -> Settings:
    """The settings of a file, replaced by the environment's, replaced by what the command line says.

    file: None where there is none, and defaults hold. policy: beside it lie tokens and the audit log.
    """
    mistakes: list[PolicyError] = []
    top = Section("", _toml(file) if file is not None else {}, mistakes, ("server", "oidc", "postgres"))
    server = top.section("server", tuple(_READERS))
    found = {key: server.attempt(key, parse) for key, parse in _READERS.items() if key in server.entries}
    folder = (file or policy).absolute().parent
    given = {k: folder / v if k in _PATHS else v for k, v in found.items() if v is not None}
    outside = {key: text for key in _READERS if (text := environment.get(f"DPSQL_SERVER_{key.upper()}"))}
    for words, where in ((outside, "DPSQL_SERVER_{}"), (said or {}, "--{}")):
        over = Section("", {k: v for k, v in words.items() if v is not None}, mistakes)
        for key in over.entries:
            over.path = where.format(key.upper() if where.startswith("D") else key.replace("_", "-"))
            if (value := over.attempt(key, _READERS[key])) is not None:
                given[key] = Path(value).absolute() if key in _PATHS else value
    oidc = _oidc(top, folder)
    port = top.section("postgres", ("port",)).attempt("port", _whole(0, 65535, "port = 5433"))
    if mistakes:
        raise mistakes[0]
    stem = policy.absolute().with_suffix("")
    given.setdefault("tokens", Path(f"{stem}.tokens.json"))
    given.setdefault("audit", Path(f"{stem}.audit.jsonl"))
    return _checked(Settings(**given, oidc=oidc, postgres_port=port))


def _oidc(top: Section, folder: Path) -> Oidc | None:
    if "oidc" not in top.entries:
        return None
    section = top.section("oidc", tuple(f.name for f in fields(Oidc)))
    for key in ("issuer", "audience", "keys"):
        if key not in section.entries:
            section.missing(key, hint=f'write {key} = "…"')
    issuer, audience, keys = (section.text(key) or "" for key in ("issuer", "audience", "keys"))
    algorithms = section.names("algorithms") or ("RS256", "ES256")
    for one in algorithms:
        if one not in ALGORITHMS:
            hint = f"known: {', '.join(ALGORITHMS)}"
            section.wrong("algorithms", f"{show(one)} isn't a signature that is believed", hint=hint)
    if keys and not keys.startswith("https://"):
        keys = str(folder / keys)
    return Oidc(issuer, audience, keys, algorithms, section.text("claim") or "sub", section.names("stewards") or ())


def _checked(settings: Settings) -> Settings:
    """Refuse what would send tokens over a network in the clear."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise PolicyError(
            "server: TLS needs both tls_cert and tls_key", code="server-tls", hint="name both files, or neither"
        )
    if not settings.is_local and not settings.has_tls and not settings.behind_proxy:
        raise PolicyError(
            f"server.host: {settings.host} can be reached from other machines, and tokens would travel in the clear",
            code="server-tls",
            hint="give tls_cert and tls_key; or say behind_proxy = true, where a proxy on the way does TLS",
        )
    return settings


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    except FileNotFoundError:
        raise PolicyError(
            f"there is no file {file}", code="server-file", hint="leave --config out, or write it"
        ) from None
    except (OSError, UnicodeDecodeError):
        raise PolicyError(f"{file} can't be read", code="server-file", hint="it is a TOML text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{file}: {error}", code="server-file", hint="write it as TOML") from None


def open_port(host: str, port: int, setting: str) -> socket.socket:
    """A socket that listens; PolicyError where it can't. setting: what names the port. 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError:
        raise PolicyError(
            f"{setting}: the server can't listen on {host}, port {port}",
            code="server-port",
            hint="something else may listen there: name another port, or 0 for any that is free",
        ) from None
