"""dpsql index: find heavy units once, for speed."""

from __future__ import annotations

import json

import click

from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.progress import progress
from dpsql.cli.stop import careful


@click.command()
@steward_option
@click.option(
    "--above",
    type=click.IntRange(min=0),
    metavar="ROWS",
    help="List units with more rows than this. The index serves limits of as many rows and more; default: 10, or the "
    "policy's smallest limit where that is less.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@strict_option
@policy_option
def index(policy: str, steward: bool, above: int | None, as_json: bool, strict: bool) -> None:
    """Find heavy units once, so that queries needn't look for them: the same answers, sooner.

    Written beside the ledger, under its key, for the data as they are now; where they change, or the key does, it is
    passed over, and this command makes a new one. The file names units, and its owner alone may read it.
    """
    if not steward:
        raise click.UsageError("an index is the steward's to make, and reads rows: add --steward")
    from dpsql.session import Engine

    click.echo("this reads rows of private tables; what it prints is not private", err=True)
    careful()
    with progress(quiet=False), Engine.open(policy, strict_engine=strict) as engine:
        found = engine.index(steward=True, above=above)
    click.echo(json.dumps(found.as_dict(), ensure_ascii=False, indent=2) if as_json else str(found))
