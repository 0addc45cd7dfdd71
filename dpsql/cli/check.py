"""dpsql check: is the policy right, and (for the steward) does the data keep its promises?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.progress import progress
from dpsql.cli.stop import careful


@click.command()
@steward_option
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of policy files, for editors, and nothing else.")
@strict_option
@policy_option
def check(policy: str, steward: bool, as_json: bool, schema: bool, strict: bool) -> None:
    """Validate the policy against the data's schemas, and advise.

    With --steward, also verify the policy's promises (rows_per_unit, key, nullable = false) against the rows, and
    record what was found: a promise counts only after that, and only for the data as it is now. What rows show besides
    (NULLs, values outside of ranges, how many rows units have, what limits cut) is said, too. Where a server.toml lies
    beside the policy, a few queries are timed, and a reply_after is suggested.
    """
    if schema:
        from dpsql.policy.reference import json_schema

        click.echo(json.dumps(json_schema(), ensure_ascii=False, indent=2))
        return
    from dpsql.core.errors import DataError
    from dpsql.policy.model import Policy
    from dpsql.steward.check import check as run
    from dpsql.steward.learning import learning_line

    if steward:
        click.echo("this reads rows of private tables; what it prints is not private", err=True)
    careful()
    with progress(quiet=False):
        report = run(policy, steward, strict)
    click.echo(json.dumps(report.as_dict(), ensure_ascii=False, indent=2) if as_json else str(report))
    if steward and (line := learning_line(Policy.load(policy))) is not None:
        click.echo(f"\n{line}", err=True)
    if steward and (Path(policy).absolute().parent / "server.toml").exists():
        from dpsql.steward.reply_times import reply_times

        click.echo(str(reply_times(Policy.load(policy))), err=True)
    if report.broken:
        raise DataError(
            f"{len(report.broken)} promise{'s' if len(report.broken) > 1 else ''} of the policy "
            f"{'are' if len(report.broken) > 1 else 'is'} broken: {'; '.join(report.broken)}",
            code="broken-promise",
            hint="correct the policy or the data; until then the promise isn't relied on",
        )
