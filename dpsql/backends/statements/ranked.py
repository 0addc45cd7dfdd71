"""Caps on a unit's groups row by row, in one sort of the rows: for units with many groups of few rows each.

What a unit has in each group is never added up by itself: each row has the number of its group among its unit's, by
keyed hash. The integers are those of bounding.py, for every secret and whatever rows there are (Theorem CAP-2).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dpsql.backends.statements.bounding import heavy_weight, keyed_hash, vote, whole_weight
from dpsql.backends.statements.pieces import (
    alias,
    column,
    conjunction,
    count,
    equal,
    every,
    grouped,
    joined,
    or_zero,
    same_values,
    select,
    subquery,
    table,
    where,
)
from dpsql.backends.statements.rows import gridded_rows
from dpsql.backends.statements.tallies import WEIGHT, row_tally, weighted_tally
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import CapGroups, Group, PerUnit, SpreadVotes, WeightUnits
from dpsql.quote.candidates import UNIT
from dpsql.sql.gridded import number
from dpsql.statistics.base import Tally

RANKED, CLASHING, UNITS = "dpsql_ranked", "dpsql_clashing", "dpsql_units"
HASH, FIRST, CLASH, VOTE = "dpsql_hash", "dpsql_first", "dpsql_clash", "dpsql_vote"
ROWS, GROUPS = "m", "t"  # of a unit, after the cap


def fits(group: Group) -> bool:
    """Is it a cap, then at most a mass, over tallies that rows can be counted for one by one?"""
    node = group.input
    if isinstance(node, WeightUnits):
        if node.peak is not None or node.mass is None:
            return False
        node = node.input
    capped = node.input if isinstance(node, SpreadVotes) else node
    return isinstance(capped, CapGroups) and bool(group.keys) and all(_by_row(t) for _, t in group.tallies)


def _by_row(tally: Tally) -> bool:
    """Is it known of each row what it adds? As a unit, its first row in a group stands for all others there."""
    if tally.clip is not None:
        return False
    return tally.kind in ("rows", "present", "total") or (tally.kind in ("units", "votes") and tally.where is None)


def render_ranked(group: Group, among: str | None = None) -> exp.Select:
    """The tallies of each key, from a statement that fits. among: of the units in this table alone."""
    assert fits(group), "what a unit has in a group is needed as a whole"
    made = Ranked(group, among)
    keys = [column(k) for k in group.keys]
    tallies = [alias(made.tally(name, t), name) for name, t in group.tallies]
    query = grouped(select([*keys, *tallies], subquery(made.weighed(), "v")), [k.copy() for k in keys])
    query = query.with_(RANKED, as_=made.ranked(), materialized=True, copy=False)
    query = query.with_(CLASHING, as_=made.clashing(), materialized=True, copy=False)
    units = made.units()
    return query if units is None else query.with_(UNITS, as_=units, materialized=True, copy=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The parts of one such statement."""

    group: Group
    among: str | None = None

    @property
    def weight(self) -> WeightUnits | None:
        return self.group.input if isinstance(self.group.input, WeightUnits) else None

    @property
    def cap(self) -> CapGroups:
        node = self.group.input
        while not isinstance(node, CapGroups):
            assert isinstance(node, WeightUnits | SpreadVotes)
            node = node.input
        return node

    @property
    def per_unit(self) -> PerUnit:
        return self.cap.input

    @property
    def vote_bits(self) -> list[int]:
        return sorted({t.bits for _, t in self.group.tallies if t.bits is not None})

    @property
    def columns(self) -> list[str]:
        """What is looked at of each row, beside the number of its group."""
        seen = [name for _, t in self.group.tallies for name in (t.value, t.where) if name is not None]
        return list(dict.fromkeys((UNIT, *self.group.keys, *seen)))

    def ranked(self) -> exp.Select:
        """Theorem CAP-2. The rows of each unit's first hashes, as many as the cap has; the first row of each is marked.

        A clash is a row whose key isn't that of the row before it, though the hash is: peers stand side by side, so
        that there is one exactly where keys differ, in whatever order they come.
        """
        read = gridded_rows(self.per_unit.input)
        if self.among is not None:
            read = select([every("a")], subquery(read, "a"))
            joined(read, table(self.among), equal(UNIT, "a", self.among), "SEMI")
        rows = select([exp.Star(), alias(self._hash(), HASH)], subquery(read, "o"))
        by_hash = [column(HASH)]
        before = _over(exp.Lag(this=column(HASH)), by_hash)
        keys = [(column(k), _over(exp.Lag(this=column(k)), by_hash)) for k in self.group.keys]
        first = exp.NullSafeNEQ(this=before, expression=column(HASH))
        again = exp.EQ(this=before.copy(), expression=column(HASH))
        other = exp.Not(this=exp.Paren(this=same_values(keys)))
        kept = [column(name) for name in self.columns]
        outputs = [*kept, alias(first, FIRST), alias(conjunction([again, other]), CLASH)]
        return _first(select(outputs, subquery(rows, "h")), by_hash, self.cap.limit)

    def clashing(self) -> exp.Select:
        """The units with several keys of one hash. Nobody is expected here, unless made to be."""
        return grouped(where(select([column(UNIT)], table(RANKED)), column(CLASH)), [column(UNIT)])

    def kept(self) -> exp.Select:
        """The rows that the cap leaves: where hashes clash, keys decide, as in Theorem CAP-1."""
        shown = [column(name) for name in self.columns]
        plain = select([*shown, column(FIRST)], table(RANKED))
        joined(plain, table(CLASHING), equal(UNIT, RANKED, CLASHING), "ANTI")
        theirs = joined(select([every(RANKED)], table(RANKED)), table(CLASHING), equal(UNIT, RANKED, CLASHING), "SEMI")
        order = [self._hash(), *map(column, self.group.keys)]
        number_of, rank = _over(exp.RowNumber(), order), _over(exp.Rank(), order)
        first = alias(exp.EQ(this=number_of, expression=rank), FIRST)
        again = _first(select([*(c.copy() for c in shown), first], subquery(theirs, "c")), order, self.cap.limit)
        return select([exp.Star()], subquery(exp.union(plain, again, distinct=False, copy=False), "u"))

    def units(self) -> exp.Select | None:
        """Each unit's votes and weight; without votes, of those above the mass; None where there are neither."""
        if self.weight is None and not self.vote_bits:
            return None
        groups = exp.Filter(this=count(), expression=exp.Where(this=column(FIRST)))
        counted = [column(UNIT), alias(count(), ROWS), alias(groups, GROUPS)]
        per_unit = grouped(select(counted, subquery(self.kept(), "k")), [column(UNIT)])
        made = [alias(vote(bits, column(GROUPS)), f"{VOTE}{bits}") for bits in self.vote_bits]
        above = None
        if self.weight is not None:
            assert self.weight.mass is not None
            above = exp.GT(this=column(ROWS), expression=number(self.weight.mass))
            heavy = exp.If(this=above, true=heavy_weight(self.weight.mass, self.weight.bits, column(ROWS)))
            made.append(alias(exp.Case(ifs=[heavy], default=whole_weight(self.weight.bits)), WEIGHT))
        found = select([column(UNIT), *made], subquery(per_unit, "g"))
        return found if self.vote_bits or above is None else where(found, above.copy())

    def weighed(self) -> exp.Select:
        """The rows that are kept, each with its weight and its unit's vote."""
        if self.weight is None and not self.vote_bits:
            return self.kept()
        outputs: list[exp.Expr] = [every("r")]
        if self.weight is not None:
            weight: exp.Expr = column(WEIGHT, UNITS)
            if not self.vote_bits:
                weight = exp.Coalesce(this=weight, expressions=[whole_weight(self.weight.bits)])
            outputs.append(alias(weight, WEIGHT))
        outputs += [column(f"{VOTE}{bits}", UNITS) for bits in self.vote_bits]
        rows = select(outputs, subquery(self.kept(), "r"))
        return joined(rows, table(UNITS), equal(UNIT, "r", UNITS), "INNER" if self.vote_bits else "LEFT")

    def tally(self, name: str, tally: Tally) -> exp.Expr:
        """A key's tally. A unit is counted, and votes, in its first row there."""
        first = exp.Where(this=column(FIRST))
        if tally.kind == "units":
            return exp.Filter(this=count(), expression=first)
        if tally.kind == "votes":
            return or_zero(exp.Filter(this=exp.Sum(this=column(f"{VOTE}{tally.bits}")), expression=first))
        return row_tally(name, tally) if self.weight is None else weighted_tally(name, tally)

    def _hash(self) -> exp.Expr:
        return keyed_hash(UNIT if self.cap.by_unit else None, self.group.keys)


def _over(function: exp.Expr, order: Sequence[exp.Expr]) -> exp.Expr:
    """A window function over a unit's rows in this order."""
    ordered = [exp.Ordered(this=e.copy()) for e in order]
    return exp.Window(this=function, partition_by=[column(UNIT)], order=exp.Order(expressions=ordered))


def _first(query: exp.Select, order: Sequence[exp.Expr], limit: int) -> exp.Select:
    """Of each unit, the rows with the first values of an order, so many of them."""
    query.set("qualify", exp.Qualify(this=exp.LTE(this=_over(exp.DenseRank(), order), expression=number(limit))))
    return query
