"""One table of a policy file, read key by key: every mistake is noted with its key path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeVar

from dpsql.core.errors import PolicyError, nearest
from dpsql.core.limit import AUTO, Choose, Limit
from dpsql.policy.keys import LARGEST_LIMIT
from dpsql.policy.model import show
from dpsql.policy.values import Unfit

Choice = TypeVar("Choice", bound=str)
Parsed = TypeVar("Parsed")


def key_path(*keys: str) -> str:
    """The keys as TOML would join them, on one line."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)


class Section:
    """One table of the file: hands out values of the right type and notes what is wrong with the others."""

    def __init__(
        self,
        path: str,
        value: object,
        mistakes: list[PolicyError],
        known: tuple[str, ...] | None = None,
        later: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.mistakes = mistakes
        self.entries: dict[str, object] = {}
        self.readable = isinstance(value, Mapping)
        if not isinstance(value, Mapping):
            self.note(
                path or "the policy", f"must be a table, not {show(value)}", hint="put its keys in a section of its own"
            )
            return
        for key, entry in value.items():
            if not isinstance(key, str) or not key or "\0" in key:
                self.note(
                    path or "the policy", f"{show(key)} can't be a name", hint="use a text without NUL characters"
                )
            elif entry is None:
                self.wrong(key, "must not be None", hint="leave it out")
            elif key in later:
                self.wrong(key, "is not supported by this version", hint="leave it out", code="not-yet")
            elif known is not None and key not in known:
                close = nearest(key, known)
                hint = f"did you mean {close}?" if close else f"known keys: {', '.join(known)}"
                self.wrong(key, "unknown key", hint=hint, code="unknown-key")
            else:
                self.entries[key] = entry

    def at(self, *keys: str) -> str:
        """The key path of something in this section."""
        return f"{self.path}.{key_path(*keys)}" if self.path else key_path(*keys)

    def note(self, path: str, what: str, *, hint: str | None, code: str = "bad-value") -> None:
        self.mistakes.append(PolicyError(f"{path}: {what}", code=code, hint=hint))

    def wrong(self, key: str, what: str, *, hint: str | None = None, code: str = "bad-value") -> None:
        self.note(self.at(key), what, hint=hint, code=code)

    def missing(self, key: str, *, hint: str) -> None:
        if self.readable:
            self.wrong(key, "is missing", hint=hint, code="missing-key")

    def section(self, key: str, known: tuple[str, ...] | None = None, later: tuple[str, ...] = ()) -> Section:
        """A table in this one; empty if it isn't there."""
        return Section(self.at(key), self.entries.get(key, {}), self.mistakes, known, later)

    def text(self, key: str) -> str | None:
        value = self.entries.get(key)
        if value is None or self._is_name(key, value):
            return value if isinstance(value, str) else None
        return None

    def _is_name(self, key: str, value: object) -> bool:
        if isinstance(value, str) and value and "\0" not in value:
            return True
        self.wrong(key, f"must be a non-empty text, not {show(value)}", hint=f'write {key} = "..."')
        return False

    def names(self, key: str) -> tuple[str, ...] | None:
        """One name or a list of different ones."""
        value = self.entries.get(key)
        if value is None:
            return None
        names = list(value) if isinstance(value, list | tuple) else [value]
        if not names:
            self.wrong(key, "must not be empty", hint=f'name a column, or several: {key} = ["a", "b"]')
        found = tuple(name for name in names if self._is_name(key, name) and isinstance(name, str))
        if len({name.lower() for name in found}) < len(found):
            self.wrong(key, "names a column twice", hint="names are case-insensitive; name each column once")
        return found

    def flag(self, key: str, default: bool) -> bool:
        value = self.entries.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong(key, f"must be true or false, not {show(value)}", hint=f"write {key} = {str(not default).lower()}")
        return default

    def count(self, key: str) -> int | None:
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_LIMIT:
            return value
        self.wrong(key, f"must be a whole number from 1 to 2^40, not {show(value)}", hint=f"write {key} = 1 or more")
        return None

    def limit(self, key: str) -> Limit | None:
        """A number, or one that each query chooses: "auto", { most = 500 }."""
        value = self.entries.get(key)
        if value == AUTO:
            return Choose()
        if isinstance(value, Mapping):
            inner = self.section(key, ("most",))
            if "most" not in value:
                inner.missing("most", hint=f"no more than so many: {key} = {{ most = 500 }}")
            return Choose(inner.count("most"))
        if isinstance(value, str):
            hint = f'write {key} = 20, {key} = "auto" or {key} = {{ most = 500 }}'
            self.wrong(key, f"must be a whole number, or {show(AUTO)}, not {show(value)}", hint=hint)
            return None
        return self.count(key)

    def choice(self, key: str, options: tuple[Choice, ...]) -> Choice:
        """One of the options; the first if nothing is said."""
        value = self.entries.get(key, options[0])
        for option in options:
            if isinstance(value, str) and value == option:
                return option
        close = nearest(value, options) if isinstance(value, str) else None
        hint = f'did you mean "{close}"?' if close else f"write one of: {', '.join(map(show, options))}"
        self.wrong(key, f"must be one of {', '.join(map(show, options))}, not {show(value)}", hint=hint)
        return options[0]

    def parsed(self, key: str, parse: Callable[..., Fraction]) -> Fraction | None:
        """ε or δ."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            self.wrong(key, f"must be a number, not the text {show(value)}", hint="write the number without quotes")
            return None
        try:
            return parse(value, where=self.at(key))
        except PolicyError as mistake:
            self.mistakes.append(mistake)
            return None

    def attempt(self, key: str, parse: Callable[[object], Parsed]) -> Parsed | None:
        """What `parse` makes of the value; a value that it finds unfit is noted."""
        if key not in self.entries:
            return None
        try:
            return parse(self.entries[key])
        except Unfit as unfit:
            self.wrong(key, unfit.what, hint=unfit.hint)
            return None

    def sections(self, known: tuple[str, ...], later: tuple[str, ...]) -> dict[str, tuple[str, Section]]:
        """The tables in this one by lower-cased name, each with its spelling."""
        found: dict[str, tuple[str, Section]] = {}
        for name in self.entries:
            if name.lower() in found:
                first = found[name.lower()][0]
                self.wrong(
                    name, f"differs from {show(first)} only in case", hint="names are case-insensitive; keep one"
                )
            else:
                found[name.lower()] = name, self.section(name, known, later)
        return found
