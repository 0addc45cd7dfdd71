"""How long a text made inside a query can be: cut to a public bound, whatever the row holds (TOTAL-1, attack 47).

A text is cut by LEFT around the function that makes it, so that its length is a property of the value: nothing that an
engine computes first, or only once for several places, can make it longer, as it could where a condition stood guard.
What stands inside of LEFT is never much longer than the row's own texts or the bound: at most PIECES texts are put
together at once, and what replaces a character is cut before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.core.ranges import Range
from dpsql.core.types import VARCHAR
from dpsql.sql.functions.base import Scalar, call, number

LONGEST = 250_000
"""Characters of a text that a query makes; a column's own text is as long as it is."""
LONGEST_LITERAL = 1_000  # characters of a pattern, a separator, a replacement
PIECES = 8  # texts that are put together before their beginning is taken
_BETWEEN = 4 * LONGEST  # characters of a text with its replacements, before its beginning is taken

Join = Callable[[Sequence[exp.Expr]], exp.Expr]


def cut(sql: exp.Expr, to: int = LONGEST) -> exp.Expr:
    """The first characters of a text."""
    return call("left", sql, number(to))


def grown(source: exp.Expr, factor: int, made: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A text made of another one that could be `factor` times as long: the source is cut before, the result after."""
    return cut(made(cut(source, max(1, _BETWEEN // factor))))


def joined(parts: Sequence[Scalar], join: Join, nullable: bool) -> Scalar:
    """Texts one after the other, cut to the bound unless they are surely shorter; `join` is associative."""
    total = known_length(parts)
    if total is not None:
        return Scalar(join([p.sql for p in parts]), VARCHAR, Range(nullable=nullable), longest=total)
    pieces = [p.sql for p in parts]
    while len(pieces) > PIECES:
        pieces = [cut(join(pieces[i : i + PIECES])) for i in range(0, len(pieces), PIECES)]
    return Scalar(cut(join(pieces)), VARCHAR, Range(nullable=nullable), longest=LONGEST)


def known_length(parts: Sequence[Scalar], between: int = 0) -> int | None:
    """How long texts are together, with so many characters between two of them; None if they may pass the bound."""
    total = between * (len(parts) - 1)
    for part in parts:
        if part.longest is None:
            return None
        total += part.longest
    return total if total <= LONGEST else None
