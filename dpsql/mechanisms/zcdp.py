"""From a query's ρ to noise for all its statistics: the two ways to split under zero-concentrated accounting.

As in budget.py, the cost is that of the very noises that will be drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpsql.core.cost import ZERO_RHO, Cost, rounded
from dpsql.core.frozen import dataclass
from dpsql.core.sensitivity import Sensitivity
from dpsql.core.zcdp import Conversion, pure_epsilon, pure_rho
from dpsql.mechanisms.budget import Drawn, Noise, Pure, pure_noise
from dpsql.mechanisms.certified import root_up
from dpsql.mechanisms.gaussian_noise import Gaussian
from dpsql.mechanisms.noisy_max import NoisyMax


@dataclass(frozen=True, slots=True)
class _Spend:
    """ε as it was asked for, what it means in ρ, and the ledger's δ for the conversion."""

    epsilon: Fraction
    conversion: Conversion

    @property
    def rho(self) -> Fraction:
        return self.conversion.rho(self.epsilon)

    def guarantee(self, rho: Fraction) -> Cost:
        """The whole query's guarantee, given what its noises cost in ρ."""
        if not rho:
            return ZERO_RHO
        if rho > self.rho:
            raise AssertionError("the noise costs more than it was calibrated to")
        return Cost(self.epsilon, self.conversion.delta, rho)  # Theorem ZCDP-2

    def pure(self, count: int) -> Fraction:
        """The ε of an ε-DP mechanism that costs an equal share of ρ (Theorem ZCDP-1)."""
        return pure_epsilon(rounded(self.rho / max(1, count), up=False))


@dataclass(frozen=True, slots=True)
class ZcdpLaplace(_Spend):
    """Equal shares of ρ, each turned into the ε at which Laplace noise costs just that (Theorem ZCDP-1)."""

    name = "laplace"

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        share = self.pure(len(sensitivities))
        return tuple(pure_noise(s, share) for s in sensitivities)

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        share = self.pure(len(sensitivities))
        return [(0 if s.choice else 2) * (s.l1 / share) ** 2 for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        rho = Fraction(0)
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            assert isinstance(noise, Pure)
            rho += pure_rho(noise.cost(sensitivity).epsilon)  # Theorems LAP-1, CHOOSE-1, ZCDP-1 and COMP-2
        return self.guarantee(rho)


@dataclass(frozen=True, slots=True)
class ZcdpGaussian(_Spend):
    """Equal shares of ρ: σ = Δ₂/√(2ρ/m) for each of m statistics, and for a choice the ε that costs as much."""

    name = "gaussian"

    def noises(self, sensitivities: Sequence[Sensitivity]) -> tuple[Noise, ...]:
        count = len(sensitivities)
        scale = count / (2 * self.rho)
        return tuple(
            NoisyMax.calibrate(s, self.pure(count)) if s.choice else Gaussian(root_up(s.l2_squared * scale))
            for s in sensitivities
        )

    def variances(self, sensitivities: Sequence[Sensitivity]) -> list[Fraction]:
        count = len(sensitivities)
        return [Fraction(0) if s.choice else count * s.l2_squared / (2 * self.rho) for s in sensitivities]

    def cost(self, sensitivities: Sequence[Sensitivity], noises: Sequence[Drawn]) -> Cost:
        vector, choices = Fraction(0), Fraction(0)
        for sensitivity, noise in zip(sensitivities, noises, strict=True):
            if isinstance(noise, NoisyMax):
                choices += pure_rho(noise.cost(sensitivity).epsilon)  # Theorems CHOOSE-1 and ZCDP-1
            else:
                assert isinstance(noise, Gaussian)
                vector += noise.rho(sensitivity)  # Theorems GAUSS-1 and COMP-2
        return self.guarantee(rounded(vector + choices, up=True))
