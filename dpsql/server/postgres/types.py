"""Types on the wire: which of Postgres' types a column of Arrow is, and its values as text and in binary.

Dates and moments are numbers of Arrow's until they are written, so that years that Python has no place for are right.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dpsql.core.frozen import dataclass

Arrow = Any

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID = 16, 17, 20, 21, 23, 25, 26
FLOAT4, FLOAT8, UNKNOWN, VARCHAR, DATE, TIME = 700, 701, 705, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = 1114, 1184, 1186, 1700, 2950
ARRAYS = {
    BOOL: 1000, BYTEA: 1001, INT2: 1005, INT4: 1007, TEXT: 1009, INT8: 1016, FLOAT4: 1021, FLOAT8: 1022, OID: 1028,
    TIMESTAMP: 1115, DATE: 1182, TIME: 1183, TIMESTAMPTZ: 1185, INTERVAL: 1187, NUMERIC: 1231,
}  # fmt: skip
"""The type of an array, by that of its elements."""

_EPOCH_DAYS = 10_957  # from 1970, where Arrow counts from, to 2000, where Postgres does
_DAY = 86_400_000_000  # microseconds
_FOREVER = {32: 2**31 - 1, 64: 2**63 - 1}  # infinity, in both


@dataclass(frozen=True, slots=True)
class Wire:
    """One type on the wire: its number and size, how a value is written, and the same of an array's elements."""

    oid: int
    size: int
    modifier: int
    as_text: Callable[[Any], str]
    as_binary: Callable[[Any], bytes]
    read: Callable[[Arrow], list[Any]]
    """The values of an Arrow column, as the other two take them."""

    def encode(self, value: Any, format: int) -> bytes | None:
        """A value as it is sent; None: NULL."""
        if value is None:
            return None
        return self.as_binary(value) if format else self.as_text(value).encode(errors="replace")


def wire_of(kind: Arrow, *, oids: bool = False) -> Wire:
    """The type on the wire of an Arrow type. oids: 32 bits without a sign are numbers of the catalog's."""
    import pyarrow.types as is_

    if is_.is_dictionary(kind):
        return wire_of(kind.value_type, oids=oids)
    if is_.is_boolean(kind):
        return Wire(BOOL, 1, -1, lambda v: "t" if v else "f", lambda v: bytes([v]), _python)
    if is_.is_integer(kind):
        if oids and is_.is_uint32(kind):
            return _packed(OID, 4, "!I")
        if is_.is_uint64(kind):
            return _numeric(20, 0)
        width = kind.bit_width * (2 if is_.is_unsigned_integer(kind) else 1)
        return (
            _packed(INT2, 2, "!h") if width <= 16 else _packed(INT4, 4, "!i") if width <= 32 else _packed(INT8, 8, "!q")
        )
    if is_.is_float32(kind):
        return Wire(FLOAT4, 4, -1, _float32, lambda v: struct.pack("!f", v), _python)
    if is_.is_floating(kind):
        return Wire(FLOAT8, 8, -1, _float64, lambda v: struct.pack("!d", v), _python)
    if is_.is_decimal(kind):
        return _numeric(kind.precision, kind.scale)
    if is_.is_date(kind):
        return Wire(DATE, 4, -1, _date, lambda v: struct.pack("!i", _since_2000(v, 1, 32)), _days)
    if is_.is_time(kind):
        return Wire(TIME, 8, -1, _time, lambda v: struct.pack("!q", v), _micros)
    if is_.is_timestamp(kind):
        zone = "" if kind.tz is None else "+00"
        oid = TIMESTAMP if kind.tz is None else TIMESTAMPTZ
        binary = lambda v: struct.pack("!q", _since_2000(v, _DAY, 64))  # noqa: E731
        return Wire(oid, 8, -1, lambda v: _moment(v, zone), binary, _micros)
    if is_.is_interval(kind):
        return Wire(INTERVAL, 16, -1, _interval, _binary_interval, _python)
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        return Wire(BYTEA, -1, -1, lambda v: "\\x" + v.hex(), bytes, _python)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return _array(wire_of(kind.value_type, oids=oids))
    return _TEXT


def _python(column: Arrow) -> list[Any]:
    return list(column.to_pylist())


def _days(column: Arrow) -> list[Any]:
    import pyarrow as pa

    return list(column.cast(pa.date32()).cast(pa.int32()).to_pylist())


