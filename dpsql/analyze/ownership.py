"""Who owns each row, and what is proved of how many rows one unit can have.

A promise of the policy proves something only after the steward's check recorded that it holds for this very data
(Theorem PROMISE-1); an unverified promise proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import assert_never

from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Scan
from dpsql.plan.owners import domain_of
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy, RowUnit, Table
from dpsql.sql.refuse import refuse

Promises = Mapping[str, frozenset[str]]  # table -> the promises that were verified for its present data


@dataclass(frozen=True, slots=True)
class Ownership:
    """unit: the plan column that holds the unit (None: each row is its own unit, and nobody needs to name it).

    rows: at most so many rows per unit, proved; None: not proved. promised: the same as the policy's unverified word,
    which is enforced as a limit and proves nothing. own: columns that are functions of the unit alone. unique: sets of
    columns with at most one row for each value. ranks: columns that number each unit's rows 1, 2, …
    """

    table: str
    unit: str | None
    domain: str
    rows: int | None
    promised: int | None
    why: str
    own: frozenset[str] = frozenset()
    unique: frozenset[frozenset[str]] = frozenset()
    ranks: frozenset[str] = frozenset()
    repeats: int = 1  # how often joins with public rows repeat a row, at most
    numbered: bool = False  # the unit is a number that a scan gave the row: another scan may give it another one


def scan_owner(scan: Scan, policy: Policy, promises: Promises) -> Ownership:
    """The owners of a table's rows (Theorem OWN-1)."""
    table = policy.tables[scan.table]
    columns = frozenset(plan for plan, _ in scan.columns)
    match table.unit:
        case RowUnit():
            domain = domain_of(table, policy)
            return Ownership(scan.table, None, domain, 1, None, "each row is its own unit", columns)
        case ColumnUnit() | LinkedUnit():
            _check_links(scan, policy, promises)
            assert scan.unit is not None
            verified = promises.get(scan.table, frozenset())
            domain, promised = domain_of(table, policy), table.rows_per_unit
            unique = set()
            if table.key and key_promise(table) in verified:
                unique.add(frozenset(p for p, c in scan.columns if c.lower() in {k.lower() for k in table.key}))
            if promised is None:
                why, rows = "a unit may have any number of rows", None
            elif rows_promise(table) in verified:
                why, rows, promised = f"rows_per_unit = {promised}, verified", promised, None
            else:
                why, rows = f"rows_per_unit = {promised}, not verified", None
            own = frozenset({scan.unit})
            if rows == 1:
                unique.add(own)
                own = columns | own
            return Ownership(scan.table, scan.unit, domain, rows, promised, why, own, frozenset(unique))
        case None:
            raise AssertionError("a public table has no owner")
        case _:
            assert_never(table.unit)


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


SCAN = "scan 3"
"""Which records and values a scan yields (Theorem SCAN-1). What was found of one scan says nothing of another, so it is
part of the name of each finding: the fact that a source was read in full, and the promises that were verified."""


UNREADABLE = "unreadable"

Facts = Mapping[str, tuple[str, ...] | None]
"""What a full reading has shown of each part of a source: of each column, or of "", the whole of it."""


def is_scan_fact(promise: str) -> bool:
    """Is it what a full reading of a source found, of any kind of scan, and no promise of the policy's?"""
    return promise.startswith("scan ")


def scan_findings(found: Facts) -> Iterator[tuple[str, bool]]:
    """Under which names it is recorded what a full reading has shown, and whether these parts are readable."""
    alike: dict[tuple[str, ...] | None, list[str]] = {}
    for part, facts in found.items():
        alike.setdefault(facts, []).append(part)
    for facts, parts in alike.items():
        words = [UNREADABLE] if facts is None else list(facts)
        named = [] if parts == [""] else [json.dumps(sorted(parts))]
        yield " ".join([SCAN, *words, *named]), facts is not None


def scan_facts(promises: Collection[str]) -> dict[str, tuple[str, ...]]:
    """What is known of the parts of a source by what full readings have recorded."""
    found: dict[str, tuple[str, ...]] = {}
    for promise in promises:
        if promise != SCAN and not promise.startswith(f"{SCAN} "):
            continue
        words, bracket, names = promise.removeprefix(SCAN).partition("[")
        for part in json.loads(bracket + names) if bracket else [""]:
            found[part] = tuple(words.split())
    return found


def columns_named(policy: Policy, table: Table) -> frozenset[str]:
    """The columns that the policy names of a table, in lower case: listed ones, and those by which owners are found."""
    named = {*table.columns, *(key.lower() for key in table.key or ())}
    if isinstance(table.unit, ColumnUnit):
        named.add(table.unit.column.lower())
    for other in policy.tables.values():
        if isinstance(other.unit, LinkedUnit):
            named |= {here.lower() for here, _ in other.unit.on if other is table}
            named |= {there.lower() for _, there in other.unit.on if other.unit.through.lower() == table.name.lower()}
        for column in other.columns.values():
            if column.references is not None and column.references.table.lower() == table.name.lower():
                named.add(column.references.column.lower())
    return frozenset(named)


def rows_promise(table: Table) -> str | None:
    """The name under which the check of rows_per_unit is recorded, made of that number and of the unit's column.

    None for a linked table: its rows per unit rest on the data of other tables as well, so they are always enforced.
    """
    if not isinstance(table.unit, ColumnUnit):
        return None
    return f"rows_per_unit={table.rows_per_unit}:{_typed(table, table.unit.column)}, {SCAN}"


def key_promise(table: Table) -> str:
    """The name under which the check of a table's key is recorded."""
    return f"key={','.join(_typed(table, c) for c in table.key or ())}, {SCAN}"


def nullable_promise(table: Table, column: str) -> str:
    """The name under which the check of nullable = false is recorded."""
    return f"nullable=false:{_typed(table, column)}, {SCAN}"


def promises_of(table: Table) -> Iterator[str]:
    """The names of all promises that the policy makes of a private table, and that a check can verify."""
    if table.rows_per_unit is not None and (promise := rows_promise(table)) is not None:
        yield promise
    if table.key is not None:
        yield key_promise(table)
    yield from (nullable_promise(table, column.name) for column in table.columns.values() if not column.nullable)


def _typed(table: Table, column: str) -> str:
    """A column and the type that the policy pins it to: '01' and '1' are two values as text and one as a number.

    Where the policy pins none, the type is the data's own, and the data are part of what a check is recorded for.
    """
    said = table.column(column)
    return f"{column.lower()} {said.type if said is not None and said.type is not None else ''}".rstrip()
