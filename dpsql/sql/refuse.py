"""Refusals that point at a node of the tree."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from dpsql.errors import Error

E = TypeVar("E", bound=Error)


def offsets(node: exp.Expr) -> tuple[int, int] | None:
    """Where a node stands in the text: the union of what its descendants know."""
    places = [n.meta for n in node.walk() if "start" in n.meta and "end" in n.meta]
    if not places:
        return None
    return min(p["start"] for p in places), max(p["end"] for p in places) + 1


def refuse(kind: type[E], message: str, node: exp.Expr, *, code: str, hint: str) -> E:
    """An error about a node; the session turns its offsets into a line, a column and a caret."""
    error = kind(message, code=code, hint=hint)
    error.offsets = offsets(node)
    return error
