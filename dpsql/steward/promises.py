"""Verifying the policy's promises against the rows. Trusted: what is found here is not private."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from dpsql.analyze.ownership import key_promise, nullable_promise, rows_promise
from dpsql.core.errors import DataError, EngineError, PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.engine import Shared
from dpsql.plan.build import scan_of
from dpsql.policy.model import Column, ColumnUnit, Table
from dpsql.sql.dialect import data_type
from dpsql.sql.functions.base import call


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, under the name that the ledger records, and whether the rows keep it."""

    promise: str
    holds: bool
    text: str


def verify(engine: Shared, table: Table) -> Iterator[Finding]:
    """Check every promise that the policy makes about a private table."""
    promise = rows_promise(table)
    if table.rows_per_unit is not None and promise is not None:
        yield _rows_per_unit(engine, table, table.rows_per_unit, promise)
    if table.key is not None:
        yield _unique(engine, table, table.key)
    for column in table.columns.values():
        if not column.nullable:
            yield _never_null(engine, table, column)


def _rows_per_unit(engine: Shared, table: Table, limit: int, promise: str) -> Finding:
    # The very scan that queries read: rows that belong to nobody are dropped.
    columns = tuple((name.lower(), name) for name, _ in engine.schema[table.name.lower()])
    scan = scan_of(engine.policy, table, columns)
    assert scan.unit is not None
    unit = scan.owner
    counts = (
        exp.select(exp.alias_(exp.Count(this=exp.Star()), "n"))
        .from_(engine.backend.rows(scan).subquery("owned"))
        .group_by(_column(scan.unit))
    )
    over = exp.Filter(
        this=exp.Count(this=exp.Star()),
        expression=exp.Where(this=exp.GT(this=_column("n"), expression=exp.Literal.number(limit))),
    )
    top, units = _one(engine, exp.select(exp.Max(this=_column("n")), over).from_(counts.subquery("units")))
    text = f"rows_per_unit = {limit}: the most rows of one {unit} are {top or 0:,}"
    return Finding(promise, not units, f"{text}, and {units:,} have more" if units else text)


def _unique(engine: Shared, table: Table, key: tuple[str, ...]) -> Finding:
    # GROUP BY takes NULLs as equal, and so does whatever groups by this key: two NULL keys are one key twice.
    columns = [_column(name) for name in key]
    counts = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(_table(table)).group_by(*columns)
    twice = counts.having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
    (repeated,) = _one(engine, exp.select(exp.Count(this=exp.Star())).from_(twice.subquery("twice")))
    text = f"key = {', '.join(key)}: " + (f"{repeated:,} occurring more than once" if repeated else "unique")
    return Finding(key_promise(table), not repeated, text)


def _never_null(engine: Shared, table: Table, column: Column) -> Finding:
    query = exp.select(exp.Count(this=exp.Star())).from_(_table(table))
    (missing,) = _one(engine, query.where(exp.Is(this=_column(column.name), expression=exp.Null())))
    text = f"{column.name} nullable = false: " + (f"{_rows(missing)} with NULL" if missing else "never NULL")
    return Finding(nullable_promise(table, column.name), not missing, text)


# ---------------------------------------------------------------- what is no promise, and good to know


def outside(engine: Shared, table: Table, types: Mapping[str, Type]) -> Iterator[str]:
    """Rows without a unit, and values outside a range (clipped) or a list of keys (dropped from GROUP BY)."""
    if isinstance(table.unit, ColumnUnit):
        query = exp.select(exp.Count(this=exp.Star())).from_(_table(table))
        (nobody,) = _one(engine, query.where(exp.Is(this=_column(table.unit.column), expression=exp.Null())))
        if nobody:
            yield f"{_rows(nobody)} with no {table.unit.column}: they belong to nobody and are left out"
    known = {name.lower(): type_ for name, type_ in types.items()}
    for column in table.columns.values():
        type_ = known[column.name.lower()]
        count = _count(engine, table, _beyond(column, type_))
        if count:
            yield f"{_rows(count)} with {column.name} outside its min and max: those values are clipped"
        count = _count(engine, table, exp.Not(this=_finite(column)) if type_.is_float else None)
        if count:
            yield f"{_rows(count)} with {column.name} not finite: it counts as NULL"
        count = _count(engine, table, _unlisted(column, type_))
        if count:
            yield f"{_rows(count)} with {column.name} not among its values: GROUP BY {column.name} drops them"
    yield from _misread(engine, table)


def _misread(engine: Shared, table: Table) -> Iterator[str]:
    """Records that aren't rows, and fields that don't fit their type: queries pass over both in silence."""
    found = engine.backend.misread(next(one for one in engine.located if one.table is table))
    if found.records:
        yield f"{_rows(found.records)} of {table.source} malformed: they are left out"
    for name, count in found.fields:
        if count:
            yield f"{_rows(count)} with {name} not of type {table.columns[name.lower()].type}: it counts as NULL"


def _count(engine: Shared, table: Table, condition: exp.Expr | None) -> int:
    if condition is None:
        return 0
    (count,) = _one(engine, exp.select(exp.Count(this=exp.Star())).from_(_table(table)).where(condition))
    return int(count)


def _beyond(column: Column, type_: Type) -> exp.Expr | None:
    if not (type_.is_numeric or type_.is_date or type_.is_timestamp):
        return None
    tests: list[exp.Expr] = []
    for bound, compare in ((column.min, exp.LT), (column.max, exp.GT)):
        if bound is not None:
            tests.append(compare(this=_column(column.name), expression=_literal(bound)))
    if not tests:
        return None
    # NaN sorts above every number, and it counts as NULL, not as a value to clip.
    return exp.and_(_finite(column), exp.or_(*tests)) if type_.is_float else exp.or_(*tests)


def _finite(column: Column) -> exp.Expr:
    return call("isfinite", _column(column.name))


def _unlisted(column: Column, type_: Type) -> exp.Expr | None:
    if column.values is None:
        return None
    listed = [exp.cast(_literal(v), data_type(_kind(type_))) for v in column.values]
    return exp.Not(this=exp.In(this=_column(column.name), expressions=listed))


def values_problem(engine: Shared, table: Table, column: Column, type_: Type) -> PolicyError | None:
    """Listed values must fit the column's type, and stay different in it; found without reading a row."""
    path = f"tables.{table.name}.columns.{column.name}.values"
    seen: dict[Any, object] = {}
    for value in column.values or ():
        cast = exp.TryCast(this=_literal(value), to=data_type(_kind(type_)))
        (found,) = engine.public.table(exp.select(exp.alias_(cast, "k")), {}).column("k").to_pylist()
        if found is None:
            return PolicyError(f"{path}: {value} is no {type_}", code="values", hint=f"list values of type {type_}")
        if found in seen:
            return PolicyError(
                f"{path}: {seen[found]} and {value} are the same {type_}", code="values", hint="list each value once"
            )
        seen[found] = value
    return None


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


# ---------------------------------------------------------------- trees


def _one(engine: Shared, query: exp.Select) -> tuple[Any, ...]:
    try:
        return engine.backend.look(query)
    except EngineError as error:
        # The steward may see the engine's own words.
        raise DataError(
            f"the data can't be read: {error}", code="engine", hint="see the sources of the policy"
        ) from None


def _table(table: Table) -> exp.Table:
    return exp.Table(this=exp.to_identifier(table.name.lower(), quoted=True))


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


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
