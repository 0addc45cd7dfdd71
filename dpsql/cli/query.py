"""dpsql query: answer a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import given, opened, policy_option, query_options, read_sql, strict_option
from dpsql.cli.output import FORMATS, choose

if TYPE_CHECKING:
    from dpsql.accounting.account import Balance
    from dpsql.answer.model import Answer


@click.command()
@query_options
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: table on a terminal, else csv.")
@click.option("-o", "--output", metavar="FILE", help="Write to a file: .csv, .json, .parquet or .arrow.")
@click.option("--intervals", is_flag=True, help="Simulate error bars also where that takes long (up to a minute).")
@strict_option
@policy_option
def query(
    sql: str | None,
    file: str | None,
    policy: str,
    format_: str | None,
    output: str | None,
    analyst: str | None,
    intervals: bool,
    strict: bool,
    **options: Any,
) -> None:
    """Answer a query: dpsql query "SELECT …".

    The answer goes to standard output, everything else to standard error. What it costs is recorded before any row
    is read and is never refunded. A file with several statements is one batch: one price, what they share is
    measured once, and all of them are answered or none is.
    """
    text = read_sql(sql, file)
    # Everything that could go wrong with the output goes wrong now, before anything is paid.
    with choose(output, format_) as target:
        from dpsql.answer.render import cut_lines, range_lines
        from dpsql.sql.statements import statements

        several = len(statements(text)) if file is not None else 1
        target.takes(several)
        with opened(policy, analyst, strict=strict) as session:
            run = session.batch if several > 1 else session.query
            found = run(text, **given(options))
            answers = found if isinstance(found, list) else [found]
            answers = [answer.simulated() for answer in answers] if intervals else answers
            target.write(*answers)
            for line in dict.fromkeys(line for answer in answers for line in (*answer.notes, *range_lines(answer))):
                click.echo(line, err=True)
            for line in cut_lines(answers[0]):
                click.echo(line, err=True)
            if untested := answers[0].receipt.untested:
                click.echo(f"measured by {untested}, which dpsql was not tested with", err=True)
            click.echo(_receipt(answers[0], session.budget), err=True)


def _receipt(answer: Answer, balance: Balance) -> str:
    from dpsql.answer.render import guarantee

    cost = f"cost {guarantee(answer.cost, up=True)}"
    if answer.receipt.reused:
        cost = f"cost nothing: the stored release {answer.receipt.id[:8]} answers it (--fresh pays for new noise)"
    return f"{cost} · left {guarantee(balance.remaining, up=False)} of {guarantee(balance.total, up=False)}"
