"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.cli.stop import careful, watch
from dpsql.mechanisms.registry import ASKED_FOR

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
    """--strict-engine: what the policy may ask for, too."""
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


# The names are those of dpsql.options.Options. ε and δ stay text, so that 0.1 is one tenth exactly.
_QUERY: tuple[Any, ...] = (
    click.option("--epsilon", metavar="E", help="What the whole query costs (default: the policy's query_epsilon)."),
    click.option("--delta", metavar="D", help="δ of the query."),
    click.option("--max-rows", type=_LIMIT, metavar="N", help="One unit counts for at most N rows."),
    click.option("--max-rows-per-group", type=_LIMIT, metavar="N", help="… and for at most N in one group."),
    click.option("--max-groups", type=_LIMIT, metavar="N", help="… and shows up in at most N groups."),
    click.option("--mechanism", type=click.Choice(ASKED_FOR), help="The kind of noise."),
    click.option("--fresh", is_flag=True, help="Pay for new noise where a stored answer would do."),
    click.option("--clipping", is_flag=True, help="Spend a twentieth of ε to estimate what limits and ranges cut."),
    click.option("--accuracy", metavar="A", help='Spend what this error needs: 100, or "1% of range".'),
    click.option("--confidence", type=float, metavar="C", help="… with this confidence (default 0.95)."),
    click.option("--analyst", metavar="NAME", help="Who asks; the policy may set quotas: [budget.analysts]."),
)


def query_options(command: F) -> F:
    """The SQL, and everything that a query may ask for besides."""
    for option in reversed(_QUERY):
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
