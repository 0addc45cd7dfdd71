"""Which of the forms of a statement, that all say the same, Spark is given: by how much would have to be moved.

It is chosen by how many rows the tables have. That changes how long a statement takes, and nothing of what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpsql.backends.statements.bounding import Form
from dpsql.plan.nodes import (
    CapGroups,
    Filter,
    Gridded,
    OnCells,
    OnDomain,
    PerUnit,
    Project,
    Scan,
    SpreadVotes,
    Statement,
    ToGrid,
    Weight,
    WeightUnits,
    parts_of,
)

FEW = 2**20  # units: of so many, what is known of each is some tens of megabytes


def form_of(statement: Statement, rows: Mapping[str, int | None], skewed: bool = False) -> Form:
    """Theorem FORM-1. FEW where so few units are there, or can be above a limit, that every task holds all of them.

    And where groups are capped, if some units have very many: what a unit has is then gathered by unit and group, all
    over the cluster, and Spark lets each task pass on a unit's first groups alone (WindowGroupLimit).
    """
    group = statement.input if isinstance(statement, OnCells) else statement
    match group.input:
        case Weight():
            most = _heavy(group.input, rows)
        case WeightUnits(input=PerUnit() as units):
            most = _units(units, rows)
        case other:
            return Form.FEW if skewed and _is_capped(other) else Form.WINDOWS
    return Form.FEW if most is not None and most <= FEW else Form.WINDOWS


def _is_capped(node: object) -> bool:
    match node:
        case WeightUnits() | SpreadVotes():
            return _is_capped(node.input)
        case _:
            return isinstance(node, CapGroups)


def _heavy(node: Weight, rows: Mapping[str, int | None]) -> int | None:
    """How many units can be above a limit: each has more rows than it; above a size, one row is enough."""
    parts = list(_parts(node.input))
    scans = [part for part in parts if isinstance(part, Scan)]
    if len(scans) != 1 or scans[0].links or not all(isinstance(part, Scan | Filter | Project) for part in parts):
        return None  # joins repeat rows
    read = rows.get(scans[0].table)
    return read if read is None or node.size is not None or node.mass is None else read // (node.mass + 1)


def _units(node: PerUnit, rows: Mapping[str, int | None]) -> int | None:
    """How many units there can be, about: in a join, no more than the smallest of its tables has rows."""
    found = [rows.get(part.table) for part in _parts(node.input) if isinstance(part, Scan)]
    known = [read for read in found if read is not None]
    return min(known) if known and len(known) == len(found) else None


def _parts(node: Gridded) -> Iterator[object]:
    gridded = node.input if isinstance(node, OnDomain) else node
    return parts_of(gridded.input) if isinstance(gridded, ToGrid) else iter(())
