"""Statements over the units of one part alone: what is added up over units may be added up part by part (PARTS-1)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from sqlglot import exp

from dpsql.backends.statements.pieces import column
from dpsql.plan.nodes import (
    CapGroups,
    Filter,
    Group,
    GroupUnits,
    PerUnit,
    Project,
    Relation,
    Scan,
    SpreadVotes,
    Statement,
    ToGrid,
    WeightUnits,
    expressions_of,
    parts_of,
)
from dpsql.sql.gridded import number
from dpsql.sql.trees import nodes_of

Below = ToGrid | PerUnit | CapGroups | SpreadVotes | WeightUnits

SLOW = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.RegexpExtract, exp.RegexpReplace)
"""What takes longer to ask of a row once more than sorting it."""


def rows_below(statement: Statement) -> ToGrid | None:
    """The rows that a statement adds up unit by unit, so that a part of the units has its part of each sum.

    None: values that units may have in common, rows outside of public cells, or what an index has changed.
    """
    group = statement if isinstance(statement, Group) else statement.input
    node = group.input
    while isinstance(node, PerUnit | CapGroups | SpreadVotes | WeightUnits):
        node = node.input
    if not isinstance(node, ToGrid) or any(t.kind == "distinct" for _, t in group.tallies):
        return None
    return node


def read_again(rows: ToGrid, tables: Set[str]) -> Scan | None:
    """The scan of rows that are worth another look: of one of these tables, with owners, and nothing joined to it."""
    parts = list(parts_of(rows.input))
    if not all(isinstance(part, Scan | Filter | Project | GroupUnits) for part in parts):
        return None
    if any(nodes_of(e, *SLOW) for e in expressions_of(rows.input)):
        return None
    scan = parts[-1]
    assert isinstance(scan, Scan)
    return None if scan.owner is None or scan.links or scan.table.lower() not in tables else scan


def in_part(statement: Group, part: int, parts: int) -> Group:
    """Theorem PARTS-1. The same over the units whose hash has this remainder, and no others."""
    return statement if parts == 1 else replace(statement, input=_below(statement.input, part, parts))


def _below(node: object, part: int, parts: int) -> Below:
    match node:
        case PerUnit() | CapGroups() | SpreadVotes() | WeightUnits():
            changed = _below(node.input, part, parts)
            return replace(node, input=changed)  # type: ignore[arg-type]  # it has the type that it had
        case ToGrid():
            rows = _scanned(node.input, part, parts)
            assert isinstance(rows, Project)
            return replace(node, input=rows)
        case _:
            raise AssertionError("nothing that is added up unit by unit: ask rows_below")


def _scanned(relation: Relation, part: int, parts: int) -> Relation:
    """The rows of these units alone, from the scan on: where a filter stands higher up, no engine need move it down."""
    match relation:
        case Scan():
            assert relation.unit is not None, "rows without units: ask read_again"
            hashed = exp.Anonymous(this="hash", expressions=[column(relation.unit)])
            here = exp.EQ(this=exp.Mod(this=hashed, expression=number(parts)), expression=number(part))
            return Filter(relation, here)
        case Filter() | Project() | GroupUnits():
            return replace(relation, input=_scanned(relation.input, part, parts))
        case _:
            raise AssertionError("rows that are read once: ask read_again")
