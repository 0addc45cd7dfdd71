"""Casts as DuckDB means them: a number is rounded to a neighbour, and what has no place in the type is NULL.

Spark would cut where DuckDB rounds, and raise where TRY_CAST gives NULL; texts it reads and floats it writes in other
ways, so that these casts are refused.
"""

from __future__ import annotations

from dataclasses import replace
from struct import pack, unpack

from dpsql.backends.spark.constants import double
from dpsql.backends.spark.values import Value, in_type, lacks, spark_type, value, width
from dpsql.core.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, HUGEINT, NULL, VARCHAR, Type, decimal

LAST_DAY = 106_751_991  # since 1970, of which a TIMESTAMP has the beginning


def cast(v: Value, to: Type) -> Value:
    """A value in another type; NULL where it has no place there."""
    target = spark_type(to)
    if v.type == to:
        return v
    if v.type == NULL:
        return Value(f"CAST(NULL AS {target})", to)
    if v.type.name == "ENUM" and to == VARCHAR:
        return replace(v, type=to)
    found = _to_text(v) if to == VARCHAR else None
    if v.type == VARCHAR:
        found = _read(v.text, to)
    if found is None and (v.type.is_numeric or v.type.is_boolean):
        found = _number(v, to)
    if found is None and (v.type.is_date or v.type.is_timestamp) and (to.is_date or to.is_timestamp):
        text = f"CAST({v.text} AS {target})"
        if v.type.is_date and to.is_timestamp and v.low is None:  # days go on for longer than microseconds
            first, last = (f"date_from_unix_date({day})" for day in (-LAST_DAY, LAST_DAY))
            text = f"CASE WHEN {v.text} BETWEEN {first} AND {last} THEN {text} END"
        found = Value(text, to, v.low, v.high)
    if found is None:
        by_way = f"write CAST(CAST(x AS DOUBLE) AS {to.sql})" if v.type == VARCHAR and to.is_integer else None
        raise lacks(f"a cast from {v.type.sql} to {to.sql}", by_way or "store the value in that type once")
    return found


def _number(v: Value, to: Type) -> Value | None:
    target = spark_type(to)
    if to.is_boolean:
        return value(f"({v.text} <> {'CAST(0 AS DOUBLE)' if v.type.is_float else '0'})", BOOLEAN)
    if v.type.is_boolean:
        return value(f"CAST({v.text} AS {target})", to, 0, 1) if to.is_numeric else None
    if v.type.is_float:
        if to.is_integer:
            return _rounded(v, to)
        return Value(f"CAST({v.text} AS DOUBLE)", DOUBLE) if (v.type, to) == (FLOAT, DOUBLE) else None
    if to.is_float:
        return _to_float(v, to)
    if v.type.is_decimal and to.is_integer:
        top = decimal(min(38, (v.type.width or 0) - (v.type.scale or 0) + 1), 0)
        return _fitted(Value(f"CAST({v.text} AS {spark_type(top)})", top), to)
    return _fitted(v, to)


def _fitted(v: Value, to: Type) -> Value:
    """An exact number in another exact type: decimals are rounded there, half away from 0, by both engines."""
    limits = to.limits
    if to.is_integer and v.low is not None and v.high is not None and limits is not None:
        if to == HUGEINT and v.type.is_integer and v.low >= -(2**53) and v.high < 2**63:
            return v  # arithmetic widens it where it must; below, a DOUBLE of it is another
        if limits[0] <= v.low and v.high <= limits[1] and (v.is_there or width(v.type) <= width(to)):
            return in_type(v, to)
        v = replace(v, low=max(v.low, int(limits[0])), high=min(v.high, int(limits[1])))
    text = f"TRY_CAST({v.text} AS {spark_type(to)})"
    if to.is_unsigned:
        text = f"NULLIF(GREATEST({text}, -1), -1)"
        top = {"UTINYINT": 2**8, "USMALLINT": 2**16, "UINTEGER": 2**32, "UBIGINT": 2**64}[to.name] - 1
        text = f"CASE WHEN {text} <= {top} THEN {text} END"
    if to == HUGEINT and v.size is None:
        raise lacks(f"a cast from {v.type.sql} to HUGEINT")
    return value(text, to, v.low, v.high, v.each) if to.is_integer else Value(text, to)


