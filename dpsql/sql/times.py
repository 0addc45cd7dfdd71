"""Dates and times as numbers, for choosing among them: days or microseconds since 1970."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.core.ranges import Range, Value
from dpsql.core.types import BIGINT
from dpsql.sql.dialect import cast
from dpsql.sql.functions.base import Scalar, call

_EPOCH = datetime(1970, 1, 1)


def as_number(value: Scalar) -> Scalar:
    """A date or time as a BIGINT, in days or microseconds, by total functions; what isn't finite becomes NULL."""
    if value.type.is_date:
        start = cast(exp.Literal.string("1970-01-01"), "DATE")
        day = call("date_diff", exp.Literal.string("day"), start, value.sql)
        number: exp.Expr = day
    else:
        # Seconds and milliseconds may not fit into microseconds: those become NULL.
        fitting = value.type.name == "TIMESTAMP" or value.type.has_zone
        moment = value.sql.copy() if fitting else exp.TryCast(this=value.sql.copy(), to=exp.DataType.build("TIMESTAMP"))
        number = call("epoch_us", moment)
    days = value.type.is_date
    found = value.range
    low, high = (None if end is None else _number(end, days) for end in (found.low, found.high))
    return replace(value, sql=number, type=BIGINT, range=Range(low, high, True, found.why), extent=None)


def _number(end: Value, days: bool) -> Fraction:
    if isinstance(end, datetime):
        plain = end.astimezone(UTC).replace(tzinfo=None) if end.tzinfo is not None else end
    else:
        assert isinstance(end, date)
        plain = datetime(end.year, end.month, end.day)
    return Fraction((plain - _EPOCH) // timedelta(days=1) if days else (plain - _EPOCH) // timedelta(microseconds=1))
