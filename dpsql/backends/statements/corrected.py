"""By way of listed units: all rows at their full weight, and what those units lose of theirs -> sqlglot trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.backends.statements.bounding import Form, heavy_units, weight_rows, weighted_units, whole_weight
from dpsql.backends.statements.pieces import alias, column, equal, every, grouped, joined, select, subquery
from dpsql.backends.statements.rows import ROWS_READ, TOGETHER, gridded_rows
from dpsql.backends.statements.tallies import WEIGHT, row_tally, weighted_tally
from dpsql.plan.nodes import Again, Corrected, ToGrid, Weight, WeightRows, WeightUnits
from dpsql.quote.candidates import UNIT
from dpsql.sql.gridded import cast, number
from dpsql.statistics.base import Tally

Tallies = Sequence[tuple[str, Tally]]


def corrected(node: Corrected, keys: tuple[str, ...], tallies: Tallies) -> exp.Union:
    """Theorem INDEX-1. Tallies by key in parts, to be added up: of all rows, and what listed units lose of theirs."""
    bits = _bits(node.weights)
    parts = [_in_full(rows, keys, some, tallies, bits) for rows, some in _apart(node.rows, keys, tallies)]
    taken = select([exp.Star()], subquery(_lost(node, keys, tallies), "z"))
    return exp.union(*parts, taken, distinct=False, copy=False)


def _in_full(rows: ToGrid, keys: tuple[str, ...], some: Tallies, tallies: Tallies, bits: int) -> exp.Select:
    """Some of the tallies of all rows, at their full weight; 0 for the others."""
    asked = {name for name, _ in some}
    zero = cast(number(0), "HUGEINT")

    def made(name: str, tally: Tally) -> exp.Expr:
        if name not in asked:
            return zero.copy()
        return exp.Mul(this=cast(row_tally(name, tally), "HUGEINT"), expression=whole_weight(bits))

    outputs = [*map(column, keys), *(alias(made(name, tally), name) for name, tally in tallies)]
    return grouped(select(outputs, subquery(gridded_rows(rows), "a")), [column(k) for k in keys])


def _apart(rows: ToGrid, keys: tuple[str, ...], tallies: Tallies) -> list[tuple[ToGrid, Tallies]]:
    """The tallies divided by the values that they look at, with rows that have no other values."""
    if len(rows.values) <= TOGETHER or rows.together:
        return [(rows, tallies)]
    place = {name: i // TOGETHER for i, (name, *_) in enumerate(rows.values)}
    parts: dict[int, list[tuple[str, Tally]]] = {}
    for name, tally in tallies:
        parts.setdefault(place.get(tally.value or "", 0), []).append((name, tally))
    return [(_without_others(rows, keys, some), some) for some in parts.values()]


def _without_others(rows: ToGrid, keys: tuple[str, ...], some: Tallies) -> ToGrid:
    """Rows with what these tallies look at, and nothing else."""
    seen = {*keys, *(name for _, tally in some for name in (tally.value, tally.where))}
    values = tuple(one for one in rows.values if one[0] in seen)
    seen |= {source for _, source, _ in values}
    columns = tuple(one for one in rows.input.columns if one[0] in seen)
    return replace(rows, input=replace(rows.input, columns=columns), values=values)


def _lost(node: Corrected, keys: tuple[str, ...], tallies: Tallies) -> exp.Select:
    """What listed units lose. Their rows are read once: their number and their values are those of the same rows."""
    weights = node.weights
    less = exp.Paren(this=exp.Sub(this=column(WEIGHT), expression=whole_weight(_bits(weights))))
    if isinstance(weights, WeightUnits):
        return weighted_units(weights, by=less)
    if isinstance(weights, WeightRows):  # by keys among which there are others than those of the weights
        seen = dict.fromkeys(name for name in (*keys, *(n for _, t in tallies for n in (t.value, t.where))) if name)
        changed = [*map(column, seen), alias(less, WEIGHT)]
        return _summed(select(changed, subquery(weight_rows(weights, Form.JOINS), "n")), keys, tallies)
    # A unit within the limit keeps the full weight, and loses nothing.
    above, weight = heavy_units(weights)
    change = alias(exp.Sub(this=weight, expression=whole_weight(weights.bits)), WEIGHT)
    units = grouped(select([column(UNIT), change], subquery(gridded_rows(Again()), "c")), [column(UNIT)], above)
    rows = select([every("r"), column(WEIGHT, "h")], subquery(gridded_rows(Again()), "r"))
    joined(rows, subquery(units, "h"), equal(UNIT, "r", "h"))
    query = _summed(rows, keys, tallies)
    return query.with_(ROWS_READ, as_=gridded_rows(weights.input), materialized=True, copy=False)


def _summed(rows: exp.Select, keys: tuple[str, ...], tallies: Tallies) -> exp.Select:
    """Tallies by key of rows that have weights."""
    outputs = [*map(column, keys), *(alias(weighted_tally(name, tally), name) for name, tally in tallies)]
    return grouped(select(outputs, subquery(rows, "l")), [column(k) for k in keys])


def _bits(weights: Weight | WeightUnits | WeightRows) -> int:
    """Of a whole weight."""
    if not isinstance(weights, WeightRows):
        return weights.bits
    assert isinstance(weights.units, WeightUnits)
    return weights.units.bits
