"""What a recipe promises, and the facts that it carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.aggregates.form import Form
from dpsql.core.arrays import column, top
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.statistics.base import Clip, Quantity, Value, power_sum

Arrow = Any  # a pyarrow array; pyarrow has no types of its own
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate to answer, its argument already on a grid."""

    function: str
    value: Value | None  # None: COUNT(*)
    type: Type | None  # of the argument
    where: str | None  # the FILTER's column
    units: bool = False  # COUNT(DISTINCT unit)
    clip: Clip | None = None  # contribution_bounds_per_group
    at: tuple[Fraction, ...] = ()  # of a quantile; of presence: what a number must exceed
    listed: bool = False  # its answer is a list
    distinct: bool = False  # COUNT(DISTINCT x)
    second: Value | None = None  # the other value of a pair

    @property
    def values(self) -> tuple[Value, ...]:
        return tuple(v for v in (self.value, self.second) if v is not None)

    @property
    def present(self) -> Quantity:
        """The number of rows with a value: all rows where the value can't be NULL."""
        if self.clip is not None:
            return Quantity("clipped", self.value, self.where, self.clip)
        return Quantity("rows", None, self.where) if self.value is None else power_sum(self.value, self.where, 0)

    def powers(self, i: int, j: int = 0) -> Quantity:
        """Σ uⁱ·vʲ over the rows that have all values of the call, with u and v in [0, 1]."""
        assert self.value is not None
        return power_sum(self.value, self.where, i, self.second, j)

    @property
    def total(self) -> Quantity:
        assert self.value is not None
        if self.clip is not None:
            return Quantity("clipped", self.value, self.where, self.clip)
        return Quantity("total", self.value, self.where)

    @property
    def magnitude(self) -> Fraction:
        """The most that one row (with a clip: one unit) adds to a sum."""
        assert self.value is not None
        most = self.value.grid.magnitude if self.clip is None else max(abs(self.clip.low), abs(self.clip.high))
        return most * self.value.grid.step


@dataclass(frozen=True, slots=True)
class Rational:
    """A column of exact rationals with one denominator."""

    numerators: NDArray[Any]
    denominator: int

    def rounded(self, scale: int = 0) -> NDArray[Any]:
        """Nearest integers of value · 10^scale."""
        factor, half = 2 * 10**scale, self.denominator
        numbers = self.numerators
        if self.denominator == 1 and scale == 0:
            return numbers
        if numbers.dtype != object and max(max(top(numbers), 1) * factor + half, 2 * half) >= 2**63:
            numbers = numbers.astype(object)
        return np.asarray((numbers * factor + half) // (2 * self.denominator))

    @property
    def floats(self) -> Floats:
        if self.numerators.dtype == object or self.denominator.bit_length() > 1000:  # more than a double holds
            return np.array([float(Fraction(int(n), self.denominator)) for n in self.numerators], dtype=np.float64)
        return self.numerators.astype(np.float64) / float(self.denominator)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The unrounded answer of each cell, and how it moves with each quantity, to first order; NaN: no interval."""

    centre: Floats
    slopes: Sequence[tuple[Quantity, Floats]]


class Recipe(Form):
    """How one SQL aggregate is answered from noisy quantities, and what the stages must know of it meanwhile."""

    answered = True

    at: tuple[Fraction, ...] = ()  # the share of the rows that it always asks for
    counts_distinct: bool = False  # can it be taken of DISTINCT values, and of units?
    same_of_distinct: bool = False  # is it of DISTINCT values what it is of all?
    ranked: bool = False  # does it choose one of a value's possible values, by rank (Theorem QUANTILE-1)?
    takes_dates: bool = False  # and of dates and times, too?
    powers_of_values: bool = False  # is it made of powers of values relative to their range?
    above_zero: bool = False  # must the range of its value lie above 0?
    summed: bool = False  # is it made of the sum of its value, and of counts at most besides?
    one_number: bool = False  # is its answer one noisy count or sum as it stands, whose error is that of the noise?
    ranks_groups: bool = False  # can the groups with the largest answers be chosen without releasing them?
    shrinks: bool = True  # does its error shrink as 1/n, where it depends on the number of rows?
    simulates: bool = True  # does fresh noise on the noisy numbers move it as the noise in them does?
    tells_presence: bool = False  # does it say which groups are there? SQL can't call it
    note: str | None = None  # what a reader of an answer should know of it
    nearness: str | None = None  # of a choice: what else `explain` says of how near it is

    @property
    def counted(self) -> bool:
        """Are its values only counted? Then they need no range."""
        return self.takes == "anything"

    @property
    def ranged(self) -> bool:
        """Must its value have a range, which it is clipped to?"""
        return self.takes in ("number", "number or boolean")

    def value(self, argument: exp.Expr) -> exp.Expr:
        """What is measured, given what it is written of."""
        return argument

    def written_end(self, end: float) -> float:
        """An end of the range of what is measured, as an end of what it is written of: for people to read."""
        return end

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        """The quantities it is made of."""
        raise NotImplementedError

    def interval_needs(self, call: Call) -> tuple[Quantity, ...]:
        """The quantities that only its interval needs: a stored release that lacks them answers without one."""
        return ()

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        """Linear combinations whose variance is its error, each scaled so that errors of two aggregates compare."""
        raise NotImplementedError

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        """The column of answers."""
        raise NotImplementedError

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        """Around what and how the answer moves with the noise."""
        raise NotImplementedError

    def bounds(self, call: Call) -> tuple[float, float] | None:
        """The range that its answers are clamped to, if any."""
        return None

    def rows(self, call: Call) -> Quantity | None:
        """The number of rows that it divides by: there is no answer where that may be noise alone."""
        return None

    def averages(self, call: Call) -> tuple[float, float] | None:
        """Between which averages of the value its error is looked at; None where that doesn't matter."""
        return self.bounds(call)

    def examples(self, call: Call, rows: int) -> list[dict[Quantity, float]] | None:
        """The sums of cells with so many rows, at which its error is shown; None: it is shown for several averages."""
        return None

    def decides(self, call: Call) -> dict[Quantity, Fraction] | None:
        """The number of rows that decide it, as a linear combination, where it is a yes or no."""
        return None


def saturated(numbers: NDArray[Any]) -> Arrow:
    """BIGINT, saturating: clamping a released value is post-processing."""
    import pyarrow as pa

    most = 2**63 - 1
    if numbers.dtype == object:
        return pa.array([None if n is None else max(-most, min(most, int(n))) for n in numbers], pa.int64())
    return column(numbers.astype(np.int64))


def decimals(numbers: NDArray[Any], scale: int, width: int = 38) -> Arrow:
    """DECIMAL(width, scale) from integers of 10^-scale, saturating."""
    from decimal import Context, Decimal

    import pyarrow as pa

    most = 10**width - 1
    exact = Context(prec=40)  # the default of 28 digits would round
    clamped = (max(-most, min(most, int(n))) for n in numbers)
    return pa.array([Decimal(n).scaleb(-scale, context=exact) for n in clamped], type=pa.decimal128(width, scale))
