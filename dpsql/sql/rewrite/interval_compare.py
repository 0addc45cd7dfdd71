"""a - b > INTERVAL 30 MINUTE: the time between two moments, compared with a constant."""

from __future__ import annotations

from sqlglot import exp

from dpsql.sql.trees import replaced

_COMPARED = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ)
_MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3_600 * 10**6,
    "DAY": 86_400 * 10**6, "WEEK": 604_800 * 10**6,
}  # fmt: skip
_LARGEST = 10**18


def interval_compare(tree: exp.Query) -> exp.Query:
    """The query with such comparisons made in microseconds. Months have no length: one with them stays as it is."""
    return replaced(tree, _COMPARED, _in_microseconds)


def _in_microseconds(node: exp.Expr) -> exp.Expr:
    left, right = _gap(node.this), _gap(node.expression)
    if (left is None) == (right is None):
        return node
    length = _length(node.expression if right is None else node.this)
    if length is None:
        return node
    return type(node)(this=left or length, expression=right or length)


def _gap(node: exp.Expr) -> exp.Expr | None:
    """later - earlier as a number of microseconds."""
    node = node.unnest()
    if not isinstance(node, exp.Sub) or isinstance(node.expression.unnest(), exp.Interval):
        return None
    moments = [exp.Paren(this=m.copy()) for m in (node.this, node.expression)]
    return exp.DateDiff(this=moments[0], expression=moments[1], unit=exp.Var(this="MICROSECOND"))


def _length(node: exp.Expr) -> exp.Expr | None:
    node = node.unnest()
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = _MICROSECONDS.get(str(node.args.get("unit") or "").upper().removesuffix("S"))
    text = str(node.this.this)
    if unit is None or not text.isdigit() or int(text) * unit > _LARGEST:
        return None
    return exp.Literal.number(int(text) * unit)
