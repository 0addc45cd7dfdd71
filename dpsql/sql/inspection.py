"""Statements about what there is to ask: SHOW TABLES, DESCRIBE t, DESCRIBE SELECT …

They are told from queries here, before names are bound; the session answers them from the policy and the schema. They
look at no row, so they cost nothing, and no ledger is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.errors import Span, SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.sql.dialect import DIALECT
from dpsql.sql.parse import MAX_LENGTH, QUERIES

_DIALECT = Dialect.get_or_raise(DIALECT)
_BEGINS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*(DESCRIBE|DESC|SHOW)\b", re.IGNORECASE | re.DOTALL)
_FORMS = "write SHOW TABLES, DESCRIBE t, or DESCRIBE SELECT …"


@dataclass(frozen=True, slots=True)
class ShowTables:
    """Which tables there are."""


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """What a table's columns are, and what may be asked of them; place: where in the text it is named."""

    table: str
    place: tuple[int, int]


@dataclass(frozen=True, slots=True)
class DescribeQuery:
    """What a query's columns would be. The text has blanks in place of DESCRIBE, so that errors point right."""

    sql: str


Inspection: TypeAlias = ShowTables | DescribeTable | DescribeQuery


def inspection(text: str) -> Inspection | None:
    """The statement about what there is that a text holds; None where it holds anything else, which parse looks at."""
    begins = _BEGINS.match(text)
    if begins is None or len(text) > MAX_LENGTH:
        return None
    try:
        first, *rest = _DIALECT.tokenize(text)
    except TokenError:
        return None
    while rest and rest[-1].token_type is TokenType.SEMICOLON:
        rest.pop()
    if any(token.token_type is TokenType.SEMICOLON for token in rest):
        return None  # a second statement
    words = [token.text.upper() for token in rest]
    if words in (["TABLES"], ["ALL", "TABLES"]) or (not rest and first.text.upper() != "SHOW"):
        return ShowTables()
    named = rest[1:] if words[:1] == ["TABLE"] else rest
    if len(named) == 1 and _is_name(named[0]):
        return DescribeTable(named[0].text, (named[0].start, named[0].end + 1))
    if rest and first.text.upper() != "SHOW" and (words[0] in QUERIES or rest[0].token_type is TokenType.L_PAREN):
        blank = "".join(c if c == "\n" else " " for c in text[: begins.end()])
        return DescribeQuery(blank + text[begins.end() :])
    raise _unknown(text, first, rest)


def table_named(asked: DescribeTable, columns: Mapping[str, object]) -> str:
    """The policy's table that is meant, in lower case; refused where there is none."""
    name = asked.table.lower()
    if name in columns:
        return name
    close = nearest(name, tuple(columns))
    error = SQLError(
        f"there is no table {asked.table}",
        code="unknown-table",
        hint=f"did you mean {close}?" if close else f"tables of the policy: {', '.join(sorted(columns)) or 'none'}",
    )
    error.offsets = asked.place
    raise error


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or re.fullmatch(r"[^\W\d]\w*", token.text) is not None


def _unknown(text: str, first: Token, rest: Sequence[Token]) -> SQLError:
    place = rest[0] if rest else first
    return SQLError(
        f"{first.text.upper()} is not understood like this",
        code="inspection",
        hint=f"{_FORMS}; tables have no schema before their name",
        span=Span.of(text, place.start, (rest[-1] if rest else first).end + 1),
    )
