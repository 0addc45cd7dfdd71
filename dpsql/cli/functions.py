"""dpsql functions: every aggregate and scalar function that is understood."""

from __future__ import annotations

import click

from dpsql.cli.options import policy_option


@click.command()
@policy_option
def functions(policy: str) -> None:
    """List every aggregate and scalar function that is understood."""
    from dpsql.explain.functions import CHOSEN, FORMS, ROWS, aggregates, scalars
    from dpsql.sql.functions.lengths import LONGEST

    click.echo("Aggregates of private rows")
    for form, about in (*aggregates(), *CHOSEN):
        click.echo(f"  {form:<42} {about}")
    click.echo("  each may have FILTER (WHERE …)")
    click.echo('\nRows that leave one by one, each value randomised by itself (unit = "row", replace_one)')
    for form, about in ROWS:
        click.echo(f"  {form:<42} {about}")
    click.echo("\nAs Google and Snowflake write it")
    for form, about in FORMS:
        click.echo(f"  {form:<53} {about}")
    click.echo("\nScalars of private rows never fail. NULL gives NULL, unless they say otherwise.")
    click.echo(f"A text that a query makes has at most {LONGEST:,} characters; what is longer is cut at its end.")
    kinds = scalars()
    widest = min(max(len(names) for rows in kinds.values() for names, _ in rows), 42)
    for kind, rows in kinds.items():
        click.echo(f"\nScalars: {kind}")
        for names, facts in rows:
            click.echo(f"  {names:<{widest}} {facts}")
    click.echo("\nOver results, which are public, DuckDB's other aggregates and window functions work, too.")
