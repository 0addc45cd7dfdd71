"""The SQL that people write: its name, types in its trees, and what its constants mean.

What a constant means is known to the engine whose SQL this is, and engines are above this package. So whoever opens one
brings a reader of constants along (backends/choose.py); rules ask it here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from sqlglot import exp

from dpsql.core.types import Type
from dpsql.sql.trees import copied

DIALECT = "duckdb"
"""Whose SQL people write: queries are read, and shown, in this dialect whatever engine runs them."""


def data_type(text: str) -> exp.DataType:
    """A type of core/types.py, by its text, as a node of one's own: no engine's, until an engine writes it."""
    return copied(_data_type(text))


def cast(e: exp.Expr, to: str) -> exp.Expr:
    """CAST(e AS to); what is such a cast already stays as it is. Parsing the type each time would take most of it.

    A node that is a part of another one is copied.
    """
    if isinstance(e, exp.Cast):
        return exp.cast(e, data_type(to))
    made = exp.Cast(this=e if e.parent is None else copied(e), to=data_type(to))
    made.type = made.to
    return made


@lru_cache(maxsize=256)
def _data_type(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect=DIALECT)


class Constants(Protocol):
    """What constants of a query mean, from an engine that holds no data. It never raises."""

    def read(self, text: str, to: Type) -> str | None:
        """A text literal as a value of another type, as the engine writes it; None where it has no such value."""

    def interval(self, text: str) -> tuple[int, int, int] | None:
        """The months, days and microseconds of an INTERVAL literal; None where it is none."""

    def accepts(self, name: str, *constants: str | int) -> bool:
        """Whether a function of texts or moments takes these constants (a pattern, a format, a time zone), so that
        it can't fail on any row.
        """

    def matches(self, text: str, pattern: str) -> bool:
        """Whether a regular expression is found in a text; False where it is none."""


_reader: list[Constants] = []


def read_with(reader: Constants) -> None:
    """Let constants be read by this one from now on."""
    _reader[:] = [reader]


def constants() -> Constants:
    """Who reads constants."""
    assert _reader, "no engine was chosen that reads constants: backends/choose.py brings one"
    return _reader[0]
