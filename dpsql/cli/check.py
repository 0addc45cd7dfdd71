"""dpsql check: is the policy right, and (for the steward) does the data keep its promises?"""

from __future__ import annotations

import click

from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.stop import careful


@click.command()
@steward_option
@strict_option
@policy_option
def check(policy: str, steward: bool, strict: bool) -> None:
    """Validate the policy against the data's schemas.

    With --steward, also verify the policy's promises (rows_per_unit, key, nullable = false) against the rows, and
    record what was found: a promise counts only after that, and only for the data as it is now.
    """
    from dpsql.core.errors import DataError
    from dpsql.steward.check import check as run

    if steward:
        click.echo("this reads rows of private tables; what it prints is not private", err=True)
    careful()
    report = run(policy, steward, strict)
    click.echo(str(report))
    if report.broken:
        raise DataError(
            f"{len(report.broken)} promise{'s' if len(report.broken) > 1 else ''} of the policy "
            f"{'are' if len(report.broken) > 1 else 'is'} broken: {'; '.join(report.broken)}",
            code="broken-promise",
            hint="correct the policy or the data; until then the promise isn't relied on",
        )
