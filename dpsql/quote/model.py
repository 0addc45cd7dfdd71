"""What a query will do and cost, before any private row is read: a Quote.

A quote has stages, which are measured one after the other (private ranges first, then counts of units, which choose
limits and tell what is cut, then the release itself), and parts, which are answered from what they release (one for a
query, several for a batch). A stage has steps: one noisy table each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from math import ceil
from typing import Any, Literal

from sqlglot import exp

from dpsql.accounting.account import Receipt
from dpsql.accounting.filters import Fits, recorded
from dpsql.aggregates.base import Call
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.analyze.checked import CheckedRelease
from dpsql.analyze.responses import CheckedResponses
from dpsql.bounds.unit_counts import Tables
from dpsql.core.cost import Conversion, Cost, pure_epsilon
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.base import Mechanism, Noise
from dpsql.mechanisms.budget import BasicBudget, Split
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import ONE_ROW, RandomizedResponse
from dpsql.plan.nodes import (
    Encode,
    Histogram,
    Matching,
    Plan,
    Scan,
    Statement,
    parts_of,
)
from dpsql.statistics.base import Quantity, Statistic, Tally
from dpsql.statistics.bounds import Automatic
from dpsql.statistics.counts import Units
from dpsql.statistics.strategy import Linear
from dpsql.statistics.sums import Sum
from dpsql.statistics.top import Top

Result = tuple[tuple[str, str], ...]
"""The columns of an answer: names and types."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One statistic and the noise it gets."""

    statistic: Statistic
    sensitivity: Sensitivity
    noise: Noise | NoisyMax

    def in_rows(self, bits: int) -> NoisyMax | None:
        """A choice's noise in rows, or in the unit of the sums that it is made by: comparable whatever the grid."""
        if not isinstance(self.noise, NoisyMax):
            return None
        score = self.statistic.score if isinstance(self.statistic, Top) else None
        step = score.value.grid.step if isinstance(score, Sum) else Fraction(1)
        return NoisyMax(self.noise.scale * step / (1 if isinstance(score, Units) else 2**bits))


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cells leave: those whose noisy number of units (KEY-1), or of their votes (KEYW-1), reaches a threshold.

    vote: what a unit adds to a cell on average, where votes are counted; 1 where units are. other: how many units a
    cell would have to have were it found in the other way, which wasn't chosen.
    """

    measurement: int  # that of the number of units, or of votes
    threshold: int
    delta: Fraction  # what it costs
    vote: Fraction = Fraction(1)
    votes: bool = False
    other: int | None = None

    @property
    def units(self) -> int:
        """About how many units a cell must have to reach the threshold."""
        return ceil(self.threshold / self.vote)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One statement over private rows and the noise its results get; becomes the noisy table `name`."""

    name: str
    checked: CheckedRelease
    statement: Statement
    cells: Any  # the public cells in key order, an Arrow table with k0, k1, …; None: no keys, or private ones
    tallies: tuple[Tally, ...]  # of the statement
    calls: tuple[Call, ...]
    measurements: tuple[Measurement, ...]
    estimates: Mapping[Quantity, Linear]
    bits: int  # of the weights
    selection: Selection | None
    histograms: tuple[Histogram, ...] = ()  # what choices look at; their cells are the statement's
    matchings: tuple[Matching, ...] = ()  # what counts of distinct values look at, where units have limits
    texts: dict[str, str] = field(init=False, default_factory=dict, repr=False, compare=False)
    """The statement as a backend writes it, once it has: a step can run more than once."""

    @property
    def count(self) -> int | None:
        """How many cells; None where that is not known beforehand."""
        return self.checked.cells

    @property
    def measured(self) -> list[tuple[Sensitivity, Mechanism]]:
        """Every noise that will be drawn, with the sensitivity of what it is added to."""
        return [(m.sensitivity, m.noise) for m in self.measurements]


@dataclass(frozen=True, slots=True, eq=False)
class ResponseStep:
    """One table whose rows leave one by one, each value randomised by itself; becomes the noisy table `name`."""

    name: str
    checked: CheckedResponses
    statement: Encode
    mechanisms: tuple[RandomizedResponse, ...]  # of the columns, in their order

    @property
    def measured(self) -> list[tuple[Sensitivity, Mechanism]]:
        """Every noise that will be drawn, with the sensitivity of what it is added to."""
        return [(ONE_ROW, one) for one in self.mechanisms]


