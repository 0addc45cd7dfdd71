"""Settings of one connection: SET, RESET and SHOW, and what a client asks for when it connects.

SET dpsql.epsilon = 0.1 and its like say what queries may spend. The rest are Postgres' own, which clients set without
being asked to: they are kept and shown, and where only one value is true here (UTF8, UTC), another is refused or said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dpsql.core import VERSION
from dpsql.core.errors import Error
from dpsql.dbapi.settings import OPTIONS, PREFIX, changed, with_options
from dpsql.options import Request
from dpsql.server.postgres.messages import Said
from dpsql.server.postgres.results import Refused, said_of

SERVER_VERSION = "15.0"
"""Whose catalogs and protocol are spoken: clients choose their queries by it."""
VERSION_TEXT = f"PostgreSQL {SERVER_VERSION} (dpsql {VERSION})"

REPORTED = {
    "server_version": f"{SERVER_VERSION} (dpsql {VERSION})",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "application_name": "",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "in_hot_standby": "off",
    "default_transaction_read_only": "on",
}
"""What clients are told when they connect."""

DEFAULTS = {
    **{name.lower(): value for name, value in REPORTED.items()},
    "server_version_num": "150000",
    "search_path": '"$user", public',
    "client_min_messages": "notice",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_isolation": "read committed",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "transaction_read_only": "on",
    "transaction_deferrable": "off",
    "row_security": "on",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "session_authorization": "",
    "synchronous_commit": "on",
    "datestyle": "ISO, MDY",
    "xmloption": "content",
    "geqo": "on",
}
"""Every setting of Postgres' that is known here, by its name in lower case, as it is at first."""

_FIXED = frozenset(
    [
        "server_version",
        "server_version_num",
        "server_encoding",
        "integer_datetimes",
        "is_superuser",
        "in_hot_standby",
        "max_identifier_length",
        "max_index_keys",
        "lc_collate",
        "lc_ctype",
        "transaction_isolation",
        "session_authorization",
    ]
)
_ONLY = {
    "client_encoding": ("utf8", "utf-8", "unicode"),
    "standard_conforming_strings": ("on", "true", "1"),
    "bytea_output": ("hex",),
    "intervalstyle": ("postgres",),
}
"""Settings with one value, as clients write it."""
_QUIET = ("warning", "error", "log", "fatal", "panic")
_OPTION = re.compile(r"(?:-c\s*|--)([A-Za-z_][\w.-]*)=((?:\\.|[^\s\\])*)|(\S+)")
_SET = re.compile(
    r"\s*SET\s+(?:(SESSION|LOCAL)\s+)?([A-Za-z_][\w.$]*)\s*(?:=|\bTO\b)\s*(.*?)\s*;?\s*\Z", re.IGNORECASE | re.DOTALL
)
_NAMES = re.compile(r"\s*SET\s+(?:SESSION\s+|LOCAL\s+)?NAMES\s+(.*?)\s*;?\s*\Z", re.IGNORECASE | re.DOTALL)
_ZONE = re.compile(r"\s*SET\s+(?:SESSION\s+|LOCAL\s+)?TIME\s+ZONE\s+(.*?)\s*;?\s*\Z", re.IGNORECASE | re.DOTALL)
_ASIDE = re.compile(
    r"\s*SET\s+(?:SESSION\s+CHARACTERISTICS|LOCAL\s+TRANSACTION|TRANSACTION|CONSTRAINTS)\b", re.IGNORECASE
)
_RESET = re.compile(r"\s*RESET\s+([\w.$]+)\s*;?\s*\Z", re.IGNORECASE)
_SHOW = re.compile(r"\s*SHOW\s+(.*?)\s*;?\s*\Z", re.IGNORECASE | re.DOTALL)
_SPELT = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}


