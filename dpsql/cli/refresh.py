"""The steward's work after the data changed: dpsql refresh accepts the new version, dpsql index finds heavy units once,
for speed, dpsql learn pays once for the histograms by which queries choose their limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import policy_option, steward_option, strict_option
from dpsql.cli.output import progress
from dpsql.cli.stop import careful

if TYPE_CHECKING:
    from dpsql.policy.model import Policy


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
