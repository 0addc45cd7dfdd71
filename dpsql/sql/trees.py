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
