"""dpsql budget: what the account holds, what it was spent on, and the steward's acts of accepting a change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from dpsql.cli.options import policy_option, steward_option
from dpsql.cli.output import FORMATS, choose
from dpsql.cli.statement import as_dict, lines, moment

if TYPE_CHECKING:
    from dpsql.accounting.statement import Statement
    from dpsql.policy import Policy


@click.command()
@click.option("--history", is_flag=True, help="Each release, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--replay", metavar="ID", help="Show the answer of an earlier release once more; it is free.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="With --replay: as for dpsql query.")
@click.option("-o", "--output", metavar="FILE", help="With --replay: as for dpsql query.")
@click.option("--accept-data-change", is_flag=True, help="Record that the data's new version is meant to be.")
@click.option(
    "--accept-policy-change",
    is_flag=True,
    help="Record that the policy's new budget, or further tables, are meant to be.",
)
@steward_option
@policy_option
def budget(
    policy: str,
    history: bool,
    as_json: bool,
    replay: str | None,
    format_: str | None,
    output: str | None,
    accept_data_change: bool,
    accept_policy_change: bool,
    steward: bool,
) -> None:
    """Show what was spent and what is left.

    The steward accepts a change of the data or of the policy here; what was spent stays spent.
    """
    for flag, on in (("--accept-data-change", accept_data_change), ("--accept-policy-change", accept_policy_change)):
        if on and not steward:
            raise click.UsageError(f"{flag} is the steward's act: add --steward")
    if steward and not (accept_data_change or accept_policy_change):
        raise click.UsageError("--steward goes with --accept-data-change or --accept-policy-change")
    if (format_ or output) and replay is None:
        raise click.UsageError("--format and -o go with --replay ID")
    from dpsql.policy import Policy

    loaded = Policy.load(policy)
    if replay is not None:
        _replay(loaded, replay, format_, output)
        return
    if accept_policy_change:
        _accept_policy_change(loaded)
    if accept_data_change:
        _accept_data_change(loaded)
    found = _read(loaded)
    if as_json:
        click.echo(json.dumps(as_dict(loaded, found, history=history), ensure_ascii=False, indent=2))
        return
    for line in lines(found, loaded.budget.accountant, history=history):
        click.echo(line)
    plural = "" if len(found.entries) == 1 else "s"
    click.echo(f"{len(found.entries):,} release{plural} · ledger {loaded.ledger_path}", err=True)


def _read(policy: Policy) -> Statement:
    """What the ledger says; a ledger that isn't there yet has spent nothing, and looking doesn't create it."""
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.statement import statement
    from dpsql.engine import account

    opened = account(policy)
    with Ledger(policy.ledger_path if policy.ledger_path.exists() else ":memory:", opened) as ledger:
        return statement(opened, ledger.balance, ledger.history(), policy.budget.analysts)


def _replay(policy: Policy, id: str, format_: str | None, output: str | None) -> None:
    """A lost reply, fetched again. Neither the data nor its policy's tables are looked at."""
    from dpsql.accounting.ledger import Ledger
    from dpsql.archive import replays
    from dpsql.engine import account

    if not policy.ledger_path.exists():
        raise click.UsageError(f"there is no ledger {policy.ledger_path}")
    with choose(output, format_) as target, Ledger(policy.ledger_path, account(policy)) as ledger:
        answers = replays(ledger, id)
        target.write(*answers)
        receipt = answers[0].receipt
        click.echo(f"cost nothing: release {receipt.id[:8]} of {moment(receipt.time)}", err=True)


def _accept_policy_change(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.engine import account

    lines = Ledger.accept_policy_change(policy.ledger_path, account(policy))
    for line in lines or ["the policy is what the ledger records: nothing to accept"]:
        click.echo(line, err=True)
    if any(line.startswith("new table") for line in lines):
        click.echo("a table that was public until now is not protected in what was released before", err=True)


def _accept_data_change(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.backends.duckdb.sources import locate
    from dpsql.engine import account

    click.echo("this reads the data's files in full", err=True)
    sources = [one.source for one in locate(policy, {}) if not one.table.public]
    with Ledger(policy.ledger_path, account(policy)) as ledger:
        lines = ledger.accept_data_change(sources)
    for line in lines or ["the data is what the ledger records: nothing to accept"]:
        click.echo(line, err=True)
    if lines:
        click.echo("promises of the policy hold for the new data once it is checked: dpsql check --steward", err=True)
