"""A text of several statements, divided by semicolons: a batch."""

from __future__ import annotations

from bisect import bisect_left

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.core.errors import SQLError
from dpsql.sql.dialect import DIALECT
from dpsql.sql.parse import MAX_LENGTH, Tree

MOST = 100  # statements

_DIALECT = Dialect.get_or_raise(DIALECT)


def statements(text: str) -> list[str]:
    """The statements of a text, each in its place: what comes before it is blank, so that errors point right."""
    try:
        tokens = _DIALECT.tokenize(text) if len(text) <= MAX_LENGTH else []
    except TokenError:
        tokens = []
    if not tokens:
        return [text]  # parse says what is wrong
    ends = [t.start for t in tokens if t.token_type is TokenType.SEMICOLON]
    others = (t.start for t in tokens if t.token_type is not TokenType.SEMICOLON)
    filled = sorted({bisect_left(ends, start) for start in others})  # in which of the places between them anything is
    if len(filled) > MOST:
        raise SQLError(f"a batch has at most {MOST} statements", code="too-long", hint="split it into several files")
    places = [(ends[i - 1] + 1 if i else 0, ends[i] if i < len(ends) else len(text)) for i in filled]
    pieces = ["".join(c if c == "\n" else " " for c in text[:start]) + text[start:end] for start, end in places]
    return pieces or [text]


def alone(tree: Tree) -> Tree:
    """A statement that leaves the budget to the batch; limits it may have of its own."""
    for name in ("epsilon", "delta", "mechanism"):
        if name in tree.options:
            error = SQLError(
                f"a batch has one {name}",
                code="batch",
                hint=f"leave it out here, and give it beside the file: --{name}",
            )
            error.offsets = tree.options[name].place
            raise error
    return tree
