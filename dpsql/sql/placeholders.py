"""{name} in the SQL of a job: it becomes $name, whose value is bound as a literal. Nothing is pasted into a text."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NoReturn

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.errors import Span, SQLError, nearest
from dpsql.sql.dialect import DIALECT
from dpsql.sql.parameters import names

_DIALECT = Dialect.get_or_raise(DIALECT)
_BRACED = re.compile(r"\{\s*([^\W\d]\w*)\s*\}")


def placed(text: str, known: Collection[str]) -> tuple[str, frozenset[str]]:
    """The text with $name for each {name}, every other character in its place; and the names that it uses.

    known: the declared names. One that isn't declared, or stands within quotes, is refused.
    """
    try:
        tokens = _DIALECT.tokenize(text)
    except TokenError:
        return text, frozenset()  # parse says what is wrong
    found = text
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.L_BRACE and (end := _closed(tokens, i)) is not None:
            name = tokens[i + 1].text
            if name not in known:
                near = nearest(name, tuple(known))
                hint = f"did you mean {{{near}}}?" if near else f'declare it: [params] {name} = "date"'
                _refuse(text, token.start, end + 1, f"there is no parameter {{{name}}}", hint)
            found = f"{found[: token.start]}{f'${name}'.ljust(end + 1 - token.start)}{found[end + 1 :]}"
        elif token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            _check_quoted(text, token, known)
    return found, names(found) & frozenset(known)


def _closed(tokens: list[Token], at: int) -> int | None:
    """Where the brace that opens here is closed, if nothing but a name stands within."""
    if at + 2 < len(tokens) and tokens[at + 1].text.isidentifier() and tokens[at + 2].token_type is TokenType.R_BRACE:
        quoted = tokens[at + 1].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return None if quoted else tokens[at + 2].end
    return None


def _check_quoted(text: str, token: Token, known: Collection[str]) -> None:
    """Refuse {name} within quotes: it would stand for itself, and no value would be put there."""
    for name in _BRACED.findall(token.text):
        if name in known:
            if token.token_type is TokenType.STRING:
                hint = f"write {{{name}}} without quotes: a value of its type takes its place"
                _refuse(text, token.start, token.end + 1, f"{{{name}}} within quotes is plain text", hint)
            message = "a parameter stands for a value, not for a name"
            _refuse(text, token.start, token.end + 1, message, "write the name itself")


def _refuse(text: str, start: int, end: int, message: str, hint: str) -> NoReturn:
    raise SQLError(message, code="parameter", hint=hint, span=Span.of(text, start, end))
