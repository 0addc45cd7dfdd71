"""What an answer says of itself to whoever gets it: the SQL, what it cost, how it was made, under which policy.

All of it is public before a row is read, or has left already (Theorem POST-1): no exact number, no duration, no time
but that of a reservation, which comes before the first row. It is the same when a stored release answers once more, so
that a file that is written again has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpsql.accounting.account import Receipt
from dpsql.accounting.view import Releases
from dpsql.aggregates.noisy import Noisy
from dpsql.core.cost import Cost
from dpsql.quote.model import Known, Quote, Released

About = Mapping[str, Any]
FORMAT = 1  # of what is said; a reader refuses those that it doesn't know


def about(quote: Quote, known: Known, ledger: Releases, policy: str, versions: Mapping[str, str]) -> About:
    """What the answers to a quote say of themselves. policy: its digest."""
    spends = {r.id: r for released in known.values() for r in (released.receipt, *released.others)}
    # Ranges, and counts that choose limits and tell what is cut, which were released before it was asked.
    ranges = [automatic.receipt for automatic in known[quote.main].stage.automatic if automatic.receipt]
    for id in (*ranges, *quote.counted):
        if id not in spends:
            entry = ledger.entry(id)
            spends[entry.id] = Receipt(entry.id, entry.time, entry.cost, entry.state)
    paid = [_paid(spend) for spend in spends.values()]
    # Theorems COMP-1 and COMP-2: what the numbers rest on costs no more than the sum, whoever paid for it and when.
    total = ledger.account.filter.shown(sum((cost for cost in paid[1:]), paid[0]))
    whole = replace(total, epsilon=min(total.epsilon, sum((cost.epsilon for cost in paid), Fraction(0))))
    return {
        "dpsql": FORMAT,
        "receipt": known[quote.main].receipt.id,
        "sql": quote.text,
        "cost": _cost(whole),
        "releases": [_release(spend) for spend in sorted(spends.values(), key=lambda s: (s.time, s.id))],
        "mechanisms": sorted({name for released in known.values() for name in _mechanisms(released)}),
        "policy": policy,
        "versions": dict(versions),
    }


def about_nothing(sql: str, free: Cost, policy: str, versions: Mapping[str, str]) -> About:
    """What an answer says of itself that rests on no release, and cost nothing. policy: its digest."""
    return {
        "dpsql": FORMAT,
        "receipt": "",
        "sql": sql,
        "cost": _cost(free),
        "releases": [],
        "mechanisms": [],
        "policy": policy,
        "versions": dict(versions),
    }


def about_earlier(receipt: Receipt, sql: str) -> About:
    """What is known of an answer that an earlier version stored."""
    return {
        "dpsql": FORMAT,
        "receipt": receipt.id,
        "sql": sql,
        "cost": _cost(_paid(receipt)),
        "releases": [_release(receipt)],
    }


def _paid(receipt: Receipt) -> Cost:
    return receipt.cost if receipt.paid is None else receipt.paid


def _cost(cost: Cost) -> dict[str, str | None]:
    """Exact numbers, as text."""
    return {
        "epsilon": str(cost.epsilon),
        "delta": str(cost.delta),
        "rho": None if cost.rho is None else str(cost.rho),
    }


def _release(receipt: Receipt) -> dict[str, Any]:
    told = {"engine": receipt.untested} if receipt.untested else {}
    return {"id": receipt.id, "time": receipt.time, **_cost(_paid(receipt)), **told}


def _mechanisms(released: Released) -> Iterator[str]:
    for one in released.noisy:
        if isinstance(one, Noisy):
            yield from (m.noise.kind for m in one.step.measurements)
        else:
            yield from (column.mechanism.kind for column in one.columns)
    if any(step.selection is not None for step in released.stage.releases):
        yield "key selection"


def lines(said: About) -> Sequence[str]:
    """For people, a line each: what whoever verified a receipt now knows."""
    from dpsql.answer.render import printable

    cost = said.get("cost", {})
    spent = {sign: cost.get(name) for name, sign in _SIGNS.items()}
    guarantee = ", ".join(f"{sign} = {number}" for sign, number in spent.items() if number not in (None, "0"))
    found = {
        "sql": " ".join(str(said.get("sql", "")).split()),
        "cost": guarantee or "nothing",
        "noise": ", ".join(said.get("mechanisms", ())),
        "release": ", ".join(
            f"{one['id'][:8]} of {one['time'][:19].replace('T', ' ')}" for one in said.get("releases", ())
        ),
        "policy": said.get("policy", ""),
        "versions": ", ".join(f"{name} {version}" for name, version in said.get("versions", {}).items()),
    }
    return [f"{name:<9} {printable(str(text))}" for name, text in found.items() if text]


_SIGNS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