AnyStep = Step | ResponseStep


@dataclass(frozen=True, slots=True)
class View:
    """A table that a part of the quote reads: one of a stage's steps, under the part's own name for it."""

    part: int
    name: str
    step: int
    aggregates: tuple[int, ...]  # of the step's calls, in the order of the part's own


@dataclass(frozen=True, slots=True)
class Part:
    """One statement: what becomes of its noisy tables, and its columns as DuckDB names and types them."""

    plan: Plan
    result: Result


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One release of a quote: what is measured, paid for and stored together.

    What a stage costs is settled when the quote is made. What it measures may rest on what earlier stages released:
    then `settle` tells once that is known, and it never costs more than `most` (Theorem AUTO-1).
    """

    kind: Literal["range", "limits", "rows", "main"]
    text: str  # what the ledger notes of it
    steps: tuple[AnyStep, ...]
    epsilon: Fraction
    split: Split
    other: tuple[str, float] | None = (
        None  # the mechanism that was not chosen, and its error relative to the chosen one
    )
    views: tuple[View, ...] = ()
    automatic: tuple[Automatic, ...] = ()  # the automatic bounds that it rests on
    after: tuple[Stage, ...] = ()  # the stages whose releases it rests on
    settle: Callable[[Known], Stage] | None = None
    most: Cost | None = None
    open: bool = False  # the mechanism, too, hangs on what earlier stages release
    enough: tuple[AnyStep, ...] | None = None  # the steps with the most noise that a stored release may have instead
    accepts: Callable[[Noisy], bool] | None = None  # whether a stored table serves; None: if it has no more noise
    shown: Part | None = None  # how it is shown where it is asked for by itself
    asked: Ask | None = None  # what it and its automatic ranges may cost together, whether those are known or not

    def settled(self, known: Known) -> Stage:
        """What is measured, given what the stages before it released."""
        if self.settle is None:
            return self
        now = self.settle(known)
        if not now.own.within(self.cost):
            raise AssertionError("a stage costs more than was set aside for it")
        return now

    @property
    def cost(self) -> Cost:
        """What is reserved for it."""
        return self.own if self.most is None else self.most

    @property
    def own(self) -> Cost:
        """Computed from the noise objects that will be drawn from, and from the thresholds that will be used."""
        noise = self.split.cost([s for s, _ in self.measured], [n for _, n in self.measured])
        selection = self._threshold
        if noise.rho is None:
            return Cost(noise.epsilon, noise.delta + selection)  # Theorems COMP-1 and KEY-1
        return Cost(noise.epsilon, noise.delta + selection, noise.rho, selection)  # Theorems COMP-2 and KEY-2

    @property
    def measured(self) -> list[tuple[Sensitivity, Mechanism]]:
        """Every noise that will be drawn, with the sensitivity of what it is added to."""
        return [one for step in self.steps for one in step.measured]

    @property
    def releases(self) -> tuple[Step, ...]:
        """Its steps that measure statistics."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    @property
    def responses(self) -> tuple[ResponseStep, ...]:
        """Its steps whose rows leave one by one."""
        return tuple(step for step in self.steps if isinstance(step, ResponseStep))

    @property
    def _threshold(self) -> Fraction:
        return sum((s.selection.delta for s in self.releases if s.selection is not None), Fraction(0))

    @property
    def note(self) -> dict[str, object]:
        """What the ledger notes beside the price."""
        found: dict[str, object] = {"sql": self.text}
        if (noises := self._noted) is not None:
            found["noises"] = noises
        winners = [m.statistic.title for s in self.releases for m in s.measurements if isinstance(m.statistic, Top)]
        if winners and self.settle is None:
            found["chosen"] = winners  # of the counts or sums behind it, nothing was released
        return {**found, "threshold": str(self._threshold)} if self._threshold else found

    @property
    def _noted(self) -> list[list[str]] | None:
        """The noises that will be drawn, or what is no less private; None where that can't be said beforehand.

        Which statistics are measured, or whether winners are chosen, may hang on ranges that aren't released yet.
        """
        if self.settle is None:
            return recorded(self.measured)
        if self.open:
            return [["laplace", str(self.cost.epsilon)]] if not self.cost.delta else None
        if isinstance(self.split.budget, BasicBudget) and self.split.noise.pure:
            return [["laplace", str(self.cost.epsilon)]]  # Theorem COMP-1: any number of them, with all of ε
        chosen = any(step.checked.release.winners is not None for step in self.releases)
        same = not chosen and all(isinstance(noise, Gaussian) for _, noise in self.measured)
        return recorded(self.measured) if same else None  # Theorem GAUSS-3: (Δᵢ/σᵢ)² add up to the same


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What a stage released: its tables, step by step, and the spend that paid for them."""

    stage: Stage  # settled
    noisy: tuple[Noisy | Responded, ...]
    receipt: Receipt
    others: tuple[Receipt, ...] = ()  # further spends, where stored tables of several answer it


Known = Mapping[Stage, Released]


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """Everything that a query, or a batch of them, will do and cost, before any private row is read."""

    text: str
    stages: tuple[Stage, ...]  # in the order in which they run
    parts: tuple[Part, ...]  # one for a query, several for a batch
    epsilon: Fraction
    offer: Callable[[Fraction], str | None] | None = None  # the accuracy that an ε pays for, where one was asked for
    fits: Fits | None = None  # how often the account could pay for it; `explain` fills it in
    counts: Tables = field(default_factory=dict)
    """Counts of units that are stored: what they tell of limits and ranges is free."""
    counted: tuple[str, ...] = ()
    """The spends that paid for them."""
    notes: tuple[tuple[str, ...], ...] = ()
    """Of each part: what SQL and policy alone say of what it leaves out, in words (notes.py)."""
    learned: bool = False  # are its limits chosen by a histogram that the steward learned for everybody?

    @property
    def main(self) -> Stage:
        """The release that answers it."""
        return next((s for s in self.stages if s.kind == "main"), None) or next(
            s for s in self.stages if s.kind == "rows"
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of its release, most queries have one."""
        return self.main.releases

    @property
    def responses(self) -> tuple[ResponseStep, ...]:
        """The tables whose rows leave one by one."""
        return tuple(step for stage in self.stages for step in stage.responses)

    @property
    def plan(self) -> Plan:
        """The query's plan; that of a batch has no outputs of its own."""
        if len(self.parts) == 1:
            return self.parts[0].plan
        return Plan(self.text, (), (), exp.Select(), frozenset())

    @property
    def tables(self) -> frozenset[str]:
        """The private tables that it reads, also those through which rows belong to their owners."""
        plans = [part.plan for part in self.parts]
        inputs = [release.input for plan in plans for release in plan.releases]
        inputs += [response.input for plan in plans for _, response in plan.responses]
        scans = [node for relation in inputs for node in parts_of(relation) if isinstance(node, Scan)]
        return frozenset(name for scan in scans for name in (scan.table, *(link.table for link in scan.links)))

    @property
    def result(self) -> Result:
        """The answer's columns; those of a batch are its parts'."""
        return self.parts[0].result if len(self.parts) == 1 else ()

    @property
    def price(self) -> Cost:
        """What all of it costs."""
        return self.cost_of(self.stages)

    def cost_of(self, stages: Sequence[Stage]) -> Cost:
        """What some of its stages cost together."""
        if len(stages) == 1:
            return stages[0].cost
        total = sum((stage.cost for stage in stages[1:]), stages[0].cost)  # Theorem COMP-1
        if total.rho is None:
            return total
        # Theorems COMP-2 and ZCDP-2: the sum is at most ρ(ε), and the conversion takes its δ once.
        return Cost(self.epsilon, max(stage.cost.delta for stage in stages), total.rho, total.parts)

    @property
    def measured(self) -> list[tuple[Sensitivity, Mechanism]]:
        """Every noise that will be drawn, with the sensitivity of what it is added to."""
        return [one for stage in self.stages for one in stage.measured]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a query may spend, and how."""

    epsilon: Fraction
    delta: Fraction  # under zcdp: for key selection alone
    mechanism: str = "auto"
    conversion: Conversion | None = None  # what ε means in ρ; None under basic accounting
    keys_share: Fraction | None = None  # of it, for finding keys that aren't public; None: as is expected to be best

    @property
    def pure(self) -> Fraction:
        """The ε of the Laplace noise that it buys."""
        return self.epsilon if self.conversion is None else pure_epsilon(self.conversion.rho(self.epsilon))
