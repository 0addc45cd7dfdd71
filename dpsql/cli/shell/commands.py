r"""The shell's own commands, \d and the others. They cost nothing, but for \g: that asks the last statement again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.shell.shell import LEAVE
from dpsql.core.errors import PrivacyError, SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.core.limit import AUTO
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.options import Request
from dpsql.policy.reader import parse_delta, parse_epsilon

if TYPE_CHECKING:
    from dpsql.cli.shell.shell import Shell

OFF = "off"


@dataclass(frozen=True, slots=True)
class Command:
    r"""One command: its name without the \, what may follow it, what it does in words, and the doing."""

    name: str
    takes: str
    about: str
    do: Callable[[Shell, str], None]


def run(shell: Shell, text: str) -> bool:
    r"""Do what a line like \d people says. False: it was \q."""
    word, _, rest = text[1:].partition(" ")
    name, rest = word.lower(), rest.strip().rstrip(";").strip()
    if name in LEAVE:
        return False
    if name in SETTINGS:
        _set(shell, name, rest)
    elif name in COMMANDS:
        COMMANDS[name].do(shell, rest)
    else:
        close = nearest(name, (*COMMANDS, *SETTINGS), cutoff=0.5)
        hint = f"did you mean \\{close}? " if close else ""
        raise SQLError(f"there is no command \\{word}", code="unknown-command", hint=f"{hint}\\help lists them")
    return True


# ---------------------------------------------------------------- what is there, and what it costs


def _describe(shell: Shell, rest: str) -> None:
    shell.show(shell.session.query(f"DESCRIBE {rest}" if rest else "SHOW TABLES", **shell.settings))


def _explain(shell: Shell, rest: str) -> None:
    quote = shell.explained(_statement(shell, rest, "explain"))
    if quote is not None:
        click.echo(str(quote))


def _price(shell: Shell, rest: str) -> None:
    shell.prices(_statement(shell, rest, "price"))


def _again(shell: Shell, rest: str) -> None:
    shell.ask(_statement(shell, rest, "g"))


def _statement(shell: Shell, rest: str, name: str) -> str:
    """The SQL that follows a command, else the last statement."""
    if rest:
        shell.last = rest
    if shell.last is None:
        raise SQLError(
            f"\\{name} is about the last statement, and there is none yet",
            code="no-statement",
            hint=f"write \\{name} SELECT …",
        )
    return shell.last


def _budget(shell: Shell, rest: str) -> None:
    from dpsql.cli.budget import lines
    from dpsql.cli.output import fitted

    accountant = shell.session.policy.budget.accountant
    for line in lines(shell.session.account, accountant, history=rest.lower() == "history"):
        click.echo(fitted(line))


def _plot(shell: Shell, rest: str) -> None:
    if shell.answer is None:
        raise SQLError("there is no answer to plot yet", code="no-statement", hint="ask a query first")
    from dpsql.cli.output import chart

    click.echo(chart(shell.answer), nl=False)  # as --plot draws it


def _help(shell: Shell, rest: str) -> None:
    rows = [(f"\\{one.name} {one.takes}", one.about) for one in COMMANDS.values()]
    rows.append(("\\q", "leave; so does Ctrl-D"))
    rows += [(f"\\{f.name} {_metavar(f)}", f.metadata["help"]) for f in SETTINGS.values()]
    widest = max(len(form) for form, _ in rows)
    room = max(get_terminal_size().columns - widest - 4, 30)
    click.echo("A statement ends with ; or an empty line. Its price comes before it is paid.")
    click.echo("Commands are one line each; without SQL they are about the last statement:")
    for form, about in rows:
        if form.startswith("\\epsilon"):
            click.echo("\nFor all queries from now on, until \\NAME off; \\set shows what is set:")
        for i, line in enumerate(wrap(about, room)):
            click.echo(f"  {'' if i else form:<{widest}}  {line}")


def _metavar(field: Any) -> str:
    return "on" if field.default is False else str(field.metadata["metavar"] or "NAME")


def _settings(shell: Shell, rest: str) -> None:
    if rest:
        name, _, value = rest.partition(" ")
        if name not in SETTINGS:
            raise _unknown_setting(name)
        _set(shell, name, value.strip().removeprefix("=").strip())
        return
    for name, value in shell.settings.items():
        click.echo(f"\\{name} {value}")
    if "epsilon" not in shell.settings and "accuracy" not in shell.settings:
        own = shell.session.policy.budget.query_epsilon
        click.echo("ε: none is set" + (f", so the policy's query_epsilon = {float(own):g} counts" if own else ""))


def _unknown_setting(name: str) -> SQLError:
    close = nearest(name, tuple(SETTINGS))
    hint = f"did you mean {close}?" if close else f"there are {', '.join(SETTINGS)}"
    return SQLError(f"{name} is nothing that a query may ask for", code="unknown-command", hint=hint)


COMMANDS = {
    one.name: one
    for one in (
        Command("d", "[TABLE | SELECT …]", "tables; of a table or a query, its columns", _describe),
        Command("explain", "[SELECT …]", "everything about its price and noise", _explain),
        Command("price", "[SELECT …]", "what accuracy costs", _price),
        Command("g", "", "ask the last statement again", _again),
        Command("plot", "", "draw the last answer", _plot),
        Command("budget", "[history]", "what was spent and what is left", _budget),
        Command("set", "[NAME VALUE]", "what is set for queries", _settings),
        Command("help", "", "this list", _help),
    )
}


# ---------------------------------------------------------------- what queries ask for besides their SQL

SETTINGS = {field.name: field for field in fields(Request) if field.name != "params"}
_EITHER = {"epsilon": "accuracy", "accuracy": "epsilon"}  # two ways to say the same


def _set(shell: Shell, name: str, text: str) -> None:
    if text:
        value = None if text.lower() == OFF else _value(name, text)
        if value is None:
            shell.settings.pop(name, None)
        else:
            shell.settings[name] = value
            shell.settings.pop(_EITHER.get(name, ""), None)
    said = f"is {shell.settings[name]}" if name in shell.settings else "is not set"
    click.echo(f"{name} {said}", err=shell.confirm is None)  # a pipe gets what was asked for alone


def _value(name: str, text: str) -> Any:
    """A setting as `Session.query` takes it; ε and δ stay text, so that 0.1 is one tenth exactly."""
    field = SETTINGS[name]
    plain = text.strip("'\"")
    if field.default is False:
        if plain.lower() not in ("on", "true"):
            raise _unfit(name, "on or off")
        return True
    if name == "mechanism" and plain not in ASKED_FOR:
        raise _unfit(name, f"one of {', '.join(ASKED_FOR)}")
    if str(field.type) == "Limit | None" and plain != AUTO:
        if not plain.isdecimal() or int(plain) < 1:
            raise _unfit(name, "a whole number from 1 on, or auto")
        return int(plain)
    if name in _CHECKS:
        _CHECKS[name](plain)
    if str(field.type) == "float | None":
        try:
            return float(plain)
        except ValueError:
            raise _unfit(name, "a number") from None
    return plain


def _check_accuracy(text: str) -> None:
    from dpsql.quote.goal import Goal

    Goal.parse(text, None)


_CHECKS: dict[str, Callable[[str], object]] = {
    "epsilon": partial(parse_epsilon, where="epsilon", error=PrivacyError),
    "delta": partial(parse_delta, where="delta", error=PrivacyError),
    "accuracy": _check_accuracy,
}


def _unfit(name: str, what: str) -> SQLError:
    return SQLError(f"\\{name} takes {what}", code="wrong-arguments", hint=f"\\{name} {OFF} takes it back")
