"""The exceptions of PEP 249, and which refusal becomes which of them.

Warning
Error
├── InterfaceError         a connection or a cursor is closed, or an argument isn't understood
└── DatabaseError
    ├── ProgrammingError   the text is refused, or can't be answered privately, or names no ε
    ├── OperationalError   the budget, the policy, the ledger or the data don't allow it
    ├── NotSupportedError
    └── DataError, IntegrityError, InternalError: never raised
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dpsql.core import errors


class Warning(Exception):
    """Something important happened; never raised."""


class Error(Exception):
    """Base of what is raised here. refusal: what dpsql said, with its code, hint and place, or None."""

    refusal: errors.Error | None = None


class InterfaceError(Error):
    """About the interface, and not the database."""


class DatabaseError(Error):
    """About the database."""


class DataError(DatabaseError):
    """About values; never raised."""


class OperationalError(DatabaseError):
    """The budget, the policy, the ledger or the data don't allow it."""


class IntegrityError(DatabaseError):
    """About keys; never raised."""


class InternalError(DatabaseError):
    """About the database's own state; never raised."""


class ProgrammingError(DatabaseError):
    """The query is refused."""


class NotSupportedError(DatabaseError):
    """What this database doesn't do."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise refusals as exceptions of PEP 249, with the same text."""
    try:
        yield
    except errors.Error as refusal:
        refused = isinstance(refusal, errors.SQLError | errors.PrivacyError)
        error = (ProgrammingError if refused else OperationalError)(str(refusal))
        error.refusal = refusal
        raise error from refusal
