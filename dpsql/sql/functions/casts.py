"""Casts that can't fail, and one type for several values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.core.ranges import Range
from dpsql.core.types import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    MAX_DIGITS,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Type,
    decimal,
    integer_for,
    whole_digits,
)
from dpsql.sql.functions.base import Scalar, cast_node, ends, fraction, mismatch
from dpsql.sql.functions.constants import literal_as
from dpsql.sql.refuse import shown

_LONGEST_WRITTEN = 64  # characters of a number, a truth value or a moment as text


def never_fails(s: Scalar, to: Type) -> bool:
    """Whether CAST(s AS to) succeeds on every value that s can have."""
    source = s.type
    if source == to or to.is_text or s.is_null:
        return True
    if source.is_boolean:
        return to.is_numeric and (not to.is_decimal or to.holds(Fraction(0), Fraction(1)))
    if source.is_numeric and to.is_boolean:
        return True
    if source.is_integer or source.is_decimal:
        if to.is_float:
            return True
        if to.is_integer or to.is_decimal:
            rounded = s.hard.rounded(to.scale or 0)
            return to.holds(fraction(rounded.low), fraction(rounded.high))
        return False
    return source == FLOAT and to == DOUBLE


def convert(s: Scalar, to: Type) -> Scalar:
    """s as another type, NULL where it has no place there; range and extent follow."""
    if s.type == to:
        return s
    total = never_fails(s, to)
    nullable = s.nullable or not total
    moved = _convert_range(s.range, s.type, to).with_nullable(nullable)
    hard = _convert_range(s.hard, s.type, to) if to.limits and s.type.limits else None
    if hard is not None and to.limits and not total:
        hard = Range(*to.limits).intersect(hard)
    written = s.type.is_numeric or s.type.is_boolean or s.type.is_date or s.type.is_timestamp
    longest = _LONGEST_WRITTEN if to.is_text and written else None
    return Scalar(cast_node(s.sql, to, total), to, moved, hard, longest)


def _convert_range(r: Range, source: Type, to: Type) -> Range:
    number_like = source.is_numeric or source.is_boolean
    if to.is_boolean:
        return Range(Fraction(0), Fraction(1), r.nullable, r.why)
    if number_like and (to.is_integer or to.is_decimal):
        return r if source.is_integer or source.is_boolean else r.rounded(to.scale or 0)
    if number_like and to.is_float:
        return r
    if source.is_date and to.is_timestamp:
        return r.monotone(lambda v: datetime(v.year, v.month, v.day) if isinstance(v, date) else None)
    if source.is_timestamp and to.is_date:
        return r.monotone(lambda v: v.date() if isinstance(v, datetime) else None)
    if source.is_timestamp and to.is_timestamp:
        second = to.name == "TIMESTAMP_S"
        return r.monotone(
            lambda v: v,
            lambda v: v + timedelta(seconds=1) if second and isinstance(v, datetime) and v.year < 9999 else v,
        )
    return Range(nullable=r.nullable)


def as_text(s: Scalar, node: exp.Expr) -> Scalar:
    """A VARCHAR (an ENUM is read as one); other types are refused."""
    if s.type == VARCHAR:
        return s
    if s.type.name == "ENUM" or s.is_null:
        return convert(s, VARCHAR)
    way = f"write CAST({shown(node)} AS VARCHAR)" if s.type.is_written else f"only IS NULL and COUNT work on {s.type}"
    raise mismatch(node, f"{shown(node)} is {s.type}, not text", way)


def as_number(s: Scalar, node: exp.Expr) -> Scalar:
    if s.type.is_numeric:
        return s
    if s.is_null:
        return convert(s, INTEGER)
    raise mismatch(node, f"{shown(node)} is {s.type}, not a number", as_number_hint(s.type, shown(node)))


def as_number_hint(source: Type, text: str) -> str:
    """What makes a number of a value that isn't one."""
    if source.is_boolean:
        return f"write CAST({text} AS INTEGER)"
    if source.is_text:
        return f"write TRY_CAST({text} AS DOUBLE)"
    if source.is_date or source.is_timestamp:
        return number_of_date(text)
    written = f", COUNT and CAST({text} AS VARCHAR)" if source.is_written else " and COUNT"
    return f"only IS NULL{written} work on {source}"


def number_of_date(text: str) -> str:
    return f"dates give numbers through YEAR({text}) or DATE_DIFF('day', DATE '2000-01-01', {text})"


