"""A limit of one unit's contribution, as policies and queries write it."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.core.frozen import dataclass

AUTO = "auto"  # how policies and queries write a limit that is to be chosen


@dataclass(frozen=True, slots=True)
class Choose:
    """A limit that each query chooses for itself. most: the largest that it may choose; None: any."""

    most: int | None = None


Limit = int | Choose


def widest(limits: Iterable[Limit]) -> Limit | None:
    """The limit of several tables together: the largest, chosen if one of them is; None if there are none."""
    every = list(limits)
    ends = [limit.most if isinstance(limit, Choose) else limit for limit in every]
    most = max((end for end in ends if end is not None), default=None) if None not in ends else None
    if any(isinstance(limit, Choose) for limit in every):
        return Choose(most)
    return most
