"""Constants in Spark's SQL. What a constant means is asked of the engine whose SQL people write, never of Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

from dpsql.backends.spark.values import Value, integer, lacks, spark_type, value
from dpsql.core.types import BOOLEAN, DOUBLE, Type, decimal
from dpsql.sql.dialect import constants

_DAY = re.compile(r"(\d+)-(\d\d)-(\d\d)( \(BC\))?(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?")
DAY = 86_400_000_000  # microseconds


def whole(number: int) -> Value:
    """A whole number."""
    found = replace(integer(str(number), number, number), is_there=True)
    if found.type.name == "INTEGER" and number != -(2**31):
        return replace(found, text=f"({number})" if number < 0 else str(number))
    return replace(found, text=f"CAST('{number}' AS {spark_type(found.type)})")


def double(number: float) -> Value:
    """A floating-point number, exactly."""
    exact = int(number) if number == number and abs(number) < 2**62 and number == int(number) else None
    return Value(f"CAST('{number!r}' AS DOUBLE)", DOUBLE, exact, exact)


def written_number(text: str) -> Value:
    """A number literal, typed as people's SQL types it: 1 is INTEGER, 1.5 DECIMAL(2,1), 1e3 DOUBLE."""
    if "e" in text.lower():
        return double(float(text))
    if "." in text:
        before, after = text.split(".")
        type_ = decimal(max(len(before) + len(after), 1), len(after))
        return Value(f"CAST('{Decimal(text):f}' AS {spark_type(type_)})", type_)
    return whole(int(text))


def constant(text: str, to: Type) -> Value:
    """A text literal read as a constant of another type."""
    read = constants().read(text, to)
    if read is None:
        return Value(f"CAST(NULL AS {spark_type(to)})", to)
    if to.is_boolean:
        return value(read.upper(), BOOLEAN)
    if to.is_integer:
        number = int(read)
        found = whole(number)
        return replace(found, text=f"CAST({found.text} AS {spark_type(to)})", type=to)
    if to.is_decimal:
        return Value(f"CAST('{Decimal(read):f}' AS {spark_type(to)})", to)
    if to.is_float:
        exact = double(float(read))
        return exact if to == DOUBLE else Value(f"CAST({exact.text} AS FLOAT)", to)
    if to.is_date or to.name in ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return _moment(read, to)
    raise lacks(f"a constant of type {to.sql}")


def _moment(text: str, to: Type) -> Value:
    """A day as a number of days, a moment as a number of microseconds: Spark reads years and BC in its own way."""
    match = _DAY.fullmatch(text)
    if match is None:
        raise lacks(f"the constant {text}")
    year, month, day = (int(part) for part in match.group(1, 2, 3))
    if match[4]:
        year = 1 - year
    days = days_since_1970(year, month, day)
    years = (year, year) if 1 <= year <= 9999 else (None, None)
    if to.is_date:
        return Value(f"date_from_unix_date({days})", to, *years)
    hour, minute, second = (int(part or 0) for part in match.group(5, 6, 7))
    micros = days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((match[8] or "").ljust(6, "0"))
    moment = f"timestamp_micros({whole(micros).text})"
    return Value(moment if to.has_zone else f"CAST({moment} AS TIMESTAMP_NTZ)", to, *years)


def days_since_1970(year: int, month: int, day: int) -> int:
    """The number of a day in the calendar that both engines count in, year 0 being 1 BC."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
