"""Total forms for post-processing: types are unknown there, and a failure would follow payment."""

from __future__ import annotations

from typing import Any, overload

from sqlglot import exp

from dpsql.core.types import Type
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import data_type
from dpsql.sql.functions import lookup
from dpsql.sql.functions.base import arguments, between_or_null, call, wrap
from dpsql.sql.functions.constants import constant_number, literal, literal_as
from dpsql.sql.functions.numeric import bucket_of, width_buckets

# They raise on some values; TRY makes them NULL there, and these tables are small. It can't hold what is in _WHOLE.
_RISKY = (
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Round, exp.BitwiseLeftShift, exp.BitwiseRightShift,
    exp.TimestampTrunc, exp.DateDiff, exp.DateAdd, exp.Substring, exp.Left, exp.Right, exp.RegexpLike, exp.LastDay,
    exp.RegexpFullMatch, exp.RegexpExtract, exp.TimeToStr, exp.Week, exp.WeekOfYear, exp.RegexpReplace, exp.UnixToTime,
    exp.DateBin, exp.DateFromParts, exp.AtTimeZone,
)  # fmt: skip
_RISKY_NAMES = {
    "gcd", "greatest_common_divisor", "epoch_us", "epoch_ns", "left_grapheme", "right_grapheme", "substring_grapheme",
}  # fmt: skip
_WHOLE = (exp.Query, exp.AggFunc, exp.Window, exp.Subquery, exp.Exists)


@overload
def post(expr: exp.Query) -> exp.Query: ...
@overload
def post(expr: exp.Expr) -> exp.Expr: ...
def post(expr: exp.Expr) -> exp.Expr:
    """A copy of a query in which every scalar part is total: a division by 0 is NULL, a cast that fails is NULL."""
    tree = expr.copy()
    for node in reversed(list(tree.dfs())):  # children before their parents
        total = _total(node)
        if node is tree:
            tree = total
        elif total is not node:
            node.replace(total)
    return tree.transform(_tried)


def _total(node: Any) -> Any:
    match node:
        case exp.Div() | exp.IntDiv() | exp.Mod():
            divisor = constant_number(node.expression)
            if divisor is None or divisor == 0:
                zero = exp.Literal.number("0")
                node.set("expression", exp.Nullif(this=node.expression, expression=zero))
        case exp.Cast() if type(node) is exp.Cast:
            return _cast(node)
        case exp.Ln() | exp.Sqrt():
            node.set("this", _above(node.this, strict=isinstance(node, exp.Ln)))
        case exp.Log():
            key = "expression" if node.args.get("expression") is not None else "this"
            node.set(key, _above(node.args[key], strict=True))
        case exp.StrToTime():
            return call("try_strptime", node.this, node.args["format"])
        case exp.Anonymous() if node.name.lower() in ("epoch_us", "epoch_ns") and len(node.expressions) == 1:
            node.set("expressions", [_nearby(node.expressions[0])])
        case exp.WidthBucket():
            return bucket_of(exp.TryCast(this=node.this, to=data_type("DOUBLE")), *width_buckets(node))
        case exp.Anonymous() if node.name.lower() == "clip":
            return _clip(node)
    return node


def _cast(node: exp.Cast) -> exp.Expr:
    """TRY_CAST; a literal is checked now and stays a constant."""
    inner = node.this.unnest()
    to = Type.parse(as_sql(node.args["to"]))
    if isinstance(inner, exp.Literal) and inner.is_string and (to.is_date or to.is_timestamp):
        return literal_as(literal(inner), to, node).sql
    return exp.TryCast(this=node.this, to=node.args["to"])


def _above(node: exp.Expr, strict: bool) -> exp.Expr:
    """NULL where a number isn't above 0 (or, if not strict, below 0)."""
    edge = exp.Literal.number("0" if strict else "-5e-324")
    number = exp.TryCast(this=node, to=data_type("DOUBLE"))
    return exp.Nullif(this=call("greatest", number, edge), expression=edge)


def _nearby(node: exp.Expr) -> exp.Expr:
    """NULL outside of 1700 to 2200: EPOCH_NS and its like raise from a column's statistics, where TRY doesn't reach."""
    kind = data_type("TIMESTAMP")
    low, high = (exp.Cast(this=exp.Literal.string(year), to=kind.copy()) for year in ("1700-01-01", "2200-01-01"))
    return between_or_null(exp.TryCast(this=node, to=kind), low, high)


def _clip(node: exp.Anonymous) -> exp.Expr:
    x, low, high = arguments(node, 3)
    test = exp.Not(this=exp.Is(this=wrap(x), expression=exp.Null()))
    inside = call("least", call("greatest", x, low), high)
    return exp.Case(ifs=[exp.If(this=test, true=inside)])


def _tried(node: exp.Expr) -> exp.Expr:
    """TRY around the outermost arithmetic that it can hold: no aggregate, window or subquery inside."""
    named = isinstance(node, exp.Anonymous) and node.name.lower() in _RISKY_NAMES
    if not (named or isinstance(node, _RISKY)) or node.find(exp.Column) is None or any(_whole(n) for n in node.walk()):
        return node
    return exp.Try(this=node.copy())


def _whole(node: Any) -> bool:
    return isinstance(node, _WHOLE) or (isinstance(node, exp.Anonymous) and lookup(node) is None)
