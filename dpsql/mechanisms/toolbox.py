"""Mechanisms as functions, for engineers: each adds exact noise to what it is given, and says how far that is off.

All have one shape: `laplace(value, sensitivity, epsilon)` returns the noisy value, and `laplace.error(sensitivity,
epsilon, confidence=0.95)`, with the same parameters but for the value, how far it is off at most with that confidence.
Sensitivity is what one unit can change the value by. Noise comes from the operating system's random bytes, by integer
arithmetic: there is no seed, and no float has digits that tell. Numbers such as ε are integers, fractions or text
("0.1"). **No ledger is charged**: whoever calls these adds up what is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import floor, log, sqrt
from operator import index
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dpsql.core.sensitivity import Sensitivity
from dpsql.mechanisms.discrete_gaussian_noise import DiscreteGaussian
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.laplace_noise import DiscreteLaplace
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.mechanisms.sampler import Scores, added, integers
from dpsql.mechanisms.toolbox_noises import Binomial, TruncatedGeometric

Number = int | str | Fraction | Decimal
Integers = Sequence[int] | npt.NDArray[Any]

P = ParamSpec("P")
E = ParamSpec("E")
R = TypeVar("R", covariant=True)
T = TypeVar("T", covariant=True)


class Tool(Protocol, Generic[P, R, E, T]):
    """A function with another one beside it that tells its error."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def error(self, *args: E.args, **kwargs: E.kwargs) -> T:
        """How far the result is off at most, with this confidence."""


def _with_error(error: Callable[E, T]) -> Callable[[Callable[P, R]], Tool[P, R, E, T]]:
    def beside(function: Callable[P, R]) -> Tool[P, R, E, T]:
        function.error = error  # type: ignore[attr-defined]  # a function may have attributes
        return cast(Tool[P, R, E, T], function)

    return beside


# ---------------------------------------------------------------- ε


def _geometric_error(sensitivity: Number, epsilon: Number, *, cells: int = 1, confidence: float = 0.95) -> int:
    """No cell of a noisy count or histogram is off by more than this, with this confidence (Theorem LAP-2)."""
    return DiscreteLaplace.calibrate(_l1(sensitivity), _epsilon(epsilon)).within(confidence, cells)


@_with_error(_geometric_error)
def geometric(value: int | Integers, sensitivity: Number, epsilon: Number) -> int | Scores:
    """An integer, or a list of them, with two-sided geometric noise: ε-DP (Theorem LAP-1).

    sensitivity: the most that one unit changes the integer, or the sum of all changes to a list (ℓ₁). Charges no
    ledger.
    """
    return _noisy(value, DiscreteLaplace.calibrate(_l1(sensitivity), _epsilon(epsilon)))


def _laplace_error(
    sensitivity: Number, epsilon: Number, *, grid: Number | None = None, cells: int = 1, confidence: float = 0.95
) -> Fraction:
    """No cell is off by more than this, with this confidence (Theorem LAP-2); rounding to the grid included."""
    noise = DiscreteLaplace.calibrate(_l1(_steps(sensitivity, grid)), _epsilon(epsilon))
    return _off_grid(noise.within(confidence, cells), grid)


@_with_error(_laplace_error)
def laplace(
    value: Number | float | Integers, sensitivity: Number, epsilon: Number, *, grid: Number | None = None
) -> int | Fraction | Scores:
    """A value with Laplace noise on a grid: ε-DP (Theorem LAP-1).

    Takes integers, or any single number with grid, the step of a grid that it is rounded to (then a fraction returns,
    a multiple of grid): noise on floats would leave traces in their last digits. sensitivity is in the value's own
    unit, and is rounded up to whole steps; for a list of integers it is the sum of all changes (ℓ₁). A value that isn't
    finite is an error, which shows that it isn't: see to that beforehand, row by row. Charges no ledger.
    """
    noise = DiscreteLaplace.calibrate(_l1(_steps(sensitivity, grid)), _epsilon(epsilon))
    return _noisy(value, noise) if grid is None else _on_grid(value, noise, grid)


def _truncated_error(
    sensitivity: Number, epsilon: Number, *, maximum: int, cells: int = 1, confidence: float = 0.95
) -> int:
    """Whatever the count, it is off by no more than this, with this confidence (Theorem TGEOM-1)."""
    return TruncatedGeometric.calibrate(_l1(sensitivity), _epsilon(epsilon), maximum).within(confidence, cells)


