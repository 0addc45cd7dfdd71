"""dpsql budget: the account's statement as text and as JSON, and the steward's acts of accepting a change."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.cli.options import policy_option, steward_option
from dpsql.cli.output import FORMATS, Target, choose, fitted

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.accounting.account import Entry
    from dpsql.accounting.account_statement import Line, Statement
    from dpsql.core.cost import Cost
    from dpsql.policy.model import Policy


@click.command()
@click.option("--history", is_flag=True, help="Each release, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--replay", metavar="ID", help="Show the answer of an earlier release once more; it is free.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="With --replay: as for dpsql query.")
@click.option("-o", "--output", metavar="FILE", help="With --replay: as for dpsql query.")
@click.option("--intervals", is_flag=True, help="With --replay: as for dpsql query.")
@click.option("--receipt", is_flag=True, help="With --replay: as for dpsql query.")
@click.option("--accept-data-change", is_flag=True, help="The same as dpsql refresh --steward.")
@click.option(
    "--accept-policy-change",
    is_flag=True,
    help="Record that the policy's new budget, or further tables, are meant to be.",
)
@click.option("--create", is_flag=True, help="Begin a new account where there is no ledger, or none any more.")
@click.option("--rotate-key", is_flag=True, help="Make a new key for the ledger.")
@click.option("--backup", metavar="FILE", help="Write a copy of the ledger, which may be in use. Keep its key apart.")
@click.option("--restore", metavar="FILE", help="Put a copy in the ledger's place, with what the audit log has.")
@click.option("--audit", metavar="LOG", help="With --restore: a server's audit log.")
@steward_option
@policy_option
def budget(
    policy: str,
    history: bool,
    as_json: bool,
    replay: str | None,
    format_: str | None,
    output: str | None,
    intervals: bool,
    receipt: bool,
    accept_data_change: bool,
    accept_policy_change: bool,
    create: bool,
    rotate_key: bool,
    backup: str | None,
    restore: str | None,
    audit: str | None,
    steward: bool,
) -> None:
    """Show what was spent and what is left.

    The steward accepts a change of the data or of the policy here, and looks after the ledger's file and key; what was
    spent stays spent.
    """
    acts: dict[str, tuple[bool, Callable[[Policy], None]]] = {
        "--create": (create, _create),
        "--rotate-key": (rotate_key, _rotate_key),
        "--accept-policy-change": (accept_policy_change, _accept_policy_change),
        "--accept-data-change": (accept_data_change, _accept_data_change),
        "--restore": (restore is not None, partial(_restore, copy=restore or "", log=audit or "")),
    }
    asked = [flag for flag, (on, _) in acts.items() if on]
    if asked and not steward:
        raise click.UsageError(f"{asked[0]} is the steward's act: add --steward")
    if steward and not asked:
        raise click.UsageError(f"--steward goes with one of {', '.join(acts)}")
    if (format_ or output or intervals or receipt) and replay is None:
        raise click.UsageError("--format, -o, --intervals and --receipt go with --replay ID")
    if (restore is None) != (audit is None):
        raise click.UsageError("--restore FILE and --audit LOG go together")
    from dpsql.policy.model import Policy

    loaded = Policy.load(policy)
    if backup is not None:
        _backup(loaded, backup)
        return
    if replay is not None:
        with choose(output, format_, receipt=receipt, intervals=intervals) as target:
            _replay(loaded, replay, target)
        return
    for flag in asked:
        acts[flag][1](loaded)
    if rotate_key and "DPSQL_LEDGER_KEY" in os.environ:
        return  # which is the old one: the ledger opens with the new one from now on
    found = _read(loaded)
    if as_json:
        click.echo(json_text(as_dict(loaded, found, history=history)))
        return
    click.echo("\n".join(map(fitted, lines(found, loaded.budget.accountant, history=history))))
    plural = "" if len(found.entries) == 1 else "s"
    click.echo(f"{len(found.entries):,} release{plural} · ledger {loaded.ledger_path}", err=True)


def _read(policy: Policy) -> Statement:
    """What the ledger says; a ledger that isn't there yet has spent nothing, and looking doesn't create it."""
    from dpsql.accounting.account_statement import statement
    from dpsql.accounting.keys import is_beside
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.opening import account, anchor, open_ledger

    path, noted = policy.ledger_path, anchor(policy)
    there = path.exists() or is_beside(path) or policy.budget.must_exist
    nothing = not (there or (noted is not None and noted.read()))
    with Ledger(":memory:", account(policy)) if nothing else open_ledger(policy, only_read=True) as ledger:
        return statement(ledger.account, ledger.balance, ledger.history(), policy.budget.analysts)


def _create(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.opening import account, anchor

    Ledger.create(policy.ledger_path, account(policy), anchor=anchor(policy))
    click.echo(f"a new account: {policy.ledger_path}. Keep its key apart from backups of the ledger", err=True)


def _backup(policy: Policy, copy: str) -> None:
    from dpsql.accounting.backup import backup
    from dpsql.accounting.opening import anchor

    count = backup(policy.ledger_path, Path(copy), anchor=anchor(policy))
    click.echo(f"{copy} holds the ledger's {count:,} events. It needs the ledger's key, which isn't in it", err=True)


def _restore(policy: Policy, copy: str, log: str) -> None:
    from dpsql.accounting.backup import restore
    from dpsql.accounting.opening import anchor

    done = restore(policy.ledger_path, Path(copy), Path(log), anchor=anchor(policy))
    click.echo(f"the copy had {done.had:,} events, and got {done.added:,} back from the log", err=True)
    if not done.anchored:
        click.echo("no anchor tells whether that is all: the log's end is what it is believed to be", err=True)
    if done.before is not None:
        click.echo(f"the ledger that was there is {done.before} now: don't use it any more", err=True)


def _rotate_key(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.opening import anchor

    Ledger.rotate_key(policy.ledger_path, anchor=anchor(policy))
    new = "set DPSQL_LEDGER_KEY to it" if "DPSQL_LEDGER_KEY" in os.environ else f"it is in {policy.ledger_path}.key"
    click.echo(f"the ledger has a new key: {new}. Older copies of the ledger need the old one", err=True)


def _replay(policy: Policy, id: str, target: Target) -> None:
    """A lost reply, fetched again. Neither the data nor its policy's tables are looked at."""
    from dpsql.accounting.opening import open_ledger
    from dpsql.accounting.signing import Signer
    from dpsql.store.archive import replays

    if not policy.ledger_path.exists():
        raise click.UsageError(f"there is no ledger {policy.ledger_path}")
    with open_ledger(policy, only_read=True) as ledger:
        answers = [replace(answer, signer=Signer(ledger.path)) for answer in replays(ledger, id)]
        target.write(*answers)
        receipt = answers[0].receipt
        click.echo(f"cost nothing: release {receipt.id[:8]} of {moment(receipt.time)}", err=True)


