"""What a policy file says of a column: types, bounds and values, read exactly."""

from __future__ import annotations

import re
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from dpsql.core.errors import nearest
from dpsql.policy.model import (
    Bound,
    Value,
    exact_decimal,
    show,
)

MOST_VALUES = 1_000_000

_ALIASES = {  # DuckDB's own name of each type, and the other names that it takes
    "BOOLEAN": ("BOOL", "LOGICAL"),
    "TINYINT": ("INT1",),
    "SMALLINT": ("INT2", "INT16", "SHORT"),
    "INTEGER": ("INT", "INT4", "INT32", "SIGNED"),
    "BIGINT": ("INT8", "INT64", "LONG"),
    "HUGEINT": ("INT128",),
    "UTINYINT": ("UINT8",),
    "USMALLINT": ("UINT16",),
    "UINTEGER": ("UINT32",),
    "UBIGINT": ("UINT64",),
    "UHUGEINT": ("UINT128",),
    "FLOAT": ("FLOAT4", "REAL"),
    "DOUBLE": ("FLOAT8", "DOUBLE PRECISION"),
    "VARCHAR": ("CHAR", "BPCHAR", "STRING", "TEXT", "NVARCHAR", "CHARACTER VARYING"),
    "UUID": ("GUID",),
    "DATE": (),
    "TIME": (),
    "TIME WITH TIME ZONE": ("TIMETZ",),
    "TIMESTAMP": ("DATETIME", "TIMESTAMP_US", "TIMESTAMP WITHOUT TIME ZONE"),
    "TIMESTAMP_S": (),
    "TIMESTAMP_MS": (),
    "TIMESTAMP_NS": (),
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMPTZ",),
    "INTERVAL": (),
}
TYPES = {alias: name for name, aliases in _ALIASES.items() for alias in (name, *aliases)}
INTEGERS = {  # the smallest and the largest value of each integer type
    **{t: (-(2 ** (b - 1)), 2 ** (b - 1) - 1)
       for t, b in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))},
    **{t: (0, 2**b - 1)
       for t, b in (("UTINYINT", 8), ("USMALLINT", 16), ("UINTEGER", 32), ("UBIGINT", 64), ("UHUGEINT", 128))},
}  # fmt: skip
_TICKS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}  # microseconds


class Unfit(Exception):
    """A type or value that can't be used: what is wrong, and what to write instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def column_type(written: str) -> str:
    """DuckDB's own name of a scalar type."""
    text = re.sub(r"\s*([(),])\s*", r"\1", " ".join(written.upper().split()))
    if decimal := re.fullmatch(r"(?:DECIMAL|NUMERIC|DEC)(?:\((\d{1,2})(?:,(\d{1,2}))?\))?", text):
        width, scale = (int(decimal[1]), int(decimal[2] or 0)) if decimal[1] else (18, 3)
        if not (1 <= width <= 38 and scale <= width):
            raise Unfit(f"{show(written)} is no DECIMAL", "DECIMAL(width, scale): width 1 to 38, scale 0 to width")
        return f"DECIMAL({width},{scale})"
    word = re.sub(r"^(VARCHAR|CHAR|TEXT|STRING)\(\d+\)$", r"\1", text)
    if word in TYPES:
        return TYPES[word]
    if text.endswith("]") or re.match(r"(STRUCT|ROW|MAP|UNION|LIST|ARRAY|VARIANT)\b", text):
        raise Unfit(
            f"{show(written)} is a nested type, which has no range and no keys", "give the parts their own columns"
        )
    if re.match(r"(BLOB|BYTEA|BINARY|VARBINARY|BIT|BITSTRING|GEOMETRY)\b", text):
        raise Unfit(f"{show(written)} holds bytes, which have no range and no keys", "leave the column out")
    if re.match(r"(ENUM|JSON)\b", text):
        raise Unfit(f"{show(written)} can't be pinned", 'use type = "VARCHAR", with values = [...] for its keys')
    close = nearest(text, list(TYPES))
    raise Unfit(
        f"{show(written)} is no type", f"did you mean {close}?" if close else "say, INTEGER, DOUBLE, VARCHAR, DATE"
    )


def sort_of(value: Value | Bound) -> str:
    """Values of one sort can be compared with each other."""
    match value:
        case bool():
            return "true or false"
        case int() | Decimal():
            return "a number"
        case str():
            return "a text"
        case datetime():
            return "a timestamp"
        case date():
            return "a date"


def is_number(type: str) -> bool:
    """Does a column of this type hold numbers?"""
    return _sort_of_type(type) == "a number"


def read_share(written: object) -> Fraction:
    """A part of a query's ε: more than 0, and at most half."""
    return _share(written, Decimal("0.5"), "write share = 0.1")


def read_keys_share(written: object) -> Fraction:
    """The part of a query's ε that finds keys: something is left to measure them."""
    return _share(written, Decimal("0.95"), "write keys_share = 0.5, or leave it out")


def _share(written: object, most: Decimal, hint: str) -> Fraction:
    number = exact_decimal(written) if not isinstance(written, str) else None
    if number is None or not Decimal("0.001") <= number <= most:
        raise Unfit(f"must be a number from 0.001 to {most}, not {show(written)}", hint)
    return Fraction(number)


