"""Small pieces of statements, made as trees: sqlglot's own builders parse text, and copy what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlglot import exp

Kind = Literal["INNER", "LEFT", "SEMI", "ANTI", "CROSS"]


def select(outputs: Sequence[exp.Expr], source: exp.Expr) -> exp.Select:
    """SELECT outputs FROM source; 1 where nothing is asked for."""
    return exp.Select(expressions=list(outputs) or [exp.Literal.number(1)], from_=exp.From(this=source))


def where(query: exp.Select, condition: exp.Expr) -> exp.Select:
    """Give a query its WHERE."""
    query.set("where", exp.Where(this=condition))
    return query


def grouped(query: exp.Select, keys: Sequence[exp.Expr], having: exp.Expr | None = None) -> exp.Select:
    """Give a query its GROUP BY, if there are keys, and its HAVING, if there is one."""
    if keys:
        query.set("group", exp.Group(expressions=list(keys)))
    if having is not None:
        query.set("having", exp.Having(this=having))
    return query


def joined(query: exp.Select, other: exp.Expr, on: exp.Expr | None, kind: Kind = "INNER") -> exp.Select:
    """Join another table to a query."""
    how = {"side": kind} if kind == "LEFT" else {"kind": kind}
    query.append("joins", exp.Join(this=other, on=on, **how))
    return query


def table(name: str, called: str | None = None) -> exp.Table:
    """A table by its name."""
    return exp.Table(this=quoted(name), alias=None if called is None else _table_alias(called))


def subquery(query: exp.Query, called: str) -> exp.Subquery:
    """(query) AS called."""
    return exp.Subquery(this=query, alias=_table_alias(called))


def column(name: str, of: str | None = None) -> exp.Column:
    """A column, with its table's name."""
    return exp.Column(this=quoted(name), table=exp.to_identifier(of) if of else None)


def every(of: str) -> exp.Column:
    """All columns of a table."""
    return exp.Column(this=exp.Star(), table=exp.to_identifier(of))


def alias(e: exp.Expr, name: str) -> exp.Expr:
    """e AS name."""
    return exp.Alias(this=e, alias=quoted(name))


def same(keys: tuple[str, ...], left: str, right: str) -> exp.Expr:
    """Equal in all of these columns; NULL equals NULL."""
    return same_values([(column(k, left), column(k, right)) for k in keys])


def same_values(pairs: Sequence[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    """The values of each pair are equal; NULL equals NULL."""
    return conjunction([exp.NullSafeEQ(this=one, expression=other) for one, other in pairs])


def equal(name: str, left: str, right: str) -> exp.Expr:
    """Equal in this column, and not NULL."""
    return exp.EQ(this=column(name, left), expression=column(name, right))


def conjunction(conditions: Sequence[exp.Expr]) -> exp.Expr:
    """All of them: there is at least one."""
    whole, *others = (exp.Paren(this=c) if isinstance(c, exp.Connector) else c for c in conditions)
    for one in others:
        whole = exp.And(this=whole, expression=one)
    return whole


def or_zero(e: exp.Expr) -> exp.Expr:
    """COALESCE(e, 0)."""
    return exp.Coalesce(this=e, expressions=[exp.Literal.number(0)])


def count() -> exp.Count:
    """COUNT(*)."""
    return exp.Count(this=exp.Star())


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _table_alias(called: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(called))
