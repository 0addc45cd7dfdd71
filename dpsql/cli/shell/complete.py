"""What can be completed where: tables, columns and public values of the policy, functions, words, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dpsql.cli.shell.commands import COMMANDS, SETTINGS
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.registry import ASKED_FOR

if TYPE_CHECKING:
    from dpsql.session import Session

MOST = 200

WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "GROUP BY ALL", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "ON",
    "USING", "AS", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "IS NOT NULL", "CASE", "WHEN", "THEN",
    "ELSE", "END", "DISTINCT", "DESC", "ASC", "WITH", "UNION ALL", "FILTER (WHERE", "OVER", "PARTITION BY", "QUALIFY",
    "EXISTS", "DESCRIBE", "SHOW TABLES", "INTERVAL", "CAST", "EXTRACT",
)  # fmt: skip

_TABLES_FOLLOW = re.compile(
    r"\b(?:FROM|JOIN|DESCRIBE|DESC|SHOW)\s+(?:[\w\"]+(?:\s+(?:AS\s+)?\w+)?\s*,\s*)*$", re.IGNORECASE
)
_SOURCES = re.compile(
    r"\b(?:FROM|JOIN)\s+([\w\"]+)(?:\s+(?:AS\s+)?(\w+))?|,\s*([\w\"]+)(?:\s+(?:AS\s+)?(\w+))?", re.IGNORECASE
)
_VALUE = re.compile(r"(\w+)\"?\s*(?:=|<>|!=|\bIN\s*\((?:\s*'[^']*'\s*,)*)\s*'([^']*)$", re.IGNORECASE)
_PLAIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to go on: the text, how many characters before the cursor it replaces, and a word about it."""

    text: str
    replaces: int
    about: str = ""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Everything that can be completed, by kind: names as they are, each with a word about it."""

    tables: Mapping[str, str]
    columns: Mapping[str, Mapping[str, str]]  # by table, in lower case
    values: Mapping[str, tuple[str, ...]]  # public texts, by column, in lower case
    functions: Mapping[str, str]

    @classmethod
    def of(cls, session: Session) -> Vocabulary:
        """What a session's policy has; from the policy and schemas alone."""
        from dpsql.aggregates import RECIPES
        from dpsql.sql.functions import FUNCTIONS

        tables = {row[0]: f"{row[1]} table" for row in session.query("SHOW TABLES").rows}
        columns: dict[str, dict[str, str]] = {}
        values: dict[str, tuple[str, ...]] = {}
        for name in tables:
            described = session.query(f"DESCRIBE {quoted(name)}").rows
            columns[name.lower()] = {
                row[0]: f"{row[1]}, {row[4]}" for row in described if _is_column(row[0], described)
            }
            for column in session.policy.tables[name.lower()].columns.values():
                texts = tuple(v for v in column.values or () if isinstance(v, str))
                values[column.name.lower()] = texts or values.get(column.name.lower(), ())
        functions = {word: "function" for one in FUNCTIONS for word in one.names if _PLAIN.fullmatch(word)}
        functions |= dict.fromkeys(RECIPES, "aggregate")
        return cls(tables, columns, values, functions)


def _is_column(name: str, described: Iterable[tuple[str, ...]]) -> bool:
    """Is it a column, and not a part of one that is nested?"""
    return not any(name.startswith((f"{row[0]}.", f"{row[0]}[")) for row in described)


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def completions(before: str, after: str, words: Vocabulary) -> list[Choice]:
    """The ways to go on at a cursor, given the text before and after it."""
    found: dict[str, Choice] = {}
    for one in _choices(before, after, words):
        found.setdefault(one.text.lower(), one)
    return list(found.values())[:MOST]


def _choices(before: str, after: str, words: Vocabulary) -> Iterator[Choice]:
    if before.lstrip().startswith("\\"):
        yield from _command_choices(before.lstrip(), after, words)
        return
    if (value := _VALUE.search(before)) is not None:
        end = "" if after.startswith("'") else "'"
        for text in words.values.get(value[1].lower(), ()):
            if text.lower().startswith(value[2].lower()):
                yield Choice(text.replace("'", "''") + end, len(value[2]), f"value of {value[1]}")
        return
    if before.count("'") % 2:
        return  # in a text that nothing is known of
    word = _last_word(before)
    head = before[: len(before) - len(word)]
    if (dotted := re.search(r"(\w+)\.$", head)) is not None:
        table = _aliases(before + after, words).get(dotted[1].lower())
        yield from _matching(word, words.columns.get(table or "", {}))
        return
    if _TABLES_FOLLOW.search(head):
        yield from _matching(word, words.tables)
        return
    if not word:
        return
    here = set(_aliases(before + after, words).values()) or set(words.columns)
    for table in sorted(here):
        yield from _matching(word, words.columns[table])
    yield from _matching(word, words.tables)
    yield from _spelt(word, {f"{name}(": about for name, about in words.functions.items()})
    yield from _spelt(word, dict.fromkeys(WORDS, ""))


def _command_choices(text: str, after: str, words: Vocabulary) -> Iterator[Choice]:
    name, space, rest = text[1:].partition(" ")
    if not space:
        known = {one.name: one.about for one in COMMANDS.values()} | {
            n: f.metadata["help"] for n, f in SETTINGS.items()
        }
        yield from (Choice(n, len(name), about) for n, about in {**known, "q": "leave"}.items() if n.startswith(name))
    elif name == "d" and " " not in rest.strip():
        yield from _matching(rest, words.tables)
    elif name == "mechanism":
        yield from (Choice(one, len(rest)) for one in ASKED_FOR if one.startswith(rest))
    elif name in ("d", "explain", "price", "g"):
        yield from _choices(rest, after, words)


def _last_word(text: str) -> str:
    found = re.search(r"\w+$", text)
    return found[0] if found else ""


def _matching(word: str, names: Mapping[str, str]) -> Iterator[Choice]:
    for name, about in names.items():
        if name.lower().startswith(word.lower()):
            yield Choice(quoted(name), len(word), about)


def _spelt(word: str, names: Mapping[str, str]) -> Iterator[Choice]:
    """Words of SQL, in the case in which this one was begun."""
    for name, about in names.items():
        if name.lower().startswith(word.lower()):
            yield Choice(name.lower() if word.islower() else name.upper(), len(word), about)


def _aliases(text: str, words: Vocabulary) -> dict[str, str]:
    """The tables of a statement, by their names and aliases, in lower case."""
    found = {}
    for match in _SOURCES.finditer(text):
        name, alias = (match[1] or match[3]).strip('"').lower(), (match[2] or match[4] or "").lower()
        if name in words.columns:
            found[name] = name
            if alias and alias.upper() not in _NOT_ALIASES:
                found[alias] = name
    return found


_NOT_ALIASES = {word for phrase in WORDS for word in phrase.split()}
