"""(SELECT …) ORDER BY x LIMIT 3 is SELECT * FROM (SELECT …) AS q ORDER BY x LIMIT 3."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import replaced

_SOURCES = exp.From | exp.Join | exp.Pivot  # parents of parentheses that are a source, not a query


def parenthesised_query(tree: exp.Query) -> exp.Query:
    """The query with ORDER BY, LIMIT and OFFSET nowhere after parentheses, but in a SELECT around them."""
    return replaced(tree, (exp.Subquery,), _wrapped)


def _wrapped(node: exp.Expr) -> exp.Expr:
    after = {k: v for k, v in node.args.items() if v and k not in ("this", "alias", "with_")}
    if not after or isinstance(node.parent, _SOURCES):
        return node
    if set(after) - {"order", "limit", "offset"}:
        raise refuse(
            SQLError,
            "a query in parentheses takes ORDER BY, LIMIT and OFFSET only",
            node,
            code="unsupported",
            hint="put the rest into a SELECT around it: SELECT … FROM (…) AS q",
        )
    inner = exp.Subquery(this=node.this.copy(), alias=exp.TableAlias(this=exp.to_identifier("q")))
    around = exp.select("*").from_(inner)
    for part, value in after.items():
        around.set(part, value.copy())
    kept = {k: v.copy() for k, v in node.args.items() if v and k in ("alias", "with_")}
    return exp.Subquery(this=around, **kept)
