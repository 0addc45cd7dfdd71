"""Trees as text, and sqlglot kept quiet: what it says of a query is for its own users, not for ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dpsql.sql.dialect import DIALECT
from dpsql.sql.trees import copied
from dpsql.sql.writer import NAMES, kind_of, writer

_QUIET: ContextVar[bool] = ContextVar("dpsql_quiet", default=False)


def as_sql(
    node: exp.Expr, *, dialect: str = DIALECT, copy: bool = True, pretty: bool = False, comments: bool = True
) -> str:
    """A tree as text. What an engine lacks is refused by our own rules, so sqlglot's warnings are left out."""
    if (text := _at_once(node, dialect)) is not None:
        return text
    tree = copied(node) if copy else node
    known, kind = writer(dialect)
    return kind(dialect=known, pretty=pretty, comments=comments, unsupported_level=ErrorLevel.IGNORE).generate(
        tree, copy=False
    )


def _at_once(node: exp.Expr, dialect: str) -> str | None:
    """The text of a whole number, or of a type whose name is known; None of all else."""
    if node.comments:
        return None
    if isinstance(node, exp.Literal):
        number = str(node.this)
        return number if not node.is_string and number.isascii() and number.isdigit() else None
    return NAMES.get((dialect, kind_of(node.args))) if isinstance(node, exp.DataType) else None


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what sqlglot would log in here to itself; what a host program has sqlglot parse is logged as ever."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def _heard(record: logging.LogRecord) -> bool:
    return not _QUIET.get()


logging.getLogger("sqlglot").addFilter(_heard)
