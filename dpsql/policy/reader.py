"""What a policy file says, read exactly: its tables key by key, numbers, types, bounds and values.

Every mistake is noted with its key path, and with what to write instead.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, DecimalException
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from dpsql.core.errors import Error, PolicyError, nearest
from dpsql.core.limit import AUTO, Choose, Limit

Bound: TypeAlias = Decimal | date | datetime
Value: TypeAlias = bool | int | Decimal | str | date | datetime
LARGEST_LIMIT = 2**40  # rows that the grid's overflow bound allows for
Choice = TypeVar("Choice", bound=str)
Parsed = TypeVar("Parsed")


class Unfit(Exception):
    """A type or value that can't be used: what is wrong, and what to write instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def key_path(*keys: str) -> str:
    """The keys as TOML would join them, on one line."""
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)


def show(value: object) -> str:
    """A value in an error message, as the steward would write it, on one short line."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = json.dumps(value, ensure_ascii=False)
        case int() | float() | Decimal() | Fraction() | date():
            try:
                text = str(value)
            except ValueError:  # Python doesn't print integers of thousands of digits
                text = "a very long number"
        case Mapping():
            text = "a table"
        case list() | tuple():
            text = "a list"
        case _:
            text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


# ---------------------------------------------------------------- tables


class Section:
    """One table of the file: hands out values of the right type and notes what is wrong with the others."""

    def __init__(
        self,
        path: str,
        value: object,
        mistakes: list[PolicyError],
        known: tuple[str, ...] | None = None,
        later: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.mistakes = mistakes
        self.entries: dict[str, object] = {}  # as written
        self.values: dict[str, Any] = {}  # as read
        self.readable = isinstance(value, Mapping)
        if not isinstance(value, Mapping):
            self.note(
                path or "the policy", f"must be a table, not {show(value)}", hint="put its keys in a section of its own"
            )
            return
        for key, entry in value.items():
            if not isinstance(key, str) or not key or "\0" in key:
                self.note(
                    path or "the policy", f"{show(key)} can't be a name", hint="use a text without NUL characters"
                )
            elif entry is None:
                self.wrong(key, "must not be None", hint="leave it out")
            elif key in later:
                self.wrong(key, "is not supported by this version", hint="leave it out", code="not-yet")
            elif known is not None and key not in known:
                close = nearest(key, known)
                hint = f"did you mean {close}?" if close else f"known keys: {', '.join(known)}"
                self.wrong(key, "unknown key", hint=hint, code="unknown-key")
            else:
                self.entries[key] = entry

    def at(self, *keys: str) -> str:
        """The key path of something in this section."""
        return f"{self.path}.{key_path(*keys)}" if self.path else key_path(*keys)

    def note(self, path: str, what: str, *, hint: str | None, code: str = "bad-value") -> None:
        self.mistakes.append(PolicyError(f"{path}: {what}", code=code, hint=hint))

    def wrong(self, key: str, what: str, *, hint: str | None = None, code: str = "bad-value") -> None:
        self.note(self.at(key), what, hint=hint, code=code)

    def missing(self, key: str, *, hint: str) -> None:
        if self.readable:
            self.wrong(key, "is missing", hint=hint, code="missing-key")

    def section(self, key: str, known: tuple[str, ...] | None = None, later: tuple[str, ...] = ()) -> Section:
        """A table in this one; empty if it isn't there."""
        return Section(self.at(key), self.entries.get(key, {}), self.mistakes, known, later)

    def text(self, key: str) -> str | None:
        value = self.entries.get(key)
        if value is None or self._is_name(key, value):
            return value if isinstance(value, str) else None
        return None

    def _is_name(self, key: str, value: object) -> bool:
        if isinstance(value, str) and value and "\0" not in value:
            return True
        self.wrong(key, f"must be a non-empty text, not {show(value)}", hint=f'write {key} = "..."')
        return False

    def names(self, key: str) -> tuple[str, ...] | None:
        """One name or a list of different ones."""
        value = self.entries.get(key)
        if value is None:
            return None
        names = list(value) if isinstance(value, list | tuple) else [value]
        if not names:
            self.wrong(key, "must not be empty", hint=f'name a column, or several: {key} = ["a", "b"]')
        texts = tuple(name for name in names if self._is_name(key, name) and isinstance(name, str))
        if len({name.lower() for name in texts}) < len(texts):
            self.wrong(key, "names a column twice", hint="names are case-insensitive; name each column once")
        return texts

    def flag(self, key: str, default: bool) -> bool:
        value = self.entries.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong(key, f"must be true or false, not {show(value)}", hint=f"write {key} = {str(not default).lower()}")
        return default

    def count(self, key: str) -> int | None:
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_LIMIT:
            return value
        self.wrong(key, f"must be a whole number from 1 to 2^40, not {show(value)}", hint=f"write {key} = 1 or more")
        return None

    def limit(self, key: str) -> Limit | None:
        """A number, or one that each query chooses: "auto", { most = 500 }."""
        value = self.entries.get(key)
        if value == AUTO:
            return Choose()
        if isinstance(value, Mapping):
            inner = self.section(key, ("most",))
            if "most" not in value:
                inner.missing("most", hint=f"no more than so many: {key} = {{ most = 500 }}")
            return Choose(inner.count("most"))
        if isinstance(value, str):
            hint = f'write {key} = 20, {key} = "auto" or {key} = {{ most = 500 }}'
            self.wrong(key, f"must be a whole number, or {show(AUTO)}, not {show(value)}", hint=hint)
            return None
        return self.count(key)

    def choice(self, key: str, options: tuple[Choice, ...]) -> Choice:
        """One of the options; the first if nothing is said."""
        value = self.entries.get(key, options[0])
        for option in options:
            if isinstance(value, str) and value == option:
                return option
        close = nearest(value, options) if isinstance(value, str) else None
        hint = f'did you mean "{close}"?' if close else f"write one of: {', '.join(map(show, options))}"
        self.wrong(key, f"must be one of {', '.join(map(show, options))}, not {show(value)}", hint=hint)
        return options[0]

    def parsed(self, key: str, parse: Callable[..., Fraction]) -> Fraction | None:
        """ε or δ."""
        value = self.entries.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            self.wrong(key, f"must be a number, not the text {show(value)}", hint="write the number without quotes")
            return None
        try:
            return parse(value, where=self.at(key))
        except PolicyError as mistake:
            self.mistakes.append(mistake)
            return None

    def attempt(self, key: str, parse: Callable[[object], Parsed]) -> Parsed | None:
        """What `parse` makes of the value; a value that it finds unfit is noted."""
        if key not in self.entries:
            return None
        try:
            return parse(self.entries[key])
        except Unfit as unfit:
            self.wrong(key, unfit.what, hint=unfit.hint)
            return None

    def sections(self, known: tuple[str, ...], later: tuple[str, ...]) -> dict[str, tuple[str, Section]]:
        """The tables in this one by lower-cased name, each with its spelling."""
        tables: dict[str, tuple[str, Section]] = {}
        for name in self.entries:
            if name.lower() in tables:
                first = tables[name.lower()][0]
                self.wrong(
                    name, f"differs from {show(first)} only in case", hint="names are case-insensitive; keep one"
                )
            else:
                tables[name.lower()] = name, self.section(name, known, later)
        return tables


