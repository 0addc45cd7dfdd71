"""Aggregates that are a smooth function of noisy power sums: one formula gives the answer, its error and its interval.

Post-processing (Theorem POST-1): whatever a formula does, it only sees noisy sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, prod
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Floats, Rational, Recipe, Spread
from dpsql.core.arrays import column
from dpsql.core.frozen import dataclass
from dpsql.statistics.base import Quantity, Value

Numbers = Any  # an array of floats; of complex numbers while a slope is taken
Formula = Callable[
    ..., Numbers
]  # (of, number of rows, mean of each power, …) -> the aggregate; NaN where there is none
_STEP = 1e-20  # of the complex step: the imaginary part of f(x + ih) is h·f'(x), to all digits
_SHAPES = ((1, 1), (2, 4), (4, 2))  # Beta laws of u in [0, 1] at which errors are compared and shown


@dataclass(frozen=True, slots=True)
class Of:
    """Where the values of a call lie: x = low + span · u, and the same of the second."""

    low: float
    span: float
    second_low: float = 0.0
    second_span: float = 1.0

    @classmethod
    def call(cls, call: Call) -> Of:
        ends = [end for value in call.values for end in _ends(value)]
        return cls(*ends)


def _ends(value: Value) -> tuple[float, float]:
    grid = value.grid
    return float(grid.low * grid.step), float(grid.span * grid.step)


@dataclass(frozen=True, slots=True)
class Derived(Recipe):
    """From the means of powers uⁱ·vʲ; NULL where the noisy count is too small, or the formula has no value."""

    name: str
    about: str
    powers: tuple[tuple[int, int], ...]
    formula: Formula
    size: Callable[[Of], float]  # how large it may be: to compare the errors of two aggregates
    pair: bool = False
    least: float = 0.5  # of the noisy count: where COUNT would say less, there is none
    limits: Callable[[Of, Floats], tuple[Any, Any]] | None = None  # it is clamped to these
    fixed: bool = True  # they don't depend on the number of rows
    shrinks: bool = True  # its error is like 1/n
    nodes: tuple[type[exp.Expr], ...] = ()
    words: tuple[str, ...] = ()

    powers_of_values = True

    @property
    def description(self) -> str:
        return f"{self.name}({'y, x' if self.pair else 'x'}): {self.about}"

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (call.powers(0, 0), *(call.powers(i, j) for i, j in self.powers))

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        return _contrasts(self, call)

    def examples(self, call: Call, rows: int) -> list[dict[Quantity, float]]:
        """The sums of a cell with so many rows, for several laws of the values; a second value moves half with it."""
        found = []
        for shape in _SHAPES:
            means = [(_beta(shape, i + j) + _beta(shape, i) * _beta(shape, j)) / 2 for i, j in ((0, 0), *self.powers)]
            found.append({q: rows * mean for q, mean in zip(self.needs(call), means, strict=True)})
        return found

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        values = self._clamped(call, [noisy[q].floats for q in self.needs(call)])
        return column(values, np.isnan(values))

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        sums = [noisy[q].floats for q in self.needs(call)]
        return Spread(self._clamped(call, sums), list(zip(self.needs(call), self.slopes(call, sums), strict=True)))

    def rows(self, call: Call) -> Quantity:
        return call.powers(0, 0)

    def bounds(self, call: Call) -> tuple[float, float] | None:
        if self.limits is None or not self.fixed:
            return None
        low, high = self.limits(Of.call(call), np.array([inf]))
        return float(low), float(high)

    def slopes(self, call: Call, sums: Sequence[Floats]) -> list[Floats]:
        """How the formula moves with each of the sums, by the complex step."""
        known = ~np.isnan(self._value(call, sums))
        found = []
        for i in range(len(sums)):
            moved: list[Any] = [s + 1j * _STEP if i == j else s for j, s in enumerate(sums)]
            found.append(np.where(known, np.imag(self._value(call, moved)) / _STEP, np.nan))
        return found

    def _clamped(self, call: Call, sums: Sequence[Floats]) -> Floats:
        values: Floats = self._value(call, sums)
        if self.limits is None:
            return values
        low, high = self.limits(Of.call(call), sums[0])
        return np.where(np.isnan(values), np.nan, np.clip(values, low, high))

    def _value(self, call: Call, sums: Sequence[Numbers]) -> Numbers:
        with np.errstate(all="ignore"):
            n = np.where(np.real(sums[0]) >= self.least, sums[0], np.nan)
            found = self.formula(Of.call(call), n, *(s / n for s in sums[1:]))
            return np.where(np.isfinite(found), found, np.nan)


@lru_cache(maxsize=512)
def _contrasts(recipe: Derived, call: Call) -> list[dict[Quantity, Fraction]]:
    """n·(answer − its true value) to first order, relative to how large it may be."""
    rows = 1_000_000
    found: list[dict[Quantity, Fraction]] = []
    needs, size = recipe.needs(call), recipe.size(Of.call(call))
    for example in recipe.examples(call, rows):
        slopes = recipe.slopes(call, [np.array([example[q]]) for q in needs])
        one: dict[Quantity, Fraction] = {}
        for quantity, slope in zip(needs, slopes, strict=True):
            relative = float(slope[0]) * rows / size if size else inf
            relative = relative if isfinite(relative) else 1.0  # ranges so small or large that no double holds products
            one[quantity] = one.get(quantity, Fraction(0)) + Fraction(round(relative * 2**20), 2**20)
        found.append(one)
    return found


def positive(numbers: Numbers) -> Numbers:
    """What must not be 0 or less: a noisy variance that is has no root, and divides nothing."""
    return np.where(np.real(numbers) > 1e-12, numbers, np.nan)


def _beta(shape: tuple[int, int], power: int) -> float:
    a, b = shape
    return prod((a + k) / (a + b + k) for k in range(power))
