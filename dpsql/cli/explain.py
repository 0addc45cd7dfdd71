"""What is known of a query for free: dpsql explain (price and noise), dpsql price (a table of ε, error and cost), and
dpsql functions (every aggregate and scalar function that is understood).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import given, opened, policy_option, query_options, read_sql, strict_option

if TYPE_CHECKING:
    from dpsql.quote.model import Quote


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
    from dpsql.explain.text import as_dict, show
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


@click.command()
@query_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@policy_option
def price(sql: str | None, file: str | None, policy: str, as_json: bool, analyst: str | None, **options: Any) -> None:
    """Show what accuracy costs: a table of ε, expected error and price; spends nothing.

    Errors are for all cells at once with 95% confidence (an average's for groups of 1,000 rows), and follow from the
    noise alone; a quantile's is in rows. --epsilon adds a line of its own.
    """
    text = read_sql(sql, file)
    with opened(policy, analyst) as session:
        quotes = session.prices(text, **given(options))
        if as_json:
            from dpsql.explain.text import price_line

            click.echo(json.dumps([price_line(q) for q in quotes], ensure_ascii=False, indent=2, allow_nan=False))
        else:
            for line in lines(quotes):
                click.echo(line)
        click.echo("nothing was spent", err=True)


def lines(quotes: Sequence[Quote]) -> list[str]:
    """The table for people."""
    from dpsql.answer.render import printable
    from dpsql.core.cost import show_rounded
    from dpsql.explain.text import expected

    names = [one.name for one in expected(quotes[0])]
    deltas = any(q.price.delta for q in quotes)
    rhos = any(q.price.rho is not None for q in quotes)
    heads = ["ε", *(f"± {printable(n)}" for n in names), *(["δ"] if deltas else []), *(["ρ"] if rhos else []), "fits"]
    rows = [heads]
    for quote in quotes:
        cost = quote.price
        row = [show_rounded(quote.epsilon, up=True), *(one.text for one in expected(quote))]
        row += [show_rounded(cost.delta, up=True, digits=3)] if deltas else []
        row += [show_rounded(cost.rho, up=True, digits=4) if cost.rho is not None else ""] if rhos else []
        more = quote.fits.more if quote.fits is not None else None
        rows.append([*row, "for free" if more is None else "once" if more == 1 else f"{more:,} times"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    return ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]


@click.command()
@policy_option
def functions(policy: str) -> None:
    """List every aggregate and scalar function that is understood."""
    from dpsql.explain.schema import CHOSEN, GOOGLE_FORMS, ROWS, aggregates, scalars
    from dpsql.sql.functions.lengths import LONGEST

    click.echo("Aggregates of private rows")
    for form, about in (*aggregates(), *CHOSEN):
        click.echo(f"  {form:<42} {about}")
    click.echo("  each may have FILTER (WHERE …)")
    click.echo('\nRows that leave one by one, each value randomised by itself (unit = "row", replace_one)')
    for form, about in ROWS:
        click.echo(f"  {form:<42} {about}")
    click.echo("\nAs Google and Snowflake write it")
    for form, about in GOOGLE_FORMS:
        click.echo(f"  {form:<53} {about}")
    click.echo("\nScalars of private rows never fail. NULL gives NULL, unless they say otherwise.")
    click.echo(f"A text that a query makes has at most {LONGEST:,} characters; what is longer is cut at its end.")
    kinds = scalars()
    widest = min(max(len(one.spelled) for found in kinds.values() for one in found), 42)
    for kind, found in kinds.items():
        click.echo(f"\nScalars: {kind}")
        for one in found:
            click.echo(f"  {one.spelled:<{widest}} {one}")
    click.echo("\nOver results, which are public, DuckDB's other aggregates and window functions work, too.")
