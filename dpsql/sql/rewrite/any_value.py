"""ANY_VALUE(x) IGNORE NULLS, as the parser spells out what DuckDB does anyway, is ANY_VALUE(x)."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.trees import replaced


def any_value(tree: exp.Query) -> exp.Query:
    """The query with no IGNORE NULLS around an ANY_VALUE."""
    return replaced(tree, (exp.IgnoreNulls,), _plain)


def _plain(node: exp.Expr) -> exp.Expr:
    return node.this.copy() if isinstance(node.this, exp.AnyValue) else node
