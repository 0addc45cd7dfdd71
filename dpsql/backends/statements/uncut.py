"""Private keys where most units lose nothing: these are never sorted, and only the others are capped row by row.

A unit with no more rows than any limit, each of them in another group, has as many groups as rows, and all of them
stay. Who that is, is known from a count of each unit's rows and from the pairs of unit and group that were seen twice.
The integers are those of ranked.py, whatever rows there are (Theorem CAP-3).
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.backends.statements.bounding import vote
from dpsql.backends.statements.pieces import (
    alias,
    column,
    count,
    equal,
    every,
    grouped,
    joined,
    or_zero,
    select,
    subquery,
    table,
    where,
)
from dpsql.backends.statements.ranked import Ranked, fits, render_ranked
from dpsql.backends.statements.rows import gridded_rows
from dpsql.backends.statements.tallies import row_tally, unit_tally
from dpsql.plan.nodes import Group
from dpsql.quote.candidates import UNIT
from dpsql.sql.gridded import cast, number
from dpsql.statistics.base import Tally

COUNTED = "dpsql_counted"  # a table with each unit's number of rows, from `render_counted`
REPEATED = "dpsql_repeated"  # one with the hashes that `render_pairs` found more than once
CUT, UNCUT = "dpsql_cut", "dpsql_uncut"
ROWS, PAIR = "m", "pair"


def fits_uncut(group: Group) -> bool:
    """May rows be looked at more than once? Those that are numbered as they are read would be numbered anew."""
    return fits(group) and Ranked(group).cap.by_unit


def most_rows(group: Group) -> int:
    """A unit with no more rows than that is above no limit, neither in rows nor in groups."""
    made = Ranked(group)
    mass = None if made.weight is None else made.weight.mass
    return made.cap.limit if mass is None else min(made.cap.limit, mass)


def render_counted(group: Group) -> exp.Select:
    """How many rows each unit has."""
    return grouped(select([column(UNIT), alias(count(), ROWS)], _rows(group)), [column(UNIT)])


def render_pairs(group: Group) -> exp.Select:
    """A hash of unit and keys for each row, in any order. It needs no secret: two pairs of one hash cost time alone."""
    hashed = exp.Anonymous(this="hash", expressions=[column(c) for c in (UNIT, *group.keys)])
    return select([alias(hashed, PAIR)], _rows(group))


def render_uncut(group: Group) -> exp.Select:
    """The tallies of each key: of units of whom nothing is cut, and of all others, added up (Theorem CAP-3)."""
    assert fits_uncut(group), "rows that can't be looked at twice"
    keys = [column(k) for k in group.keys]
    others = select([exp.Star()], subquery(render_ranked(group, among=CUT), "r"))
    both = exp.union(_uncut(group), others, distinct=False, copy=False)
    tallies = [alias(unit_tally(name, t), name) for name, t in group.tallies]
    query = grouped(select([*keys, *tallies], subquery(both, "b")), [k.copy() for k in keys])
    votes = [alias(vote(bits, column(ROWS)), _vote(bits)) for bits in Ranked(group).vote_bits]
    uncut = select([column(UNIT), *votes], table(COUNTED))
    joined(uncut, table(CUT), equal(UNIT, COUNTED, CUT), "ANTI")
    query = query.with_(CUT, as_=_cut(group), materialized=True, copy=False)
    return query.with_(UNCUT, as_=uncut, materialized=True, copy=False)


def _rows(group: Group) -> exp.Subquery:
    return subquery(gridded_rows(Ranked(group).per_unit.input), "o")


def _cut(group: Group) -> exp.Select:
    """Every unit that may lose something, or have two rows in one group; others may be among them."""
    many = where(select([column(UNIT)], table(COUNTED)), exp.GT(this=column(ROWS), expression=number(most_rows(group))))
    pairs = render_pairs(group)
    pairs.append("expressions", column(UNIT))
    again = joined(
        select([column(UNIT, "p")], subquery(pairs, "p")), table(REPEATED), equal(PAIR, "p", REPEATED), "SEMI"
    )
    found = subquery(exp.union(many, again, distinct=False, copy=False), "c")
    return grouped(select([column(UNIT)], found), [column(UNIT)])


def _uncut(group: Group) -> exp.Select:
    """Each row of theirs is the only one of its unit in its group, and has its whole weight."""
    made = Ranked(group)
    keys = [column(k) for k in group.keys]
    votes = [column(_vote(bits), UNCUT) for bits in made.vote_bits]
    rows = joined(select([every("o"), *votes], _rows(group)), table(UNCUT), equal(UNIT, "o", UNCUT))
    tallies = [alias(_tally(name, t, made), name) for name, t in group.tallies]
    return grouped(select([*keys, *tallies], subquery(rows, "u")), [k.copy() for k in keys])


def _tally(name: str, tally: Tally, made: Ranked) -> exp.Expr:
    if tally.kind == "units":
        return count()
    if tally.kind == "votes":
        assert tally.bits is not None
        return or_zero(exp.Sum(this=column(_vote(tally.bits))))
    found = row_tally(name, tally)
    if made.weight is None:
        return found
    whole = cast(number(2**made.weight.bits), "HUGEINT")  # Theorem GRID-4: a sum times a weight fits 128 bits
    return exp.Mul(this=cast(found, "HUGEINT"), expression=whole)


def _vote(bits: int) -> str:
    return f"v_{bits}"
