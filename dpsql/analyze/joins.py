"""Joins of private rows: which rows match, how often, and whose the result is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from dpsql.analyze.catalog import Known
from dpsql.analyze.facts import same_type
from dpsql.analyze.ownership import Ownership
from dpsql.analyze.public import PublicFacts
from dpsql.core.errors import PrivacyError
from dpsql.plan.nodes import Expr, Filter, Given, Join, PublicTable, Relation, Scan, columns_of
from dpsql.plan.owners import units, ways
from dpsql.plan.rows import conjuncts
from dpsql.policy.model import Policy
from dpsql.sql.refuse import refuse
from dpsql.sql.scalar import Scalar
from dpsql.sql.trees import nodes_of


def unlinked(left: Relation, right: Relation, condition: Expr | None, policy: Policy) -> Relation | None:
    """The right side without the way to its owner, where the condition goes along that way (Theorem OWN-7).

    A row that points to the key of a left row's order belongs to whom that order belongs to: no need to look it up.
    """
    bottom, looked = right, conjuncts(condition)
    while isinstance(bottom, Filter):
        looked = [*looked, bottom.condition]
        bottom = bottom.input
    if not isinstance(bottom, Scan) or not bottom.links:
        return None
    if any(c.name == bottom.unit for e in looked for c in nodes_of(e, exp.Column)):
        return None
    link, plan = bottom.links[0], {column.lower(): name for name, column in bottom.columns}
    pointing = tuple(plan[here.lower()] for here, there in sorted(link.on, key=lambda pair: pair[1].lower()))
    meaning = ("key", link.table, *sorted(there.lower() for _, there in link.on))
    equal = {(c.this.unnest(), c.expression.unnest()) for c in conjuncts(condition) if isinstance(c, exp.EQ)}
    names = {(a.name, b.name) for a, b in equal if isinstance(a, exp.Column) and isinstance(b, exp.Column)}
    names |= {(b, a) for a, b in names}
    for known, mine in ways(left, policy, matched=True):
        if known == meaning and all(pair in names for pair in zip(mine, pointing, strict=True)):
            return _without_links(right)
    return None


def joined_owner(node: Join, left: Ownership, private: Known | None, once: bool, policy: Policy) -> Ownership:
    """Theorem OWN-3: rows multiply, unless each has at most one match."""
    rows = left.rows
    if not once:
        theirs = private.owner.rows if private is not None else None
        rows = None if rows is None or theirs is None else rows * max(1, theirs)
    promised = left.promised if once else None
    own = left.own
    mine = {c.name for e in conjuncts(node.condition) for c in nodes_of(e, exp.Column)} & set(columns_of(node.left))
    if private is not None:
        if node.kind == "inner" or by_unit_alone(node, policy):
            own |= private.owner.own
    elif once and mine <= own:
        own |= set(columns_of(node.right))  # what a column of the unit's own leads to
    unique = left.unique if once else frozenset()
    ranks = left.ranks if once else frozenset()
    why = left.why if once else "joined: a unit may have any number of rows"
    if not once and rows is not None:
        why = f"joined: at most {rows} rows"
    return replace(left, rows=rows, promised=promised, own=own, unique=unique, ranks=ranks, why=why)


def by_unit_alone(node: Join, policy: Policy) -> bool:
    """Is the unit's equality the only condition? Then a unit's rows have all a match, or none (ATTACKS 42)."""
    assert not isinstance(node.right, PublicTable | Given)
    mine, theirs = (units(ways(side, policy)) for side in (node.left, node.right))
    for conjunct in conjuncts(node.condition):
        if not isinstance(conjunct, exp.EQ):
            return False
        a, b = conjunct.this.unnest(), conjunct.expression.unnest()
        if not isinstance(a, exp.Column) or not isinstance(b, exp.Column):
            return False
        if not ((a.name in mine and b.name in theirs) or (b.name in mine and a.name in theirs)):
            return False
    return True


def matches_once(node: Join, same: set[str], private: Known | None, public: PublicFacts) -> bool:
    """Does each row of the left side have at most one match, whatever the private data are?

    What is said here of a subquery's rows must also be said to publish, which checks it on those that are joined.
    """
    if isinstance(node.right, Given) and node.right.one_row:
        return True
    if private is not None:
        own = {private.owner.unit} if private.owner.unit is not None else set()
        return any(one <= same | own for one in private.owner.unique)
    assert isinstance(node.right, PublicTable | Given)
    noisy = isinstance(node.right, Given) and node.right.noisy
    return bool(same) and not noisy and public.unique(node.right, same)


def equated(node: Join, known: Mapping[str, Scalar]) -> set[str]:
    """The right side's columns that must equal one of the left side's, value for value."""
    mine, theirs = set(columns_of(node.left)), set(columns_of(node.right))
    found: set[str] = set()
    for conjunct in conjuncts(node.condition):
        if isinstance(conjunct, exp.EQ):
            a, b = conjunct.this.unnest(), conjunct.expression.unnest()
            if isinstance(a, exp.Column) and isinstance(b, exp.Column) and same_type(known[a.name], known[b.name]):
                pairs = ((a.name, b.name), (b.name, a.name))
                found |= {there for here, there in pairs if here in mine and there in theirs}
    return found


def fan_out(node: Join, same: set[str], public: PublicFacts) -> int:
    """How often a public side repeats a row at most. One person's must not become a million: that would cost
    time which only that person would (ATTACKS 11)."""
    assert isinstance(node.right, PublicTable | Given)
    return public.fan_out(node.right, same)


def check_units(left: Ownership, right: Ownership, known: Mapping[str, Scalar], place: Expr | None) -> None:
    """One type for the units of both sides: all integers are one, all texts are one, and nothing is cast."""
    assert left.unit is not None and right.unit is not None
    if not same_type(known[left.unit], known[right.unit]):
        a, b = known[left.unit].type, known[right.unit].type
        raise refuse(
            PrivacyError,
            f"the units of {left.table} are {a.sql}, those of {right.table} are {b.sql}: they are never the same",
            place,
            code="unit-types",
            hint="the steward gives both unit columns one type",
        )


def _without_links(relation: Relation) -> Relation:
    if isinstance(relation, Filter):
        return replace(relation, input=_without_links(relation.input))
    assert isinstance(relation, Scan)
    return replace(relation, unit=None, owner=None, links=())
