"""By lineage: which plan columns tell the owner of a row, and which conditions make two rows have one owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import assert_never

from sqlglot import exp

from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Named,
    Project,
    PublicTable,
    Relation,
    Scan,
    Union,
    Windows,
)
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy, Table

Meaning = tuple[str, ...]  # ("unit", domain): the unit itself; ("key", table, columns …): a declared key of a table
Way = tuple[Meaning, tuple[str, ...]]  # what the values of these plan columns mean, wherever they stand


def ways(relation: Relation, policy: Policy, *, matched: bool = False) -> frozenset[Way]:
    """The sets of plan columns that tell the owner of a row: its unit, and keys that lead to one unit each.

    They decide what a query means, never what it costs: joins and groups hold the hidden unit itself besides.
    After a LEFT JOIN the other side's columns are NULL for everybody without a match (attack 39), so they tell the
    owner only where they are compared with something: matched.
    """
    match relation:
        case Scan():
            return _scan(relation, policy)
        case Filter() | Mark() | Windows():
            return ways(relation.input, policy, matched=matched)
        case Project():
            return _renamed(ways(relation.input, policy, matched=matched), relation.columns)
        case GroupUnits():
            unit: Named = (relation.unit, exp.column(relation.unit))
            return _renamed(ways(relation.input, policy, matched=matched), (unit, *relation.keys))
        case Join():
            found = ways(relation.left, policy, matched=matched)
            if (relation.kind == "inner" or matched) and not isinstance(relation.right, PublicTable | Given):
                found |= ways(relation.right, policy, matched=matched)
            return found
        case Union():
            sides = [ways(one, policy, matched=matched) for one in relation.inputs]
            return sides[0].intersection(*sides[1:])
        case _:
            assert_never(relation)


def _renamed(found: frozenset[Way], columns: Sequence[Named]) -> frozenset[Way]:
    """Ways to tell an owner, once for each choice of new names that their columns have."""
    return frozenset((m, place) for m, need in found for place in _places(need, columns))


def _places(need: tuple[str, ...], columns: Sequence[Named]) -> Iterator[tuple[str, ...]]:
    return product(*([n for n, e in columns if isinstance(e, exp.Column) and e.name == name] for name in need))


def positions(outputs: Iterable[Expr], found: frozenset[Way]) -> set[tuple[Meaning, tuple[str, ...]]]:
    """Where among the outputs a row's owner stands, and how it is told."""
    listed = [(str(i), e) for i, e in enumerate(outputs)]
    return {(m, place) for m, need in found for place in _places(need, listed)}


def _scan(scan: Scan, policy: Policy) -> frozenset[Way]:
    table = policy.tables[scan.table]
    if scan.owner is None or scan.unit is None:
        return frozenset()
    plan = {column.lower(): name for name, column in scan.columns}
    found: set[Way] = {(("unit", domain_of(table, policy)), (scan.unit,))}
    if table.key:
        found.add(_key(table.name, [(c, plan[c.lower()]) for c in table.key]))
    if isinstance(table.unit, LinkedUnit):
        next_table = policy.tables[table.unit.through.lower()]
        pairs = [(there, plan[here.lower()]) for here, there in table.unit.on]
        found.add(_key(next_table.name, pairs))
        own = next_table.unit
        if isinstance(own, ColumnUnit) and [own.column.lower()] == [there.lower() for there, _ in pairs]:
            found.add((("unit", own.domain), (pairs[0][1],)))
    return frozenset(found)


def _key(table: str, pairs: Iterable[tuple[str, str]]) -> Way:
    ordered = sorted((column.lower(), plan) for column, plan in pairs)
    return ("key", table.lower(), *(c for c, _ in ordered)), tuple(plan for _, plan in ordered)


def domain_of(table: Table, policy: Policy) -> str:
    """What the units of a private table are."""
    while isinstance(table.unit, LinkedUnit):
        table = policy.tables[table.unit.through.lower()]
    return table.unit.domain if isinstance(table.unit, ColumnUnit) else f"rows of {table.name.lower()}"


def units(found: frozenset[Way]) -> frozenset[str]:
    """The plan columns that hold the unit itself."""
    return frozenset(columns[0] for meaning, columns in found if meaning[0] == "unit")


def determine(columns: Iterable[Expr], found: frozenset[Way]) -> bool:
    """Do these expressions, as they stand, tell the owner?"""
    names = {c.name for c in columns if isinstance(c, exp.Column)}
    return any(set(need) <= names for _, need in found)


def one_owner(conjuncts: Iterable[Expr], left: Relation, right: Relation, policy: Policy) -> bool:
    """Do the equalities among these conditions make a left and a right row have the same owner? (attack 17)"""
    equal = set(_equalities(conjuncts))
    return any(
        meaning == other and all((a, b) in equal for a, b in zip(mine, theirs, strict=True))
        for meaning, mine in ways(left, policy, matched=True)
        for other, theirs in ways(right, policy, matched=True)
    )


def _equalities(conjuncts: Iterable[Expr]) -> Iterator[tuple[str, str]]:
    for conjunct in conjuncts:
        node = conjunct.unnest()
        if isinstance(node, exp.EQ):
            a, b = node.this.unnest(), node.expression.unnest()
            if isinstance(a, exp.Column) and isinstance(b, exp.Column):
                yield a.name, b.name
                yield b.name, a.name


def without_units(conjuncts: Iterable[Expr], units: tuple[str, str] | None) -> list[Expr]:
    """The conditions that say more than that the owners are the same, which is always said."""
    return [c for c in conjuncts if units is None or units not in set(_equalities([c]))]
