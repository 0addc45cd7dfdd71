"""Footers of parquet files, taken apart and put together again: to write files whose statistics are not true.

A footer is a struct in Thrift's compact protocol. A struct is a dict of (type, value) by field number, a list is a pair
of the type of its items and the items.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRUE, FALSE, BYTE, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
INTEGERS = (4, 5, I64)
Struct = dict[int, tuple[int, Any]]

MAX, MIN, NULLS = 1, 2, 3  # fields of statistics; MAX and MIN are the deprecated ones


def load(path: Path) -> tuple[bytes, Struct]:
    """What comes before the footer, and the footer."""
    data = path.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - size], _Reader(data[-8 - size : -8]).struct()


def save(path: Path, body: bytes, footer: Struct) -> None:
    """Write the file with another footer."""
    written = _struct(footer)
    path.write_bytes(body + written + len(written).to_bytes(4, "little") + b"PAR1")


def statistics(footer: Struct, row_group: int = 0, column: int = 0) -> Struct:
    """What the footer says of one column of one row group, to be changed in place."""
    chunk = footer[4][1][1][row_group][1][1][1][column]
    found: Struct = chunk[3][1].setdefault(12, (STRUCT, {}))[1]
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _bytes(self, size: int) -> bytes:
        self._place += size
        return self._data[self._place - size : self._place]

    def _number(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def _signed(self) -> int:
        number = self._number()
        return (number >> 1) ^ -(number & 1)

    def struct(self) -> Struct:
        found: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            found[field] = (head & 15, self._value(head & 15))
        return found

    def _value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self._byte()
        if kind in INTEGERS:
            return self._signed()
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BINARY:
            return self._bytes(self._number())
        if kind in (LIST, SET):
            head = self._byte()
            size = self._number() if head >> 4 == 15 else head >> 4
            of = head & 15
            return of, [self._byte() == TRUE if of in (TRUE, FALSE) else self._value(of) for _ in range(size)]
        assert kind == STRUCT, kind
        return self.struct()


def _number(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _signed(number: int) -> bytes:
    return _number(number * 2 if number >= 0 else -number * 2 - 1)


def _value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value])
    if kind in INTEGERS:
        return _signed(value)
    if kind == DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _number(len(value)) + bytes(value)
    if kind in (LIST, SET):
        of, items = value
        head = bytes([min(len(items), 15) << 4 | of]) + (_number(len(items)) if len(items) >= 15 else b"")
        return head + b"".join(
            bytes([TRUE if item else FALSE]) if of in (TRUE, FALSE) else _value(of, item) for item in items
        )
    assert kind == STRUCT, kind
    return _struct(value)


def _struct(fields: Struct) -> bytes:
    out, last = b"", 0
    for field in sorted(fields):
        kind, value = fields[field]
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = field - last
        out += bytes([step << 4 | kind]) if step <= 15 else bytes([kind]) + _signed(field)
        out += _value(kind, value)
        last = field
    return out + b"\0"
