"""The shell at a terminal: editing, history, and one key to go on (prompt_toolkit, extra `shell`).

Completed are tables, columns and public values of the policy, functions, words and commands.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql import __version__
from dpsql.cli.shell.commands import COMMANDS, SETTINGS
from dpsql.cli.shell.shell import is_whole
from dpsql.cli.stop import go_on, received, watch
from dpsql.core.errors import Error, ExtraError
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.registry import ASKED_FOR

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from dpsql.cli.shell.shell import Shell
    from dpsql.session import Session


PROMPT, CONTINUED = "dpsql> ", "   ...> "


def require() -> None:
    """Refuse to begin where prompt_toolkit isn't installed."""
    try:
        extra("prompt_toolkit", "shell", "the shell at a terminal")
    except ExtraError as error:
        error.hint = f"{error.hint}\nor, without it: dpsql shell --epsilon 0.5 < file.sql"
        raise


def converse(shell: Shell) -> None:
    """Read statements and commands and do them, until \\q or Ctrl-D. Ctrl-C ends what is being typed, or runs."""
    from dpsql.answer.render import guarantee
    from dpsql.cli.main import show_bug, show_error

    shell.confirm = _key
    prompt = _prompt(shell)
    balance = shell.session.budget
    left = f"{guarantee(balance.remaining, up=False)} of {guarantee(balance.total, up=False)}"
    click.echo(f"dpsql {__version__} · left {left} · \\d: what there is · \\help · \\q")
    while True:
        watch(shell.session)  # what was answered isn't what a signal stops
        try:
            text = prompt.prompt(PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            if received():  # a signal; else it was the key, while a line was typed
                raise
            continue
        try:
            if not shell.do(text):
                return
        except Error as error:
            show_error(error)
        except KeyboardInterrupt:
            go_on(shell.session)
        except click.ClickException as error:
            error.show()
        except Exception as bug:
            show_bug(bug)


def _prompt(shell: Shell) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    words = Vocabulary.of(shell.session)

    class Words(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Any:
            before, after = document.text_before_cursor, document.text_after_cursor
            for one in completions(before, after, words):
                yield Completion(one.text, start_position=-one.replaces, display_meta=one.about)

    return PromptSession(
        history=_history(),
        completer=Words(),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=_bindings(),
        prompt_continuation=CONTINUED,
        bottom_toolbar=lambda: _toolbar(shell),
        reserve_space_for_menu=6,
    )


def _bindings() -> KeyBindings:
    """Enter ends a statement that is whole, and one whose last line is empty; else it begins a line."""
    from prompt_toolkit.application import get_app
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @Condition
    def choosing() -> bool:
        state = get_app().current_buffer.complete_state
        return state is not None and state.current_completion is not None

    @bindings.add("enter", filter=~choosing)
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text, at_end = buffer.text, not buffer.document.text_after_cursor.strip()
        if at_end and (is_whole(text) or not text.strip().strip(";") or text.endswith("\n")):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    @bindings.add("enter", filter=choosing)
    def _chosen(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return bindings


def _toolbar(shell: Shell) -> str:
    """What is left, and what a query costs when it names nothing."""
    from dpsql.answer.render import guarantee

    own = shell.session.policy.budget.query_epsilon
    if "accuracy" in shell.settings:
        asks = f"accuracy {shell.settings['accuracy']}"
    elif "epsilon" in shell.settings or own is not None:
        asks = f"ε = {shell.settings.get('epsilon') or f'{float(own or 0):g}'} a query"
    else:
        asks = "no ε is set: \\epsilon 0.1"
    return f" left {guarantee(shell.session.budget.remaining, up=False)} · {asks} · a statement ends with ; "


def _history() -> History:
    """Of statements, in the user's own folder; DPSQL_HISTORY names another file, or none if it is empty."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    named = os.environ.get("DPSQL_HISTORY")
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    path = Path(state) / "dpsql" / "history" if named is None else Path(named)
    if named == "":
        return InMemoryHistory()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return FileHistory(str(path))
    except OSError:
        return InMemoryHistory()


def _key(question: str) -> str:
    """The one key that answers a question. Keys that were pressed before it was asked don't count."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input.typeahead import clear_typeahead
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.keys import Keys

    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    @bindings.add("enter")
    @bindings.add("escape", eager=True)
    @bindings.add("c-c")
    @bindings.add("c-d")
    def _pressed(event: KeyPressEvent) -> None:
        event.app.exit(result=event.data.lower() if len(event.data) == 1 else "")

    @bindings.add(Keys.BracketedPaste)
    def _pasted(event: KeyPressEvent) -> None:
        event.app.exit(result="")  # nobody pressed it

    prompt: PromptSession[str] = PromptSession(key_bindings=bindings)
    clear_typeahead(prompt.app.input)
    _forget_keys()
    return prompt.prompt(question)


def _forget_keys() -> None:
    with suppress(Exception):  # no such terminal: then there is nothing to forget
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


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
