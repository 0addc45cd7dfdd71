"""Refusals that point at a node of the tree, and how a message writes a node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeVar

from sqlglot import exp

from dpsql.core.errors import Error
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.as_sql import as_sql
from dpsql.sql.trees import copied, nodes_of

E = TypeVar("E", bound=Error)
Place = exp.Expr | Iterable[exp.Expr] | None

LONGEST_NUMBER = 9  # characters of a number that a hint names

RESERVED = {
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "both", "case", "cast", "check",
    "collate", "column", "constraint", "create", "default", "deferrable", "desc", "describe", "distinct", "do", "else",
    "end", "except", "false", "fetch", "for", "foreign", "from", "group", "having", "in", "initially", "intersect",
    "into", "lambda", "lateral", "leading", "limit", "not", "null", "offset", "on", "only", "or", "order", "pivot",
    "pivot_longer", "pivot_wider", "placing", "primary", "qualify", "references", "returning", "select", "show",
    "some", "summarize", "symmetric", "table", "then", "to", "trailing", "true", "union", "unique", "unpivot", "using",
    "variadic", "when", "where", "window", "with",
}  # fmt: skip
"""Words that name nothing unless they are quoted."""


def offsets(place: Place) -> tuple[int, int] | None:
    """Where nodes stand in the text: the union of what they and their descendants know; None if nothing does."""
    nodes = [place] if isinstance(place, exp.Expr) else place or []
    known = [n.meta for node in nodes for n in node.walk() if "start" in n.meta and "end" in n.meta]
    if not known:
        return None
    return min(m["start"] for m in known), max(m["end"] for m in known) + 1


def refuse(kind: type[E], message: str, place: Place, *, code: str, hint: str) -> E:
    """An error about a place of the query; the session turns its offsets into a line, a column and a caret."""
    error = kind(message, code=code, hint=hint)
    error.offsets = offsets(place)
    return error


def ends_to_name(known: Range, of: Type | None = None) -> tuple[str, str, str]:
    """The ends that a hint gives a range: the policy's, or else the words low and high; and what these mean.

    of: the type of the values, where they may be dates.

    Nobody but the analyst knows what the values are like: a number that is made up would be paid for.
    """
    low, high = _number(known.low) or "low", _number(known.high) or "high"
    words = [("low", "least", low), ("high", "greatest", high)]
    missing = [(word, most) for word, most, end in words if word == end]
    if not missing:
        return low, high, ""
    names, ends = " and ".join(word for word, _ in missing), " and the ".join(most for _, most in missing)
    written = ", written like '2024-01-31'" if of is not None and (of.is_date or of.is_timestamp) else ""
    return low, high, f", where {names} {'are' if len(missing) > 1 else 'is'} the {ends} value that you expect{written}"


def _number(end: object) -> str | None:
    """An end as people write numbers; None of no number, and of one that nobody would have written."""
    if not isinstance(end, Fraction):
        return None
    text = f"{float(end):.10g}" if end.denominator > 1 else str(end.numerator)
    return text if len(text) <= LONGEST_NUMBER else None


def shown(node: exp.Expr, limit: int = 60) -> str:
    """A tree much as the analyst wrote it, shortened; names are quoted only where SQL needs it."""
    copy = copied(node)
    for identifier in nodes_of(copy, exp.Identifier):
        identifier.set("quoted", not _plain(identifier.name))
    for column in nodes_of(copy, exp.Column):
        column.set("table", None)  # the binder's alias, not the analyst's
    text = as_sql(copy)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(name: str) -> bool:
    """Is it a name that needs no quotes?"""
    return re.fullmatch(r"[A-Za-z_]\w*", name) is not None and name.lower() not in RESERVED
