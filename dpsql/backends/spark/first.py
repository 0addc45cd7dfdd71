"""FIRST and LAST by an order in Spark's words; ARG_MAX and ARG_MIN are written by way of these.

Spark's own FIRST has no order. MIN_BY takes the value beside the least of something: here of a struct, which Spark
compares part by part, made so that its order is the one that is written. Rows that tie have equal values: the analysis
has put the value itself at the end of the order (Theorem OWN-6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.backends.spark.values import Value, lacks, spark_type
from dpsql.core.types import Type


def first_or_last(
    call: exp.First | exp.Last, where: str | None, write: Callable[[exp.Expr], Value], over: Callable[[str], str]
) -> Value:
    """The value of the first or the last row in an order, NULL or not; rows outside of the filter are passed over."""
    # Without an order the value is a constant, which every row has (`analyze/per_unit.py`).
    inner, order = (call.this.this, call.this.expressions) if isinstance(call.this, exp.Order) else (call.this, [])
    x = write(inner)
    if x.type.name == "FLOAT":  # of which DuckDB's FIRST makes 0.0 where it is -0.0
        raise lacks("FIRST, LAST, ARG_MAX or ARG_MIN of a FLOAT", "take it as a DOUBLE: CAST(x AS DOUBLE)")
    parts = [part for one in order for part in _placed(one, write(one.this))]
    place = f"STRUCT({', '.join(parts)})" if parts else "1"
    if where is not None:
        place = f"CASE WHEN {where} THEN {place} END"  # a place that is NULL is nobody's
    name = "MIN_BY" if isinstance(call, exp.First) else "MAX_BY"
    return Value(over(f"{name}({x.text}, {place})"), x.type, x.low, x.high)


def _placed(ordered: exp.Expr, key: Value) -> Sequence[str]:
    """Parts whose ascending order is the order by this key: where NULLs go, where NaN goes, and the value."""
    text = key.text
    first = isinstance(ordered, exp.Ordered) and ordered.args.get("nulls_first")
    nulls = f"({text} IS {'NOT ' if first else ''}NULL)"
    if not ordered.args.get("desc"):
        return nulls, text  # NaN is above all numbers, and 0.0 equals -0.0, as in DuckDB
    return (nulls, *_reversed(text, key.type))


def _reversed(text: str, kind: Type) -> Sequence[str]:
    """Parts whose ascending order is the descending order of a value."""
    if kind.is_boolean:
        return (f"(NOT {text})",)
    if kind.is_float:
        return f"(NOT ISNAN({text}))", f"(-{text})"
    if kind.is_integer and not spark_type(kind).startswith("DECIMAL"):
        return (f"(~ CAST({text} AS BIGINT))",)  # -x - 1, which no value overflows
    if kind.is_date:
        return (f"(~ UNIX_DATE({text}))",)
    if kind.is_text:
        # Bytes as digits, each turned over; what is the beginning of another text comes after it, by its last letter.
        return (f"CONCAT(TRANSLATE(HEX(ENCODE({text}, 'UTF-8')), '0123456789ABCDEF', 'FEDCBA9876543210'), 'G')",)
    if kind.is_timestamp:
        return (f"(~ UNIX_MICROS(CAST({text} AS TIMESTAMP)))",)
    if (kind.is_decimal and (kind.width or 38) < 38) or kind.is_null:
        return (f"(0 - {text})",)  # one digit more, and exact
    raise lacks(f"a descending order of {kind.sql} within a unit", "order by a narrower type")
