"""Windows: over results they stay as they are, over private rows each looks at one unit's own rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.nodes import Expr, Windows, unit_of
from dpsql.plan.owners import determine, ways
from dpsql.plan.rows import Rows, plan_column
from dpsql.policy.model import Policy
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import Rewrite, rebuilt


def over_results(node: exp.Expr, rewrite: Rewrite) -> exp.Expr:
    """A window whose arguments, partition and order are rewritten: SUM(COUNT(*)) OVER (…) keeps its SUM."""

    def part(child: exp.Expr) -> exp.Expr:
        if isinstance(child, exp.Identifier | exp.WindowSpec):
            return child.copy()
        return _function(child, rewrite) if child is node.this else rewrite(child)

    return rebuilt(node, part)


def _function(node: exp.Expr, rewrite: Rewrite) -> exp.Expr:
    if isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        return rebuilt(node, lambda child: _function(child, rewrite) if child is node.this else rewrite(child))
    return rebuilt(node, lambda child: child.copy() if isinstance(child, exp.Star) else rewrite(child))


def spelt_out(node: exp.Window, windows: Mapping[str, exp.Window]) -> exp.Window:
    """A window with what its name stands for written into it."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    named = next((w for name, w in windows.items() if name.lower() == alias.name.lower()), None)
    if named is None:
        raise refuse(
            SQLError,
            f"there is no window {alias.name}",
            node,
            code="unknown-window",
            hint=f"add it: WINDOW {alias.name} AS (PARTITION BY …)",
        )
    whole = spelt_out(named, windows).copy()
    merged = node.copy()
    merged.set("alias", None)
    for part in ("partition_by", "order", "spec"):
        if not merged.args.get(part):
            merged.set(part, whole.args.get(part))
    return merged


def add_window(node: exp.Expr, rows: Rows, policy: Policy, name: str | None = None) -> Expr:
    """The column of a window over plan columns; its partition is each unit's own rows (Theorem OWN-6)."""
    partition = node.args.get("partition_by") or []
    unit = unit_of(rows.relation)
    if unit is None or not determine(partition, ways(rows.relation, policy)):
        raise refuse(
            PrivacyError,
            "a window over private rows mixes people, unless it is partitioned by their unit",
            node,
            code="window-private",
            hint="aggregate first, windows work on the result"
            + ("" if unit is None else "; or write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)"),
        )
    found = rows.made.get(node)
    if found is not None and name is None:
        return found.copy()
    column = name or rows.fresh("window")
    rows.relation = Windows(rows.relation, unit, column, node)
    rows.made[node] = plan_column(column)
    return plan_column(column)
