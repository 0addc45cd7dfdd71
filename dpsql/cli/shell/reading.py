"""Where a statement ends."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.sql.dialect import DIALECT

LEAVE = ("q", "quit", "exit")
_DIALECT = Dialect.get_or_raise(DIALECT)


def is_command(text: str) -> bool:
    r"""Is it a command of the shell, like \d?"""
    return text.lstrip().startswith("\\")


def leaves(text: str) -> bool:
    r"""Is its last line \q, behind a statement that hasn't ended? In a quote or a comment it is a part of that."""
    before, _, last = text.rstrip().rpartition("\n")
    if not before.strip() or not is_command(last) or last.strip()[1:].lower() not in LEAVE:
        return False
    try:
        _DIALECT.tokenize(before)
    except TokenError:
        return False
    return True


def is_whole(text: str) -> bool:
    r"""Does the text end where a statement ends: with a semicolon that isn't in a quote? A command is one line.

    A line of \q is the end of everything.
    """
    if is_command(text) or leaves(text):
        return True
    try:
        tokens = _DIALECT.tokenize(text)
    except TokenError:  # a quote or a comment is still open
        return False
    return not tokens or tokens[-1].token_type is TokenType.SEMICOLON
