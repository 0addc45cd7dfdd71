"""The shell at a terminal: editing, history, completion, and one key to go on (prompt_toolkit, extra `shell`)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql import __version__
from dpsql.cli.shell.reading import is_whole
from dpsql.cli.stop import go_on, received, watch
from dpsql.core.errors import Error, ExtraError
from dpsql.core.extras import extra

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from dpsql.cli.shell.loop import Shell

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
    from dpsql.cli.errors import show_error
    from dpsql.cli.main import show_bug

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

    from dpsql.cli.shell.complete import Vocabulary, completions

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
