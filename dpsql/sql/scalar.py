"""Scalar expressions over private rows: total, typed, with a range (TOTAL-1, RANGE-1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dpsql.core.errors import Error, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.sql.as_sql import as_sql
from dpsql.sql.functions import lookup, refusal
from dpsql.sql.functions.base import Scalar, null
from dpsql.sql.functions.casts import convert
from dpsql.sql.functions.constants import literal, literal_as
from dpsql.sql.functions.post import post
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import nodes

MAX_DEPTH = 100
MAX_SIZE = 20_000


def scalar(expr: exp.Expr, columns: Mapping[str, Scalar]) -> Scalar:
    """The total form of an expression, its type and its range. Refuses what no rule knows."""
    _check_depth(expr)
    try:
        result = _Scope(columns)(expr)
    except ArithmeticError:  # an overflow in interval arithmetic: numbers that no double holds
        raise refuse(
            SQLError, "the numbers here are too large", expr, code="too-large", hint="stay below 1e300"
        ) from None
    _check_size(result.sql, expr)
    return result


@dataclass(frozen=True, slots=True)
class _Scope:
    """The columns in sight, as narrow as the conditions around an expression make them."""

    columns: Mapping[str, Scalar]

    def __call__(self, node: exp.Expr) -> Scalar:
        match node:
            case exp.Paren():
                return self(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return literal(node)
            case exp.Null():
                return null()
        entry = lookup(node)
        if entry is None:
            raise refusal(node)
        return entry.rule(node, self)

    def where(self, condition: exp.Expr) -> _Scope:
        return _Scope(tighten(condition, self.columns))

    def _column(self, node: exp.Column) -> Scalar:
        known = self.columns.get(node.name)
        if known is None or node.table:
            raise refuse(
                SQLError,
                f"unknown column {shown(node)}",
                node,
                code="unknown-column",
                hint=f"columns here: {', '.join(self.columns) or 'none'}",
            )
        if known.type.is_null:  # NULL AS x: there is nothing else that it could be
            return null()
        return replace(known, sql=exp.column(exp.to_identifier(node.name, quoted=True), copy=False))


# Bounds on the tree itself


def _check_depth(expr: exp.Expr) -> None:
    """Refuses a tree that would exhaust the stack; chains of AND and OR are flat."""
    waiting: list[tuple[exp.Expr, int]] = [(expr, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise refuse(
                SQLError,
                f"the expression is nested more than {MAX_DEPTH} levels deep",
                None,
                code="too-deep",
                hint="split it over subqueries, or use IN and BETWEEN",
            )
        for child in node.iter_expressions():
            flat = isinstance(node, exp.Paren) or (isinstance(node, exp.And | exp.Or) and type(child) is type(node))
            waiting.append((child, depth if flat else depth + 1))


def _check_size(sql: exp.Expr, expr: exp.Expr) -> None:
    """Refuses a form whose guards repeat their arguments too often (DuckDB writes NULLIF's first argument twice)."""
    most, inside = MAX_SIZE + 8 * len(nodes(expr)), nodes(sql)
    if len(inside) << sum(isinstance(node, exp.Nullif) for node in inside) <= most:  # however they are nested
        return
    size = 0
    waiting: list[tuple[exp.Expr, int]] = [(sql, 1)]
    while waiting:
        node, times = waiting.pop()
        size += times
        if size > most:
            raise refuse(
                SQLError,
                "the expression is too large",
                expr,
                code="too-large",
                hint="compute parts of it in a subquery",
            )
        twice = isinstance(node, exp.Nullif)
        for child in node.iter_expressions():
            waiting.append((child, times * 2 if twice else times))


# Conditions


_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


def tighten(condition: exp.Expr, columns: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """The columns as they are on rows where the condition is TRUE; what isn't understood narrows nothing.

    Extents stay: they must hold on rows that the engine may look at before it filters.
    """
    narrowed = dict(columns)
    for conjunct in _conjuncts(condition):
        for name, bounds in _facts(conjunct, narrowed):
            known = narrowed[name]
            range_ = known.range.intersect(bounds)
            narrowed[name] = replace(known, range=range_.with_nullable(known.range.nullable and bounds.nullable))
    return narrowed


def excluded(condition: exp.Expr, columns: Mapping[str, Scalar]) -> Iterator[tuple[exp.Expr, str, Range]]:
    """The conjuncts that no value in the range of one of these columns meets: each with the column and its range."""
    narrowed = dict(columns)
    for conjunct in _conjuncts(condition):
        for name, bounds in _facts(conjunct, narrowed):
            known = narrowed[name].range
            if known.excludes(bounds):
                yield conjunct, name, known
            narrowed[name] = replace(narrowed[name], range=known.intersect(bounds))


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    waiting: list[Any] = [condition]
    while waiting:
        node = waiting.pop().unnest()
        if isinstance(node, exp.And):
            waiting.extend((node.expression, node.this))
        else:
            yield node


def _facts(node: exp.Expr, columns: Mapping[str, Scalar]) -> Iterator[tuple[str, Range]]:
    """What one condition says of columns that stand in it by themselves."""
    match node:
        case exp.Column() if node.name in columns and columns[node.name].type.is_boolean:
            yield node.name, Range(Fraction(1), Fraction(1), False, _why(node))
        case exp.Is(this=exp.Column() as column, expression=exp.Boolean() as value) if column.name in columns:
            bit = Fraction(1 if value.this else 0)
            if columns[column.name].type.is_boolean:
                yield column.name, Range(bit, bit, False, _why(node))
        case exp.Not(this=inner):
            inner = inner.unnest()
            if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
                yield from _present(inner.this, columns)
            elif isinstance(inner, exp.Column) and inner.name in columns and columns[inner.name].type.is_boolean:
                yield inner.name, Range(Fraction(0), Fraction(0), False, _why(node))
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.EQ():
            yield from _compared(type(node), node.this, node.expression, columns, node)
            yield from _compared(_FLIPPED[type(node)], node.expression, node.this, columns, node)
        case exp.NEQ():
            yield from _present(node.this, columns)
            yield from _present(node.expression, columns)
        case exp.Between() if not node.args.get("symmetric"):
            yield from _compared(exp.GTE, node.this, node.args["low"], columns, node)
            yield from _compared(exp.LTE, node.this, node.args["high"], columns, node)
        case exp.In() if node.expressions and not node.args.get("query"):
            yield from _listed(node, columns)
        case exp.Like() | exp.ILike():
            yield from _present(node.this, columns)


def _why(condition: exp.Expr) -> tuple[str, ...]:
    """What is said of a bound that a condition gives: written only where it gives one."""
    return (f"WHERE {as_sql(condition)}",)


def _present(node: exp.Expr, columns: Mapping[str, Scalar]) -> Iterator[tuple[str, Range]]:
    inner = node.unnest()
    if isinstance(inner, exp.Column) and inner.name in columns:
        yield inner.name, Range(nullable=False)


def _compared(
    kind: type[exp.Expr],
    left: exp.Expr,
    right: exp.Expr,
    columns: Mapping[str, Scalar],
    written: exp.Expr,
) -> Iterator[tuple[str, Range]]:
    column = left.unnest()
    if not isinstance(column, exp.Column) or column.name not in columns:
        return
    yield column.name, Range(nullable=False)
    constant = comparable_constant(right, columns[column.name])
    if constant is None:
        return
    low = constant.range.low if kind in (exp.GT, exp.GTE, exp.EQ) else None
    high = constant.range.high if kind in (exp.LT, exp.LTE, exp.EQ) else None
    bounds = Range(low, high, False, _why(written))
    if constant.type.is_timestamp and columns[column.name].type.is_date:
        bounds = convert(replace(constant, range=bounds), columns[column.name].type).range.with_nullable(False)
    yield column.name, bounds


def _listed(node: exp.In, columns: Mapping[str, Scalar]) -> Iterator[tuple[str, Range]]:
    column = node.this.unnest()
    if not isinstance(column, exp.Column) or column.name not in columns:
        return
    yield column.name, Range(nullable=False)
    constants = [comparable_constant(e, columns[column.name]) for e in node.expressions]
    if any(c is None for c in constants):
        return
    points = [c.range for c in constants if c is not None and not c.is_null]
    if points:
        yield column.name, points[0].hull(*points[1:]).with_nullable(False).because(*_why(node))


def comparable_constant(node: exp.Expr, column: Scalar) -> Scalar | None:
    """A literal as a value that is comparable with the column; None for everything else."""
    if any(isinstance(n, exp.Column) for n in nodes(node)):
        return None
    kind = column.type
    try:
        value = scalar(node, {})
        if value.is_null:
            return value
        if value.text is not None:
            return literal_as(value, kind, node) if not kind.is_text else None
    except Error:
        return None
    numbers = (kind.is_numeric or kind.is_boolean) and (value.type.is_numeric or value.type.is_boolean)
    moments = (kind.is_date or kind.is_timestamp) and (value.type.is_date or value.type.is_timestamp)
    if not numbers and not moments:
        return None
    if kind.is_timestamp and value.type.is_date:
        return convert(value, kind)
    return value


__all__ = [
    "Scalar",
    "comparable_constant",
    "excluded",
    "post",
    "scalar",
    "tighten",
]
