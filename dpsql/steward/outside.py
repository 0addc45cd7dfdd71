"""What rows show besides promises, and is good to know. Trusted: what is found here is not private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from dpsql.core.arrays import to_python
from dpsql.core.errors import PolicyError
from dpsql.core.types import Type
from dpsql.engine import Shared
from dpsql.policy.model import Column, ColumnUnit, Table
from dpsql.refresh.promises import column_node, counts, rows
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.base import call


def outside(engine: Shared, table: Table, types: Mapping[str, Type]) -> Iterator[str]:
    """Rows without a unit, and values outside a range (clipped) or a list of keys (dropped from GROUP BY)."""
    known = {name.lower(): type_ for name, type_ in types.items()}
    said: list[tuple[exp.Expr | None, str]] = []
    if isinstance(table.unit, ColumnUnit):
        nobody = exp.Is(this=column_node(table.unit.column), expression=exp.Null())
        said.append((nobody, f"no {table.unit.column}: they belong to nobody and are left out"))
    for column in table.columns.values():
        name, type_ = column.name, known[column.name.lower()]
        infinite = exp.Not(this=_finite(column)) if type_.is_float else None
        said += [
            (_beyond(column, type_), f"{name} outside its min and max: those values are clipped"),
            (infinite, f"{name} not finite: it counts as NULL"),
            (_unlisted(column, type_), f"{name} not among its values: GROUP BY {name} drops them"),
        ]
    asked = [(condition, text) for condition, text in said if condition is not None]
    found = counts(engine, table, [condition for condition, _ in asked])
    yield from (f"{rows(count)} with {text}" for count, (_, text) in zip(found, asked, strict=True) if count)
    yield from _misread(engine, table)


def _misread(engine: Shared, table: Table) -> Iterator[str]:
    """Records that aren't rows, and fields that don't fit their type: queries pass over both in silence."""
    found = engine.backend.misread(next(one for one in engine.located if one.table is table))
    if found.records:
        yield f"{rows(found.records)} of {table.source} malformed: they are left out"
    for name, count in found.fields:
        if count:
            yield f"{rows(count)} with {name} not of type {table.columns[name.lower()].type}: it counts as NULL"


def _beyond(column: Column, type_: Type) -> exp.Expr | None:
    if not (type_.is_numeric or type_.is_date or type_.is_timestamp):
        return None
    tests: list[exp.Expr] = []
    for bound, compare in ((column.min, exp.LT), (column.max, exp.GT)):
        if bound is not None:
            tests.append(compare(this=column_node(column.name), expression=_literal(bound)))
    if not tests:
        return None
    # NaN sorts above every number, and it counts as NULL, not as a value to clip.
    return exp.and_(_finite(column), exp.or_(*tests)) if type_.is_float else exp.or_(*tests)


def _finite(column: Column) -> exp.Expr:
    return call("isfinite", column_node(column.name))


def _unlisted(column: Column, type_: Type) -> exp.Expr | None:
    if column.values is None:
        return None
    listed = [exp.cast(_literal(v), data_type(_kind(type_))) for v in column.values]
    return exp.Not(this=exp.In(this=column_node(column.name), expressions=listed))


def values_problem(engine: Shared, table: Table, column: Column, type_: Type) -> PolicyError | None:
    """Listed values must fit the column's type, and stay different in it; found without reading a row."""
    path = f"tables.{table.name}.columns.{column.name}.values"
    seen: dict[Any, object] = {}
    for value in column.values or ():
        cast = exp.TryCast(this=_literal(value), to=data_type(_kind(type_)))
        (found,) = to_python(engine.public.table(exp.select(exp.alias_(cast, "k")), {}).column("k"))
        if found is None:
            return PolicyError(f"{path}: {value} is no {type_}", code="values", hint=f"list values of type {type_}")
        if found in seen:
            return PolicyError(
                f"{path}: {seen[found]} and {value} are the same {type_}", code="values", hint="list each value once"
            )
        seen[found] = value
    return None


# ---------------------------------------------------------------- trees


def _kind(type_: Type) -> str:
    return "VARCHAR" if type_.is_text else type_.sql


def _literal(value: object) -> exp.Expr:
    match value:
        case bool():
            return exp.Boolean(this=value)
        case datetime():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case date():
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case str():
            return exp.Literal.string(value)
        case _:
            return exp.Literal.number(str(value))
