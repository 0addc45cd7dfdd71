"""Noisy tables: what has left a release, and all that answers are computed from (Theorem POST-1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any, Protocol

import numpy as np

from dpsql.aggregates.base import Call, Rational
from dpsql.aggregates.clipping_bias import ClippingBias
from dpsql.core.arrays import Integers, plus, times
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import Codes, RandomizedResponse
from dpsql.statistics.base import Quantity
from dpsql.statistics.strategy import Linear


class HasNoise(Protocol):
    """A measurement, as far as answers need it: the noise that was drawn for it."""

    @property
    def noise(self) -> Noise | NoisyMax: ...


class ReleaseFacts(Protocol):
    """What a noisy table came from, as far as answers need it: a step, or a stored release (archive.py)."""

    @property
    def name(self) -> str: ...

    @property
    def calls(self) -> tuple[Call, ...]: ...

    @property
    def measurements(self) -> Sequence[HasNoise]: ...

    @property
    def estimates(self) -> Mapping[Quantity, Linear]: ...


@dataclass(frozen=True, slots=True)
class StoredNoise:
    """The noise that a statistic got. What the statistic was is told by the estimates."""

    noise: Noise | NoisyMax


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """A release that has left: enough to answer from, and nothing of how it was measured."""

    name: str
    calls: tuple[Call, ...]
    measurements: tuple[StoredNoise, ...]
    estimates: Mapping[Quantity, Linear]


@dataclass(frozen=True, slots=True, eq=False)
class Noisy:
    """A step's noisy integers: for each measurement its columns, one entry a cell, each a multiple of its grid."""

    step: ReleaseFacts
    cells: Any  # an Arrow table with k0, k1, …; None without keys
    columns: tuple[tuple[Integers, ...], ...]
    bias: ClippingBias | None = None  # what is known of what was cut before; None: nothing

    @property
    def count(self) -> int:
        """How many cells left."""
        return 1 if self.cells is None else int(self.cells.num_rows)

    def named(self, name: str, aggregates: Sequence[int]) -> Noisy:
        """The table under another name, for some of its aggregates, in this order."""
        step = self.step
        calls = tuple(step.calls[i] for i in aggregates)
        if (name, calls) == (step.name, step.calls):
            return self
        return self.renamed(name, calls)

    def renamed(self, name: str, calls: tuple[Call, ...]) -> Noisy:
        """The table under another name, for other aggregates."""
        step = self.step
        left = StoredFacts(name, calls, tuple(StoredNoise(m.noise) for m in step.measurements), step.estimates)
        return replace(self, step=left)

    def estimate(self, linear: Linear) -> Rational:
        """A linear combination of noisy columns, exactly."""
        denominator = lcm(*(w.denominator for _, w in linear.terms))
        total: Integers = np.zeros(self.count, dtype=np.int64)
        for (statistic, column), weight in linear.terms:
            factor = int(weight * denominator)
            total = plus(total, times(self.columns[statistic][column], factor))
        return Rational(total, denominator)


@dataclass(frozen=True, slots=True, eq=False)
class Randomized:
    """A column of randomised values: their places in the public list, and what was drawn."""

    values: Any  # an Arrow array
    type: str
    mechanism: RandomizedResponse
    codes: Codes


@dataclass(frozen=True, slots=True, eq=False)
class Responded:
    """A table's rows, each value randomised by itself, in an order that says nothing."""

    name: str
    columns: tuple[Randomized, ...]