def _micros(column: Arrow) -> list[Any]:
    """Microseconds; what is finer is cut, as Postgres has no place for it."""
    import pyarrow as pa

    per = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": None}[column.type.unit]
    whole = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()
    endless = (_FOREVER[64], -_FOREVER[64])
    return [v if v is None or v in endless else v // 1000 if per is None else v * per for v in whole]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


_TEXT = Wire(TEXT, -1, -1, _text, lambda v: _text(v).encode(errors="replace"), _python)


def _packed(oid: int, size: int, form: str) -> Wire:
    return Wire(oid, size, -1, lambda v: str(int(v)), lambda v: struct.pack(form, int(v)), _python)


# ---------------------------------------------------------------- numbers


def _float64(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def _float32(value: float) -> str:
    """The shortest text that is this number of 32 bits."""
    import numpy as np

    return (
        _float64(value) if value != value or abs(value) == float("inf") else str(np.float32(value)).removesuffix(".0")
    )


def _numeric(precision: int, scale: int) -> Wire:
    modifier = (precision << 16 | scale) + 4

    def exact(value: Any) -> Decimal:
        """A value that comes as a float, of a column that was announced as an exact number, is rounded to it."""
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale)) if isinstance(value, float) else Decimal(value)

    return Wire(NUMERIC, -1, modifier, lambda v: format(exact(v), "f"), lambda v: binary_numeric(exact(v)), _python)


def binary_numeric(value: int | Decimal) -> bytes:
    """Groups of four decimal digits, with the place of the first, a sign, and how many digits are shown."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)  # finite
    scale = max(0, -exponent)
    written = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, part = (written[:-scale], written[-scale:].rjust(scale, "0")) if scale else (written, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    part = part.ljust(-(-len(part) // 4) * 4, "0")
    groups = [int((whole + part)[i : i + 4]) for i in range(0, len(whole) + len(part), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack("!HhHH", len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}H", *groups)


# ---------------------------------------------------------------- dates and moments


def _since_2000(value: int, unit: int, bits: int) -> int:
    if abs(value) == _FOREVER[bits]:
        return value if value > 0 else value - 1
    return value - _EPOCH_DAYS * unit


def _date(days: int) -> str:
    """A day as Postgres writes it in ISO style: by the civil calendar, with BC for years before 1."""
    if abs(days) == _FOREVER[32]:
        return "infinity" if days > 0 else "-infinity"
    era, of_era = divmod(days + 719_468, 146_097)  # eras of 400 years that begin on a 1st of March
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}" if year > 0 else f"{1 - year:04}-{month:02}-{day:02} BC"


def _time(micros: int) -> str:
    seconds, part = divmod(micros, 1_000_000)
    shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}.{part:06}".rstrip("0") if part else shown


def _moment(micros: int, zone: str) -> str:
    if abs(micros) == _FOREVER[64]:
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, _DAY)
    day, _, before = _date(days).partition(" ")
    return f"{day} {_time(rest)}{zone}" + (f" {before}" if before else "")


def _interval(value: Any) -> str:
    """Months, days and nanoseconds, as Postgres writes them: behind a negative part, a positive one has its sign."""
    sign = -1 if value.months < 0 else 1
    years, months = divmod(abs(value.months), 12)
    pieces: list[str] = []
    behind = False  # a negative part
    for amount, word in ((sign * years, "year"), (sign * months, "mon"), (value.days, "day")):
        if amount:
            pieces.append(f"{'+' if behind and amount > 0 else ''}{amount} {word}{'' if amount == 1 else 's'}")
            behind = amount < 0
    micros = abs(value.nanoseconds) // 1000
    if micros or not pieces:
        pieces.append(("-" if value.nanoseconds < 0 else "+" if behind else "") + _time(micros))
    return " ".join(pieces)


def _binary_interval(value: Any) -> bytes:
    return struct.pack("!qii", int(value.nanoseconds / 1000), value.days, value.months)


# ---------------------------------------------------------------- arrays


def _array(element: Wire) -> Wire:
    if element.oid not in ARRAYS:  # an array of arrays: its text
        return _TEXT
    write = lambda v: "{" + ",".join(map(_element, map(_maybe(element.as_text), v))) + "}"  # noqa: E731

    def binary(values: Any) -> bytes:
        head = struct.pack("!iiI", 1 if values else 0, int(any(v is None for v in values)), element.oid)
        size = struct.pack("!ii", len(values), 1) if values else b""
        pieces = [element.encode(v, 1) for v in values]
        return head + size + b"".join(b"\xff" * 4 if p is None else struct.pack("!i", len(p)) + p for p in pieces)

    def read(column: Arrow) -> list[Any]:
        return [None if not one.is_valid else element.read(one.values) for one in column]

    return Wire(ARRAYS[element.oid], -1, -1, write, binary, read)


def _maybe(write: Callable[[Any], str]) -> Callable[[Any], str | None]:
    return lambda value: None if value is None else write(value)


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    if text and text.upper() != "NULL" and not set(text) & set('{},"\\ \t\n'):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