@_with_error(_truncated_error)
def truncated_geometric(value: int, sensitivity: Number, epsilon: Number, *, maximum: int) -> int:
    """A count of 0 to maximum with geometric noise, brought back between these bounds: ε-DP (Theorem TGEOM-1).

    maximum must be public: it must not come from the data. A value beyond the bounds is taken for the nearest of them.
    Charges no ledger.
    """
    mechanism = TruncatedGeometric.calibrate(_l1(sensitivity), _epsilon(epsilon), maximum)
    inside = min(max(index(value), 0), maximum)
    return int(mechanism.released(np.array([inside], dtype=np.int64))[0])


def _response_error(size: int, epsilon: Number, *, rows: int, confidence: float = 0.95) -> float:
    """An estimated share of a value among so many rows is off by no more than this, with this confidence.

    Randomisation alone, whatever the true share: by Hoeffding's bound on the share of rows, times what undoing it costs
    (Theorem RR-1).
    """
    mechanism = RandomizedResponse(_epsilon(epsilon), size)
    return mechanism.slope * sqrt(log(2 / (1 - confidence)) / (2 * rows))


@_with_error(_response_error)
def randomized_response(value: int | Integers, size: int, epsilon: Number) -> int | npt.NDArray[np.int64]:
    """One of 0, …, size − 1, or a list of them, each kept or else moved to any other: ε-DP for each (Theorem RR-1).

    Odds are e^ε to 1 for the true value against each other one. Whoever has several values in a list pays for each.
    Charges no ledger.
    """
    mechanism = RandomizedResponse(_epsilon(epsilon), size)
    numbers = integers(cast(Integers, [value] if _is_one(value) else value), "values")
    if int(numbers.min()) < 0 or int(numbers.max()) >= size:
        raise ValueError("a value is one of 0, …, size − 1")
    moved = (numbers.astype(np.int64) + mechanism.draw(len(numbers))) % size
    return int(moved[0]) if _is_one(value) else np.asarray(moved, dtype=np.int64)


def _choice_error(
    candidates: int, sensitivity: Number, epsilon: Number, *, monotone: bool = False, confidence: float = 0.95
) -> float:
    """The score of what is chosen is below the best by no more than this, with this confidence (Theorem CHOOSE-1)."""
    return _choice(sensitivity, epsilon, monotone).worst(candidates, confidence)


@_with_error(_choice_error)
def choose(scores: Integers, sensitivity: Number, epsilon: Number, *, monotone: bool = False) -> int:
    """The exponential mechanism's job for any integer scores: the place of a nearly largest one, ε-DP.

    sensitivity: the most that one unit moves any score (the distance d(y, f(D)) of a general metric is such a score,
    with the sensitivity of f in that metric). monotone: a unit moves all scores in the same direction; half the noise.
    The scores must be integers: put others on a grid first, and round the sensitivity up. Theorem CHOOSE-1. Charges no
    ledger.
    """
    numbers = integers(scores, "scores")
    return _choice(sensitivity, epsilon, monotone).pick(numbers)


def _choice(sensitivity: Number, epsilon: Number, monotone: bool) -> NoisyMax:
    # Theorem CHOOSE-1: once the sensitivity where all scores move in one direction, else twice.
    loss = Sensitivity(_positive(sensitivity) * (1 if monotone else 2), Fraction(0), choice=True)
    return NoisyMax.calibrate(loss, _epsilon(epsilon))


# ---------------------------------------------------------------- ε and δ


def _gaussian_error(
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    *,
    grid: Number | None = None,
    cells: int = 1,
    confidence: float = 0.95,
) -> Fraction:
    """No cell is off by more than this, with this confidence (Theorem LAP-2); rounding to the grid included."""
    noise = _calibrated(Gaussian, _l2(_steps(sensitivity, grid)), epsilon, delta)
    return _off_grid(noise.within(confidence, cells), grid)


@_with_error(_gaussian_error)
def gaussian(
    value: Number | float | Integers,
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    *,
    grid: Number | None = None,
) -> int | Fraction | Scores:
    """A value with Gaussian noise, rounded to a grid: (ε, δ)-DP with the least σ that is (Theorem GAUSS-2).

    Takes integers, or any single number with grid, as `laplace` does. sensitivity is, for a list, the root of the sum
    of squared changes (ℓ₂). `classic_sigma` tells the σ of the older formula. Charges no ledger.
    """
    noise = _calibrated(Gaussian, _l2(_steps(sensitivity, grid)), epsilon, delta)
    return _noisy(value, noise) if grid is None else _on_grid(value, noise, grid)


def _discrete_error(
    sensitivity: Number, epsilon: Number, delta: Number, *, cells: int = 1, confidence: float = 0.95
) -> int:
    """No cell is off by more than this, with this confidence (Theorem LAP-2)."""
    size = _l2(sensitivity, single=cells == 1)
    return _calibrated(DiscreteGaussian, size, epsilon, delta).within(confidence, cells)


