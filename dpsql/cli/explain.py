"""dpsql explain: everything about a query's price and noise, for free."""

from __future__ import annotations

import json
from typing import Any

import click

from dpsql.cli.options import given, opened, policy_option, query_options, read_sql, strict_option


@click.command()
@query_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option("--verbose", is_flag=True, help="Also the SQL that runs on the data and on the noisy results.")
@strict_option
@policy_option
def explain(
    sql: str | None,
    file: str | None,
    policy: str,
    as_json: bool,
    verbose: bool,
    analyst: str | None,
    strict: bool,
    **options: Any,
) -> None:
    """Show what a query would cost and how accurate it would be; spends nothing.

    No private row is read: what is shown follows from the SQL, the policy and the ledger alone.
    """
    text = read_sql(sql, file)
    from dpsql.answer.render import guarantee
    from dpsql.explain.show import as_dict, show
    from dpsql.sql.statements import statements

    with opened(policy, analyst, strict=strict) as session:
        several = file is not None and len(statements(text)) > 1
        quote = (session.explain_batch if several else session.explain)(text, **given(options))
        backend = session.backend if verbose else None
        if as_json:
            shown = json.dumps(as_dict(quote, backend=backend), ensure_ascii=False, indent=2, allow_nan=False)
        else:
            shown = show(quote, backend=backend)
        click.echo(shown)
        left = session.budget.remaining
        fits = quote.fits is None or quote.fits.more is None or quote.fits.more > 0
        note = "nothing was spent" if fits else "the query would be refused"
        if not options.get("fresh") and session.is_stored(quote):
            note = "nothing was spent, and nothing would be: a stored release answers it"
        click.echo(f"left {guarantee(left, up=False)} · {note}", err=True)
