"""The noises by name: a line for each. Importing this imports none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dpsql.mechanisms.base import Noise
    from dpsql.mechanisms.noisy_max import NoisyMax

_NOISES = {
    "laplace": ("laplace_noise", "DiscreteLaplace"),
    "gaussian": ("gaussian_noise", "Gaussian"),
    "discrete_gaussian": ("discrete_gaussian_noise", "DiscreteGaussian"),
}
_CHOICES = {"choice": ("noisy_max", "NoisyMax")}

AUTOMATIC = ("laplace", "gaussian")  # what "auto" tries, in this order
ASKED_FOR = ("auto", *_NOISES)  # what a policy or a query may say


def noise_of(kind: str) -> type[Noise]:
    """The noise of this name."""
    return cast("type[Noise]", _load(*_NOISES[kind]))


def written(noise: Noise | NoisyMax) -> list[str]:
    """A noise as it is stored."""
    return [noise.kind, noise.written]


def read(found: list[str]) -> Noise | NoisyMax:
    """A noise that was stored."""
    kind, parameter = found
    homes = _NOISES | _CHOICES
    if kind not in homes:
        raise ValueError(f"unknown noise {kind}")
    return cast("type[Noise] | type[NoisyMax]", _load(*homes[kind])).read(parameter)


def _load(module: str, name: str) -> object:
    return getattr(import_module(f"dpsql.mechanisms.{module}"), name)
