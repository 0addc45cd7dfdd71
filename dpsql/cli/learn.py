"""dpsql learn: pay once for the histograms by which queries choose their limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from dpsql.cli.options import policy_option, strict_option
from dpsql.cli.progress import progress
from dpsql.cli.stop import careful

EPSILON = "0.5"


def learn_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is learned, and the most that it costs."""
    columns = click.option(
        "--columns", metavar="TABLE.COLUMN,…", help="Learn what sums and averages of these columns need, too."
    )
    epsilon = click.option(
        "--epsilon",
        metavar="ε",
        help=f"The most that all that is learned costs, for the data as they are now; default: {EPSILON}.",
    )
    return epsilon(columns(command))


def names_in(columns: str | None) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in (columns or "").split(",") if name.strip()]


@click.command()
@click.option("--steward", is_flag=True, help="I am the data's steward: this spends the budget for everybody.")
@learn_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@strict_option
@policy_option
def learn(policy: str, steward: bool, epsilon: str | None, columns: str | None, as_json: bool, strict: bool) -> None:
    """Learn how many rows people have, once, so that queries choose their limits for nothing.

    One noisy histogram for each private table, paid from the budget as a spend of the steward's own: no analyst's quota
    holds it, and everybody's queries use it. It is of the data as they are now: after they change, learn again.
    """
    if not steward:
        raise click.UsageError("learning spends the budget for everybody: add --steward")
    from dpsql.session import Engine

    careful()
    with progress(quiet=False), Engine.open(policy, strict_engine=strict) as engine:
        found = engine.learn(steward=True, epsilon=epsilon or EPSILON, columns=names_in(columns))
    click.echo(json.dumps(found.as_dict(), ensure_ascii=False, indent=2) if as_json else str(found))
