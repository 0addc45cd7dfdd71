"""Trees as text, and sqlglot kept quiet: what it says of a query is for its own users, not for ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from sqlglot import Dialect, exp
from sqlglot.errors import ErrorLevel

from dpsql.sql.dialect import DIALECT
from dpsql.sql.trees import copied

_QUIET: ContextVar[bool] = ContextVar("dpsql_quiet", default=False)


def as_sql(
    node: exp.Expr, *, dialect: str = DIALECT, copy: bool = True, pretty: bool = False, comments: bool = True
) -> str:
    """A tree as text. What an engine lacks is refused by our own rules, so sqlglot's warnings are left out."""
    tree = copied(node) if copy else node
    return tree.sql(
        dialect=_dialect(dialect), copy=False, pretty=pretty, comments=comments, unsupported_level=ErrorLevel.IGNORE
    )


@cache
def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(name)


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
