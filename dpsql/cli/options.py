"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.cli.stop import careful, watch
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.options import Request

if TYPE_CHECKING:
    from dpsql.session import Session

F = TypeVar("F", bound=Callable[..., Any])

_LIMIT = click.IntRange(min=1)


def policy_option(command: F) -> F:
    """--policy PATH, or DPSQL_POLICY, or policy.toml in the working folder."""
    return click.option(
        "--policy",
        metavar="PATH",
        envvar="DPSQL_POLICY",
        default="policy.toml",
        show_default=True,
        show_envvar=True,
        help="The policy file.",
    )(command)


def steward_option(command: F) -> F:
    """--steward: the caller may read rows."""
    return click.option(
        "--steward", is_flag=True, help="I am the data's steward: this reads rows, and its output is not private."
    )(command)


def strict_option(command: F) -> F:
    """--strict-engine, which stands for [engine] untested = "refuse" in the policy."""
    return click.option(
        "--strict-engine", "strict", is_flag=True, help="Refuse a DuckDB that dpsql was not tested with."
    )(command)


@contextmanager
def opened(policy: str, analyst: str | None = None, *, strict: bool = False) -> Iterator[Session]:
    """A session, whose spend is told if the command is stopped."""
    from dpsql.session import connect

    careful()
    with connect(policy, analyst=analyst, strict_engine=strict) as session:
        watch(session)
        yield session


def _flag(field: Field[Any]) -> Any:
    """The flag of one thing that a query may ask for. ε and δ stay text, so that 0.1 is one tenth exactly."""
    name, told = f"--{field.name.replace('_', '-')}", {"help": field.metadata["help"]}
    if field.default is False:
        return click.option(name, is_flag=True, **told)
    if field.name == "mechanism":
        return click.option(name, type=click.Choice(ASKED_FOR), **told)
    kinds = {"int | None": _LIMIT, "float | None": float}
    return click.option(name, type=kinds.get(str(field.type)), metavar=field.metadata["metavar"], **told)


_ANALYST = click.option("--analyst", metavar="NAME", help="Who asks; the policy may set quotas: [budget.analysts].")


def query_options(command: F) -> F:
    """The SQL, and everything that a query may ask for besides."""
    for option in (_ANALYST, *map(_flag, reversed(fields(Request)))):
        command = option(command)
    command = click.option("-f", "--file", metavar="FILE", help="Read the SQL from a file; - is standard input.")(
        command
    )
    return click.argument("sql", required=False)(command)


def read_sql(sql: str | None, file: str | None) -> str:
    """The SQL from the argument or the file, exactly one of them."""
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
    """The options that were given; what this version lacks is the session's to refuse."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
