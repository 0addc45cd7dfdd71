"""What the best fixed limit would have been off by: computed from the rows, for judging alone.

A limit T weighs each row of a unit with n rows by min(1, T/n). Its error in a cell has two parts: what it cuts there,
and the noise at the whole epsilon of the question, which knows the limit for nothing. For counts and sums the limit is
the one of least error over the question's cells; for averages and variances the smallest that leaves 99.5% of the units
whole, because a smaller one is better only where values and numbers of rows are unrelated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from accuracy.questions import Column, Facts, Floats, Question, Range

LIMITS = np.unique(np.round(2 ** (np.arange(41) / 2)).astype(int))  # 1, 2, 3, 4, 6, 8, 11, 16, ...
WHOLE = 0.995
"""The share of the units that the limit of an average leaves whole."""
SMALLEST = 0.01
"""Errors are relative to a cell's truth, or to this share of all cells' where it is smaller."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What the noise of a question depends on besides its limit."""

    epsilon: float
    replaces: bool = False
    """Are neighbours those in which a unit is replaced by another, not added or removed?"""
    gaussian: bool = False
    parts: int = 1
    """How many questions share epsilon."""
    named: int | None = None
    """The limit that the question names, where it does."""

    def deviation(self, moved: float, share: float = 1) -> float:
        """The standard deviation of noise for what a unit moves, with this share of epsilon."""
        factor = 1 if self.gaussian else np.sqrt(2)
        return float(factor * moved * self.parts / (self.epsilon * share))


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """By cell: the error of the best fixed limit, and what errors are divided by before they are put together."""

    error: Floats
    scale: Floats
    limit: float


def references(facts: Facts, question: Question, ranges: Mapping[str, Range], setting: Setting) -> dict[str, Reference]:
    """By column; those whose best limit isn't known (distinct counts, medians) are left out."""
    return {
        column.name: _reference(facts, column, _Noise(question, setting), ranges)
        for column in question.columns
        if column.kind in ("count", "sum", "avg", "var")
    }


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise of the statistics that a question needs: sums that share epsilon, one or several for each value."""

    question: Question
    setting: Setting

    def deviation(self, limit: float) -> float:
        """Of a sum of weights; values divide epsilon. A number that stands alone moves by one unit's weights at most
        even where that unit is replaced by another; in several cells both units move theirs."""
        replaced = 2 if self.setting.replaces and (self.joint or self.question.key) else 1
        return self.setting.deviation(replaced * limit, 1 / max(len(self.question.values), 1))

    @property
    def squared(self) -> bool:
        """Are there sums of squares?"""
        return any(c.kind == "var" for c in self.question.columns)

    @property
    def joint(self) -> bool:
        """Are a value's sum and number of rows both needed? Then they are two sums of distances to the range's ends."""
        return len({c.kind for c in self.question.columns} & {"count", "sum"}) == 2 or any(
            c.kind in ("avg", "var") for c in self.question.columns
        )

    def count(self, limit: float) -> float:
        single = self.deviation(limit)
        return single * np.sqrt(2) * (2 if self.squared else 1) if self.joint else single

    def sum(self, limit: float, range: Range) -> float:
        single = self.deviation(limit)
        if not self.joint:
            between = max(range.most, 0) - min(range.least, 0)
            return single * (between if self.setting.replaces and not self.question.key else range.magnitude)
        return single * float(np.hypot(range.least, range.most)) * (2 if self.squared else 1)


def _reference(facts: Facts, column: Column, noise: _Noise, ranges: Mapping[str, Range]) -> Reference:
    truth = facts.truths[column.name]
    if column.kind in ("avg", "var"):
        limit = noise.setting.named or float(np.quantile(facts.rows_per_unit, WHOLE, method="higher"))
        moments = _average if column.kind == "avg" else _variance
        error = moments(facts, column, noise, ranges[column.of], limit)
        return Reference(error, error, limit)
    scale = np.maximum(np.abs(truth), SMALLEST * np.nansum(np.abs(truth)))
    scale = np.maximum(np.nan_to_num(scale), 1e-9)
    limits = [noise.setting.named] if noise.setting.named else LIMITS.tolist()
    errors = [_total(facts, column, noise, ranges, limit) for limit in limits]
    best = int(np.argmin([np.mean((error / scale) ** 2) for error in errors]))
    return Reference(errors[best], scale, limits[best])


def _weights(facts: Facts, limit: float) -> Floats:
    return np.minimum(1, limit / facts.rows_per_unit)[facts.unit]


def _total(facts: Facts, column: Column, noise: _Noise, ranges: Mapping[str, Range], limit: float) -> Floats:
    lost = 1 - _weights(facts, limit)
    if column.kind == "count":
        return np.hypot(facts.added(lost * facts.rows), noise.count(limit))
    return np.hypot(facts.added(lost * facts.sums[column.of]), noise.sum(limit, ranges[column.of]))


@np.errstate(divide="ignore", invalid="ignore")
def _average(facts: Facts, column: Column, noise: _Noise, range: Range, limit: float) -> Floats:
    weights = _weights(facts, limit)
    rows = facts.added(weights * facts.counts[column.of])
    mean = facts.added(weights * facts.sums[column.of]) / rows
    share = (mean - range.least) / range.size
    single = noise.deviation(limit) * range.size * (2 if noise.squared else 1)
    drawn = np.minimum(single * np.hypot(share, 1 - share) / rows, range.size / 2)
    return np.hypot(mean - facts.truths[column.name], drawn)


@np.errstate(divide="ignore", invalid="ignore")
def _variance(facts: Facts, column: Column, noise: _Noise, range: Range, limit: float) -> Floats:
    """From sums of y^2, 1 - y^2 and y, where y is the value's place between -1 and 1: a row moves them by at most 2."""
    weights, half, middle = _weights(facts, limit), range.size / 2, (range.least + range.most) / 2
    rows = facts.added(weights * facts.counts[column.of])
    first = (facts.added(weights * facts.sums[column.of]) / rows - middle) / half
    second = facts.added(weights * facts.squares[column.of]) / rows / half**2
    slopes = np.sqrt((2 * first**2 - second) ** 2 + (1 + 2 * first**2 - second) ** 2 + (2 * first) ** 2)
    drawn = np.minimum(2 * noise.deviation(limit) * slopes / rows, 0.5) * half**2
    variance = (second - first**2) * half**2
    return np.hypot(variance - facts.truths[column.name], drawn)
