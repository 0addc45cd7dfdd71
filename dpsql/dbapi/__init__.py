"""dpsql.dbapi: dpsql as a Python database (PEP 249), for what speaks to databases: pandas, SQLAlchemy, notebooks.

No ε is assumed here: it is a connection's (`connect(policy, epsilon=0.5)`), or set (`SET dpsql.epsilon = 0.5`), or the
query's own (`SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) …`), or the policy's query_epsilon. Without one,
what is stored or needs no private row is answered, and everything else is refused. Nothing is ever rolled back.
"""

from __future__ import annotations

from dpsql.dbapi.connection import Connection, Cursor, connect
from dpsql.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    DatabaseError,
    DataError,
    Date,
    DateFromTicks,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    Warning,
)

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle = "qmark"
"""? takes a list; $1 (a list) and $name (a mapping) work, too."""

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