def as_double(s: Scalar, node: exp.Expr) -> Scalar:
    return convert(as_number(s, node), DOUBLE)


def as_boolean(s: Scalar, node: exp.Expr) -> Scalar:
    if s.type.is_boolean:
        return s
    if s.is_null or s.type.is_numeric:
        return convert(s, BOOLEAN)
    if s.text is not None:
        return literal_as(s, BOOLEAN, node)
    raise mismatch(
        node,
        f"{shown(node)} is {s.type}, not a condition",
        f"compare it: {shown(node)} = 'yes', or {shown(node)} IS NOT NULL",
    )


def align(scalars: Sequence[Scalar], nodes: Sequence[exp.Expr]) -> list[Scalar]:
    """All of them as the type in which DuckDB would compare or combine them."""
    firm = [(s, n) for s, n in zip(scalars, nodes, strict=True) if not s.is_null and s.text is None]
    if not firm:
        to = NULL if all(s.is_null for s in scalars) else VARCHAR
        return [s if s.is_null == to.is_null else convert(s, to) for s in scalars]
    to = firm[0][0].type
    extent = firm[0][0].hard
    for s, node in firm[1:]:
        extent = extent.hull(s.hard) if extent.is_finite and to.limits else Range()
        to = _common(extent, to, s, node, firm[0][1])
    if to.name == "ENUM":
        to = VARCHAR
    _comparable(to, firm[0][1])
    return [
        literal_as(s, to, n) if s.text is not None and not to.is_text else convert(s, to)
        for s, n in zip(scalars, nodes, strict=True)
    ]


def _comparable(to: Type, node: exp.Expr) -> None:
    known = to.is_numeric or to.is_boolean or to.is_text or to.is_date or to.is_timestamp
    if not known and to.name not in ("TIME", "UUID"):
        raise mismatch(
            node, f"{shown(node)} is {to}, which can't be used in an expression", "IS NULL works on every type"
        )


def _common(extent: Range, to: Type, s: Scalar, node: exp.Expr, first: exp.Expr) -> Type:
    if to == s.type:
        return to
    if to.is_text and s.type.is_text:
        return VARCHAR
    a, b = (INTEGER if t.is_boolean else t for t in (to, s.type))
    if a.is_numeric and b.is_numeric:
        if a.is_float or b.is_float:
            return DOUBLE if DOUBLE in (a, b) else FLOAT
        return _exact(extent, a, b)
    if (a.is_date or a.is_timestamp) and (b.is_date or b.is_timestamp):
        return TIMESTAMPTZ if a.has_zone or b.has_zone else TIMESTAMP
    raise mismatch(
        node,
        f"{shown(first)} is {to} and {shown(node)} is {s.type}: they can't be compared or combined",
        _meeting(to, s.type, shown(first), shown(node)),
    )


def _meeting(a: Type, b: Type, first: str, second: str) -> str:
    """How values of two types can be compared."""
    if a.is_text or b.is_text:
        return f"cast the text: TRY_CAST({first if a.is_text else second} AS {b if a.is_text else a})"
    for kind, text in ((a, first), (b, second)):
        if kind.is_date or kind.is_timestamp:
            return f"compare dates with dates: {text} >= DATE '2024-01-31'; or take a number of it: YEAR({text})"
    return "compare and combine values of one kind: numbers, texts, dates or booleans"


def _exact(extent: Range, a: Type, b: Type) -> Type:
    """The exact type of integers and decimals that holds this extent; DOUBLE if there is none."""
    low, high = ends(extent)
    for t in (a, b):
        if not (a.is_decimal or b.is_decimal) and t.holds(low, high):
            return t
    if not (a.is_decimal or b.is_decimal):
        return integer_for(low, high) or DOUBLE
    scale = max(a.scale or 0, b.scale or 0)
    digits = whole_digits(low, high)
    own = max((t.width or 0) - (t.scale or 0) for t in (a, b) if t.is_decimal)
    width = scale + max(MAX_DIGITS if digits is None else digits, own)
    return decimal(max(width, 1), scale) if width <= MAX_DIGITS else DOUBLE


def merged(sql: exp.Expr, to: Type, ranges: Range, parts: Sequence[Scalar]) -> Scalar:
    """A choice among parts of one type: the extent is the hull of theirs."""
    known = [p for p in parts if not p.is_null]
    hard = known[0].hard.hull(*(p.hard for p in known[1:])) if known else None
    return Scalar(sql, to, ranges, hard)
