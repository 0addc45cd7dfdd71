"""Which backend a policy asks for. The only place outside their folders that names one."""

from __future__ import annotations

from dpsql.backends.base import Kind
from dpsql.policy.model import Policy


def kind_of(policy: Policy) -> Kind:
    """The kind of backend for a policy's sources: DuckDB reads them all."""
    from dpsql.backends.duckdb import backend

    return backend
