"""dpsql functions: every aggregate and scalar function that is understood."""

from __future__ import annotations

import click

from dpsql.cli.options import policy_option

_CHOSEN = (
    ("ORDER BY COUNT(*) DESC LIMIT k", "where only public keys leave, the winners are chosen, by SUM(x), too"),
    ("ARG_MAX(key, n), ARG_MIN(key, n)", "over SELECT key, COUNT(*) AS n … GROUP BY key: the same"),
)
_FORMS = (
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)", "options of the whole query, in its SQL"),
    ("SUM(x, contribution_bounds_per_row => (0, 100))", "each row's value is clipped; AVG, VAR… and STDDEV…, too"),
    ("SUM(x, contribution_bounds_per_group => (0, 500))", "what a unit adds to a group is clipped; COUNT, too"),
    ("DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)", "the 95% interval of COUNT(*) AS n, or of another aggregate"),
)
_ROWS = (
    ("RANDOMIZED_RESPONSE(x)", "x, or another of its public values; for BOOLEAN and columns with values"),
    ("RR_COUNT(r [, value])", "how many rows have the value, from randomised ones, without bias"),
    ("RR_FREQUENCY(r [, value])", "the share of rows that have it"),
)


@click.command()
@policy_option
def functions(policy: str) -> None:
    """List every aggregate and scalar function that is understood."""
    from dpsql.aggregates import FORMS, RECIPES
    from dpsql.sql.functions import FUNCTIONS
    from dpsql.sql.functions.lengths import LONGEST

    click.echo("Aggregates of private rows")
    others = [form for name, form in FORMS.items() if name not in RECIPES and form.description]
    for one in (*(form for form in RECIPES.values() if form.description), *others):
        forms, _, about = one.description.partition(": ")
        click.echo(f"  {forms:<42} {about}")
    for form, about in _CHOSEN:
        click.echo(f"  {form:<42} {about}")
    click.echo("  each may have FILTER (WHERE …)")
    click.echo('\nRows that leave one by one, each value randomised by itself (unit = "row", replace_one)')
    for form, about in _ROWS:
        click.echo(f"  {form:<42} {about}")
    click.echo("\nAs Google and Snowflake write it")
    for form, about in _FORMS:
        click.echo(f"  {form:<53} {about}")
    click.echo("\nScalars of private rows never fail. NULL gives NULL, unless they say otherwise.")
    click.echo(f"A text that a query makes has at most {LONGEST:,} characters; what is longer is cut at its end.")
    kinds: dict[str, list[tuple[str, str]]] = {}
    for function in FUNCTIONS:
        facts = f"{function.about} · {function.total} · range: {function.range}"
        kinds.setdefault(function.kind, []).append((", ".join(function.names), facts))
    widest = min(max(len(names) for rows in kinds.values() for names, _ in rows), 42)
    for kind, rows in kinds.items():
        click.echo(f"\nScalars: {kind}")
        for names, facts in rows:
            click.echo(f"  {names:<{widest}} {facts}")
    click.echo("\nOver results, which are public, DuckDB's other aggregates and window functions work, too.")
