"""Rows as codes: for each row the places of its values in public lists. What runs is made of our own node alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from dpsql.backends.duckdb.cursor import Cursor, one_message
from dpsql.backends.duckdb.pieces import alias, column, grouped, joined, or_zero, select, subquery, table
from dpsql.backends.duckdb.render import text_of
from dpsql.backends.duckdb.rows import relation
from dpsql.frozen import dataclass
from dpsql.mechanisms.response import Codes
from dpsql.plan.nodes import Encode
from dpsql.sql.gridded import cast

if TYPE_CHECKING:
    from dpsql.response_steps import ResponseStep

LISTED = "dpsql_listed"  # + the number of a column: the Arrow table of its public values, with their places
KIND = "UINTEGER"


@dataclass(frozen=True, slots=True, eq=False)
class ExactCodes:
    """For each column the codes of all rows, in the order in which they were read. Only release.py may look."""

    columns: tuple[Codes, ...]


def encode(step: ResponseStep, cursor: Cursor) -> ExactCodes:
    """Run a step's statement. Whatever fails, fails with one and the same message (attack 9)."""
    import pyarrow as pa

    lists = {
        f"{LISTED}{i}": pa.table({"v": c.values, "p": pa.array(np.arange(len(c.values), dtype=np.uint32))})
        for i, c in enumerate(step.checked.columns)
    }
    with one_message():
        try:
            for name, values in lists.items():
                cursor.register(name, values)
            result = cursor.arrow(text_of(render_codes(step.statement)))
        finally:
            for name in lists:
                cursor.unregister(name)
    return ExactCodes(tuple(_codes(result.column(name)) for name, _, _ in step.statement.columns))


def render_codes(statement: Encode) -> exp.Select:
    """A row of codes for each row of the table: 0 for a value that is not listed, and for NULL (Theorem RR-1)."""
    outputs: list[exp.Expr] = []
    joins = []
    for i, (name, source, kind) in enumerate(statement.columns):
        value = column(source, "s")
        if kind is None:
            one = exp.If(this=value, true=exp.Literal.number(1))
            code: exp.Expr = exp.Case(ifs=[one], default=exp.Literal.number(0))
        else:
            # Grouped by the very equality that the join uses: no row of the table can match twice.
            places = [alias(cast(column("v"), kind), "v"), alias(exp.Min(this=column("p")), "p")]
            listed = grouped(select(places, table(f"{LISTED}{i}")), [cast(column("v"), kind)])
            equal = exp.EQ(this=cast(value, kind), expression=column("v", f"l{i}"))
            joins.append((subquery(listed, f"l{i}"), equal))
            code = or_zero(column("p", f"l{i}"))
        outputs.append(alias(cast(code, KIND), name))
    query = select(outputs, subquery(relation(statement.input), "s"))
    for side, equal in joins:
        joined(query, side, equal, "LEFT")
    return query


def _codes(found: Any) -> Codes:
    """An Arrow column of codes without NULLs."""
    parts = [np.frombuffer(c.buffers()[1], dtype=np.uint32)[c.offset :][: len(c)] for c in found.chunks if len(c)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)