def _accept_policy_change(policy: Policy) -> None:
    from dpsql.accounting.ledger import Ledger
    from dpsql.accounting.opening import account, anchor

    lines = Ledger.accept_policy_change(policy.ledger_path, account(policy), anchor=anchor(policy))
    for line in lines or ["the policy is what the ledger records: nothing to accept"]:
        click.echo(line, err=True)
    if any(line.startswith("new table") for line in lines):
        click.echo("a table that was public until now is not protected in what was released before", err=True)


def _accept_data_change(policy: Policy) -> None:
    """The same act as `dpsql refresh --steward`, under its older name."""
    from dpsql.cli.refresh import refreshed

    refreshed(policy, as_json=False, err=True)


MOST = 10  # queries that are listed without --history


def moment(time: str) -> str:
    """A time as people write it."""
    return time[:19].replace("T", " ")


def lines(found: Statement, accountant: str, *, history: bool) -> Iterator[str]:
    """The statement for people."""
    balance = found.balance
    totals = (("total", balance.total, False), ("spent", balance.spent, True), ("left", balance.remaining, False))
    deltas = any(cost.delta for _, cost, _ in totals)
    heads = ["", "ε", *(["δ"] if deltas else []), *(["ρ"] if accountant == "zcdp" else [])]
    yield from _aligned([heads, *([name, *_numbers(c, deltas, up)] for name, c, up in totals)])
    if balance.period:
        yield f'in {balance.period}: the totals are for each month, by the policy\'s renew = "monthly"'
    if found.analysts:
        yield ""
        rows = [["by analyst", "ε", "quota", "releases"]]
        yield from _aligned([*rows, *(_analyst(line) for line in found.analysts)])
    if found.entries:
        yield ""
        yield from _by_query(found)
        yield ""
        yield from _together(found)
    if history and found.entries:
        yield ""
        yield from _history(found.entries)


