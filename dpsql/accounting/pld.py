"""The tightest figure for what was released, by numerical composition of privacy loss distributions. For display only.

Composing everything and then deciding is not a filter: it holds for queries that were fixed beforehand, not for ones
chosen after earlier answers (THEORY, COMP-2). So no admission ever looks at it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.core.sensitivity import Sensitivity
    from dpsql.mechanisms.base import Mechanism

INSTALL = "install dpsql[accounting] for the tightest figure (PLD)"
KINDS = ("laplace", "gaussian")
SLOWEST = 200  # different mechanisms: more would keep people waiting


def recorded(measured: Sequence[tuple[Sensitivity, Mechanism]]) -> list[list[str]]:
    """The noises of a release as a ledger notes them: Laplace with its ε, Gaussian with (Δ₂/σ)²."""
    return [noise.event(sensitivity).note for sensitivity, noise in measured]


def is_installed() -> bool:
    """Whether dp-accounting is there; it is imported only when a figure is asked for."""
    return find_spec("dp_accounting") is not None


def composed(notes: Sequence[Mapping[str, object]], delta: Fraction) -> float | None:
    """ε of all these releases together at this δ; None where a release lacks what is needed, or there are too many."""
    events = _events(notes)
    if events is None or delta <= 0 or len(events) > SLOWEST:
        return None
    if not events:
        return 0.0
    from dp_accounting.pld import common, privacy_loss_distribution

    whole: Any = None
    for (kind, size), times in events.items():
        if kind == "laplace":
            # Randomized response dominates every mechanism that is ε-DP.
            one = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(float(size), 0.0)
            )
        else:
            one = privacy_loss_distribution.from_gaussian_mechanism(standard_deviation=float(size) ** -0.5)
        several = one.self_compose(times) if times > 1 else one
        whole = several if whole is None else whole.compose(several)
    return float(whole.get_epsilon_for_delta(float(delta)))


def _events(notes: Sequence[Mapping[str, object]]) -> Counter[tuple[str, Fraction]] | None:
    events: Counter[tuple[str, Fraction]] = Counter()
    for note in notes:
        noises = note.get("noises")
        if not isinstance(noises, list):
            return None
        for kind, size in noises:
            if kind not in KINDS:
                return None  # unsupported, never nothing
            if Fraction(size):
                events[kind, Fraction(size)] += 1
    return events
