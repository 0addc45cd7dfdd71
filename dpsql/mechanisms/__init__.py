"""Noise that is drawn exactly, what it costs, and `choose`: the exponential mechanism's job for scores of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.mechanisms.noisy_max import choose

__all__ = ["choose"]


def __getattr__(name: str) -> Any:
    if name == "choose":  # imported when it is asked for: the package's parts import each other
        from dpsql.mechanisms.noisy_max import choose

        return choose
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
