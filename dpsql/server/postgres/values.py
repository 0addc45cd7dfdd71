"""Values of parameters: from text or binary, by the number of their type, to Python's; and types found in the SQL."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID as Uuid

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.server.postgres import types
from dpsql.server.postgres.results import Refused
from dpsql.sql.dialect import DIALECT

_DIALECT = Dialect.get_or_raise(DIALECT)
_EPOCH = datetime(2000, 1, 1)
_TEXTS = {18, 19, types.TEXT, types.UNKNOWN, 1042, types.VARCHAR, 114, 3802, 0}
_ELEMENTS = {array: element for element, array in types.ARRAYS.items()} | {
    1015: types.VARCHAR,
    1003: 19,
    2951: types.UUID,
}


def decoded(data: bytes | None, oid: int, format: int) -> Any:
    """A parameter's value; None for NULL. Refused where the bytes aren't a value of that type."""
    if data is None:
        return None
    try:
        if oid in _ELEMENTS:
            return _binary_array(data) if format else _text_array(data.decode(), _ELEMENTS[oid])
        return _binary(data, oid) if format else _text(data.decode(), oid)
    except (ValueError, ArithmeticError, struct.error, UnicodeDecodeError, IndexError, OverflowError):
        raise Refused("22P03" if format else "22P02", "a parameter isn't a value of its type") from None


def _text(text: str, oid: int) -> Any:
    if oid in _TEXTS:
        return text
    reader = _FROM_TEXT.get(oid)
    if reader is None:
        raise _unknown(oid)
    return reader(text.strip())


def _bool(text: str) -> bool:
    word = text.lower()
    if word not in ("t", "true", "1", "on", "yes", "f", "false", "0", "off", "no"):
        raise ValueError
    return word in ("t", "true", "1", "on", "yes")


def _naive(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _aware(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_FROM_TEXT: Mapping[int, Callable[[str], Any]] = {
    types.BOOL: _bool,
    types.INT2: int,
    types.INT4: int,
    types.INT8: int,
    types.OID: int,
    types.FLOAT4: float,
    types.FLOAT8: float,
    types.NUMERIC: Decimal,
    types.DATE: lambda text: date.fromisoformat(text[:10]),
    types.TIME: time.fromisoformat,
    types.TIMESTAMP: _naive,
    types.TIMESTAMPTZ: _aware,
    types.UUID: lambda text: str(Uuid(text)),
}

_PACKED = {
    types.INT2: "!h",
    types.INT4: "!i",
    types.INT8: "!q",
    types.OID: "!I",
    types.FLOAT4: "!f",
    types.FLOAT8: "!d",
}


def _binary(data: bytes, oid: int) -> Any:
    if oid in _TEXTS:
        return data.decode()
    if oid in _PACKED:
        return struct.unpack(_PACKED[oid], data)[0]
    match oid:
        case types.BOOL:
            return bool(struct.unpack("!?", data)[0])
        case types.NUMERIC:
            return _numeric(data)
        case types.DATE:
            return _EPOCH.date() + timedelta(days=struct.unpack("!i", data)[0])
        case types.TIME:
            return (_EPOCH + timedelta(microseconds=struct.unpack("!q", data)[0])).time()
        case types.TIMESTAMP | types.TIMESTAMPTZ:
            moment = _EPOCH + timedelta(microseconds=struct.unpack("!q", data)[0])
            return moment if oid == types.TIMESTAMP else moment.replace(tzinfo=UTC)
        case types.UUID:
            return str(Uuid(bytes=data))
        case _:
            raise _unknown(oid)


def _numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack("!HhHH", data[:8])
    if sign not in (0, 0x4000):
        raise ValueError  # NaN and infinities have no literal
    groups = struct.unpack(f"!{count}H", data[8:])
    if any(group > 9999 for group in groups):
        raise ValueError
    whole = int("".join(f"{group:04}" for group in groups) or "0")
    found = Decimal(whole).scaleb(4 * (weight - count + 1))
    found = found.quantize(Decimal(1).scaleb(-scale)) if scale < 100 and abs(weight) < 20 else found
    return -found if sign else found


def _binary_array(data: bytes) -> list[Any]:
    dimensions, _, oid = struct.unpack("!iiI", data[:12])
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise Refused("0A000", "an array of arrays can't be a parameter")
    count, _ = struct.unpack("!ii", data[12:20])
    found, at = [], 20
    for _ in range(count):
        (size,) = struct.unpack("!i", data[at : at + 4])
        at += 4
        if size > len(data) - at:
            raise ValueError
        found.append(None if size < 0 else _binary(data[at : at + size], oid))
        at += max(0, size)
    return found


def _text_array(text: str, element: int) -> list[Any]:
    """{a,"b c",NULL}"""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    found: list[Any] = []
    i, inside = 0, text[1:-1]
    while i < len(inside):
        piece, quoted = "", inside[i] == '"'
        i += quoted
        while i < len(inside) and inside[i] != ('"' if quoted else ","):
            i += inside[i] == "\\"
            piece += inside[i]
            i += 1
        i += quoted + 1
        found.append(None if not quoted and piece.upper() == "NULL" else _text(piece, element))
    return found


def _unknown(oid: int) -> Refused:
    return Refused("0A000", f"a parameter of type {oid} can't be used", "send a number, a text, a date or a boolean")


# ---------------------------------------------------------------- types that the SQL tells

_NAMES = {
    "int": types.INT4, "integer": types.INT4, "int4": types.INT4, "bigint": types.INT8, "int8": types.INT8,
    "smallint": types.INT2, "int2": types.INT2, "double": types.FLOAT8, "float8": types.FLOAT8, "float": types.FLOAT8,
    "real": types.FLOAT4, "float4": types.FLOAT4, "numeric": types.NUMERIC, "decimal": types.NUMERIC,
    "text": types.TEXT, "varchar": types.VARCHAR, "date": types.DATE, "timestamp": types.TIMESTAMP,
    "timestamptz": types.TIMESTAMPTZ, "boolean": types.BOOL, "bool": types.BOOL, "time": types.TIME,
    "oid": types.OID, "regclass": types.TEXT, "name": types.TEXT,
}  # fmt: skip
_COMPARES = {"=", "<", ">", "<=", ">=", "<>", "!=", "in", "between", "not", "(", ",", "+", "-", "*", "/", "and"}


def parameter_types(sql: str, said: Sequence[int], columns: Mapping[str, int]) -> tuple[int, ...]:
    """The type of each parameter: as the client says, else by its cast, else that of the column it is compared with.

    columns: the types of columns whose name has one type wherever it occurs. Where nothing tells, it is a text.
    """
    try:
        tokens = _DIALECT.tokenize(sql)
    except TokenError:
        tokens = []
    found: dict[int, int] = {}
    for i, token in enumerate(tokens):
        if token.text == "$" and i + 1 < len(tokens) and tokens[i + 1].text.isdigit():
            found.setdefault(int(tokens[i + 1].text), _told(tokens, i, columns))
    most = max([*found, len(said)], default=0)
    if most > 1000:
        raise Refused("54000", "a statement has at most 1,000 parameters")
    known = [said[n - 1] if n <= len(said) and said[n - 1] else found.get(n, types.TEXT) for n in range(1, most + 1)]
    return tuple(types.TEXT if oid == types.UNKNOWN else oid for oid in known)


def _told(tokens: Sequence[Token], i: int, columns: Mapping[str, int]) -> int:
    before = [t.text.lower() for t in tokens[max(0, i - 40) : i]][::-1]
    after = [t.text.lower() for t in tokens[i + 2 : i + 8]]
    if after[:1] == ["::"]:
        return _array(after[1:]) or types.TEXT
    if after[:1] == ["as"] and before[:2] == ["(", "cast"]:
        return _array(after[1:]) or types.TEXT
    if before[:1] in (["limit"], ["offset"]):
        return types.INT8
    for word, token in zip(before, reversed(tokens[:i]), strict=False):
        if word in columns and token.token_type is not TokenType.STRING:
            return columns[word]
        if word not in _COMPARES and not word.isdigit() and word != "$":
            break
        if word == "and" and "between" not in before[: before.index("and") + 4]:
            break
    if len(after) > 1 and after[0] in _COMPARES:
        names = [word for word in after[1:4] if word in columns]
        return columns[names[-1]] if names else types.TEXT
    return types.TEXT


def _array(words: Sequence[str]) -> int | None:
    words = list(words)
    while len(words) > 1 and words[1] == ".":
        words = words[2:]
    oid = _NAMES.get(words[0] if words else "")
    if oid is not None and list(words[1:3]) == ["[", "]"]:
        return types.ARRAYS.get(oid)
    if oid == types.TIMESTAMP and list(words[1:3]) == ["with", "time"]:
        return types.TIMESTAMPTZ
    return oid
