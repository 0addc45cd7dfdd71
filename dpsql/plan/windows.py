"""Windows over results: the window's own function stays, everything in it is rewritten."""

from __future__ import annotations

from sqlglot import exp

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
