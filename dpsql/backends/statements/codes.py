"""Rows as codes: for each row the places of its values in public lists -> a sqlglot tree, of our own node alone."""

from __future__ import annotations

from sqlglot import exp

from dpsql.backends.statements.pieces import alias, column, grouped, joined, or_zero, select, subquery, table
from dpsql.backends.statements.rows import relation
from dpsql.plan.nodes import Encode
from dpsql.sql.gridded import cast

LISTED = "dpsql_listed"  # + the number of a column: the Arrow table of its public values, with their places
KIND = "UINTEGER"


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
