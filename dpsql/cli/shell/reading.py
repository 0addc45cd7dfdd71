"""Where a statement ends."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dpsql.sql.dialect import DIALECT

_DIALECT = Dialect.get_or_raise(DIALECT)


def is_command(text: str) -> bool:
    r"""Is it a command of the shell, like \d?"""
    return text.lstrip().startswith("\\")


def is_whole(text: str) -> bool:
    """Does the text end where a statement ends: with a semicolon that isn't in a quote? A command is one line."""
    if is_command(text):
        return True
    try:
        tokens = _DIALECT.tokenize(text)
    except TokenError:  # a quote or a comment is still open
        return False
    return not tokens or tokens[-1].token_type is TokenType.SEMICOLON
