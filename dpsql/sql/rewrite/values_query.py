"""VALUES where a query stands is SELECT * FROM (VALUES …)."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.trees import replaced


def values_query(tree: exp.Query) -> exp.Query:
    """The query with a SELECT around each VALUES that is a query of its own; a list of rows in FROM stays."""
    return replaced(tree, (exp.Values,), _selected)


def _selected(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.parent, exp.Subquery | exp.CTE | exp.SetOperation):
        return node
    return exp.select("*").from_(exp.alias_(node.copy(), "v", table=True))
