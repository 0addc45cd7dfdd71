"""Facts: conditions over variables that hold on every row, and what follows from them for values that are listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

from sqlglot import exp

from dpsql.analyze.variables import Variables
from dpsql.core.ranges import Value
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr
from dpsql.plan.rows import conjuncts, plan_column
from dpsql.sql.dialect import data_type
from dpsql.sql.scalar import Scalar, comparable_constant, tighten
from dpsql.sql.trees import rebuilt

_MIRRORED: dict[type[Expr], type[Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def plain(e: Expr) -> Expr:
    """The expression without parentheses, and with one form of DATE_TRUNC: equal ones are then the same."""
    match e:
        case exp.Paren():
            return plain(e.this)
        case exp.TimestampTrunc() | exp.DateTrunc():
            return truncated(e.args["unit"].name, plain(e.this))
        case _:
            return rebuilt(e, plain)


def truncated(unit: str, moment: Expr) -> Expr:
    """DATE_TRUNC(unit, moment)."""
    return exp.TimestampTrunc(this=moment.copy(), unit=exp.Var(this=unit.upper()))


def expanded(facts: Iterable[Expr], variables: Variables) -> tuple[Expr, ...]:
    """The facts one by one; where a mark is TRUE, what holds for the public row that it found."""
    found: dict[Expr, None] = {}
    for fact in (plain(c) for f in facts for c in conjuncts(f)):
        found[fact] = None
        if isinstance(fact, exp.Column) and fact.name in variables.marks:
            found |= dict.fromkeys(plain(c) for f in variables.marks[fact.name] for c in conjuncts(f))
    return tuple(found)


# ---------------------------------------------------------------- ranges


def narrowed(known: Mapping[str, Scalar], facts: Sequence[Expr]) -> Mapping[str, Scalar]:
    """The variables as they are on rows for which the facts hold."""
    for fact in facts:
        known = _strictly(fact, tighten(fact, known))
    return known


def _strictly(fact: Expr, known: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """x < c: the largest x is the value before c."""
    if not isinstance(fact, exp.LT | exp.GT):
        return known
    pairs = ((type(fact), fact.this, fact.expression), (_MIRRORED[type(fact)], fact.expression, fact.this))
    for kind, column, bound in pairs:
        if isinstance(column, exp.Column) and column.name in known:
            value = comparable_constant(bound, known[column.name])
            if value is not None and value.range.low == value.range.high and value.range.low is not None:
                known = {**known, column.name: _before(known[column.name], value.range.low, kind is exp.LT)}
    return known


def _before(known: Scalar, bound: Value, upper: bool) -> Scalar:
    end = known.range.high if upper else known.range.low
    value = _next(bound, known.type, -1 if upper else 1)
    if end != bound or value is None:
        return known
    try:
        narrow = replace(known.range, high=value) if upper else replace(known.range, low=value)
        return replace(known, range=narrow)
    except ValueError:  # nothing is left, which a list will show
        return known


def _next(value: Value, kind: Type, way: int) -> Value | None:
    """The value of a type that comes after this one (way 1) or before it (way -1)."""
    if isinstance(value, Fraction):
        if kind.is_integer:
            return Fraction(math.floor(value) + 1 if way > 0 else math.ceil(value) - 1)
        if kind.is_decimal:
            unit = Fraction(10) ** -(kind.scale or 0)
            return (math.floor(value / unit) + 1 if way > 0 else math.ceil(value / unit) - 1) * unit
        if kind.is_float and abs(value) < 2**1000 and Fraction(float(value)) == value:
            return Fraction(math.nextafter(float(value), way * math.inf))
        return None
    try:
        if kind.is_date and not isinstance(value, datetime):
            return value + way * timedelta(days=1)
        if kind.is_timestamp and kind.name != "TIMESTAMP_NS" and isinstance(value, datetime):
            return value + way * timedelta(microseconds=1)
    except OverflowError:
        return None
    return None


# ---------------------------------------------------------------- equal values


def same_values(
    facts: Iterable[Expr], known: Mapping[str, Scalar], variables: Variables, listed: Callable[[str], bool]
) -> dict[str, Expr]:
    """For variables without public values: the public column that they always equal."""
    equal: dict[str, set[str]] = {}
    for fact in facts:
        if isinstance(fact, exp.EQ) and isinstance(fact.this, exp.Column) and isinstance(fact.expression, exp.Column):
            a, b = fact.this.name, fact.expression.name
            if a != b and same_type(known[a], known[b]):
                group = equal.get(a, {a}) | equal.get(b, {b})
                equal |= dict.fromkeys(group, group)
    found: dict[str, Expr] = {}
    for name, group in equal.items():
        public = sorted((n for n in group if n in variables.beside), key=lambda n: int(n[1:]))
        if public and name not in variables.beside and not listed(name):
            other, kind = plan_column(public[0]), known[name].type
            same = known[public[0]].type == kind
            found[name] = other if same else exp.cast(other, data_type(kind.sql))
    return found


def same_type(a: Scalar, b: Scalar) -> bool:
    """Are equal values of the two the same value, without any cast that merges some?"""
    if a.type.is_float or b.type.is_float:
        return False
    return (a.type.is_integer and b.type.is_integer) or (a.type.is_text and b.type.is_text) or a.type == b.type


# ---------------------------------------------------------------- moments


def over_truncations(facts: Iterable[Expr], parts: Iterable[Expr]) -> Iterator[Expr]:
    """a <= b as it holds for the beginnings of the intervals that a and b are in."""
    units = {p.args["unit"].name for p in parts if isinstance(p, exp.TimestampTrunc)}
    for fact in facts if units else ():
        if isinstance(fact, exp.LT | exp.LTE | exp.GT | exp.GTE):
            kind = exp.LTE if isinstance(fact, exp.LT | exp.LTE) else exp.GTE
            if all(side.find(exp.Column) is not None for side in (fact.this, fact.expression)):
                for unit in sorted(units):
                    yield kind(this=truncated(unit, fact.this), expression=truncated(unit, fact.expression))
