"""Rows as codes: for each row the places of its values in public lists. What runs is made of our own node alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from dpsql.backends.duckdb.render import relation
from dpsql.backends.duckdb.run import engine_failed
from dpsql.frozen import dataclass
from dpsql.mechanisms.response import Codes
from dpsql.plan.nodes import Encode
from dpsql.sql.gridded import cast

if TYPE_CHECKING:
    import duckdb

    from dpsql.respond import ResponseStep

LISTED = "dpsql_listed"  # + the number of a column: the Arrow table of its public values, with their places
KIND = "UINTEGER"


@dataclass(frozen=True, slots=True, eq=False)
class ExactCodes:
    """For each column the codes of all rows, in the order in which they were read. Only release.py may look."""

    columns: tuple[Codes, ...]


def encode(step: ResponseStep, cursor: duckdb.DuckDBPyConnection) -> ExactCodes:
    """Run a step's statement. Whatever fails, fails with one and the same message (ATTACKS 9)."""
    import duckdb
    import pyarrow as pa

    lists = {
        f"{LISTED}{i}": pa.table({"v": c.values, "p": pa.array(np.arange(len(c.values), dtype=np.uint32))})
        for i, c in enumerate(step.checked.columns)
    }
    try:
        for name, values in lists.items():
            cursor.register(name, values)
        result = cursor.sql(render_codes(step.statement).sql(dialect="duckdb", copy=False)).to_arrow_table()
    except duckdb.Error:
        raise engine_failed() from None
    finally:
        for name in lists:
            cursor.unregister(name)
    return ExactCodes(tuple(_codes(result.column(name)) for name, _, _ in step.statement.columns))


def render_codes(statement: Encode) -> exp.Select:
    """A row of codes for each row of the table: 0 for a value that is not listed, and for NULL (Theorem RR-1)."""
    query = exp.Select()
    outputs: list[exp.Expr] = []
    joins = []
    for i, (name, column, kind) in enumerate(statement.columns):
        value = _column(column, "s")
        if kind is None:
            one = exp.If(this=value, true=exp.Literal.number(1))
            code: exp.Expr = exp.Case(ifs=[one], default=exp.Literal.number(0))
        else:
            # Grouped by the very equality that the join uses: no row of the table can match twice.
            listed = exp.select(
                exp.alias_(cast(_column("v"), kind), "v", quoted=True),
                exp.alias_(exp.Min(this=_column("p")), "p", quoted=True),
            )
            listed = listed.from_(f"{LISTED}{i}", copy=False).group_by(cast(_column("v"), kind), copy=False)
            equal = exp.EQ(this=cast(value, kind), expression=_column("v", f"l{i}"))
            joins.append((_subquery(listed, f"l{i}"), equal))
            code = exp.func("coalesce", _column("p", f"l{i}"), exp.Literal.number(0))
        outputs.append(exp.alias_(cast(code, KIND), name, quoted=True))
    query.set("expressions", outputs)
    query = query.from_(_subquery(relation(statement.input), "s"), copy=False)
    for side, equal in joins:
        query = query.join(side, on=equal, join_type="LEFT", copy=False)
    return query


def _codes(column: Any) -> Codes:
    """An Arrow column of codes without NULLs."""
    parts = [np.frombuffer(c.buffers()[1], dtype=np.uint32)[c.offset :][: len(c)] for c in column.chunks if len(c)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _subquery(query: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias)))
