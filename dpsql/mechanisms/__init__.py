"""Noise that is drawn exactly, and what it costs. Public are the functions of `__all__`, which charge no ledger.

Each takes a value (or scores), what one unit can change it by, and ε, or ε and δ; its `.error` tells how far the result
is off (toolbox.py). They are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.mechanisms.gaussian_noise import classic_sigma
    from dpsql.mechanisms.toolbox import (
        binomial,
        choose,
        discrete_gaussian,
        gaussian,
        geometric,
        laplace,
        randomized_response,
        truncated_geometric,
    )

__all__ = [
    "binomial",
    "choose",
    "classic_sigma",
    "discrete_gaussian",
    "gaussian",
    "geometric",
    "laplace",
    "randomized_response",
    "truncated_geometric",
]


def __getattr__(name: str) -> Any:
    if name == "classic_sigma":
        from dpsql.mechanisms.gaussian_noise import classic_sigma

        return classic_sigma
    if name in __all__:
        from dpsql.mechanisms import toolbox

        return getattr(toolbox, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
