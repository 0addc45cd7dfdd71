"""Plan nodes -> statements as trees: exact integers for each cell, or how often each value occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from sqlglot import exp

from dpsql.backends.statements.bounding import Form, units, weight, weight_rows, weights_of_groups
from dpsql.backends.statements.corrected import corrected
from dpsql.backends.statements.pieces import (
    alias,
    column,
    conjunction,
    grouped,
    joined,
    or_zero,
    same,
    select,
    subquery,
    where,
)
from dpsql.backends.statements.ranked import fits, render_ranked
from dpsql.backends.statements.rows import CELL, CELLS, gridded_rows, public_cells
from dpsql.backends.statements.tallies import WEIGHT, row_tally, unit_tally, weighted_tally
from dpsql.plan.nodes import (
    Again,
    CapGroups,
    Corrected,
    Gridded,
    Group,
    Histogram,
    OnCells,
    OnDomain,
    PerUnit,
    SpreadVotes,
    Statement,
    ToGrid,
    Weight,
    WeightRows,
    WeightUnits,
)
from dpsql.sql.gridded import cast, number, present
from dpsql.statistics.base import Tally


def render(statement: Statement, form: Form = Form.JOINS, *, ranks: bool = False) -> exp.Select:
    """The statement that returns exact integers: for each cell, for each key that occurs, or one row without keys.

    ranks: by a sort of the rows where that gives the same integers, for an engine that sorts faster than it groups.
    """
    match statement:
        case Group():
            query = render_ranked(statement) if ranks and fits(statement) else _group(statement, form)
            if form is Form.JOINS:  # elsewhere they are sorted when they have arrived
                return in_order(query, statement.keys)
            return query
        case OnCells():
            return _on_cells(statement, form)
        case _:
            assert_never(statement)


def in_order(query: exp.Select, keys: tuple[str, ...]) -> exp.Select:
    """A query in the order of its keys, if it has any."""
    if keys:
        order = [exp.Ordered(this=column(k), nulls_first=False) for k in keys]
        query.set("order", exp.Order(expressions=order))
    return query


def _on_cells(node: OnCells, form: Form) -> exp.Select:
    group = node.input
    tallies = [alias(or_zero(column(name, "g")), name) for name, _ in group.tallies]
    query = select([column(CELL, CELLS), *tallies], public_cells(group.keys, node.types))
    return joined(query, subquery(_group(group, form), "g"), same(group.keys, CELLS, "g"), "LEFT")


def _group(node: Group, form: Form) -> exp.Select:
    keys = [column(k) for k in node.keys]
    source: exp.Query
    match node.input:
        case ToGrid() | OnDomain() | Again():
            source, tally = gridded_rows(node.input), row_tally
        case Weight() if form is Form.WINDOWS:
            source, tally = units(weights_of_groups(node.input, node.keys, node.tallies), form), unit_tally
        case Weight():
            source, tally = weight(node.input, form), weighted_tally
        case PerUnit() | CapGroups() | SpreadVotes() | WeightUnits():
            source, tally = units(node.input, form), unit_tally
        case Corrected():
            source, tally = corrected(node.input, node.keys, node.tallies), unit_tally
        case _:
            assert_never(node.input)
    outputs = [*keys, *(alias(tally(name, t), name) for name, t in node.tallies)]
    return grouped(select(outputs, subquery(source, "v")), [k.copy() for k in keys])


def render_histogram(node: Histogram, form: Form = Form.JOINS) -> exp.Select:
    """The number of rows (in integer weights) by cell and value."""
    if isinstance(node.input, Corrected):
        return _corrected_histogram(node, node.input)
    weighted = not isinstance(node.input, ToGrid | OnDomain | Again)
    number_of = weighted_tally("", Tally("rows")) if weighted else row_tally("", Tally("rows"))
    outputs = {"x": node.spectrum.value, **({WEIGHT: WEIGHT} if weighted else {})}
    rows = rows_in_cells(node.input, node.keys, node.types, outputs, node.spectrum.where, form)
    return _by_value(rows, number_of, node.keys)


def _corrected_histogram(node: Histogram, input_: Corrected) -> exp.Select:
    """Theorem INDEX-1. All rows by key and value, with what listed units lose; then by cell, each of few values.

    Of rows without a value, and of those that don't pass the FILTER, 0 are counted: they are left out last, because a
    value that is asked of each row before is computed for it twice (FACT-SPEED-5).
    """
    value, present_ = node.spectrum.value, Tally("present", node.spectrum.value, node.spectrum.where)
    counted = corrected(input_, (*node.keys, value), (("n", present_),))
    outputs = [alias(column(value, "v"), "x"), column("n", "v")]
    rows = select([*([column(CELL, CELLS)] if node.keys else []), *outputs], subquery(counted, "v"))
    if node.keys:
        joined(rows, public_cells(node.keys, node.types), same(node.keys, CELLS, "v"))
    query = _by_value(rows, exp.Sum(this=column("n")), node.keys)
    some = exp.NEQ(this=exp.Sum(this=column("n")), expression=number(0))
    query.set("having", exp.Having(this=some))
    return query


def _by_value(rows: exp.Select, number_of: exp.Expr, keys: tuple[str, ...]) -> exp.Select:
    """How many rows there are for each cell and value; without keys there is one cell (FACT-SPEED-5)."""
    cell = column(CELL) if keys else alias(cast(number(0), "BIGINT"), CELL)
    listed = [cell, alias(cast(column("x"), "BIGINT"), "x"), alias(number_of, "n")]
    return grouped(select(listed, subquery(rows, "y")), [*([column(CELL)] if keys else []), column("x")])


def rows_in_cells(
    node: Gridded | Weight | WeightRows,
    keys: tuple[str, ...],
    types: tuple[str, ...],
    outputs: Mapping[str, str],
    filtered: str | None,
    form: Form,
    *,
    absent: bool = False,
) -> exp.Select:
    """The cell of each row where x is present and the filter TRUE, with these columns, by their new names.

    absent: also where x is NULL, for statements that leave it out later, when it is asked of fewer rows.
    """
    match node:
        case ToGrid() | OnDomain() | Again():
            source = gridded_rows(node)
        case Weight() if form is Form.WINDOWS:  # rows are named once (Theorem FORM-1)
            per_unit = PerUnit(Again(), keys, ())
            source = weight_rows(WeightRows(node.input, WeightUnits(per_unit, node.mass, None, node.bits)), form)
        case Weight():
            source = weight(node, form)
        case WeightRows():
            source = weight_rows(node, form)
        case _:
            assert_never(node)
    cell = column(CELL, CELLS) if keys else cast(number(0), "BIGINT")
    listed = [alias(column(source_name, "v"), name) for name, source_name in outputs.items()]
    query = select([alias(cell, CELL), *listed], subquery(source, "v"))
    if keys:
        joined(query, public_cells(keys, types), same(keys, CELLS, "v"))
    conditions = [] if absent else [present(column(outputs["x"], "v"))]
    conditions += [] if filtered is None else [column(filtered, "v")]
    return where(query, conjunction(conditions)) if conditions else query
