"""Trees as text, and sqlglot kept quiet: what it says of a query is for its own users, not for ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from sqlglot import Dialect, exp
from sqlglot.errors import ErrorLevel
from sqlglot.generator import Generator

from dpsql.sql.dialect import DIALECT
from dpsql.sql.trees import copied

_QUIET: ContextVar[bool] = ContextVar("dpsql_quiet", default=False)


MOST_TYPES = 1_000  # whose names are kept: lengths and precisions are the analyst's to choose
_NAMES: dict[object, str] = {}  # of types, by dialect and kind: to write them is a third of all that is written


def as_sql(
    node: exp.Expr, *, dialect: str = DIALECT, copy: bool = True, pretty: bool = False, comments: bool = True
) -> str:
    """A tree as text. What an engine lacks is refused by our own rules, so sqlglot's warnings are left out."""
    if (text := _at_once(node, dialect)) is not None:
        return text
    tree = copied(node) if copy else node
    known, writer = _writer(dialect)
    return writer(dialect=known, pretty=pretty, comments=comments, unsupported_level=ErrorLevel.IGNORE).generate(
        tree, copy=False
    )


def _at_once(node: exp.Expr, dialect: str) -> str | None:
    """The text of a whole number, or of a type whose name is known; None of all else."""
    if node.comments:
        return None
    if isinstance(node, exp.Literal):
        number = str(node.this)
        return number if not node.is_string and number.isascii() and number.isdigit() else None
    return _NAMES.get((dialect, _kind(node))) if isinstance(node, exp.DataType) else None


@cache
def _writer(name: str) -> tuple[Dialect, type[Generator]]:
    """A dialect, and what writes trees in it: sqlglot's own, which writes the name of a type once."""
    dialect = Dialect.get_or_raise(name)
    plain: type[Generator] = dialect.generator_class

    class Writer(plain):  # type: ignore[valid-type, misc]  # each dialect has a class of its own
        def datatype_sql(self, expression: exp.DataType) -> str:
            kind = _kind(expression)
            text = _NAMES.get((name, kind))
            if text is None:
                text = str(plain.datatype_sql(self, expression))
                if kind is not None and len(_NAMES) < MOST_TYPES:
                    _NAMES[name, kind] = text
            return text

    try:
        Writer(dialect=dialect)
    except TypeError:  # sqlglot's compiled form (sqlglot[c]) can't be extended, and needs it less
        return dialect, plain
    return dialect, Writer


def _kind(type_: exp.DataType) -> object | None:
    """What the name of a type is made of: its kind and numbers; None of one that is made of other types."""
    parameters = type_.args.get("expressions") or ()
    if any(value for key, value in type_.args.items() if key not in ("this", "expressions")):
        return None
    if not all(isinstance(p, exp.DataTypeParam) and isinstance(p.this, exp.Literal) for p in parameters):
        return None
    return (type_.this, *((p.this.this, p.args.get("expression")) for p in parameters))


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
