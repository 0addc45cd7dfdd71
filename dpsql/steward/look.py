"""Questions about rows, as trees, and the one way in which they are asked. Trusted: what is found is not private."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dpsql.backends.base import Backend
from dpsql.core.errors import DataError, EngineError
from dpsql.policy.model import Table


def look(backend: Backend, query: exp.Select) -> tuple[Any, ...]:
    """The one row of a question; the steward may see the engine's own words."""
    try:
        return backend.look(query)
    except EngineError as error:
        raise DataError(
            f"the data can't be read: {error}", code="unreadable", hint="see the sources of the policy"
        ) from None


def table_node(table: Table) -> exp.Table:
    """A table as the engine knows it."""
    return exp.Table(this=exp.to_identifier(table.name.lower(), quoted=True))


def column_node(name: str) -> exp.Column:
    """A column by its name."""
    return exp.column(exp.to_identifier(name, quoted=True))


def literal(value: object) -> exp.Expr:
    """A number as a literal; with a sign as the negation of one, as the engine's own parser writes it."""
    text = f"{value:f}" if not isinstance(value, int | float) else repr(value)
    if text.startswith("-"):
        return exp.Neg(this=exp.Literal.number(text[1:]))
    return exp.Literal.number(text)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function of the engine's."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def not_null(value: exp.Expr) -> exp.Expr:
    """The condition that there is a value."""
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))


def count_if(condition: exp.Expr) -> exp.Expr:
    """How many rows meet a condition."""
    return of(exp.Count(this=exp.Star()), condition)


def of(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """An aggregate of the rows that meet a condition; None: of all."""
    return aggregate if condition is None else exp.Filter(this=aggregate, expression=exp.Where(this=condition))
