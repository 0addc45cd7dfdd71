"""A relation in words, a line for each step from the tables on."""

from __future__ import annotations

from typing import assert_never

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
from dpsql.sql.as_sql import as_sql


def described(node: Relation | PublicTable | Given) -> list[str]:
    """What is done to get these rows; what another side does is indented."""
    match node:
        case Scan():
            return [f"scan {node.table}, unit {node.unit or 'row'}{_renamed(node.columns)}"]
        case PublicTable():
            return [f"public {node.table}{_renamed(node.columns)}"]
        case Given():
            source = "from earlier releases" if node.noisy else "public"
            return [f"given {', '.join(plan for plan, _ in node.columns)}: {source}, {_sql(node.query)}"]
        case Filter():
            return [*described(node.input), f"filter {_sql(node.condition)}"]
        case Project():
            return [*described(node.input), f"columns {_named(node.columns)}"]
        case Join():
            return [*described(node.left), f"{node.kind} join{_on(node)}", *_indented(node.right)]
        case Mark():
            test = _on(node)
            if node.member is not None:
                test = f" {_sql(node.member[0])} in {_sql(node.member[1])}"
            return [*described(node.input), f"mark {node.column}:{test}", *_indented(node.other)]
        case Union():
            return ["union all", *(line for one in node.inputs for line in _indented(one))]
        case GroupUnits():
            parts = ", ".join([node.unit, *([_named(node.keys)] if node.keys else [])])
            values = f": {_named(node.columns)}" if node.columns else ""
            return [*described(node.input), f"group by unit {parts}{values}"]
        case Windows():
            return [*described(node.input), f"window {node.column} = {_sql(node.window)}"]
        case _:
            assert_never(node)


def _on(node: Join | Mark) -> str:
    conditions = [] if node.units is None else [f"{node.units[0]} = {node.units[1]} (units)"]
    if node.condition is not None:
        conditions.append(_sql(node.condition))
    return f" on {' and '.join(conditions)}" if conditions else ""


def _indented(node: Relation | PublicTable | Given) -> list[str]:
    return [f"  {line}" for line in described(node)]


def _renamed(columns: tuple[tuple[str, str], ...]) -> str:
    new = [f"{plan} = {column}" for plan, column in columns if plan != column.lower()]
    return f" ({', '.join(new)})" if new else ""


def _named(columns: tuple[Named, ...]) -> str:
    return ", ".join(name if _sql(e) == name else f"{name} = {_sql(e)}" for name, e in columns)


def _sql(node: Expr) -> str:
    return as_sql(node).replace('"', "")
