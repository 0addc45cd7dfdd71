"""The account's statement as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.accounting.account import Entry
    from dpsql.accounting.account_statement import Line, Statement
    from dpsql.core.cost import Cost
    from dpsql.policy.model import Policy

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
            _line(line, "analyst") | {"quota": None if line.quota is None else float(line.quota)}
            for line in found.analysts
        ],
        "queries": [_line(line, "sql") for line in found.queries],
        "groups": {str(k): _cost(cost) for k, cost in found.groups.items()},
        "pld": found.pld,
    }
    if history:
        shown["history"] = [
            {"id": e.id, "time": e.time, "analyst": e.analyst or None, "state": e.state, "cost": _cost(e.cost)}
            | dict(e.note)
            for e in found.entries
        ]
    return shown


def _line(line: Line, name: str) -> dict[str, Any]:
    return {name: line.name or None, "spent": _cost(line.spent), "releases": line.releases}


def _cost(cost: Cost) -> dict[str, float | None]:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
