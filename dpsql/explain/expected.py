"""How far off each output of a quote will be, in a few words: what is shown before anything is spent."""

from __future__ import annotations

from typing import Any

from dpsql.core.frozen import dataclass
from dpsql.explain.facts import Facts, as_dict
from dpsql.quote.model import Quote

LATER = "with the answer"
"""What stands for an error that only the answer can tell: of a number that is computed from several."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One output: its name, its error in its own units for all cells at once with 95% (None: there is no such number
    before the answer is known), the same in words, and of how many rows a group has where the error hangs on that.
    """

    name: str
    error: float | None
    text: str
    rows: int | None = None


def expected(quote: Quote) -> list[Expected]:
    """The outputs that have noise, in order."""
    facts = as_dict(quote)
    releases = {release["name"]: release for release in facts["releases"]}
    found = []
    for column in facts["columns"]:
        if column["kind"] == "aggregate":
            release, place = column["from"][0].split(".")
            aggregate = releases[release]["aggregates"][int(place[1:])]
            found.append(
                _expected(column["name"], aggregate["error"], aggregate.get("by_limit"), pending="pending" in aggregate)
            )
        elif column["kind"] in ("expression", "response"):
            found.append(Expected(column["name"], None, LATER))
    return found


def _expected(name: str, error: Facts | None, by_limit: dict[str, float] | None, *, pending: bool) -> Expected:
    if by_limit is not None:  # the limit is still to be chosen: what is known is its noise
        return Expected(name, None, f"{short(by_limit['1'])} × limit")
    if pending and error is None:
        return Expected(name, None, "still to be chosen")
    match error:
        case {"all_cells": float(off), "rows": int(rows)}:
            return Expected(name, off, short(off), rows)
        case {"all_cells": float(off)}:
            return Expected(name, off, short(off))
        case {"ranks": float(off)}:
            return Expected(name, None, f"{short(off)} rows")
        case {"decided_by": int(rows)}:
            return Expected(name, None, f"{rows:,} rows")
        case _:
            return Expected(name, None, LATER)


def short(error: float) -> str:
    """An error in three digits."""
    return f"{error:,.0f}" if error >= 1000 else f"{error:.3g}"


def price_line(quote: Quote) -> dict[str, Any]:
    """One line of a table of prices: ε, the error to expect, what it costs, and how often it fits."""
    rho = None if quote.price.rho is None else float(quote.price.rho)
    return {
        "epsilon": float(quote.epsilon),
        "errors": {one.name: one.error for one in expected(quote)},
        "cost": {"epsilon": float(quote.price.epsilon), "delta": float(quote.price.delta), "rho": rho},
        "fits": None if quote.fits is None else quote.fits.more,
    }
