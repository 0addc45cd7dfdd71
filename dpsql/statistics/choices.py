"""The statistics that choose a value, in one list; what else there is to know of them, they say themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.statistics.base import Choice, Making, Quantity
from dpsql.statistics.deviation import Deviation
from dpsql.statistics.ranks import Extreme, Quantiles

CHOICES = (Extreme, Quantiles, Deviation)
ENDS = ("lower", "upper", "spare")
"""Of the interval around a chosen value: its ends, and how many cut rows it holds (Theorem QUANTILE-2)."""

CHOSEN = (*(kind for choice in CHOICES for kind in choice.kinds), *ENDS)
"""The kinds of quantities that are chosen."""

UNWEIGHTED = ("units", "clipped", "distinct", *CHOSEN)
"""Quantities that row weights don't scale."""


def choices(needs: Sequence[Quantity], making: Making) -> Iterator[Choice]:
    """The choices that these quantities need."""
    wanted = list(dict.fromkeys(needs))
    for choice in CHOICES:
        yield from choice.of(wanted, making)
