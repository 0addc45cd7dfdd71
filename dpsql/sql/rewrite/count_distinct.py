"""One spelling for counts of combinations: COUNT(DISTINCT a, b) is COUNT(DISTINCT (a, b)) of rows without a NULL."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates import FORMS, form_of
from dpsql.sql.trees import replaced

_COUNTS = tuple(node for form in FORMS.values() if form.starred for node in form.nodes)


def count_distinct(tree: exp.Query) -> exp.Query:
    """The query with counts of several DISTINCT values as counts of rows of them, in which none is NULL.

    What DuckDB would call such an output is asked of this form, too (backends/duckdb/public.py): it has no other.
    """
    return replaced(tree, (*_COUNTS, exp.Filter), _as_row)


def _as_row(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.Filter):  # the one that was just made
        return _filtered(node.this.this, exp.and_(node.this.expression.this, node.expression.this))
    form, distinct = form_of(node), node.args.get("this")
    if form is None or not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return node
    made = node.copy()
    made.set("this", exp.Distinct(expressions=[exp.Tuple(expressions=[e.copy() for e in distinct.expressions])]))
    tests = [exp.Is(this=exp.Paren(this=e.copy()), expression=exp.Null()) for e in distinct.expressions]
    return _filtered(made, exp.and_(*(exp.Not(this=exp.Paren(this=t)) for t in tests)))


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Filter:
    return exp.Filter(this=call.copy(), expression=exp.Where(this=condition))
