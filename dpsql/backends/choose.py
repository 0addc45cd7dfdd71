"""Which backend a policy asks for, and what needs none. The only place outside their folders that names one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.backends.base import Kind
from dpsql.backends.small import Relation, SmallDatabase
from dpsql.policy.model import Policy
from dpsql.sql.dialect import read_with


def kind_of(policy: Policy) -> Kind:
    """The kind of backend for a policy's private sources. What is public stays DuckDB's."""
    read_constants()
    if policy.backend.kind == "spark":
        from dpsql.backends.spark.backend import SparkKind

        assert policy.backend.url is not None
        return SparkKind(policy.backend.url, file_kind(), policy.backend.skewed)
    return file_kind()


def file_kind() -> Kind:
    """The kind of backend that reads files where there is no policy yet."""
    from dpsql.backends.duckdb import backend

    return backend


def read_constants() -> None:
    """Let the constants of queries be read by the engine whose SQL people write."""
    from dpsql.backends.duckdb.constants import DuckDBConstants

    read_with(DuckDBConstants())


def as_texts(column: Any) -> list[str | None]:
    """The values of an answer's column as the engine of post-processing writes them."""
    from dpsql.backends.duckdb import public

    return public.as_texts(column)


def small_database(relations: Sequence[Relation], macros: Mapping[str, str]) -> SmallDatabase:
    """A database of these relations alone. macros: what follows their name in CREATE MACRO, by name."""
    from dpsql.backends.duckdb.small import DuckDBSmall

    return DuckDBSmall(relations, macros)
