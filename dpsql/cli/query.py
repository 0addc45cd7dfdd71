"""dpsql query: answer a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import (
    by_environment,
    given,
    intervals_option,
    opened,
    policy_option,
    query_options,
    read_sql,
    receipt_option,
    server_option,
    strict_option,
)
from dpsql.cli.output import FORMATS, choose, progress, remark
from dpsql.core.errors import Error, SQLError

if TYPE_CHECKING:
    from dpsql.accounting.account import Balance
    from dpsql.answer.model import Answer
    from dpsql.session import Session


@click.command()
@query_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="Default: table on a terminal, else csv. With json errors are JSON, too.",
    **by_environment("format"),
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to a file: .csv, .json, .parquet, .arrow, or a chart: .png, .svg, .html.",
    **by_environment("output"),
)
@click.option("--plot", is_flag=True, help="Draw a chart with error bars in the terminal.", **by_environment("plot"))
@click.option("--wide", is_flag=True, help="Let a table be wider than the terminal.", **by_environment("wide"))
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help="The answer alone: no notes, no cost, no progress.",
    **by_environment("quiet"),
)
@intervals_option
@receipt_option
@strict_option
@server_option
@policy_option
def query(
    sql: str | None,
    file: str | None,
    policy: str,
    format_: str | None,
    output: str | None,
    plot: bool,
    wide: bool,
    quiet: bool,
    analyst: str | None,
    intervals: bool,
    receipt: bool,
    strict: bool,
    server: str | None,
    **options: Any,
) -> None:
    """Answer a query: dpsql query "SELECT …".

    The answer goes to standard output, everything else to standard error. What it costs is recorded before any row
    is read and is never refunded. A file with several statements is one batch: one price, what they share is
    measured once, and all of them are answered or none is.

    Every option may come from the environment instead, as DPSQL_EPSILON=0.5; the command line is stronger.
    """
    text = read_sql(sql, file)
    # Everything that could go wrong with the output goes wrong now, before anything is paid.
    with choose(output, format_, receipt=receipt, intervals=intervals, plot=plot, wide=wide) as target:
        from dpsql.sql.statements import statements

        several = len(statements(text)) if sql is None else 1
        target.takes(several)
        with progress(quiet) as ended, opened(policy, analyst, strict=strict, server=server, quiet=quiet) as session:
            if receipt:
                session.signer.check()
            if target.draws:
                refuse_without_chart(session, statements(text) if several > 1 else [text], given(options))
            run = session.batch if several > 1 else session.query
            found = run(text, **given(options))
            answers = found if isinstance(found, list) else [found]
            answers = [answer.simulated() for answer in answers] if intervals else answers
            ended()
            # What follows from the policy alone belongs to no ledger, and can be signed all the same.
            target.write(*(replace(answer, signer=session.signer) if receipt else answer for answer in answers))
            if not quiet:
                tell(answers, session)


def refuse_without_chart(session: Session, texts: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse now, before anything is paid, a query whose answer has no chart whatever is measured."""
    from dpsql.answer.plot import NO_KEY, NO_NUMBERS
    from dpsql.explain.text import as_dict
    from dpsql.quote.model import Quote
    from dpsql.sql.inspection import inspection

    for text in texts:
        if inspection(text) is not None:
            continue  # free
        try:
            quote: Any = session.explain(text, **options)
        except Error:
            if len(texts) > 1:
                continue  # values of parameters are those of the whole batch
            raise
        facts = as_dict(quote) if isinstance(quote, Quote) else quote.facts
        measured = [any(not place.split(".")[1].startswith("k") for place in one["from"]) for one in facts["columns"]]
        if facts["price"]["epsilon"] and (all(measured) or not any(measured)):
            reason, _, hint = (NO_KEY if any(measured) else NO_NUMBERS).partition(": ")
            hint = "; or ".join(filter(None, [hint, "ask without a chart"]))
            raise SQLError(f"{reason}, and this answer has none", code="no-chart", hint=hint)


def tell(answers: Sequence[Answer], session: Session) -> None:
    """What there is to say besides the values, on standard error: notes, and what it cost."""
    for line in dict.fromkeys(line for answer in answers for line in answer.notes):
        remark(line)
    if waiting := session.unverified:
        said = f"promises of {', '.join(waiting)} aren't verified, and not relied on"
        remark(f"{said}: once `dpsql check --steward` has run, answers may be better")
    remark(_receipt(answers[0], session.budget))


def _receipt(answer: Answer, balance: Balance) -> str:
    from dpsql.answer.render import guarantee
    from dpsql.answer.text_table import free

    cost = f"cost {guarantee(answer.cost, up=True)}"
    if not answer.receipt.id:
        return "cost nothing: it follows from the policy alone"
    if answer.receipt.reused and free(answer):
        cost = f"cost nothing: the stored release {answer.receipt.id[:8]} answers it (--fresh pays for new noise)"
    return f"{cost} · left {guarantee(balance.remaining, up=False)} of {guarantee(balance.total, up=False)}"
