"""Rewriting trees without changing them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

Rewrite = Callable[[exp.Expr], exp.Expr]


def rebuilt(node: exp.Expr, rewrite: Rewrite) -> exp.Expr:
    """A new node of the same kind, with each child replaced by what `rewrite` gives for it."""
    copy = type(node)()
    copy.meta.update(node.meta)
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, rewrite(value))
        elif isinstance(value, list):
            copy.set(key, [rewrite(v) if isinstance(v, exp.Expr) else v for v in value])
        else:
            copy.set(key, value)
    return copy


def as_written(node: exp.Expr) -> exp.Expr:
    """BOOL_AND and BOOL_OR without the casts that sqlglot adds to them, which would show in the names of columns."""

    def plain(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.LogicalAnd | exp.LogicalOr) and isinstance(e.this, exp.Expr):
            name = "bool_and" if isinstance(e, exp.LogicalAnd) else "bool_or"
            return exp.Anonymous(this=name, expressions=[e.this.copy()])
        return e

    return node.transform(plain) if node.find(exp.LogicalAnd, exp.LogicalOr) else node
