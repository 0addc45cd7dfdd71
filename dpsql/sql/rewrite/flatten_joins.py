"""FROM (a JOIN b ON …) JOIN c ON …: joins in parentheses become joins one after the other."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import replaced

_BOTH_WAYS = ("RIGHT", "FULL")  # joins that make rows for what nothing on their left matches


def flatten_joins(tree: exp.Query) -> exp.Query:
    """The query without parentheses around the tables and joins of a FROM."""
    return replaced(tree, (exp.Select,), _flattened)


def _flattened(node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Select)
    from_ = node.args.get("from_")
    joins = node.args.get("joins") or []
    if from_ is None or not any(_is_joined(s) for s in [from_.this, *(j.this for j in joins)]):
        return node
    copy = node.copy()
    first, *listed = _opened(copy.args["from_"].this)
    where: list[exp.Expr] = []
    for join in copy.args.get("joins") or []:
        if where and _side(join) in _BOTH_WAYS:
            raise refuse(
                SQLError,
                f"a {_side(join)} JOIN can't come after joins in parentheses",
                join.this,
                code="unsupported",
                hint="make those a derived table: … JOIN (SELECT … FROM a JOIN b ON …) AS q ON …",
            )  # their condition, once in WHERE, would also drop the rows that it makes
        if not _is_joined(join.this):
            listed.append(join)
            continue
        source, *more = _opened(join.this)
        # One by one, a join that makes rows would make them without what stands before the parentheses.
        inner = not any(join.args.get(k) for k in ("side", "using", "method"))
        inner = inner and not any(_side(j) in _BOTH_WAYS for j in more)
        if more and not (inner and str(join.args.get("kind") or "").upper() in ("", "INNER", "CROSS")):
            raise refuse(
                SQLError,
                "joins in parentheses can't be on the right of this join",
                join.this,
                code="unsupported",
                hint="make them a derived table: … JOIN (SELECT … FROM a JOIN b ON …) AS q ON …",
            )
        if more and join.args.get("on"):  # an inner join's condition may as well stand in WHERE
            where.append(join.args["on"])
            join.set("on", None)
        join.set("this", source)
        listed += [join, *more]
    copy.set("from_", exp.From(this=first))
    copy.set("joins", listed)
    for condition in where:
        copy.where(condition, copy=False)
    return copy


def _side(join: exp.Expr) -> str:
    return str(join.args.get("side") or "").upper()


def _is_joined(node: exp.Expr) -> bool:
    """Is it a table, or several joined, in parentheses, and nothing that is done to them there, such as a PIVOT?"""
    inner = node.this if isinstance(node, exp.Subquery) else None
    if any(value for part, value in node.args.items() if part not in ("this", "alias", "joins")):
        return False
    return isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and bool(inner.args.get("joins")))


def _opened(node: exp.Expr) -> list[exp.Expr]:
    """The first source, then the joins that follow it."""
    if not _is_joined(node):
        joins = node.args.get("joins") or []
        node.set("joins", None)
        return [node, *joins]
    inner, after = node.this, node.args.get("joins") or []
    if alias := node.args.get("alias"):
        if inner.args.get("joins"):
            raise refuse(
                SQLError,
                "joins in parentheses can't have a name of their own",
                alias,
                code="unsupported",
                hint="make them a derived table: (SELECT … FROM a JOIN b ON …) AS q",
            )
        inner.set("alias", alias.copy())
    return [*_opened(inner), *after]