def _to_float(v: Value, to: Type) -> Value:
    """An exact number as a float, by the ways that DuckDB goes: these decide about the last digit."""
    target = spark_type(to)
    if v.type.is_decimal:
        return _decimal_to_float(v, to)
    if v.type == HUGEINT and (v.size is None or v.size > 2**53):
        if to == FLOAT:
            raise lacks("a cast from HUGEINT to FLOAT", "cast it to DOUBLE")
        return Value(_huge_to_double(v.text), DOUBLE, *_as_float(v, to))
    # By way of DECIMAL: Spark takes integers to FLOAT for lossless, and leaves that out where DOUBLE follows.
    text = f"CAST({v.text} AS DECIMAL(20,0))" if to == FLOAT and width(v.type) <= width(BIGINT) else v.text
    return Value(f"CAST({text} AS {target})", to, *_as_float(v, to))


def _huge_to_double(x: str) -> str:
    """The lower 64 bits and the upper ones, each rounded to a double by itself; below 0 down to -2^64 all at once."""
    top = f"CAST('{2**64}' AS DECIMAL(20,0))"
    upper, lower, unit = f"({x} div {top})", f"({x} % {top})", double(2.0**64).text
    down = f"(- CAST((CAST(-1 AS DECIMAL(38,0)) - {x}) AS DOUBLE) - {double(1.0).text})"
    up = f"(CAST({lower} AS DOUBLE) + CAST({upper} AS DOUBLE) * {unit})"
    beyond = f"(CAST(({lower} + {top}) AS DOUBLE) + CAST(({upper} - 1) AS DOUBLE) * {unit})"
    whole = f"{x} >= 0 OR ({x} < - {top} AND {lower} = 0)"
    return f"CASE WHEN {whole} THEN {up} WHEN {x} >= - {top} THEN {down} WHEN {x} < 0 THEN {beyond} END"


def _decimal_to_float(v: Value, to: Type) -> Value:
    """The nearest; of 16 to 18 digits, the whole part and the fraction by itself; of whole numbers, as of HUGEINT."""
    digits, scale = v.type.width or 0, v.type.scale or 0
    if to == FLOAT and digits > 7:
        raise lacks(f"a cast from {v.type.sql} to {to.sql}", "store the value as DOUBLE, or in fewer digits")
    near = f"CAST({v.text} AS {spark_type(to)})"
    if digits > 18 and scale == 0:
        return Value(_huge_to_double(f"CAST({v.text} AS DECIMAL(38,0))"), to)
    if digits <= 15 or digits > 18 or scale == 0:
        return Value(near, to)
    few = f"CAST('{2**53}E-{scale}' AS DECIMAL(38,{scale}))"
    fraction = f"({v.text} % CAST(1 AS DECIMAL(1,0)))"
    after = f"CAST(CAST(({fraction} * CAST('1E{scale}' AS DECIMAL({scale + 1},0))) AS DECIMAL(18,0)) AS DOUBLE)"
    whole = f"CAST(CAST(({v.text} - {fraction}) AS DECIMAL(18,0)) AS DOUBLE)"
    parts = f"({whole} + {after} / {double(10.0**scale).text})"
    return Value(f"CASE WHEN {v.text} BETWEEN - {few} AND {few} THEN {near} ELSE {parts} END", to)


def _as_float(v: Value, to: Type) -> tuple[int | None, int | None]:
    """Bounds of an integer as a float: the nearest ones of the bounds, which may be beyond them."""
    if v.low is None or v.high is None:
        return None, None
    low, high = (float(end) if to == DOUBLE else unpack("<f", pack("<f", end))[0] for end in (v.low, v.high))
    return int(low), int(high)


