"""What a mechanism is to everybody else: what it draws, what that costs, how far it is off, how it is written down.

A mechanism is one file behind `Noise`, a line in registry.py, a test and a theorem. What it did is an `Event`, a value
that accountants price, each in its own way; what it may spend is a `Budget`, of either accountant (budget.py).
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from dpsql.core.cost import pure_rho
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class Pure:
    """Something ε-DP was done, whatever it was."""

    epsilon: Fraction

    @property
    def rho(self) -> Fraction:
        return pure_rho(self.epsilon)  # Theorem ZCDP-1

    @property
    def note(self) -> list[str]:
        return ["laplace", str(self.epsilon)]


class Vector(Protocol):
    """Noise on a vector of statistics that is no ε-DP by itself. Events of one kind make one longer vector."""

    @property
    def rho(self) -> Fraction:
        """What it costs in ρ, exactly; 0 if no unit moves it."""

    @property
    def note(self) -> list[str]:
        """How a ledger notes it: a kind and a number."""

    def beside(self, other: Self) -> Self:
        """Both as one event."""

    def delta(self, epsilon: Fraction) -> Fraction:
        """A certified δ at this ε."""


Event = Pure | Vector


class Budget(Protocol):
    """What all noise of a query may spend; a part of it is a share between 0 and 1."""

    @property
    def epsilon(self) -> Fraction: ...

    @property
    def delta(self) -> Fraction: ...

    def pure(self, part: Fraction) -> Fraction:
        """The ε of an ε-DP mechanism that this part pays for."""

    def rho(self, part: Fraction) -> Fraction | None:
        """This part in ρ; None where it is ε and δ that are spent."""


class Mechanism(Protocol):
    """Whatever has a price."""

    kind: ClassVar[str]  # by which it is asked for and stored
    name: ClassVar[str]  # for people
    pure: ClassVar[bool]  # is it ε-DP by itself? Otherwise it needs δ or ρ

    def event(self, s: Sensitivity) -> Event:
        """What was done if this was used on every cell of a statistic of this sensitivity."""


class Noise(Mechanism, Protocol):
    """Independent integer noise, symmetric, for every cell of a statistic."""

    excess: ClassVar[float]  # of its kurtosis over that of a normal

    @classmethod
    def calibrated(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Self:
        """The noise that a part of a budget buys for a statistic of this sensitivity."""

    @classmethod
    def expected_variance(cls, s: Sensitivity, budget: Budget, part: Fraction) -> Fraction:
        """About the variance of that noise, without making it, to compare candidates."""

    @classmethod
    def best_share(cls, s: Sensitivity, unit: Fraction, budget: Budget) -> float:
        """Which share of a budget gives the least total error, up to a factor (Theorem SPLIT-2); unit: of a step."""

    @classmethod
    def deviations(cls, p: float) -> float:
        """About how many standard deviations are exceeded with this small probability, to one side."""

    def draw(self, n: int) -> npt.NDArray[np.int64]:
        """One independent draw for each of n cells."""

    @property
    def variance(self) -> float: ...

    @property
    def width(self) -> Fraction:
        """The scale that people know it by, in grid units."""

    def threshold(self, p: Fraction) -> int:
        """The smallest integer t with Pr[Z ≥ t] ≤ p, never too small; 10^-1000 ≤ p < 1/2."""

    def within(self, confidence: float, cells: int = 1) -> int:
        """The smallest t such that all of so many independent draws satisfy |Z| ≤ t with at least this confidence."""

    @property
    def written(self) -> str:
        """Its parameter, as it is stored."""

    @classmethod
    def read(cls, written: str) -> Self:
        """The noise of a stored parameter."""
