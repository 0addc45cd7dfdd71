"""IN as DuckDB also lets it be written: pairs in a list, VALUES, = ANY and <> ALL of a subquery."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import replaced

MAX_PAIRS = 500


def membership(tree: exp.Query) -> exp.Query:
    """The query with such tests written as an IN of values, an IN of a subquery, or comparisons."""
    return replaced(tree, (exp.EQ, exp.NEQ, exp.In), _spelt_out)


def _spelt_out(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.EQ | exp.NEQ):
        return _quantified(node)
    if not isinstance(node, exp.In) or node.args.get("query") is not None or isinstance(node.parent, exp.Pivot):
        return node  # a PIVOT's values are no test
    listed, query = list(node.expressions), False
    if len(listed) == 1 and isinstance(listed[0], exp.Values):
        query = True
        rows = listed[0].expressions
        listed = [r.expressions[0] if len(r.expressions) == 1 else r for r in rows]
        node = exp.In(this=node.this.copy(), expressions=[v.copy() for v in listed])
    if not isinstance(node.this, exp.Tuple):
        return node
    # NULLs inside of pairs are equal in DuckDB where pairs are listed, and unknown where they are a query's rows.
    return _pairs(node, exp.EQ if query else exp.NullSafeEQ)


def _pairs(node: exp.In, same: type[exp.Binary]) -> exp.Expr:
    """(a, b) IN ((1, 2), (3, 4)): one of the pairs is the same."""
    values, rows = node.this.expressions, node.expressions
    for row in rows:
        if not isinstance(row, exp.Tuple) or len(row.expressions) != len(values):
            raise refuse(
                SQLError,
                f"{len(values)} values are compared with something else",
                row,
                code="column-count",
                hint=f"list {len(values)} values in each pair of parentheses",
            )
    if len(rows) > MAX_PAIRS:
        raise refuse(
            SQLError,
            f"an IN list has at most {MAX_PAIRS} pairs",
            node.this,
            code="too-large",
            hint="make the list a public table, and join it",
        )
    tests = [
        exp.and_(
            *(
                same(this=exp.Paren(this=v.copy()), expression=exp.Paren(this=w.copy()))
                for v, w in zip(values, row.expressions, strict=True)
            ),
            copy=False,
        )
        for row in rows
    ]
    return exp.Paren(this=exp.or_(*tests, copy=False))


def _quantified(node: exp.EQ | exp.NEQ) -> exp.Expr:
    wanted = exp.Any if isinstance(node, exp.EQ) else exp.All
    if not isinstance(node.expression, wanted):
        return node
    inner = node.expression.this
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    if not isinstance(inner, exp.Query):
        return node
    found = exp.In(this=node.this.copy(), query=exp.Subquery(this=inner.copy()))
    return found if wanted is exp.Any else exp.Not(this=found)