@_with_error(_discrete_error)
def discrete_gaussian(value: int | Integers, sensitivity: Number, epsilon: Number, delta: Number) -> int | Scores:
    """An integer, or a list of them, with discrete Gaussian noise: (ε, δ)-DP (Theorem DGAUSS-1).

    One integer gets the least σ² that is enough; a list, whose sensitivity is the root of the sum of squared changes
    (ℓ₂), a little more: there the price goes by way of zero-concentrated DP (Theorem ZCDP-2). Charges no ledger.
    """
    one = _is_one(value) or len(cast(Integers, value)) == 1
    size = _l2(sensitivity, single=one)
    return _noisy(value, _calibrated(DiscreteGaussian, size, epsilon, delta))


def _binomial_error(sensitivity: Number, epsilon: Number, delta: Number, *, confidence: float = 0.95) -> int:
    """The count is off by no more than this, with this confidence (Theorem LAP-2)."""
    return _calibrated(Binomial, _l2(sensitivity, single=True), epsilon, delta).within(confidence)


@_with_error(_binomial_error)
def binomial(value: int, sensitivity: Number, epsilon: Number, delta: Number) -> int:
    """An integer with the heads of fair coins added, less half of them: (ε, δ)-DP (Theorem BINOM-1).

    As many coins as are needed and no more: δ is computed from the mass function. Charges no ledger.
    """
    noise = _calibrated(Binomial, _l2(sensitivity, single=True), epsilon, delta)
    return index(value) + int(noise.draw(1)[0])


# ---------------------------------------------------------------- what they are given


Approximate = TypeVar("Approximate", Gaussian, DiscreteGaussian, Binomial)


def _calibrated(kind: type[Approximate], size: Sensitivity, epsilon: Number, delta: Number) -> Approximate:
    """The least noise of this kind, which is found by bisection: worth remembering."""
    return cast(Approximate, _found(cast(Any, kind), size, _epsilon(epsilon), Fraction(delta)))


@lru_cache(maxsize=256)
def _found(kind: type[Any], size: Sensitivity, epsilon: Fraction, delta: Fraction) -> object:
    return kind.calibrate(size, epsilon, delta)


def _epsilon(given: Number) -> Fraction:
    epsilon = Fraction(given)
    if epsilon <= 0:
        raise ValueError("epsilon must be positive")
    return epsilon


def _positive(sensitivity: Number) -> Fraction:
    size = Fraction(sensitivity)
    if size < 0:
        raise ValueError("the sensitivity can't be negative")
    return size


def _l1(sensitivity: Number) -> Sensitivity:
    size = _positive(sensitivity)
    return Sensitivity(size, size**2)


def _l2(sensitivity: Number, single: bool = False) -> Sensitivity:
    size = _positive(sensitivity)
    return Sensitivity(size, size**2, single=single)  # of a list, ℓ₁ is not known, and nobody asks for it


def _steps(sensitivity: Number, grid: Number | None) -> Fraction:
    """In whole steps of the grid, rounded up: two numbers so far apart are rounded to no more steps apart."""
    size = _positive(sensitivity)
    return size if grid is None else Fraction(-floor(-size / _step(grid)))  # Theorem GRID-3


def _step(grid: Number) -> Fraction:
    step = Fraction(grid)
    if step <= 0:
        raise ValueError("the step of a grid must be positive")
    return step


def _is_one(value: object) -> bool:
    return np.ndim(cast(Any, value)) == 0


def _noisy(value: object, noise: DiscreteLaplace | Gaussian | DiscreteGaussian) -> int | Scores:
    if _is_one(value):
        try:
            number = index(cast(Any, value))
        except TypeError:
            raise TypeError(
                "only integers get noise as they are: give other numbers a grid, as `laplace` says"
            ) from None
        return number + int(noise.draw(1)[0])
    numbers = integers(cast(Integers, value), "values")
    return added(numbers, noise.draw(len(numbers)))


def _on_grid(value: object, noise: DiscreteLaplace | Gaussian, grid: Number) -> Fraction:
    if not _is_one(value):
        raise TypeError("a grid is for a single number; put a list on its grid yourself, and the sensitivity with it")
    step = _step(grid)
    try:
        number = Fraction(cast(Any, value))
    except (ValueError, OverflowError):  # whose texts tell NaN from infinity
        raise ValueError("the value must be a finite number: leave out of it what isn't, row by row") from None
    # Theorem GRID-3: rounded half up, which commutes with whole steps, so that no two numbers are torn further apart.
    return (floor(number / step + Fraction(1, 2)) + int(noise.draw(1)[0])) * step


def _off_grid(steps: int, grid: Number | None) -> Fraction:
    return Fraction(steps) if grid is None else (steps + Fraction(1, 2)) * _step(grid)
