"""What an answer leaves out, in short lines for people: small groups, rows of nobody, what no declared value meets.

All of it is a function of the SQL, the policy, verified promises and the noise that is drawn: no row, and no number of
rows, has a part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.analyze.catalog import Catalog
from dpsql.analyze.ownership import nullable_promise
from dpsql.analyze.unmet import LONGEST, never_true, unmet
from dpsql.plan.nodes import Plan, Scan, parts_of
from dpsql.policy.model import ColumnUnit, LinkedUnit
from dpsql.quote.model import Step


def standing(plan: Plan, catalog: Catalog) -> tuple[str, ...]:
    """What is known of a statement before it is measured: why nothing may come out, and whose rows don't count."""
    lines = [line for release in plan.releases for line in unmet(release, catalog)]
    lines += _after(plan.post)
    scans = [part for release in plan.releases for part in parts_of(release.input) if isinstance(part, Scan)]
    lines += [line for scan in scans for line in _nobody(scan.table, catalog)]
    return tuple(dict.fromkeys(lines))


def groups_left_out(steps: Sequence[Step], *, chosen: bool = False) -> tuple[str, ...]:
    """Which groups of each table aren't shown; chosen: limits are still to be chosen, and how small hangs on them.

    Lists of groups say it themselves (aggregates/present.py).
    """
    lines = []
    for step in steps:
        if step.count == 0:
            lines.append("nothing can come out: no possible value of the keys meets the conditions")
        if step.selection is None or any(RECIPES[call.function].tells_presence for call in step.calls):
            continue
        if chosen and step.checked.bounding.chosen:
            lines.append("small groups are not shown; how small is known once the limits are chosen")
        else:
            lines.append(f"groups with fewer than about {step.selection.units:,} units are not shown")
    return tuple(dict.fromkeys(lines))


def nothing_shown(steps: Sequence[Step], groups: int) -> tuple[str, ...]:
    """Why an answer has no rows, where keys were selected; groups: how many left. All of it has left (POST-1)."""
    if all(step.selection is None for step in steps):
        return ()
    if groups:
        return ("no group that can be shown meets the conditions on noisy values",)
    return ("no group had enough units to be shown",)


def _after(query: exp.Query) -> Iterator[str]:
    """Conditions on results that are never met, whatever these are."""
    limit = query.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.name == "0":
        yield "nothing can come out: LIMIT 0"
    where = query.args.get("where")
    if isinstance(where, exp.Where) and never_true(where.this):
        yield "nothing can come out: a condition on the results is never true"


def _nobody(name: str, catalog: Catalog) -> Iterator[str]:
    """Rows of nobody are dropped (Theorem OWN-1): said of each table of which nobody verified that it has none."""
    table = catalog.policy.tables[name]
    match table.unit:
        case ColumnUnit():
            verified = catalog.promises.get(name, frozenset())
            said = table.column(table.unit.column)
            if said is None or said.nullable or nullable_promise(table, table.unit.column) not in verified:
                yield _fitting(table.unit.column, table.name)
        case LinkedUnit():
            through = catalog.policy.tables[table.unit.through].name
            line = f"rows of {table.name} that no row of {through} gives an owner are left out"
            yield line if len(line) <= LONGEST else "rows that no other table gives an owner are left out"


def _fitting(column: str, table: str) -> str:
    lines = (
        f"rows of {table} whose {column} is NULL are left out",
        f"rows whose {column} is NULL are left out",
        "rows whose unit is NULL are left out",
    )
    return next((line for line in lines if len(line) <= LONGEST), lines[-1])
