"""The type objects and constructors of PEP 249."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

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
