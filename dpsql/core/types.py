"""Scalar types: how they are written, what they hold, and which digits an exact result needs.

Their names are those of the SQL that people write. A backend says in these names what its sources hold, and casts to
them; where its engine calls a type otherwise, or lacks it, that is the backend's to settle.
"""

from __future__ import annotations

import re
from fractions import Fraction

from dpsql.core.frozen import dataclass

_ALIASES = {
    "BOOL": "BOOLEAN",
    "LOGICAL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "INT16": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "INT32": "INTEGER",
    "SIGNED": "INTEGER",
    "INT8": "BIGINT",
    "INT64": "BIGINT",
    "LONG": "BIGINT",
    "INT128": "HUGEINT",
    "UINT8": "UTINYINT",
    "UINT16": "USMALLINT",
    "UINT32": "UINTEGER",
    "UINT64": "UBIGINT",
    "UINT128": "UHUGEINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "DOUBLE PRECISION": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    '"NULL"': "NULL",
}
_SIGNED = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
_UNSIGNED = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
# UHUGEINT is none of them: DuckDB compares it with other integers as doubles, which merges values, and Arrow lacks it.
_TIMESTAMPS = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_PARAMETERS = re.compile(r"^(?P<name>[A-Z_0-9 ]+?)\s*\(\s*(?P<width>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\)$")
_ENUM = re.compile(r"^ENUM\s*\((?P<values>.*)\)$", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(r"'((?:[^']|'')*)'")

MAX_DIGITS = 38  # of a DECIMAL


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its canonical name; digits for a DECIMAL, values for an ENUM."""

    name: str
    width: int | None = None
    scale: int | None = None
    values: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Type:
        """The type that is written as `text`. A nested or unknown one keeps its text, and nothing more."""
        stripped = text.strip()
        enum = _ENUM.match(stripped)
        if enum:
            return cls("ENUM", values=tuple(v.replace("''", "'") for v in _QUOTED.findall(enum["values"])))
        upper = re.sub(r"\s+", " ", stripped.upper())
        parameters = _PARAMETERS.match(upper)
        name = parameters["name"].strip() if parameters else upper
        name = _ALIASES.get(name, name)
        if name == "DECIMAL":
            if parameters is None:
                return cls("DECIMAL", 18, 3)
            return cls("DECIMAL", int(parameters["width"]), int(parameters["scale"] or 0))
        if parameters is not None and name != "VARCHAR":
            return cls(stripped)
        known = name in _SIGNED or name in _UNSIGNED or name in _TIMESTAMPS or name in _PLAIN
        return cls(name if known else stripped)

    @property
    def sql(self) -> str:
        """As it is written."""
        if self.name == "DECIMAL":
            return f"DECIMAL({self.width},{self.scale})"
        if self.name == "ENUM":
            return "ENUM(" + ", ".join("'" + v.replace("'", "''") + "'" for v in self.values) + ")"
        return '"NULL"' if self.name == "NULL" else self.name

    def __str__(self) -> str:
        return self.sql

    @property
    def is_integer(self) -> bool:
        return self.name in _SIGNED or self.name in _UNSIGNED

    @property
    def is_unsigned(self) -> bool:
        return self.name in _UNSIGNED

    @property
    def bits(self) -> int:
        """The size of an integer."""
        return _SIGNED.get(self.name) or _UNSIGNED[self.name]

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_float(self) -> bool:
        return self.name in ("FLOAT", "DOUBLE")

    @property
    def is_key(self) -> bool:
        """Can it be grouped by? Types whose equal values may look different (intervals) or are nested can't."""
        plain = self.is_numeric or self.is_boolean or self.is_text or self.is_date or self.is_timestamp
        return plain or self.name in ("TIME", "UUID")

    @property
    def is_written(self) -> bool:
        """Has each of its values a text?"""
        return self.is_key or self.name in ("INTERVAL", "BLOB", "JSON", "NULL")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_decimal or self.is_float

    @property
    def is_boolean(self) -> bool:
        return self.name == "BOOLEAN"

    @property
    def is_text(self) -> bool:
        """VARCHAR, and ENUM, which is read as VARCHAR."""
        return self.name in ("VARCHAR", "ENUM")

    @property
    def is_date(self) -> bool:
        return self.name == "DATE"

    @property
    def is_timestamp(self) -> bool:
        return self.name in _TIMESTAMPS

    @property
    def has_zone(self) -> bool:
        return self.name == "TIMESTAMP WITH TIME ZONE"

    @property
    def is_null(self) -> bool:
        """The type of a bare NULL."""
        return self.name == "NULL"

    @property
    def limits(self) -> tuple[Fraction, Fraction] | None:
        """The least and the greatest value of an exact number or a boolean; None for every other type."""
        if self.is_boolean:
            return Fraction(0), Fraction(1)
        if self.name in _SIGNED:
            half = 2 ** (self.bits - 1)
            return Fraction(-half), Fraction(half - 1)
        if self.name in _UNSIGNED:
            return Fraction(0), Fraction(2**self.bits - 1)
        if self.is_decimal:
            assert self.width is not None and self.scale is not None
            top = Fraction(10**self.width - 1, 10**self.scale)
            return -top, top
        return None

    def holds(self, low: Fraction | None, high: Fraction | None) -> bool:
        """Whether every number between low and high has its place in this exact type (digits after the point aside)."""
        limits = self.limits
        return limits is not None and low is not None and high is not None and limits[0] <= low and high <= limits[1]


_PLAIN = {"BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIME", "INTERVAL", "UUID", "BLOB", "BIT", "JSON", "NULL"}

BOOLEAN = Type("BOOLEAN")
TINYINT = Type("TINYINT")
INTEGER = Type("INTEGER")
BIGINT = Type("BIGINT")
HUGEINT = Type("HUGEINT")
FLOAT = Type("FLOAT")
DOUBLE = Type("DOUBLE")
VARCHAR = Type("VARCHAR")
DATE = Type("DATE")
TIMESTAMP = Type("TIMESTAMP")
TIMESTAMPTZ = Type("TIMESTAMP WITH TIME ZONE")
INTERVAL = Type("INTERVAL")
NULL = Type("NULL")


def decimal(width: int, scale: int) -> Type:
    """DECIMAL(width, scale)."""
    return Type("DECIMAL", width, scale)


def integer_for(low: Fraction | None, high: Fraction | None) -> Type | None:
    """The smallest of INTEGER, BIGINT and HUGEINT that holds low to high; None if none does."""
    return next((t for t in (INTEGER, BIGINT, HUGEINT) if t.holds(low, high)), None)


def whole_digits(low: Fraction | None, high: Fraction | None) -> int | None:
    """Digits before the point of the longest number between low and high; None where that is unbounded."""
    if low is None or high is None:
        return None
    top = int(max(abs(low), abs(high)))
    return len(str(top)) if top else 0
