"""Options that several commands share, and what a value after --param name= means."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import Field, fields
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from dpsql.cli.output import progress
from dpsql.cli.stop import careful, watch
from dpsql.core.limit import AUTO
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.options import REMOVED, Request

if TYPE_CHECKING:
    from dpsql.session import Session


_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+")
_FLOAT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?[eE][-+]?[0-9]{1,3}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[-+][0-9]{2}:[0-9]{2})?"
)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
_PIECE = re.compile(r"\s*('(?:[^']|'')*'|[^,']*?)\s*(?:,|$)")


if TYPE_CHECKING:
    AnyType = click.ParamType[Any]
else:
    AnyType = click.ParamType  # before click 8.4 it takes no type


class Params(AnyType):
    """name=value; in the environment one to a line."""

    name = "name=value"
    envvar_list_splitter = "\n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)


def given_texts(given: Sequence[str]) -> dict[str, str]:
    """The values that were given by name, as their texts: whoever declared them knows their types."""
    found: dict[str, str] = {}
    for text in (one for one in given if one.strip()):
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {text}: write --param name=value")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice")
        found[name] = value
    return found


def read_params(given: Sequence[str]) -> Any:
    """The parameters that were given, by name, or by place where their names are 1, 2, 3 …; None for none."""
    found: dict[str, Any] = {}
    for text in (one for one in given if one.strip()):
        name, equals, value = text.partition("=")
        if not equals or not (name.isidentifier() or name.isdigit()):
            raise click.UsageError(f"--param {text}: write --param name=value, or --param 1=value for ? and $1")
        if name in found:
            raise click.UsageError(f"--param {name} is given twice")
        found[name] = _value(value, name)
    if found and all(name.isdigit() for name in found):
        places = sorted(found, key=int)
        if places != [str(i) for i in range(1, len(found) + 1)]:
            raise click.UsageError("--param 1=…, --param 2=… and so on: none may be left out")
        return [found[place] for place in places]
    return found or None


def _value(text: str, name: str) -> Any:
    """A number, date, moment, true, false, null or a [list] of them; all else, and what is in quotes, is text."""
    if text.startswith("[") and text.endswith("]"):
        return [_one(piece) for piece in _pieces(text[1:-1], name)]
    return _one(text)


def _pieces(text: str, name: str) -> list[str]:
    pieces, place = [], 0
    while place < len(text):
        found = _PIECE.match(text, place)
        if found is None or found.end() == place:
            raise click.UsageError(f"--param {name}: write a list as [a, b], and texts with commas in single quotes")
        pieces.append(found[1])
        place = found.end()
    return pieces


def _one(text: str) -> Any:
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        return text[1:-1].replace("''", "'")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text) and len(text) < 100:
        return int(text)
    if _DECIMAL.fullmatch(text):
        return Decimal(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if _MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        return text
    return text


F = TypeVar("F", bound=Callable[..., Any])


class _Limit(AnyType):
    """A whole number, or "auto"."""

    name = "limit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == AUTO else click.IntRange(min=1).convert(value, param, ctx)


def by_environment(name: str) -> dict[str, Any]:
    """The keywords by which an option may also come from the environment, as DPSQL_NAME; its help says so."""
    return {"envvar": f"DPSQL_{name.upper()}", "show_envvar": True}


def policy_option(command: F) -> F:
    """--policy PATH, or DPSQL_POLICY, or policy.toml in the working folder."""
    return click.option(
        "--policy",
        metavar="PATH",
        default="policy.toml",
        show_default=True,
        help="The policy file.",
        **by_environment("policy"),
    )(command)


def steward_option(command: F) -> F:
    """--steward: the caller may read rows."""
    return click.option(
        "--steward", is_flag=True, help="I am the data's steward: this reads rows, and its output is not private."
    )(command)


def strict_option(command: F) -> F:
    """--strict-engine, which stands for [engine] untested = "refuse" in the policy."""
    return click.option(
        "--strict-engine",
        "strict",
        is_flag=True,
        help="Refuse a DuckDB that dpsql was not tested with.",
        **by_environment("strict_engine"),
    )(command)


def intervals_option(command: F) -> F:
    """--intervals: the ends of error bars, for programs too."""
    return click.option(
        "--intervals",
        is_flag=True,
        help="Low and high columns in CSV, parquet and Arrow, empty where an end isn't known; error bars also where "
        "that takes up to a minute.",
        **by_environment("intervals"),
    )(command)


def receipt_option(command: F) -> F:
    """--receipt: a signed receipt beside the file."""
    return click.option(
        "--receipt",
        is_flag=True,
        help="With -o: also a signed FILE.receipt.json, which `dpsql verify` checks.",
        **by_environment("receipt"),
    )(command)


def server_option(command: F) -> F:
    """--server URL: ask a server in the place of files."""
    told = "Ask a server: its address; DPSQL_TOKEN holds the token."
    return click.option("--server", metavar="URL", help=told, **by_environment("server"))(command)


@contextmanager
def opened(
    policy: str, analyst: str | None = None, *, strict: bool = False, server: str | None = None, quiet: bool = False
) -> Iterator[Session]:
    """A session, on files or on a server, whose spend is told if the command is stopped.

    quiet: without a sign of life on a terminal, where data are opened for the first time.
    """
    from dpsql.remote import connect

    careful()
    token = os.environ.get("DPSQL_TOKEN") if server else None
    with ExitStack() as stack:
        with progress(quiet):
            session = stack.enter_context(connect(server or policy, analyst=analyst, strict_engine=strict, token=token))
        watch(session)
        yield session


def _flag(field: Field[Any]) -> Any:
    """The flag of one thing that a query may ask for. ε and δ stay text, so that 0.1 is one tenth exactly."""
    name = f"--{field.name.replace('_', '-')}"
    told: dict[str, Any] = {"help": field.metadata["help"]}
    if field.name == "params":
        told |= {"metavar": field.metadata["metavar"], "type": Params(), **by_environment("param")}
        return click.option("--param", "params", multiple=True, callback=lambda _, __, got: read_params(got), **told)
    told |= by_environment(field.name)
    if field.default is False:
        return click.option(name, is_flag=True, **told)
    if field.name == "mechanism":
        return click.option(name, type=click.Choice(ASKED_FOR), **told)
    kinds: dict[str, Any] = {"Limit | None": _Limit(), "float | None": float}
    return click.option(name, type=kinds.get(str(field.type)), metavar=field.metadata["metavar"], **told)


def analyst_option(command: F) -> F:
    """--analyst: who asks."""
    told = "Who asks; the policy may set quotas: [budget.analysts]."
    return click.option("--analyst", metavar="NAME", help=told, **by_environment("analyst"))(command)


def request_options(command: F, *, but: Collection[str] = ()) -> F:
    """Everything that a query may ask for besides its SQL; but: what is left out."""
    gone = [click.option(f"--{name}", is_flag=True, hidden=True) for name in REMOVED]  # the session says what instead
    fitting = [_flag(field) for field in reversed(fields(Request)) if field.name not in but]
    for option in (*gone, analyst_option, *fitting):
        command = option(command)
    return command


def query_options(command: F) -> F:
    """The SQL, and everything that a query may ask for besides."""
    command = request_options(command)
    told = "Read the SQL from a file; - is standard input."
    command = click.option("-f", "--file", metavar="FILE", help=told, **by_environment("file"))(command)
    return click.argument("sql", required=False)(command)


def read_sql(sql: str | None, file: str | None) -> str:
    """The SQL from the argument or the file, exactly one of them; an argument stands for a file of the environment."""
    if sql is not None and _source("file") is ParameterSource.ENVIRONMENT:
        file = None
    if (sql is None) == (file is None):
        raise click.UsageError("give the SQL either as an argument, in quotes, or with -f FILE")
    if sql is not None:
        return sql
    assert file is not None
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"-f {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"-f {file}: is not UTF-8 text") from None


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; what this version lacks is the session's to refuse.

    ε and an accuracy exclude each other: one on the command line stands for the other in the environment.
    """
    found = {name: value for name, value in options.items() if value is not None and value is not False}
    for one, others in (("epsilon", ("accuracy", "confidence")), ("accuracy", ("epsilon",))):
        for other in others if _source(one) is ParameterSource.COMMANDLINE else ():
            if _source(other) is ParameterSource.ENVIRONMENT:
                found.pop(other, None)
    return found


def _source(name: str) -> ParameterSource | None:
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.get_parameter_source(name)