def read_share_or_none(written: object) -> Fraction:
    """A part of a query's ε that may be 0."""
    return Fraction(0) if written == 0 and not isinstance(written, bool) else read_share(written)


def _sort_of_type(type: str) -> str | None:
    if type in INTEGERS or type in ("FLOAT", "DOUBLE") or type.startswith("DECIMAL"):
        return "a number"
    if type.startswith("TIMESTAMP"):
        return "a timestamp"
    return {"BOOLEAN": "true or false", "VARCHAR": "a text", "UUID": "a text", "DATE": "a date"}.get(type)


def read_bound(written: object, type: str | None) -> Bound:
    """A min or max: a number, a date or a timestamp."""
    value = _read(written, type)
    if isinstance(value, bool | str):
        hint = "write numbers, dates (2024-01-31) and timestamps (2024-01-31T12:00:00) without quotes"
        raise Unfit(f"must be a number, a date or a timestamp, not {show(written)}", hint)
    return Decimal(value) if isinstance(value, int) else value


def read_values(written: object, type: str | None) -> tuple[Value, ...]:
    """The public values of a column: of one sort, all different once they are stored in the column's type."""
    if not isinstance(written, list | tuple) or not written:
        raise Unfit(f"must be a list of at least one value, not {show(written)}", 'values = ["a", "b"]')
    if len(written) > MOST_VALUES:
        raise Unfit(f"has {len(written):,} values; at most 1,000,000 can be public keys", "leave values out")
    values = tuple(_fitted(_read(value, type), type) for value in written)
    sorts = sorted({sort_of(value) for value in values})
    if len(sorts) > 1:
        raise Unfit(f"mixes {' and '.join(sorts)}", "all values of a column are of one type")
    # Two equal keys would count one unit twice, and 0.1 equals 0.1000000001 once both are FLOATs.
    seen: set[Value | float] = set()
    for value in values:
        held = _rounded(value, type) if isinstance(value, int | Decimal) else value
        if held in seen:
            raise Unfit(f"has {show(value)} twice", "name each value once")
        seen.add(held)
    return values


def _rounded(value: int | Decimal, type: str | None) -> int | Decimal | float:
    if type not in ("FLOAT", "DOUBLE"):
        return value
    code = "<f" if type == "FLOAT" else "<d"
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        raise Unfit(f"{show(value)} doesn't fit in {type}", "correct the value or the type") from None


def _read(written: object, type: str | None) -> Value:
    """The value in the Python type that stands for its sort; texts are dates where the column's type says so."""
    value: Value
    wanted = None if type is None else _sort_of_type(type)
    if type is not None and wanted is None:
        raise Unfit(f"a column of type {type} can't have this", "leave it out")
    match written:
        case bool():
            value = written
        case str():
            value = _from_iso(written, wanted)
        case int() | float() | Decimal():
            number = exact_decimal(written)
            if number is None:
                raise Unfit(
                    f"{show(written)} is not a finite number that DuckDB can hold", "use one between -1e308 and 1e308"
                )
            value = int(written) if isinstance(written, int) else number
        case datetime():
            value = _in_utc(written)
        case date() if wanted == "a timestamp":
            value = datetime.combine(written, time())
        case date():
            value = written
        case _:
            raise Unfit(
                f"must be a number, a text, true or false, a date or a timestamp, not {show(written)}",
                "write a plain value",
            )
    if wanted is not None and sort_of(value) != wanted:
        raise Unfit(f"{show(written)} is {sort_of(value)}, and the column's type is {type}", f"write {wanted}")
    return value


def _from_iso(written: str, wanted: str | None) -> Value:
    try:
        if wanted == "a date":
            return date.fromisoformat(written)
        if wanted == "a timestamp":
            return _in_utc(datetime.fromisoformat(written))
    except ValueError:
        raise Unfit(f"{show(written)} is not {wanted}", "write 2024-01-31, or 2024-01-31T12:00:00") from None
    return written


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise Unfit(f"{show(moment)} is no timestamp in UTC", "use a year from 1 to 9999") from None


def _fitted(value: Value, type: str | None) -> Value:
    """The value as a column of this type holds it; one that it can't hold would be a key that no row ever has."""
    unfit = Unfit(f"{show(value)} doesn't fit in {type}", "correct the value or the type")
    if type in INTEGERS and isinstance(value, int | Decimal):
        low, high = INTEGERS[type]
        if value != int(value) or not low <= value <= high:
            raise unfit
        return int(value)
    if type is not None and type.startswith("DECIMAL") and isinstance(value, int | Decimal):
        width, scale = map(int, re.findall(r"\d+", type))
        scaled = Fraction(value) * 10**scale
        if scaled.denominator != 1 or abs(scaled) >= 10**width:
            raise unfit
    if isinstance(value, datetime) and value.microsecond % _TICKS.get(type or "", 1):
        raise unfit
    if type == "UUID" and isinstance(value, str):
        try:
            return str(UUID(value))
        except ValueError:
            raise unfit from None
    return value
