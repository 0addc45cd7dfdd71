"""The type objects, constructors and exceptions of PEP 249, and which refusal becomes which exception.

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
from datetime import date, datetime, time
from typing import Any

from dpsql.core import errors
from dpsql.core.frozen import dataclass

Arrow = Any


@dataclass(frozen=True, slots=True)
class TypeObject:
    """A kind of column: `description` names one for each."""

    name: str

    def __repr__(self) -> str:
        return self.name


STRING = TypeObject("STRING")
BINARY = TypeObject("BINARY")
NUMBER = TypeObject("NUMBER")
DATETIME = TypeObject("DATETIME")
ROWID = TypeObject("ROWID")

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:
    """The local date of a time in seconds since the epoch."""
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:
    """The local time of day of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:
    """The local moment of a time in seconds since the epoch."""
    return datetime.fromtimestamp(ticks)


Description = tuple[str, TypeObject, None, None, int | None, int | None, None]


def described(field: Arrow) -> Description:
    """What `description` says of a column: its name and kind, and the digits of a decimal."""
    import pyarrow.types as is_

    kind = field.type
    if is_.is_decimal(kind):
        return field.name, NUMBER, None, None, kind.precision, kind.scale, None
    numeric = is_.is_integer(kind) or is_.is_floating(kind) or is_.is_boolean(kind) or is_.is_null(kind)
    code = NUMBER if numeric else DATETIME if is_.is_temporal(kind) else STRING
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        code = BINARY
    return field.name, code, None, None, None, None, None


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
