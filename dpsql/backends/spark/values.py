"""Values in Spark's SQL: their text, our type of them, and what bounds their integers whatever the rows hold.

Integers are computed in BIGINT or less where their bounds prove that it holds them, and in DECIMAL(38,0) elsewhere, up
to 10^38; what could be larger is refused before payment. So no integer overflows, and if one did all the same, Spark in
ANSI mode raises (Theorem TOTAL-1, On Spark).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.types import BIGINT, DOUBLE, FLOAT, HUGEINT, INTEGER, NULL, Type, decimal

MOST = 10**38 - 1  # what DECIMAL(38,0) holds
MAX_ROWS = 2**40  # a table has fewer (Theorem GRID-1)
SPARK = "Spark"

_NAMES = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT",  # parquet's unsigned integers, as Spark reads them
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "HUGEINT": "DECIMAL(38,0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "STRING",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "NULL": "VOID",
}


def lacks(what: str, hint: str = "") -> SQLError:
    """The refusal of what this backend can't compute as DuckDB does."""
    return SQLError(
        f"{what} is not on this backend: {SPARK} can't compute it, or would mean something else by it",
        code="not-on-backend",
        hint=hint or "use another function (docs/spark-functions.md lists what there is), or compute it in the data",
    )


def spark_type(type_: Type) -> str:
    """A type of ours as Spark calls it."""
    if type_.is_decimal:
        return f"DECIMAL({type_.width},{type_.scale})"
    found = _NAMES.get(type_.name)
    if found is None:
        raise lacks(f"the type {type_.sql}", "leave this column out, or write it as another type once")
    return found


def name_of(text: str) -> str:
    """A name in quotes."""
    return "`" + text.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its text (an atom, or in parentheses), its type, and bounds of what it can be.

    low, high: of numbers and whatever the rows hold, unless it is NULL; None where nothing is known. each: the sum of
    this value over all rows of a query is at most `each` times the number of rows of the table (Theorem GRID-1).
    is_there: it never is NULL. Bounds alone don't say so: CASE WHEN x THEN 1 END is 1 or nothing.
    """

    text: str
    type: Type
    low: int | None = None
    high: int | None = None
    each: int | None = None
    constant: str | None = None  # of a text literal: what it says
    is_there: bool = False

    @property
    def size(self) -> int | None:
        """The most that it can be in absolute value."""
        return None if self.low is None or self.high is None else max(abs(self.low), abs(self.high))

    @property
    def share(self) -> int | None:
        """`each` or its size, whichever is less: there are no more groups than rows."""
        known = [most for most in (self.each, self.size) if most is not None]
        return min(known) if known else None

    def named(self, text: str) -> Value:
        """The same value under another text, which may be NULL: a column of what a LEFT JOIN didn't find is."""
        return replace(self, text=text, constant=None, is_there=False)


def value(text: str, type_: Type, low: int | None = None, high: int | None = None, each: int | None = None) -> Value:
    """A value of a type, within the bounds of its type at least."""
    if type_.is_integer or type_.is_boolean:
        limits = type_.limits
        assert limits is not None
        least, most = int(limits[0]), int(limits[1])
        low = least if low is None else max(low, least)
        high = most if high is None else min(high, most)
    return Value(text, type_, low, high, each)


def integer(text: str, low: int, high: int, each: int | None = None, *, least: Type = INTEGER) -> Value:
    """An integer that Spark computes in a type that holds these bounds; refused where there is none."""
    return Value(text, type_for(low, high, least), low, high, each)


def type_for(low: int, high: int, least: Type = INTEGER) -> Type:
    """The smallest of INTEGER, BIGINT and DECIMAL(38,0) that holds these bounds, and is no smaller than another.

    No value is ever cast to a narrower type by its bounds: a cast that raises would tell of a row.
    """
    if max(abs(low), abs(high)) > MOST:
        raise lacks("an integer of more than 38 digits", "cast what is multiplied or added up to DOUBLE")
    for type_ in (INTEGER, BIGINT):
        limits = type_.limits
        assert limits is not None
        if limits[0] <= low and high <= limits[1] and width(least) <= width(type_):
            return type_
    return HUGEINT


def width(type_: Type) -> int:
    """How much Spark's type of an exact number holds: unsigned integers have a wider type there."""
    sizes = ("TINYINT", "SMALLINT", "INT", "BIGINT")
    kind = spark_type(type_)
    return sizes.index(kind) if kind in sizes else len(sizes) + int(kind.removeprefix("DECIMAL(").partition(",")[0])


def in_type(found: Value, type_: Type) -> Value:
    """An exact number in a wider type of Spark's."""
    if spark_type(found.type) == spark_type(type_):
        return replace(found, type=type_)
    return replace(found, text=f"CAST({found.text} AS {spark_type(type_)})", type=type_, constant=None)


def negative(v: Value) -> str:
    """Minus a number. Spark's own minus, and its ABS, round decimals to 34 digits; its difference doesn't."""
    kind = spark_type(v.type)
    if not kind.startswith("DECIMAL"):
        return f"(- {v.text})"
    return f"CAST((CAST(0 AS {kind}) - {v.text}) AS {kind})"


def common(values: Iterable[Value]) -> Type:
    """The type of a choice among values, which rules have brought to one type but for literals."""
    types = [v.type for v in values if v.type != NULL]
    if not types:
        return NULL
    if len(set(types)) == 1:
        return types[0]
    if not all(t.is_numeric for t in types):
        raise lacks("a choice among values of several types")
    if any(t.is_float for t in types):
        return DOUBLE if DOUBLE in types else FLOAT
    if any(t.is_decimal for t in types):
        scale = max(t.scale or 0 for t in types)
        whole = max(_digits(t) for t in types)
        if whole + scale > 38:
            raise lacks("a choice among decimals of more than 38 digits together")
        return decimal(whole + scale, scale)
    ends = [t.limits for t in types]
    low, high = min(e[0] for e in ends if e), max(e[1] for e in ends if e)
    return type_for(int(low), int(high)) if HUGEINT not in types else HUGEINT


def _digits(type_: Type) -> int:
    if type_.is_decimal:
        return (type_.width or 0) - (type_.scale or 0)
    limits = type_.limits
    assert limits is not None
    return min(38, len(str(max(abs(int(limits[0])), int(limits[1])))))
