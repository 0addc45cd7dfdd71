"""dpsql shell: ask one statement after the other."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import click

from dpsql.cli.options import given, opened, policy_option, request_options, strict_option
from dpsql.cli.output import choose

FORMATS = ("table", "csv", "json")  # which hold one answer after the other


@click.command()
@partial(request_options, but=("params",))  # each statement would need all of them
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: table on a terminal, else csv.")
@strict_option
@policy_option
def shell(policy: str, format_: str | None, analyst: str | None, strict: bool, **options: Any) -> None:
    """Ask one statement after the other, and see the price of each before it is paid.

    At a terminal statements end with ; or an empty line, Tab completes, and nothing is spent before you press y. From
    a pipe (dpsql shell < questions.sql) nobody can be asked: every query must name its ε, by --epsilon or --accuracy,
    by a line like \\epsilon 0.5, or in its SQL. The first error ends it then. \\help lists the commands.
    """
    from dpsql.cli.shell.loop import Shell

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if terminal:
        from dpsql.cli.shell.terminal import require

        require()  # before anything is opened
    with choose(None, format_) as target, opened(policy, analyst, strict=strict) as session:
        one = Shell(session, target, given(options))
        if terminal:
            from dpsql.cli.shell.terminal import converse

            converse(one)
        else:
            if sys.stdin.isatty():
                click.echo("statements are read without prompts, as no terminal shows the answers", err=True)
            from dpsql.cli.shell.piped import read

            read(one, sys.stdin.buffer)
