"""Noise for simulations, from a generator that rests on what has left: who asks again sees the same interval.

Nothing that is drawn here protects anybody: it is added to numbers that have left already (Theorem POST-1). Noise that
protects comes from mechanisms/sampler.py, which has no seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates.noisy import Noisy
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.registry import written

FINE = 30.0  # a discrete Gaussian of a larger standard deviation can't be told from a rounded normal


def generator_of(tables: Iterable[Noisy]) -> np.random.Generator:
    """A generator whose seed is a hash of noisy tables: of their integers and of what noise these have."""
    seed = blake2b(digest_size=32, person=b"dpsql.simulate")
    for noisy in tables:
        for measurement, group in zip(noisy.step.measurements, noisy.columns, strict=True):
            seed.update(repr(written(measurement.noise)).encode())
            for numbers in group:
                seed.update(repr(numbers.tolist()).encode())
    return np.random.default_rng(int.from_bytes(seed.digest(), "big"))


def imitated(noise: Noise, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """n draws that are distributed as the noise is, as far as an interval can tell."""
    width = float(noise.width)
    if not width:
        return np.zeros(n, dtype=np.int64)
    if noise.kind == "laplace":
        stops = -np.expm1(-1 / width)  # of a geometric variable; the difference of two is Laplace
        return generator.geometric(stops, n) - generator.geometric(stops, n)
    if noise.kind == "gaussian" or (noise.kind == "discrete_gaussian" and width > FINE):
        return np.rint(generator.normal(0.0, width, n)).astype(np.int64)
    if noise.kind == "discrete_gaussian":
        values = np.arange(-int(10 * width) - 1, int(10 * width) + 2)
        weights = np.exp(-((values / width) ** 2) / 2)
        return generator.choice(values, n, p=weights / weights.sum())
    return noise.draw(n)
