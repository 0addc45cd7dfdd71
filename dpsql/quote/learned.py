"""Which histogram of a whole table, learned once for everybody, may choose the limit of a query (Theorem LIMITS-1).

It serves where each unit's rows are all of its rows in that one table, or none of them. Nothing private rests on that:
the limit is enforced on the query's own rows, whoever chose it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.checked import CheckedRelease
from dpsql.analyze.joins import by_unit_alone
from dpsql.analyze.ownership import scan_owner
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Project,
    PublicTable,
    Relation,
    Release,
    Scan,
    columns_of,
)
from dpsql.plan.rows import plan_column
from dpsql.quote.model import Released, Stage, Step
from dpsql.quote.older import Chosen
from dpsql.sql.trees import nodes_of


class Lookup(Protocol):
    """Finds stored releases of what a step measures, each with the id of its spend."""

    @property
    def has_learned(self) -> bool:
        """Has anything ever been learned for everybody?"""

    def __call__(self, step: Step) -> Sequence[tuple[str, Noisy]]:
        """Everything that this analyst may see, the newest first."""

    def learned(self, step: Step) -> Sequence[tuple[str, Noisy]]:
        """What was learned for everybody, the newest first."""

    def limits(self, checked: CheckedRelease, names: Sequence[str]) -> Sequence[tuple[str, Chosen]]:
        """The limits that were chosen for releases like this one, the newest first, each with the id of its spend.

        checked: with fixed limits. names: of the query's releases.
        """

    def answering(self, stage: Stage) -> Released | None:
        """What answers a settled stage for nothing."""


class Nothing:
    """A lookup that finds nothing."""

    has_learned = False

    def __call__(self, step: Step) -> Sequence[tuple[str, Noisy]]:
        return ()

    def learned(self, step: Step) -> Sequence[tuple[str, Noisy]]:
        return ()

    def limits(self, checked: CheckedRelease, names: Sequence[str]) -> Sequence[tuple[str, Chosen]]:
        return ()

    def answering(self, stage: Stage) -> Released | None:
        return None


def learned_rows(histogram: Release, catalog: Catalog) -> Release | None:
    """The same histogram of the whole table whose rows these are, or all of some units' rows; None: it doesn't serve.

    A histogram of the whole table itself is its own.
    """
    each = histogram.input
    while isinstance(each, Project):
        each = each.input
    if not isinstance(each, GroupUnits) or each.keys:
        return None
    rows = _whole_units(each.input, catalog)
    if rows is None or rows.table.unit is None:
        return None
    if not _names(e for _, e in each.columns) <= set(columns_of(rows.table)):
        return None
    return replace(histogram, input=_steps(histogram.input, GroupUnits(rows.table, rows.table.unit, (), each.columns)))


def _steps(relation: Relation, each: GroupUnits) -> Relation:
    """The same columns, step by step, of these units."""
    if not isinstance(relation, Project):
        return each
    below, unit = _steps(relation.input, each), relation.unit
    columns = [(each.unit, plan_column(each.unit)) if name == unit else (name, e) for name, e in relation.columns]
    return Project(below, tuple(columns), each.unit)


@dataclass(frozen=True, slots=True)
class _WholeUnits:
    """Rows that are all of a unit's rows in a table, or none of them.

    own: columns that are functions of the unit. single: no unit has two rows, which a verified promise says.
    """

    table: Scan
    own: frozenset[str]
    single: bool


def _whole_units(relation: Relation, catalog: Catalog) -> _WholeUnits | None:
    """The table of which a relation holds whole units; None of all others, whose units may have other rows there."""
    match relation:
        case Scan():
            owner = scan_owner(relation, catalog.policy, catalog.promises)
            return None if owner.unit is None else _WholeUnits(relation, owner.own, owner.rows == 1)
        case Filter():
            below = _whole_units(relation.input, catalog)
            return below if below is not None and _names([relation.condition]) <= below.own else None
        case Mark():
            return _marked(relation, catalog)
        case Project():
            below = _whole_units(relation.input, catalog)
            if below is None:
                return None
            return replace(below, own=frozenset(n for n, e in relation.columns if _names([e]) <= below.own))
        case Join():
            return _joined(relation, catalog)
        case _:
            return None  # a unit may have more rows than in any one table, or other ones


def _marked(node: Mark, catalog: Catalog) -> _WholeUnits | None:
    """A mark is a function of the unit where it looks at nothing else of the row."""
    below = _whole_units(node.input, catalog)
    if below is None:
        return None
    looked = [*([] if node.condition is None else [node.condition]), *(() if node.member is None else node.member)]
    mine = _names(looked) & set(columns_of(node.input))
    return replace(below, own=below.own | {node.column}) if mine <= below.own else below


def _joined(node: Join, catalog: Catalog) -> _WholeUnits | None:
    """A join on the unit alone, in which one side has one row for each unit: so no row of the other is repeated."""
    if isinstance(node.right, PublicTable | Given) or not by_unit_alone(node, catalog.policy):
        return None
    left, right = _whole_units(node.left, catalog), _whole_units(node.right, catalog)
    if left is None or right is None:
        return None
    own = left.own | right.own
    if right.single:
        return replace(left, own=own)
    return replace(right, own=own) if left.single and node.kind == "inner" else None


def _names(expressions: Iterable[Expr]) -> set[str]:
    return {c.name for e in expressions for c in nodes_of(e, exp.Column)}
