"""Private key selection: a key is shown only if a noisy count of its units is high enough."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpsql.core.frozen import dataclass
from dpsql.mechanisms.base import Noise


@dataclass(frozen=True, slots=True)
class Threshold:
    """Keeps keys whose noisy count of distinct, unweighted units reaches a threshold.

    A key that only one unit has is kept with probability at most delta_key. The caller divides the release's delta by
    the number of keys that one unit can have (twice that when neighbours replace a unit). The counts must be integers
    on the grid 1, each with a draw of its own from `noise`. min_units raises the threshold, never lowers it.
    """

    noise: Noise
    delta_key: Fraction
    min_units: int = 0
    tau: int = field(init=False)

    def __post_init__(self) -> None:
        # Theorem KEY-1. The smallest integer tau with Pr[1 + Z ≥ tau] ≤ delta_key, from the noise that is added.
        tau = 1 + self.noise.threshold(self.delta_key)
        object.__setattr__(self, "tau", max(tau, self.min_units))

    def keep(self, noisy_counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which keys may be shown."""
        return noisy_counts >= self.tau
