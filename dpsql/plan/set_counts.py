"""How many values are in EXCEPT and INTERSECT of private rows, from counts of distinct values.

A list of values misses those that few people have, and so does a count of it. By Theorem SETCOUNT-1 |A \\ B| is
|A ∪ B| − |B|, and |A ∩ B| is |A| + |B| − |A ∪ B|: counts of distinct values, which need no list.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.plan.nodes import Expr
from dpsql.plan.sets import as_rows
from dpsql.sql.trees import holds

_AROUND = ("expressions", "from_", "kind")


def counted_sets(root: exp.Query) -> exp.Query | None:
    """A bound query with COUNT(*) over EXCEPT and INTERSECT as sums of such counts; None where there is none."""
    if not holds(root, exp.Except, exp.Intersect):
        return None
    made = root.copy()
    found = False
    for select in list(made.find_all(exp.Select)):
        sides = _sides(select)
        if sides is not None:
            select.set("expressions", [_with_counts(o, *sides) for o in select.selects])
            select.set("from_", None)
            found = True
    return made if found else None


def _sides(select: exp.Select) -> tuple[exp.SetOperation, str] | None:
    """The set operation whose rows a SELECT does nothing but count, and its alias."""
    from_ = select.args.get("from_")
    if from_ is None or any(value for name, value in select.args.items() if name not in _AROUND):
        return None
    source = from_.this
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Except | exp.Intersect):
        return None
    node = source.this
    plain = node.args.get("distinct") and not any(node.args.get(part) for part in ("limit", "offset", "order", "with_"))
    if not plain or not all(isinstance(side, exp.Select) for side in (node.this, node.expression)):
        return None
    counts = [c for o in select.selects for c in o.find_all(exp.AggFunc)]
    only = all(isinstance(c, exp.Count) and isinstance(c.this, exp.Star) and not c.expressions for c in counts)
    others = any(True for o in select.selects for _ in o.find_all(exp.Column, exp.Query, exp.Window, exp.Filter))
    return (node, source.alias) if counts and only and not others else None


def _with_counts(output: Expr, node: exp.SetOperation, alias: str) -> Expr:
    """An output with what counts the values in the place of COUNT(*)."""
    copy = output.copy()
    for call in list(copy.find_all(exp.Count)):
        left, right = (as_rows(side) for side in (node.this, node.expression))
        both = exp.Union(this=left.copy(), expression=right.copy(), distinct=True)
        every, second = _count(both, call, alias), _count(_distinct(right), call, alias)
        if isinstance(node, exp.Except):
            call.replace(exp.Paren(this=exp.Sub(this=every, expression=second)))
        else:
            first = exp.Add(this=_count(_distinct(left), call, alias), expression=second)
            call.replace(exp.Paren(this=exp.Sub(this=exp.Paren(this=first), expression=every)))
    return copy


def _distinct(rows: exp.Expr) -> exp.Expr:
    copy = rows.copy()
    copy.set("distinct", exp.Distinct())
    return copy


def _count(rows: exp.Expr, call: exp.Count, alias: str) -> exp.Subquery:
    """SELECT COUNT(*) over these rows, as a scalar subquery."""
    source = exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    counted = exp.alias_(call.copy(), "count", quoted=True)
    return exp.Subquery(this=exp.Select(expressions=[counted], from_=exp.From(this=source)))
