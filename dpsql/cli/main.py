"""The `dpsql` command: the group, exit codes, and how errors are shown.

0 answered · 2 usage · 3 refused · 4 budget · 5 policy or ledger · 6 data · 1 a bug in dpsql
(and, as for every Unix tool, 130 after Ctrl-C, 143 after SIGTERM and 141 when the reader of a pipe went away)

An error is shown to people like a compiler's, to programs as one line of JSON on standard error.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NoReturn

import click

from dpsql import __version__
from dpsql.cli.budget import budget
from dpsql.cli.demo import demo
from dpsql.cli.explain import explain, functions, price
from dpsql.cli.policy import check, init
from dpsql.cli.query import query
from dpsql.cli.receipts import key, verify
from dpsql.cli.refresh import index, learn, refresh
from dpsql.cli.run import run
from dpsql.cli.serve import serve, token
from dpsql.cli.shell.shell import shell
from dpsql.cli.stop import begin, ignore, install, received, stopped
from dpsql.core.errors import Error
from dpsql.core.extras import blamed

BROKEN_PIPE = 141


class Commands(click.Group):
    """A group that turns every exception into a message and an exit code."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        settle(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        begin()
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except Error as error:
            show_error(error, ctx)
            code = error.exit_code
        except click.ClickException as error:
            if not is_json(ctx):
                raise
            show_usage(error)
            code = error.exit_code
        except (click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            code = stopped()
        except BrokenPipeError:
            # Whatever is still buffered goes nowhere, quietly.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = BROKEN_PIPE
        except Exception as bug:
            if received():  # an import that was cut off fails in a way of its own
                code = stopped()
            elif (refusal := blamed()) is not None:
                show_error(refusal, ctx)
                code = refusal.exit_code
            else:
                (show_bug_as_json if is_json(ctx) else show_bug)(bug)
                code = 1
        raise click.exceptions.Exit(code)


def show_bug(bug: Exception) -> None:
    """The exception's type alone: the text of a foreign exception may quote a row."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} this is a bug in dpsql ({type(bug).__name__})", err=True)
    if os.environ.get("DPSQL_DEBUG"):
        # Places in the code only. No locals, no message, no chained exceptions: those may hold private values.
        click.echo("".join(traceback.format_list(traceback.extract_tb(bug.__traceback__))), err=True, nl=False)
    else:
        click.echo("help: DPSQL_DEBUG=1 shows where; a query that was already paid for stays charged", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dpsql", message="%(prog)s %(version)s")
def cli() -> None:
    """Differentially private SQL over parquet, CSV and DuckDB files.

    A policy (policy.toml) says who is protected and what may be spent: `dpsql init DATA` drafts one. Then try
    `dpsql check`, `dpsql explain "SELECT …"`, which is free, then `dpsql query "SELECT …"`.
    """


COMMANDS = (
    demo, init, query, run, shell, explain, price, check, refresh, index, learn, budget, functions, verify, key, serve,
    token,
)  # fmt: skip
for _command in COMMANDS:
    cli.add_command(_command)


def _later(name: str, instead: str) -> None:
    """Register a command that only a later version has: it is refused clearly, with whatever arguments."""

    @cli.command(name, hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def refuse() -> None:
        raise click.UsageError(f"dpsql {name} is not in this version; {instead}")


_later("audit", "dpsql explain shows what bounds a query's sensitivity")


class _WithoutPandas:
    """pyarrow imports pandas, where it is installed, to ask whether a list is a Series: half a second for nothing.

    The client of Spark Connect can't do without it.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("the command line does without pandas", name=name)


def _leave(code: int) -> NoReturn:
    """End the process. Everything is closed and on disk by now; to take the engines apart as well would be slow."""
    ignore()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader that has gone away
            stream.flush()
    os._exit(code)


def main() -> None:
    """The console script, once it is imported."""
    install()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an answer that was paid for must not fail on a character
            stream.reconfigure(errors="replace")
    sys.meta_path.insert(0, _WithoutPandas())
    gc.set_threshold(100_000)  # imports make many objects that stay: looking through them again and again is slow
    code: object = 0
    try:
        cli(prog_name="dpsql")
    except SystemExit as leaving:
        code = leaving.code
    except KeyboardInterrupt:
        code = stopped()
    _leave(code if isinstance(code, int) else int(bool(code)))


if __name__ == "__main__":
    main()


_JSON = "dpsql.errors_as_json"


def settle(ctx: click.Context, arguments: Sequence[str]) -> None:
    """Note whether errors are to be JSON: --format json, or DPSQL_FORMAT=json where the command line names no other;
    and `dpsql run --json`.

    The arguments are looked at as they are: they may be what is wrong.
    """
    named = [one.partition("=")[2] for one in arguments if one.startswith("--format=")]
    named += [value for flag, value in pairwise(arguments) if flag == "--format"]
    told = (named[-1] if named else os.environ.get("DPSQL_FORMAT")) == "json"
    ctx.meta[_JSON] = told or (list(arguments[:1]) == ["run"] and "--json" in arguments)


def as_json_from_now_on(ctx: click.Context) -> None:
    """Show errors as JSON."""
    ctx.meta[_JSON] = True


def is_json(ctx: click.Context) -> bool:
    """Are errors to be JSON?"""
    return bool(ctx.meta.get(_JSON))


def show_error(error: Error, ctx: click.Context | None = None) -> None:
    """An error as it prints itself, its first word in red on a terminal; or as JSON, where the context says so."""
    if ctx is not None and is_json(ctx):
        _line(type(error).__name__, error.code, error.message, error.hint, _span(error))
        return
    text = str(error)
    head, found, rest = text.partition("error:")
    styled = click.style("error:", fg="red", bold=True) + rest if found and not head else text
    click.echo(styled, err=True)


def show_usage(error: click.ClickException) -> None:
    """A mistake on the command line as JSON."""
    _line("UsageError", "usage", error.format_message(), None, None)


def show_bug_as_json(bug: Exception) -> None:
    """A bug as JSON: its type alone, since the text of a foreign exception may quote a row."""
    _line("Bug", "bug", f"this is a bug in dpsql ({type(bug).__name__})", "DPSQL_DEBUG=1 shows where", None)


def _span(error: Error) -> dict[str, int] | None:
    found = error.span
    return None if found is None else {"line": found.line, "column": found.column, "length": found.length}


def _line(kind: str, code: str, message: str, hint: str | None, span: dict[str, int] | None) -> None:
    told: dict[str, Any] = {"kind": kind, "code": code, "message": message, "hint": hint, "span": span}
    click.echo(json.dumps(told, ensure_ascii=True), err=True)