def _rounded(v: Value, to: Type) -> Value:
    """A float as the nearest integer, a half to the even side; NULL for NaN, infinities and what is too large."""
    if to == HUGEINT and v.size is not None and v.size < 2**53:
        return replace(_rounded(v, BIGINT), type=BIGINT)
    if to == HUGEINT or to.is_unsigned:
        raise lacks(f"a cast from {v.type.sql} to {to.sql}", "cast it to BIGINT")
    limits = to.limits
    assert limits is not None
    low, high = int(limits[0]), int(limits[1]) + 1
    whole = f"RINT(CAST({v.text} AS DOUBLE))"
    inside = f"{whole} >= {double(float(low)).text} AND {whole} < {double(float(high)).text}"  # NaN is above all
    return value(f"CASE WHEN {inside} THEN CAST({whole} AS {spark_type(to)}) END", to, v.low, v.high)


_WORDS = {"TRUE": ("true", "t", "yes", "y", "1"), "FALSE": ("false", "f", "no", "n", "0")}
_BLANKS = "' \\t\\n\\u000b\\u000c\\r'"  # before and behind a number
_NUMBER = r"r'\A[+-]?(?:[0-9][0-9_]*)?(?:\.[0-9_]*)?(?:[eE][+-]?[0-9][0-9_]*)?\z'"  # no group is repeated
_FIRST, _LOOSE = r"r'\A[+-]?\.?[0-9]'", r"r'__|_\z|_[.eE]|\._'"  # a digit; a _ that isn't between two
_NAN, _INFINITE = r"r'\A-?nan(?:\([a-z0-9_]*\))?\z'", r"r'\A-?inf(?:inity)?\z'"


def _read(x: str, to: Type) -> Value | None:
    """A text as a BOOLEAN or a DOUBLE, by DuckDB's own grammar of them: it is tested before Spark reads it.

    None: other types. Digits of an integer would be read in a time that grows with their square.
    """
    if to == BOOLEAN:
        tests = (f"WHEN LOWER({x}) IN ({', '.join(map(repr, words))}) THEN {said}" for said, words in _WORDS.items())
        return value(f"CASE {' '.join(tests)} END", BOOLEAN)
    if to != DOUBLE:
        return None
    trimmed = f"TRIM(BOTH {_BLANKS} FROM {x})"
    bare = f"CASE WHEN STARTSWITH({trimmed}, '+') THEN SUBSTRING({trimmed}, 2) ELSE {trimmed} END"  # one + may lead
    signed = f"NOT STARTSWITH({bare}, '+') AND {bare} RLIKE {_NUMBER} AND {bare} RLIKE {_FIRST}"
    number = f"WHEN {signed} AND NOT {bare} RLIKE {_LOOSE} THEN TRY_CAST(REPLACE({bare}, '_', '') AS DOUBLE)"
    nan = f"WHEN LOWER({bare}) RLIKE {_NAN} THEN {double(float('nan')).text}"
    ends = [double(float(sign + "inf")).text for sign in ("-", "")]
    least = f"CASE WHEN STARTSWITH({bare}, '-') THEN {ends[0]} ELSE {ends[1]} END"
    return Value(f"CASE {number} {nan} WHEN LOWER({bare}) RLIKE {_INFINITE} THEN {least} END", DOUBLE)


def _to_text(v: Value) -> Value | None:
    kind = v.type
    if kind.is_decimal and kind.width == kind.scale:  # DuckDB writes .5, Spark 0.5
        raise lacks(f"the text of a {kind.sql}", "cast it to a DECIMAL with a digit before the point")
    if kind.is_integer or kind.is_boolean or kind.is_decimal:
        return Value(f"CAST({v.text} AS STRING)", VARCHAR)
    if (kind.is_date or kind.is_timestamp) and v.low is None:
        raise lacks(f"the text of a {kind.sql} that may be after the year 9999", "write YEAR(…), or cast it to DATE")
    if kind.is_date or kind.name == "TIMESTAMP":
        return Value(f"CAST({v.text} AS STRING)", VARCHAR)
    if kind.has_zone:
        return Value(f"CONCAT(CAST({v.text} AS STRING), '+00')", VARCHAR)
    return None
