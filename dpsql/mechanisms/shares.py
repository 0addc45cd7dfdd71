"""From a query's budget to the columns that it randomises: equal shares, and what they cost together."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.cost import ZERO, Cost
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.core.zcdp import pure_rho
from dpsql.mechanisms.budget import Drawn, LaplaceSplit
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.mechanisms.zcdp import ZcdpLaplace


@dataclass(frozen=True, slots=True)
class ResponseSplit(LaplaceSplit):
    """Equal shares of ε for all columns that are randomised (Theorems RR-1 and COMP-1)."""

    name = "randomized response"

    def responses(self, sizes: Sequence[int]) -> tuple[RandomizedResponse, ...]:
        """A mechanism for each column, given how many values it has."""
        return tuple(RandomizedResponse(self.epsilon / len(sizes), size) for size in sizes)

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        total = ZERO
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, RandomizedResponse)
            total += noise.cost(sensitivity)
        return total


@dataclass(frozen=True, slots=True)
class ZcdpResponseSplit(ZcdpLaplace):
    """Equal shares of ρ, each turned into the ε of an ε-DP mechanism that costs just that (Theorem ZCDP-1)."""

    name = "randomized response"

    def responses(self, sizes: Sequence[int]) -> tuple[RandomizedResponse, ...]:
        """A mechanism for each column, given how many values it has."""
        return tuple(RandomizedResponse(self.pure(len(sizes)), size) for size in sizes)

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        rho = Fraction(0)
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, RandomizedResponse)
            rho += pure_rho(noise.cost(sensitivity).epsilon)  # Theorems RR-1, ZCDP-1 and COMP-2
        return self.guarantee(rho)
