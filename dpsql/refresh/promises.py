"""Verifying the policy's promises against the rows. Trusted: what is found here is not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from dpsql.analyze.ownership import key_promise, nullable_promise, rows_promise
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.engine import Shared
from dpsql.plan.build import scan_of
from dpsql.policy.model import Column, Table


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
    yield from _never_null(engine, table, [column for column in table.columns.values() if not column.nullable])


def _rows_per_unit(engine: Shared, table: Table, limit: int, promise: str) -> Finding:
    # The very scan that queries read: rows that belong to nobody are dropped.
    columns = tuple((name.lower(), name) for name, _ in engine.schema[table.name.lower()])
    scan = scan_of(engine.policy, table, columns)
    assert scan.unit is not None
    unit = scan.owner
    owned = (
        exp.select(exp.alias_(exp.Count(this=exp.Star()), "n"))
        .from_(engine.backend.rows(scan).subquery("owned"))
        .group_by(column_node(scan.unit))
    )
    over = exp.Filter(
        this=exp.Count(this=exp.Star()),
        expression=exp.Where(this=exp.GT(this=column_node("n"), expression=exp.Literal.number(limit))),
    )
    top, units = one(engine, exp.select(exp.Max(this=column_node("n")), over).from_(owned.subquery("units")))
    text = f"rows_per_unit = {limit}: the most rows of one {unit} are {top or 0:,}"
    return Finding(promise, not units, f"{text}, and {units:,} have more" if units else text)


def _unique(engine: Shared, table: Table, key: tuple[str, ...]) -> Finding:
    # GROUP BY takes NULLs as equal, and so does whatever groups by this key: two NULL keys are one key twice.
    columns = [column_node(name) for name in key]
    alike = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(table_node(table)).group_by(*columns)
    twice = alike.having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)))
    (repeated,) = one(engine, exp.select(exp.Count(this=exp.Star())).from_(twice.subquery("twice")))
    text = f"key = {', '.join(key)}: " + (f"{repeated:,} occurring more than once" if repeated else "unique")
    return Finding(key_promise(table), not repeated, text)


def _never_null(engine: Shared, table: Table, columns: Sequence[Column]) -> Iterator[Finding]:
    missing = counts(engine, table, [exp.Is(this=column_node(c.name), expression=exp.Null()) for c in columns])
    for column, count in zip(columns, missing, strict=True):
        text = f"{column.name} nullable = false: " + (f"{rows(count)} with NULL" if count else "never NULL")
        yield Finding(nullable_promise(table, column.name), not count, text)


# ---------------------------------------------------------------- words and trees


def rows(count: int) -> str:
    """So many rows, in words."""
    return "1 row" if count == 1 else f"{count:,} rows"


AT_ONCE = 25
"""Columns that one statement looks at: hundreds of them take an engine minutes to plan, one by one to read."""


def counts(engine: Shared, table: Table, conditions: Sequence[exp.Expr]) -> list[int]:
    """For each condition, how many rows of a table meet it."""
    found: list[int] = []
    for start in range(0, len(conditions), AT_ONCE):
        asked = [
            exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=condition))
            for condition in conditions[start : start + AT_ONCE]
        ]
        found += map(int, one(engine, exp.select(*asked).from_(table_node(table))))
    return found


def one(engine: Shared, query: exp.Select) -> tuple[Any, ...]:
    """The one row that a query over private tables gives."""
    try:
        return engine.backend.look(query)
    except EngineError as error:
        # The steward may see the engine's own words.
        raise DataError(
            f"the data can't be read: {error}", code="unreadable", hint="see the sources of the policy"
        ) from None


def table_node(table: Table) -> exp.Table:
    """A table, by its name."""
    return exp.Table(this=exp.to_identifier(table.name.lower(), quoted=True))


def column_node(name: str) -> exp.Column:
    """A column, by its name."""
    return exp.column(exp.to_identifier(name, quoted=True))