class Settings:
    """What a connection has set, and what its queries ask for."""

    def __init__(self, startup: Mapping[str, str]) -> None:
        """startup: the parameters of the first message; `options` among them may name several."""
        self.values = dict(DEFAULTS)
        self.request = Request()
        asked = {k: v for k, v in startup.items() if k not in ("user", "database", "options", "replication")}
        for name, value in [*_options(startup.get("options", "")), *asked.items()]:
            if name.lower() == "timezone" or name.startswith("_pq_."):
                continue  # clients send theirs; moments are in UTC here, and say so
            self._put(name, value)
        self._first, self._start = dict(self.values), self.request

    @property
    def start(self) -> Request:
        """What queries asked for when it connected; RESET goes back to it."""
        return self._start

    @property
    def is_quiet(self) -> bool:
        """Doesn't the client want notices?"""
        return self.values["client_min_messages"].lower() in _QUIET

    def reset(self) -> None:
        """As it connected."""
        self.values, self.request = dict(self._first), self._start

    def change(self, text: str) -> list[Said]:
        """Do what SET or RESET says; what is to be said about it."""
        if match := _ASIDE.match(text):
            return []
        if match := _NAMES.match(text):
            self._put("client_encoding", match[1])
            return []
        if match := _ZONE.match(text):
            return self._zone(_plain(match[1]))
        if match := _RESET.match(text):
            return self._back(match[1].lower(), text)
        match = _SET.match(text)
        if match is None:
            raise Refused("42601", "SET isn't understood like this", "write SET dpsql.epsilon = 0.1")
        name, value = match[2].lower(), match[3]
        if name.startswith(f"{PREFIX}."):
            if (match[1] or "").upper() == "LOCAL":
                raise Refused("0A000", "there are no transactions to be local to", f"write SET {name} = {value}")
            self._ask(re.sub(r"(?i)^(\s*SET\s+)SESSION(\s)", r"\1       \2", text))
            return []
        if name == "timezone":
            return self._zone(_plain(value))
        if value.strip().upper() == "DEFAULT":
            self.values[name] = self._first.get(name, "")
            return []
        self._put(name, value)
        return []

    def _back(self, name: str, text: str) -> list[Said]:
        if name == "all":
            self.reset()
        elif name.startswith(f"{PREFIX}."):
            self._ask(text)
        else:
            self._known(name)
            self.values[name] = self._first.get(name, "")
        return []

    def _ask(self, text: str) -> None:
        """SET or RESET of what queries ask for."""
        try:
            after = changed(text, self.request, self._start)
        except Error as error:
            raise error.locate(text) from None
        assert after is not None
        self.request = after

    def _zone(self, zone: str) -> list[Said]:
        if zone.upper() in ("UTC", "GMT", "ETC/UTC", "DEFAULT", "LOCAL", "0"):
            return []
        return [Said(severity="NOTICE", code="00000", message="moments are shown in UTC, whatever the time zone")]

    def _put(self, name: str, value: str) -> None:
        key, value = name.lower(), _plain(value)
        if key.startswith(f"{PREFIX}."):
            try:
                self.request = with_options(self.request, {key.removeprefix(f"{PREFIX}."): value})
            except Error as error:
                raise Refused(said_of(error, "").code, error.message, error.hint) from None
            return
        self._known(key)
        if key in _FIXED:
            raise Refused("55P02", f'parameter "{key}" cannot be changed')
        only = _ONLY.get(key)
        if only is not None and value.lower() not in only:
            raise Refused("22023", f'{name} can only be "{DEFAULTS[key]}" here')
        self.values[key] = DEFAULTS[key] if only is not None else value

    def _known(self, name: str) -> None:
        if name not in DEFAULTS and "." not in name:
            raise Refused(
                "42704", f'unrecognized configuration parameter "{name}"', "options are dpsql.epsilon and its like"
            )
        if len(self.values) > 200:
            raise Refused("53400", "too many settings")

    def is_shown(self, text: str) -> bool:
        """Is this SHOW of a setting, and not of tables?"""
        match = _SHOW.match(text)
        name = _shown(match[1]) if match else ""
        return name in self.values or name == "all" or name.startswith(f"{PREFIX}.")

    def show(self, text: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The columns and rows of SHOW."""
        match = _SHOW.match(text)
        assert match is not None
        name = _shown(match[1])
        if name == "all":
            every = {**self.values, **{f"{PREFIX}.{one}": self._asked(one) for one in OPTIONS}}
            return ("name", "setting", "description"), [(one, every[one], "") for one in sorted(every)]
        if name.startswith(f"{PREFIX}."):
            option = name.removeprefix(f"{PREFIX}.")
            if option not in OPTIONS:
                raise Refused(
                    "42704", f'unrecognized configuration parameter "{name}"', f"options are {', '.join(OPTIONS)}"
                )
            return (name,), [(self._asked(option),)]
        return (name,), [(self.values[name],)]

    def _asked(self, option: str) -> str:
        value = getattr(self.request, option)
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _options(text: str) -> Iterator[tuple[str, str]]:
    """-c name=value, as often as it stands there; a backslash keeps the character after it."""
    for match in _OPTION.finditer(text):
        if match[3] is not None:
            raise Refused("42601", "options are understood like -c dpsql.epsilon=0.1", fatal=True)
        yield match[1].replace("-", "_"), re.sub(r"\\(.)", r"\1", match[2])


def _plain(value: str) -> str:
    """A value without its quotes."""
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace(value[0] * 2, value[0])
    return value


def _shown(text: str) -> str:
    name = re.sub(r"\s+", " ", _plain(text)).lower()
    return _SPELT.get(name, name)
