"""What a run did, or would do: a line for each piece of work. Nothing of it is computed from rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from dpsql.answer.render import guarantee
from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass

SOON = 5
"""Runs that what is left must still pay for; with fewer, a run says so."""

State = Literal["released", "stored", "finished", "priced"]
"""released: paid for now; stored: the ledger had its answer; finished: an earlier run did it; priced: a dry run."""


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of work: its queries, what became of it, what it cost, its releases and its files."""

    queries: tuple[str, ...]
    state: State
    cost: Cost
    releases: tuple[str, ...]
    files: tuple[str, ...]
    fits: bool = True

    def __str__(self) -> str:
        files = ", ".join(self.files)
        match self.state:
            case "finished":
                said = f"finished before, cost nothing: {files}"
            case "stored":
                said = f"cost nothing, the ledger has its answer: {files}"
            case "priced":
                said = f"will cost {guarantee(self.cost, up=True)}: {files}"
            case "released":
                said = f"cost {guarantee(self.cost, up=True)}: {files}"
        return f"{', '.join(self.queries)}: {said}"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "queries": list(self.queries),
            "state": self.state,
            "cost": cost_dict(self.cost),
            "releases": list(self.releases),
            "files": list(self.files),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did; print it."""

    job: str
    params: Mapping[str, str]
    lines: tuple[Line, ...]
    dry: bool
    fits: bool = True
    """Of a dry run: could all of it be paid now?"""
    runs_left: int | None = None
    """How many more runs of this price what is left pays for, after this one; None where it cost nothing."""

    @property
    def cost(self) -> Cost:
        """What all of it cost together."""
        # Theorem COMP-1: sequential composition adds.
        paid = [line.cost for line in self.lines if line.state in ("released", "priced")]
        return sum(paid[1:], paid[0]) if paid else ZERO

    def __str__(self) -> str:
        cost = self.cost
        whole = "nothing" if not cost.epsilon and not cost.delta else guarantee(cost, up=True)
        last = f"{self.job}: {'would cost' if self.dry else 'cost'} {whole}"
        last += "" if self.fits else ", which is more than is left"
        if self.warning:
            last += f"\n{self.warning}"
        return "\n".join([*map(str, self.lines), last])

    @property
    def warning(self) -> str:
        """That its next runs can't be paid; nothing where they can."""
        if not self.fits or self.runs_left is None or self.runs_left >= SOON:
            return ""
        left = "no more run" if not self.runs_left else f"{self.runs_left} more run{'s' * (self.runs_left > 1)}"
        then = "then " if self.dry else ""
        return f"{self.job}: what is {then}left pays for {left} of this price; ask the steward in good time"

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        told = {"job": self.job, "params": dict(self.params), "dry_run": self.dry, "cost": cost_dict(self.cost)}
        return {
            **told,
            "fits": self.fits,
            "runs_left": self.runs_left,
            "queries": [line.as_dict() for line in self.lines],
        }


def cost_dict(cost: Cost) -> dict[str, float | None]:
    """A price as numbers, with the names that answers have for them."""
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}
