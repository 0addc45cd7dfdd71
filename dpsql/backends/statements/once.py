"""Which units have which values, by windows: Matching -> a sqlglot tree that names the rows once, and its result.

It says what distinct.py's statement says, for engines that would compute anew whatever is named twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.backends.statements.bounding import Form, by_unit, keyed_hash
from dpsql.backends.statements.distinct import counted
from dpsql.backends.statements.render import rows_in_cells
from dpsql.backends.statements.results import integers
from dpsql.backends.statements.rows import CELL
from dpsql.plan.nodes import Matching
from dpsql.quote.candidates import UNIT
from dpsql.sql.dialect import DIALECT
from dpsql.statistics.base import Integers
from dpsql.statistics.distinct import Numbers

COUNTED = "n"


def render_once(node: Matching, form: Form) -> exp.Select:
    """How many values n count in any case, by cell, where u is NULL; else which unit u has the value v, and may take c.

    Theorems DISTINCT-1 and FORM-1. Of values that a light unit has it is only asked whether there is one, so that they
    are gathered before anything else is moved.
    """
    assert node.tally.value is not None
    outputs = {UNIT: UNIT, "x": node.tally.value, **{key: key for key in node.keys}}
    rows = rows_in_cells(node.input, node.keys, node.types, outputs, node.tally.where, form)
    edges = exp.select("*").distinct().from_((by_unit(rows) if form is Form.WINDOWS else rows).subquery("r"))
    own = exp.select(CELL, "x", f"CASE WHEN c < m THEN {UNIT} END AS u", "CASE WHEN c < m THEN c ELSE 0 END AS c")
    gathered = exp.select("*").distinct().from_(own.from_(_capacities(node, edges).subquery("e")).subquery("o"))
    lights = exp.select("*", f"COUNT(CASE WHEN u IS NULL THEN 1 END) OVER (PARTITION BY {CELL}, x) AS l")
    asked = exp.select(CELL, "u", "CASE WHEN NOT u IS NULL THEN x END AS v", "c")
    asked = asked.from_(lights.from_(gathered.subquery("g")).subquery("w")).where("u IS NULL OR l = 0")
    columns = (CELL, "u", "v", "c")
    return exp.select(*columns, f"COUNT(*) AS {COUNTED}").from_(asked.subquery("a")).group_by(*columns)


def _capacities(node: Matching, edges: exp.Select) -> exp.Select:
    """Who has which value, beside how many m the unit has in that cell and how many c of them it may take there.

    r numbers a unit's values in a cell: so the first r speak for the cell where cells are added up.
    """
    number = f"ROW_NUMBER() OVER (PARTITION BY {UNIT}, {CELL} ORDER BY x) AS r"
    owned = exp.select("*", f"COUNT(*) OVER (PARTITION BY {UNIT}, {CELL}) AS m", number).from_(edges.subquery("e"))
    peaked = "m" if node.peak is None else f"LEAST(m, {node.peak})"
    if node.mass is None or not node.keys:
        c = peaked if node.mass is None else f"LEAST({peaked}, {node.mass})"
        return exp.select("*", f"{c} AS c").from_(owned.subquery("p"))
    mass = node.mass
    within = "1" if node.peak is None else f"CASE WHEN r <= {node.peak} THEN 1 END"
    order = [keyed_hash(UNIT if node.by_unit else None, node.keys), *map(exp.column, node.keys)]
    turn = exp.Window(
        this=exp.DenseRank(),
        partition_by=[exp.column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=e) for e in order]),
    )
    summed = exp.select("*", f"{peaked} AS p", f"COUNT({within}) OVER (PARTITION BY {UNIT}) AS s")
    summed = summed.select(exp.alias_(turn, "turn")).from_(owned.subquery("p"))
    share = exp.alias_(_parsed(f"CASE WHEN s > {mass} THEN {mass} * p // s ELSE p END"), "q")
    shared = exp.select("*", share).from_(summed.subquery("s"))
    # Each cell once: what its first value says is what all of them say. A share of the mass is never more than that.
    given = f"SUM(CASE WHEN s > {mass} AND r = 1 THEN LEAST(q, {mass}) END) OVER (PARTITION BY {UNIT}) AS given"
    added = exp.select("*", given).from_(shared.subquery("q"))
    more = f"CASE WHEN s > {mass} AND turn <= {mass} - given THEN 1 ELSE 0 END"
    return exp.select("*", f"q + {more} AS c").from_(added.subquery("t"))


def _parsed(text: str) -> exp.Expr:
    return exp.maybe_parse(text, dialect=DIALECT)


def matched_once(result: Any, cells: int) -> Integers:
    """How many values count in each cell, by what the statement found."""
    cell, capacity, number = (np.asarray(integers(result.column(name)), dtype=np.int64) for name in (CELL, "c", "n"))
    unit, value = (_codes(result.column(name)) for name in ("u", "v"))
    certain = unit < 0
    # A unit has capacities of its own in each cell, and a value is another one there.
    unit, value = (np.where(certain, one, one * cells + cell) for one in (unit, value))
    return counted((cell, unit, np.where(certain, number, value), capacity), cells)


def _codes(column: Any) -> Numbers:
    """A number for each different value; −1 for NULL."""
    codes = column.combine_chunks().dictionary_encode()
    codes = codes.combine_chunks() if hasattr(codes, "combine_chunks") else codes
    return np.asarray(codes.indices.fill_null(-1), dtype=np.int64)
