"""dpsql price: a small table of ε, the error to expect, and the cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import given, opened, policy_option, query_options, read_sql

if TYPE_CHECKING:
    from dpsql.quote.model import Quote


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
            from dpsql.explain.expected import price_line

            click.echo(json.dumps([price_line(q) for q in quotes], ensure_ascii=False, indent=2, allow_nan=False))
        else:
            for line in lines(quotes):
                click.echo(line)
        click.echo("nothing was spent", err=True)


def lines(quotes: Sequence[Quote]) -> list[str]:
    """The table for people."""
    from dpsql.answer.render import printable
    from dpsql.core.cost import show_rounded
    from dpsql.explain.expected import expected

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
