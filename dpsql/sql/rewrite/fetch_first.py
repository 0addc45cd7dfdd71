"""FETCH FIRST 3 ROWS ONLY is LIMIT 3."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.trees import replaced


def fetch_first(tree: exp.Query) -> exp.Query:
    """The query with LIMIT for FETCH, except where that asks for a percentage or for ties, which LIMIT can't say."""
    return replaced(tree, (exp.Fetch,), _limit)


def _limit(node: exp.Expr) -> exp.Expr:
    options = node.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return node
    count = node.args.get("count") or exp.Literal.number(1)
    return exp.Limit(expression=count.copy())
