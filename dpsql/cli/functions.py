"""dpsql functions: every aggregate and scalar function that is understood."""

from __future__ import annotations

import click

from dpsql.cli.options import policy_option
from dpsql.core.frozen import dataclass

CHOSEN = (
    ("ORDER BY COUNT(*) DESC LIMIT k", "where only public keys leave, the winners are chosen, by SUM(x), too"),
    ("ARG_MAX(key, n), ARG_MIN(key, n)", "over SELECT key, COUNT(*) AS n … GROUP BY key: the same"),
)
GOOGLE_FORMS = (
    ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)", "options of the whole query, in its SQL"),
    ("SUM(x, contribution_bounds_per_row => (0, 100))", "each row's value is clipped; AVG, VAR… and STDDEV…, too"),
    ("SUM(x, contribution_bounds_per_group => (0, 500))", "what a unit adds to a group is clipped; COUNT, too"),
    ("DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n)", "the 95% interval of COUNT(*) AS n, or of another aggregate"),
)
ROWS = (
    ("RANDOMIZED_RESPONSE(x)", "x, or another of its public values; for BOOLEAN and columns with values"),
    ("RR_COUNT(r [, value])", "how many rows have the value, from randomised ones, without bias"),
    ("RR_FREQUENCY(r [, value])", "the share of rows that have it"),
)


@dataclass(frozen=True, slots=True)
class ScalarFacts:
    """What people are told of a scalar function: its names, and how it never fails."""

    spelled: str
    about: str
    total: str
    range: str


def aggregates() -> list[tuple[str, str]]:
    """How each aggregate of private rows is written, and what it is."""
    from dpsql.aggregates import FORMS, RECIPES

    known = [*RECIPES.values(), *(form for name, form in FORMS.items() if name not in RECIPES)]
    told = (form.description.partition(": ") for form in known if form.description)
    return [(forms, about) for forms, _, about in told]


def scalars() -> dict[str, list[ScalarFacts]]:
    """The scalar functions by their kinds."""
    from dpsql.sql.functions import FUNCTIONS

    kinds: dict[str, list[ScalarFacts]] = {}
    for one in FUNCTIONS:
        kinds.setdefault(one.kind, []).append(ScalarFacts(", ".join(one.names), one.about, one.total, one.range))
    return kinds


@click.command()
@policy_option
def functions(policy: str) -> None:
    """List every aggregate and scalar function that is understood."""
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
            click.echo(f"  {one.spelled:<{widest}} {one.about} · {one.total} · range: {one.range}")
    click.echo("\nOver results, which are public, DuckDB's other aggregates and window functions work, too.")
