"""Full readings of sources of many columns, a few columns in one statement (Theorem SCAN-1, Parts of a source)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dpsql.core.doing import doing

Column = TypeVar("Column")
Facts = TypeVar("Facts")

AT_ONCE = 32
"""Columns that one statement reads: hundreds of them take an engine minutes and gigabytes to plan."""
SHOWN = 12
"""Columns that a message lists by name."""


def groups_of(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    """These columns in their order, AT_ONCE at a time."""
    return (columns[start : start + AT_ONCE] for start in range(0, len(columns), AT_ONCE))


def read_in_groups(
    groups: Iterable[Sequence[Column]],
    read: Callable[[Sequence[Column]], Mapping[str, Facts]],
    count: int,
    done: int = 0,
) -> dict[str, Facts]:
    """What `read` shows of the columns of each group, by their names; watchers see how far it is.

    count: how many columns there are in all; done: how many of them were read before.
    """
    shown: dict[str, Facts] = {}
    for some in groups:
        with doing(f"columns {done + 1:,} to {done + len(some):,} of {count:,}"):
            shown |= read(some)
        done += len(some)
    return shown


def of_columns(parts: Sequence[str]) -> str:
    """For a message about parts of a source: " of a, b and others"; nothing where no part is a column."""
    names = [name for name in parts if name]
    others = " and others" if len(names) > SHOWN else ""
    return f" of {', '.join(names[:SHOWN])}{others}" if names else ""
