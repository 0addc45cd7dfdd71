"""The SQL that people write, and types in its trees."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

DIALECT = "duckdb"
"""Whose SQL people write: queries are read, and shown, in this dialect whatever engine runs them."""


def data_type(text: str) -> exp.DataType:
    """A type of core/types.py, by its text, as a node of one's own."""
    return _known(text).copy()


@lru_cache(maxsize=256)
def _known(text: str) -> exp.DataType:
    return exp.DataType.build(text, dialect=DIALECT)
