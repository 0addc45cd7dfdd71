"""Which kinds of noise a query may draw, and what each of them has to spend."""

from __future__ import annotations

from fractions import Fraction

from dpsql.core.errors import PrivacyError
from dpsql.mechanisms.budget import Split, budget_of
from dpsql.mechanisms.registry import AUTOMATIC, noise_of
from dpsql.quote.model import Ask


def splits_of(ask: Ask, selecting: bool) -> list[tuple[Split, Fraction]]:
    """The mechanisms to choose from, each with the δ that it leaves for key selection.

    What isn't pure needs δ; beside key selection it gets half of it.
    """
    splits: list[tuple[Split, Fraction]] = []
    for kind in AUTOMATIC if ask.mechanism == "auto" else (ask.mechanism,):
        noise = noise_of(kind)
        if noise.pure or ask.conversion is not None:  # ρ pays for any kind of noise; all of δ is for key selection
            splits.append((Split(budget_of(ask.epsilon, Fraction(0), ask.conversion), noise), ask.delta))
        elif ask.delta:
            part = ask.delta / 2 if selecting else ask.delta
            splits.append((Split(budget_of(ask.epsilon, part, None), noise), ask.delta - part))
        elif kind == ask.mechanism:
            raise PrivacyError(
                f"{noise.name[0].upper()}{noise.name[1:]} noise needs δ > 0",
                code="needs-delta",
                hint='give one: --delta 1e-6, delta="1e-6" or [budget] delta = 1e-6; or use mechanism = "laplace"',
            )
    return splits
