"""How an error is shown: to people like a compiler's, to programs as one line of JSON on standard error."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from dpsql.core.errors import Error

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
