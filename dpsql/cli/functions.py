"""dpsql functions: every aggregate and scalar function that is understood."""

from __future__ import annotations

import click

from dpsql.cli.options import policy_option


@click.command()
@policy_option
def functions(policy: str) -> None:
    """List every aggregate and scalar function that is understood."""
    from dpsql.aggregates import RECIPES
    from dpsql.sql.functions import FUNCTIONS

    click.echo("Aggregates of private rows")
    for recipe in RECIPES.values():
        forms, _, about = recipe.description.partition(": ")
        click.echo(f"  {forms:<42} {about}")
    click.echo("  each may have FILTER (WHERE …)")
    kinds: dict[str, list[tuple[str, str, str]]] = {}
    for function in FUNCTIONS:
        kinds.setdefault(function.kind, []).append((", ".join(function.names), function.about, function.range))
    widest = min(max(len(names) for rows in kinds.values() for names, _, _ in rows), 42)
    for kind, rows in kinds.items():
        click.echo(f"\nScalars: {kind}")
        for names, about, range_ in rows:
            click.echo(f"  {names:<{widest}} {about}{f' · range: {range_}' if range_ else ''}")
    click.echo("\nOver results, which are public, DuckDB's other aggregates and window functions work, too.")