def _by_query(found: Statement) -> Iterator[str]:
    from dpsql.answer.render import printable

    heads = ["by query", "ε", "releases", ""]
    rows = [["", _short(q.spent), f"{q.releases:,}", printable(q.name)] for q in found.queries[:MOST]]
    yield from _aligned([heads, *rows], left=(0, 3))
    if len(found.queries) > MOST:
        yield f"… {len(found.queries) - MOST:,} more; --history shows each release"


def _together(found: Statement) -> Iterator[str]:
    from dpsql.answer.render import guarantee

    for k, cost in found.groups.items():
        who = "protects one unit with" if k == 1 else f"and {k} units together with"
        yield f"{who} {guarantee(cost, up=True)}"
    if found.pld is not None:
        delta = guarantee(found.balance.total, up=True).split(", ")[1]
        yield f"PLD, for queries fixed beforehand (for display; no filter): ε = {found.pld:.4g} at {delta}"
    elif found.balance.total.delta:
        yield found.pld_note


def _analyst(line: Line) -> list[str]:
    from dpsql.answer.render import printable
    from dpsql.core.cost import show_rounded

    quota = "" if line.quota is None else show_rounded(line.quota, up=False)
    return [printable(line.name) or "(no name)", _short(line.spent), quota, f"{line.releases:,}"]


def _history(entries: Sequence[Entry]) -> Iterator[str]:
    from dpsql.answer.render import guarantee, printable

    prices: dict[int, str] = {}  # there may be very many entries, with few prices between them
    for entry in entries:
        if (price := prices.get(id(entry.cost))) is None:
            price = prices[id(entry.cost)] = guarantee(entry.cost, up=True)
        sql = printable(" ".join(str(entry.note.get("sql", "")).split()))
        state = "" if entry.state == "released" else "  (paid, no answer)"
        who = f"  {printable(entry.analyst)}" if entry.analyst else ""
        yield f"{entry.id[:8]}  {moment(entry.time)}{who}  {price}  {sql}{state}"


def _short(cost: Cost) -> str:
    from dpsql.core.cost import show_rounded

    return show_rounded(cost.epsilon, up=True)


def _numbers(cost: Cost, deltas: bool, up: bool) -> list[str]:
    from dpsql.core.cost import show_rounded

    found = [cost.epsilon, *([cost.delta] if deltas else []), *([cost.rho] if cost.rho is not None else [])]
    return [show_rounded(number, up=up) for number in found]


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        yield "  ".join(cells).rstrip()


def as_dict(policy: Policy, found: Statement, *, history: bool) -> dict[str, Any]:
    """The statement for programs."""
    balance = found.balance
    shown: dict[str, Any] = {
        "ledger": str(policy.ledger_path),
        "accountant": policy.budget.accountant,
        "period": balance.period or None,
        "total": _cost(balance.total),
        "spent": _cost(balance.spent),
        "remaining": _cost(balance.remaining),
        "analysts": [
            line | {"quota": None if of.quota is None else float(of.quota)}
            for of, line in zip(found.analysts, _lines(found.analysts, "analyst"), strict=True)
        ],
        "queries": list(_lines(found.queries, "sql")),
        "groups": {str(k): _cost(cost) for k, cost in found.groups.items()},
        "pld": found.pld,
    }
    if history:
        each = {id(e.cost): e.cost for e in found.entries}
        prices = {price: _cost(cost) for price, cost in each.items()}
        shown["history"] = [
            {"id": e.id, "time": e.time, "analyst": e.analyst or None, "state": e.state, "cost": prices[id(e.cost)]}
            | dict(e.note)
            for e in found.entries
        ]
    return shown


def json_text(shown: Mapping[str, Any]) -> str:
    """What `as_dict` gives as JSON: each member on a line, and each element of a list.

    The encoder of the standard library that indents is written in Python; there may be very many elements.
    """
    encode = json.JSONEncoder(ensure_ascii=False).encode
    members = []
    for name, value in shown.items():
        if isinstance(value, list) and value:
            elements = ",\n    ".join(map(encode, value))
            members.append(f"{encode(name)}: [\n    {elements}\n  ]")
        else:
            members.append(f"{encode(name)}: {encode(value)}")
    return "{\n  " + ",\n  ".join(members) + "\n}"


def _lines(lines: Sequence[Line], name: str) -> Iterator[dict[str, Any]]:
    each = {id(line.total): line for line in lines}  # few totals between very many lines
    spent = {total: _cost(line.spent) for total, line in each.items()}
    return ({name: line.name or None, "spent": spent[id(line.total)], "releases": line.releases} for line in lines)


def _cost(cost: Cost) -> dict[str, float | None]:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
