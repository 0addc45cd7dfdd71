"""Who owns each row, and what is proved of how many rows one unit can have.

A promise of the policy proves something only after the steward's check recorded that it holds for this very data
(Theorem PROMISE-1); an unverified promise proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from dpsql.errors import PrivacyError
from dpsql.plan.nodes import Filter, Relation, Scan
from dpsql.policy import ColumnUnit, LinkedUnit, Policy, RowUnit, Table
from dpsql.sql.refuse import refuse

Promises = Mapping[str, frozenset[str]]  # table -> the promises that were verified for its present data


@dataclass(frozen=True, slots=True)
class Ownership:
    """unit: the plan column that holds the unit (None: each row is its own unit).

    rows: at most so many rows per unit, proved; None: not proved. promised: the same as the policy's unverified word,
    which is enforced as a limit and proves nothing.
    """

    table: str
    unit: str | None
    domain: str
    rows: int | None
    promised: int | None
    why: str


def ownership(relation: Relation, policy: Policy, promises: Promises) -> Ownership:
    """The owner of each row of a relation. Filters keep owners and can only remove rows (Theorem OWN-1)."""
    match relation:
        case Scan():
            return _scan(relation, policy, promises)
        case Filter():
            return ownership(relation.input, policy, promises)
        case _:
            assert_never(relation)


def _scan(scan: Scan, policy: Policy, promises: Promises) -> Ownership:
    table = policy.tables[scan.table]
    match table.unit:
        case RowUnit():
            return Ownership(scan.table, None, f"rows of {scan.table}", 1, None, "each row is its own unit")
        case ColumnUnit() | LinkedUnit():
            _check_links(scan, policy, promises)
            domain = _domain(table, policy)
            promised = table.rows_per_unit
            if promised is None:
                return Ownership(scan.table, scan.unit, domain, None, None, "a unit may have any number of rows")
            if rows_promise(table) in promises.get(scan.table, frozenset()):
                return Ownership(scan.table, scan.unit, domain, promised, None, f"rows_per_unit = {promised}, verified")
            why = f"rows_per_unit = {promised}, not verified"
            return Ownership(scan.table, scan.unit, domain, None, promised, why)
        case None:
            raise AssertionError("a public table has no owner")
        case _:
            assert_never(table.unit)


def _domain(table: Table, policy: Policy) -> str:
    while isinstance(table.unit, LinkedUnit):
        table = policy.tables[table.unit.through.lower()]
    assert isinstance(table.unit, ColumnUnit)
    return table.unit.domain


def _check_links(scan: Scan, policy: Policy, promises: Promises) -> None:
    """A row has one owner only if it points to at most one row: the key it points to must be verified."""
    for link in scan.links:
        table = policy.tables[link.table]
        if key_promise(table) not in promises.get(link.table, frozenset()):
            raise refuse(
                PrivacyError,
                f"{policy.tables[scan.table].name} belongs to its units through {table.name}, "
                f"whose key ({', '.join(table.key or ())}) has not been verified for this data",
                scan.node,
                code="unverified-promise",
                hint="the steward runs: dpsql check --steward",
            )


def rows_promise(table: Table) -> str | None:
    """The name under which the check of rows_per_unit is recorded; it names the unit, too.

    None for a linked table: its rows per unit rest on the data of other tables as well, so they are always enforced.
    """
    if not isinstance(table.unit, ColumnUnit):
        return None
    return f"rows_per_unit={table.rows_per_unit}:{_typed(table, table.unit.column)}"


def key_promise(table: Table) -> str:
    """The name under which the check of a table's key is recorded."""
    return f"key={','.join(_typed(table, c) for c in table.key or ())}"


def nullable_promise(table: Table, column: str) -> str:
    """The name under which the check of nullable = false is recorded."""
    return f"nullable=false:{_typed(table, column)}"


def _typed(table: Table, column: str) -> str:
    """A column and the type that the policy pins it to: '01' and '1' are two values as text and one as a number.

    Where the policy pins none, the type is the data's own, and the data are part of what a check is recorded for.
    """
    said = table.column(column)
    return f"{column.lower()} {said.type if said is not None and said.type is not None else ''}".rstrip()


def is_unit(argument: exp.Expr, relation: Relation) -> bool:
    """Is this expression, by lineage, the unit of the relation's rows?"""
    match relation:
        case Filter():
            return is_unit(argument, relation.input)
        case Scan():
            return isinstance(argument, exp.Column) and argument.name == relation.unit
        case _:
            assert_never(relation)
