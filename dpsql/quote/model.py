"""What calibrate says of a query: every statement, every noise, and the price. Nothing about it depends on rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from fractions import Fraction
from typing import Any

from dpsql.accounting.fitting import Fits
from dpsql.accounting.pld import recorded
from dpsql.aggregates.base import Call
from dpsql.analyze.bounding import Limits
from dpsql.analyze.checked import CheckedRelease
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.core.zcdp import Conversion, pure_epsilon
from dpsql.mechanisms.base import Mechanism, Noise
from dpsql.mechanisms.budget import BasicBudget, Split
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import ONE_ROW
from dpsql.plan.nodes import (
    Histogram,
    Matching,
    Plan,
    Statement,
)
from dpsql.quote.responses import ResponseStep
from dpsql.statistics.base import Quantity, Statistic
from dpsql.statistics.bounds import Automatic
from dpsql.statistics.strategy import Linear
from dpsql.statistics.tally import Tally
from dpsql.statistics.top import Top
from dpsql.statistics.total import Sum
from dpsql.statistics.units import Units


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
    """Which cells leave: those whose noisy number of units reaches a threshold (Theorem KEY-1)."""

    measurement: int  # that of the number of units
    threshold: int
    delta: Fraction  # what it costs


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


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """Everything that a query will do and cost, before any private row is read."""

    plan: Plan
    result: tuple[tuple[str, str], ...]  # the answer's columns as DuckDB names and types them
    steps: tuple[Step, ...]
    epsilon: Fraction
    split: Split
    other: tuple[str, float] | None  # the mechanism that was not chosen, and its error relative to the chosen one
    responses: tuple[ResponseStep, ...] = ()  # rows that leave one by one; then there are no steps
    fits: Fits | None = None  # how often the account could pay for it; `explain` fills it in
    automatic: tuple[Automatic, ...] = ()  # the automatic bounds that it rests on
    before: Before | None = None  # what must be released first: then this noise is for the seed ranges
    lesser: Quote | None = None  # the same with what it would have had if its automatic bounds were still to pay
    aside: Quote | None = None  # an estimate of what limits and ranges cut (clipping.py)
    cuts: tuple[Mapping[str, Any], ...] = ()  # such estimates that were released before; `explain` fills them in

    @property
    def price(self) -> Cost:
        """What all of it costs."""
        *others, own = [cost for cost, _ in self.spends]
        total = sum(others, own)  # Theorem COMP-1
        if not others or total.rho is None:
            return total
        # Theorems COMP-2 and ZCDP-2: the sum is at most ρ(ε), and the conversion takes its δ once.
        return Cost(self.epsilon, own.delta, total.rho, total.parts)

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
        added: list[tuple[Sensitivity, Mechanism]] = [
            (m.sensitivity, m.noise) for s in self.steps for m in s.measurements
        ]
        return added + [(ONE_ROW, one) for s in self.responses for one in s.mechanisms]

    @property
    def _threshold(self) -> Fraction:
        return sum((s.selection.delta for s in self.steps if s.selection is not None), Fraction(0))

    @property
    def spends(self) -> list[tuple[Cost, dict[str, object]]]:
        """What the ledger records: each release that comes before the query, then the query itself."""
        first = () if self.before is None else self.before.quotes
        aside = () if self.aside is None else (self.aside,)
        own = self.own if self.before is None else self.before.rest
        return [*((q.own, q.note) for q in (*first, *aside)), (own, self.note)]

    @property
    def note(self) -> dict[str, object]:
        """What the ledger notes beside the price."""
        found: dict[str, object] = {"sql": self.plan.text}
        if (noises := self._noted) is not None:
            found["noises"] = noises
        winners = [m.statistic.title for s in self.steps for m in s.measurements if isinstance(m.statistic, Top)]
        if winners and self.before is None:
            found["chosen"] = winners  # of the counts or sums behind it, nothing was released
        return {**found, "threshold": str(self._threshold)} if self._threshold else found

    @property
    def _noted(self) -> list[list[str]] | None:
        """The noises that will be drawn, or what is no less private; None where that can't be said beforehand.

        Which statistics are measured, or whether winners are chosen, may hang on ranges that aren't released yet.
        """
        if self.before is None:
            return recorded(self.measured)
        if isinstance(self.split.budget, BasicBudget) and self.split.noise.pure:
            return [["laplace", str(self.before.rest.epsilon)]]  # Theorem COMP-1: any number of them, with all of ε
        chosen = any(r.winners is not None for r in self.plan.releases)
        same = not chosen and all(isinstance(noise, Gaussian) for _, noise in self.measured)
        return recorded(self.measured) if same else None  # Theorem GAUSS-3: (Δᵢ/σᵢ)² add up to the same

    def __str__(self) -> str:
        from dpsql.explain.show import show

        return show(self)


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """Releases of ranges that a query needs first (auto.py), and what is set aside for the query itself."""

    quotes: tuple[Quote, ...]
    rest: Cost  # the most that the query itself costs, whatever the ranges will be
    ask: Ask
    limits: Limits


@dataclass(frozen=True, slots=True)
class Ask:
    """What a query may spend, and how."""

    epsilon: Fraction
    delta: Fraction  # under zcdp: for key selection alone
    mechanism: str = "auto"
    conversion: Conversion | None = None  # what ε means in ρ; None under basic accounting

    @property
    def pure(self) -> Fraction:
        """The ε of the Laplace noise that it buys."""
        return self.epsilon if self.conversion is None else pure_epsilon(self.conversion.rho(self.epsilon))
