"""dpsql budget: what the account holds, what it was spent on, and the steward's acts of accepting a change."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import policy_option, steward_option
from dpsql.cli.output import FORMATS, choose

if TYPE_CHECKING:
    from dpsql.accounting.account import Balance, Entry
    from dpsql.accounting.cost import Cost
    from dpsql.policy import Policy


@click.command()
@click.option("--history", is_flag=True, help="Each release, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--replay", metavar="ID", help="Show the answer of an earlier release once more; it is free.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="With --replay: as for dpsql query.")
@click.option("-o", "--output", metavar="FILE", help="With --replay: as for dpsql query.")
@click.option("--accept-data-change", is_flag=True, help="Record that the data's new version is meant to be.")
@click.option("--accept-policy-change", is_flag=True, help="Record that the policy's new budget is meant to be.")
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
    balance, entries = _read(loaded)
    if as_json:
        click.echo(json.dumps(_as_dict(loaded, balance, entries if history else None), ensure_ascii=False, indent=2))
        return
    _show(loaded, balance, len(entries))
    if history:
        _show_history(entries)


def _read(policy: Policy) -> tuple[Balance, list[Entry]]:
    """What the ledger says; a ledger that isn't there yet has spent nothing, and looking doesn't create it."""
    from dpsql.accounting.account import Balance
    from dpsql.accounting.cost import ZERO
    from dpsql.accounting.ledger import Ledger
    from dpsql.engine import account

    opened = account(policy)
    if not policy.ledger_path.exists():
        return Balance(opened.total, ZERO, opened.total), []
    with Ledger(policy.ledger_path, opened) as ledger:
        return ledger.balance, ledger.history()


def _replay(policy: Policy, id: str, format_: str | None, output: str | None) -> None:
    """A lost reply, fetched again. Neither the data nor its policy's tables are looked at."""
    from dpsql.accounting.ledger import Ledger
    from dpsql.archive import replay
    from dpsql.engine import account

    if not policy.ledger_path.exists():
        raise click.UsageError(f"there is no ledger {policy.ledger_path}")
    with choose(output, format_) as target, Ledger(policy.ledger_path, account(policy)) as ledger:
        answer = replay(ledger, id)
        target.write(answer)
        click.echo(f"cost nothing: release {answer.receipt.id[:8]} of {_moment(answer.receipt.time)}", err=True)


def _moment(time: str) -> str:
    return time[:19].replace("T", " ")


def _accept_policy_change(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.engine import account

    lines = Ledger.accept_policy_change(policy.ledger_path, account(policy))
    for line in lines or ["the policy is what the ledger records: nothing to accept"]:
        click.echo(line, err=True)


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


def _show(policy: Policy, balance: Balance, releases: int) -> None:
    from dpsql.accounting.cost import show_rounded

    deltas = any(cost.delta for cost in (balance.total, balance.spent))
    rows = [("", "ε", "δ")]
    for name, cost, up in (
        ("total", balance.total, False),
        ("spent", balance.spent, True),
        ("left", balance.remaining, False),
    ):
        rows.append((name, show_rounded(cost.epsilon, up=up), show_rounded(cost.delta, up=up)))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for name, epsilon, delta in rows:
        line = f"{name:<{widths[0]}}  {epsilon:>{widths[1]}}" + (f"  {delta:>{widths[2]}}" if deltas else "")
        click.echo(line)
    plural = "" if releases == 1 else "s"
    click.echo(f"{releases:,} release{plural} · ledger {policy.ledger_path}", err=True)


def _show_history(entries: list[Entry]) -> None:
    from dpsql.cli.render import guarantee, printable

    if entries:
        click.echo()
    for entry in entries:
        sql = printable(" ".join(str(entry.note.get("sql", "")).split()))
        state = "" if entry.state == "released" else "  (paid, no answer)"
        who = f"  {printable(entry.analyst)}" if entry.analyst else ""
        click.echo(f"{entry.id[:8]}  {_moment(entry.time)}{who}  {guarantee(entry.cost, up=True)}  {sql}{state}")


def _as_dict(policy: Policy, balance: Balance, entries: list[Entry] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ledger": str(policy.ledger_path),
        "accountant": policy.budget.accountant,
        "total": _cost(balance.total),
        "spent": _cost(balance.spent),
        "remaining": _cost(balance.remaining),
    }
    if entries is not None:
        found["history"] = [
            {"id": e.id, "time": e.time, "analyst": e.analyst or None, "state": e.state, "cost": _cost(e.cost)}
            | dict(e.note)
            for e in entries
        ]
    return found


def _cost(cost: Cost) -> dict[str, float | None]:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
