"""Limits that a steward could declare in the policy. Trusted: they are read off the rows, and shown to the steward.

Whoever reads a policy learns a limit that stands in it, at no ε. So a limit is offered only where so many units have so
many rows that none of them is told apart by it: it rests on at least MANY_UNITS units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import count

from dpsql.backends.base import Backend
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy, Table
from dpsql.steward.seen import MANY_UNITS, rows_beyond, units_with_more

COUNT_EPSILON = Fraction(3, 10)
"""The ε of the count for which a limit is compared where the policy says nothing of queries."""


@dataclass(frozen=True, slots=True)
class DeclaredLimit:
    """A limit that could be declared. units: have more rows than the step below it. cut: rows beyond the limit."""

    max_rows: int
    units: int
    cut: int


def ladder(most: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, …, up to the first that is at least `most`."""
    steps: list[int] = []
    for step in _steps():
        steps.append(step)
        if step >= most:
            break
    return steps


def declared_limit(backend: Backend, policy: Policy, table: Table, most: int) -> DeclaredLimit | None:
    """The limit of the ladder with which COUNT(*) is least wrong; None where none rests on enough units.

    most: the greatest number of rows of one unit.
    """
    steps = ladder(most)
    below = units_with_more(backend, policy, table, [0, *steps[:-1]])
    cut = rows_beyond(backend, policy, table, steps)
    offered = [
        DeclaredLimit(step, units, rows)
        for step, units, rows in zip(steps, below, cut, strict=True)
        if units >= MANY_UNITS
    ]
    return least_wrong(offered, policy.budget.query_epsilon or COUNT_EPSILON)


def least_wrong(offered: Sequence[DeclaredLimit], epsilon: Fraction) -> DeclaredLimit | None:
    """The limit with the least sum of the rows that it cuts and of the noise that a count with it has."""
    noise = Fraction(141, 100) / epsilon  # a standard deviation of Laplace noise, for one row
    return min(offered, key=lambda limit: limit.cut + noise * limit.max_rows, default=None)


def _steps() -> Iterator[int]:
    for power in count():
        yield from (factor * 10**power for factor in (1, 2, 5))
