"""How long queries take on these data, and which `reply_after` gives a server's queries room to spare.

The steward's to read: durations may tell of rows. It asks under an account in memory, and throws the answers away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from time import monotonic

from dpsql.core.errors import Error
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Policy, Table
from dpsql.session import Engine

SECONDS = (2, 5, 10, 20, 30, 60, 120, 300, 600)
ROOM = 5  # times the slowest


@dataclass(frozen=True, slots=True)
class ReplyTimes:
    """The slowest of a few queries, in seconds, and what to write; None: no such value is enough, or nothing ran."""

    queries: int
    slowest: float
    suggested: int | None

    def __str__(self) -> str:
        if self.suggested is None:
            return "no query could be timed: reply_after stays as it is"
        many = f"{self.queries} quer{'y' if self.queries == 1 else 'ies'}"
        return f'the slowest of {many} took {self.slowest:.2g} s: [server] reply_after = "{self.suggested}s" gives room'


def reply_times(policy: Policy) -> ReplyTimes:
    """Time a few queries over each private table."""
    plenty = Fraction(10**9)
    budget = replace(policy.budget, epsilon=plenty, max_query_epsilon=None, anchor=None, must_exist=False)
    times: list[float] = []
    with Engine.open(replace(policy, budget=budget), ledger=":memory:") as engine, engine.session() as session:
        for sql in (sql for table in policy.tables.values() if not table.public for sql in _queries(table)):
            begun = monotonic()
            try:
                session.query(sql, epsilon=1)
            except Error:  # the policy doesn't allow it: another one will do
                continue
            times.append(monotonic() - begun)
    slowest = max(times, default=0.0)
    enough = [seconds for seconds in SECONDS if seconds >= ROOM * slowest]
    return ReplyTimes(len(times), slowest, enough[0] if times and enough else None)


def _queries(table: Table) -> Iterator[str]:
    """A count; and of ranged columns sums, averages and medians, by a public key, too."""
    name = _quoted(table.name)
    yield f"SELECT COUNT(*) FROM {name}"
    keys = [_quoted(c.name) for c in table.columns.values() if c.values is not None or c.references is not None]
    ranged = [_quoted(c.name) for c in table.columns.values() if c.min is not None and c.max is not None]
    for column in ranged[:2]:
        yield f"SELECT SUM({column}), AVG({column}) FROM {name}"
        for key in keys[:1]:
            yield f"SELECT {key}, SUM({column}), MEDIAN({column}) FROM {name} GROUP BY {key}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
