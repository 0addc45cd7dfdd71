"""ANY_VALUE(x) IGNORE NULLS, which the parser spells out although DuckDB does it anyway, is ANY_VALUE(x)."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.nodes import bare
from dpsql.sql.trees import replaced


def any_value(tree: exp.Query) -> exp.Query:
    """The query with no IGNORE NULLS around an aggregate that ignores them anyway."""
    return replaced(tree, (exp.IgnoreNulls,), _plain)


def _plain(node: exp.Expr) -> exp.Expr:
    found = bare(node)
    return node if found is node else found.copy()
