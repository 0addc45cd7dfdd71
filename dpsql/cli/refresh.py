"""dpsql refresh: the data changed, and that is meant to be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.learn import EPSILON, learn_options, names_in
from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.progress import progress
from dpsql.cli.stop import careful

if TYPE_CHECKING:
    from dpsql.policy.model import Policy


@click.command()
@steward_option
@click.option("--learn", "learns", is_flag=True, help="Then learn, as `dpsql learn --steward` does.")
@learn_options
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@strict_option
@policy_option
def refresh(
    policy: str, steward: bool, learns: bool, epsilon: str | None, columns: str | None, as_json: bool, strict: bool
) -> None:
    """Accept a new version of the data, and verify the policy's promises for it.

    Says what changed, by names of files and columns. The budget stays as it is; free answers belong to their version.
    A file that was written anew with the same rows keeps its version (unless the policy says on_change = "accept"):
    that it does is seen by whoever asks again, so it is decided here, by you, and never by a query.
    """
    if not steward:
        raise click.UsageError("a refresh is the steward's act, and reads rows: add --steward")
    from dpsql.policy.model import Policy

    if not learns and (epsilon is not None or columns is not None):
        raise click.UsageError("--epsilon and --columns are for --learn")
    learning = {"epsilon": epsilon or EPSILON, "columns": names_in(columns)} if learns else None
    refreshed(Policy.load(policy), as_json=as_json, strict=strict, learning=learning)


def refreshed(
    policy: Policy,
    *,
    as_json: bool,
    strict: bool = False,
    err: bool = False,
    learning: Mapping[str, Any] | None = None,
) -> None:
    """Refresh, and tell of it; err: on standard error. learning: what to learn then, if no promise is broken."""
    from dpsql.core.errors import DataError
    from dpsql.session import Engine

    click.echo("this reads rows of private tables; what it prints is not private", err=True)
    careful()
    with ExitStack() as stack:
        with progress(quiet=False):
            engine = stack.enter_context(Engine.open(policy, strict_engine=strict))
            report = engine.refresh(steward=True)
        shown: dict[str, object] = report.as_dict()
        if not as_json:
            click.echo(str(report), err=err)
        if learning is not None and not report.broken:
            found = engine.learn(steward=True, **learning)
            shown["learn"] = found.as_dict()
            if not as_json:
                click.echo(str(found), err=err)
    if as_json:
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2), err=err)
    if report.broken:
        plural = len(report.broken) > 1
        raise DataError(
            f"{len(report.broken)} promise{'s' if plural else ''} of the policy {'are' if plural else 'is'} broken: "
            f"{'; '.join(report.broken)}",
            code="broken-promise",
            hint="the new version is recorded; correct the policy or the data, and refresh again. Until then these "
            "promises aren't relied on: their limits are enforced instead",
        )