# ---------------------------------------------------------------- numbers


def parse_epsilon(
    text: str | int | float | Decimal | Fraction, *, where: str, error: type[Error] = PolicyError
) -> Fraction:
    """ε exactly as written, from 1e-6 to 1e12."""
    value = _exact(text)
    if value is None or not Fraction(1, 10**6) <= value <= 10**12:
        message = f"{where}: ε must be a number from 1e-6 to 1e12, not {show(text)}"
        raise error(message, code="bad-epsilon", hint="smaller is more private; 0.1 to 1 is usual for one query")
    return value


def parse_delta(
    text: str | int | float | Decimal | Fraction, *, where: str, error: type[Error] = PolicyError
) -> Fraction:
    """δ exactly as written: 0, or from 1e-300 to below 1e-3."""
    value = _exact(text)
    if value is None or (value != 0 and not Fraction(1, 10**300) <= value < Fraction(1, 1000)):
        message = f"{where}: δ must be 0, or a number from 1e-300 to below 1e-3, not {show(text)}"
        raise error(message, code="bad-delta", hint="0 is pure DP; otherwise far below 1 / number of units, say 1e-6")
    return value


def _exact(number: object) -> Fraction | None:
    if isinstance(number, Fraction):
        return number
    value = exact_decimal(number)
    return None if value is None else Fraction(value)


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def exact_decimal(number: object) -> Decimal | None:
    """The number as it is written (0.1 is one tenth); None if it isn't one, isn't finite or is beyond any DOUBLE."""
    if isinstance(number, bool) or (isinstance(number, int) and number.bit_length() > 1024):
        return None
    if isinstance(number, str) and not (len(number) <= 1000 and _NUMBER.fullmatch(number.strip())):
        return None
    if isinstance(number, float):
        number = float.__repr__(number)  # the shortest text that means this float, also for numpy's subclass
    if not isinstance(number, int | str | Decimal):
        return None
    try:
        value = Decimal(number)
    except DecimalException:  # an exponent of twenty digits
        return None
    if not value.is_finite():
        return None
    if value == 0:
        return Decimal(0)
    # Exponents are checked before anyone computes with them: as a Fraction, 1e-999999999 would fill the memory.
    return value if -400 < value.adjusted() < 308 else None


# ---------------------------------------------------------------- columns

MAX_VALUES = 1_000_000

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
    if len(written) > MAX_VALUES:
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
        from uuid import UUID  # it asks the system what it is

        try:
            return str(UUID(value))
        except ValueError:
            raise unfit from None
    return value
