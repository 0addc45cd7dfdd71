"""Running statements: the exact integers of a step. The only errors that leave are constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.backends.base import Counts, Exact
from dpsql.backends.duckdb.cursor import Cursor, one_message
from dpsql.backends.duckdb.dialect import DUCKDB, text_of
from dpsql.backends.duckdb.many_rows import capped, texts_in_parts
from dpsql.backends.listed import ROWS, HeavyUnits, Listed, listed_for, total_name
from dpsql.backends.statements.distinct import render_matching
from dpsql.backends.statements.render import render, render_histogram
from dpsql.backends.statements.results import counts_of, integers, matched_of
from dpsql.backends.statements.rows import CELL, CELLS
from dpsql.core.arrays import column
from dpsql.plan.nodes import Group
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import grouped_units, is_rows, units_table, use_of
from dpsql.quote.refined import LISTED, UNITS, refined, refined_histogram, refined_matching, with_units
from dpsql.quote.table_columns import over_table
from dpsql.statistics.base import Integers

if TYPE_CHECKING:
    from sqlglot import exp

    from dpsql.plan.nodes import Histogram, Matching, Statement
    from dpsql.quote.model import Step

FEW = 1_000  # cells


def execute(
    step: Step,
    cursor: Cursor,
    given: Mapping[str, Any] | None = None,
    heavy: Sequence[HeavyUnits] = (),
    again: Set[str] = frozenset(),
) -> Exact:
    """Run a step's statements. Whatever fails, fails with one and the same message (attack 9).

    given: public values that they take as constants, by the names under which they read them. heavy: indexes; where
    they serve all that a statement needs, it looks at listed units only (Theorems INDEX-1, INDEX-2). again:
    tables that are cheap to read more than once, so that many rows may be measured in parts.
    """
    named = dict(given or {})
    with one_message():
        try:
            for name, values in named.items():
                cursor.register(name, values)
            exact = _tallied(step, heavy, cursor, again) if step.tallies else Exact({})
            cells = exact.cells if step.cells is None else step.cells
            found = {h.spectrum: _counted(h, cells, _listed(h, heavy), cursor) for h in step.histograms}
            matched = {m.tally: _matched(m, cells, _listed(m, heavy), cursor) for m in step.matchings}
            return replace(exact, tallies={**exact.tallies, **matched}, spectra=found)
        finally:
            for name in named:
                cursor.unregister(name)


def statement_text(step: Step) -> str:
    """The text of a step's main statement, written once."""
    return step.texts.get(DUCKDB.name) or step.texts.setdefault(DUCKDB.name, main_text(step))


def main_text(step: Step, *, pretty: bool = False) -> str:
    """The text of a step's main statement."""
    return text_of(main_tree(step), pretty=pretty)


def main_tree(step: Step) -> exp.Query:
    """A step's main statement."""
    return render(step.statement, ranks=True)


def _indexed_text(step: Step, *, complete: bool) -> str:
    """The text of a step's main statement by way of an index, written once."""
    name = f"{DUCKDB.name}, heavy units listed{', all rows owned' if complete else ''}"
    if name not in step.texts:
        step.texts[name] = text_of(render(refined(step.statement, complete=complete)))
    return step.texts[name]


def _listed(statement: Statement | Histogram | Matching, heavy: Sequence[HeavyUnits]) -> Listed | None:
    """The units that a statement must look at; None: all of them."""
    use = use_of(statement) if heavy else None
    return None if use is None else listed_for(use, heavy)


def _counted_before(step: Step, heavy: Sequence[HeavyUnits]) -> HeavyUnits | None:
    """The table of units that a step's rows are made of, where it is known what each of them has."""
    table = units_table(step) if any(one.totals or one.above == 0 for one in heavy) else None
    return None if table is None else next((one for one in heavy if one.holds(table)), None)


def _text_over_units(step: Step, known: HeavyUnits) -> str:
    """The text of a step's main statement over a table of units (Theorem INDEX-5)."""
    grouped = grouped_units(step.statement)
    assert grouped is not None
    read = {name: _place(over_table(column, grouped.input), known) for name, column in grouped.columns}
    return text_of(render(with_units(step.statement, read)))


def _place(column: exp.Expr | None, known: HeavyUnits) -> tuple[str, str]:
    """Where a table of units has an aggregate, and of which of the engine's types that is."""
    assert column is not None
    if is_rows(column):
        return ROWS, "BIGINT"
    place = known.totals.index(column)
    return total_name(place), known.types[place]


def _tallied(step: Step, heavy: Sequence[HeavyUnits], cursor: Cursor, again: Set[str]) -> Exact:
    known = _counted_before(step, heavy)
    if known is not None:
        cursor.register(UNITS, known.units)
        return _exact_of(_text_over_units(step, known), step, cursor)
    return _tallied_rows(step, _listed(step.statement, heavy), cursor, again)


def _exact_of(text: str, step: Step, cursor: Cursor) -> Exact:
    """The integers of a statement over public cells, or of one without keys."""
    cells = step.cells
    result = _rows(text, cells, cursor, None)
    order = np.argsort(result[CELL], kind="stable") if cells is not None else slice(None)
    return Exact({tally: result[f"t{i}"][order] for i, tally in enumerate(step.tallies)})


def _tallied_rows(step: Step, listed: Listed | None, cursor: Cursor, again: Set[str]) -> Exact:
    cells = step.cells
    text = statement_text(step) if listed is None else _indexed_text(step, complete=listed.complete)
    if cells is None and isinstance(step.statement, Group) and step.statement.keys:
        result = capped(step.statement, again, cursor) if listed is None else None
        if result is None:
            result = _run(text, None, cursor, listed)
        keys = [name for name in result.column_names if name.startswith("k")]
        return Exact({t: integers(result.column(f"t{i}")) for i, t in enumerate(step.tallies)}, result.select(keys))
    few = cells is None or cells.num_rows <= FEW
    texts = texts_in_parts(step.statement, again, cursor) if listed is None else []
    whole: list[Integers] = []
    for one in texts or [text]:
        found = _rows(one, cells, cursor, listed) if few else _columns(_run(one, cells, cursor, listed))
        order = np.argsort(found[CELL], kind="stable") if cells is not None else slice(None)
        tallies = [found[f"t{i}"][order] for i in range(len(step.tallies))]
        whole = [_added(a, b) for a, b in zip(whole, tallies, strict=True)] if whole else tallies
    return Exact(dict(zip(step.tallies, whole, strict=True)))


def _counted(histogram: Histogram, cells: Any, listed: Listed | None, cursor: Cursor) -> Counts:
    node = histogram if listed is None else refined_histogram(histogram, complete=listed.complete)
    return counts_of(_run(text_of(render_histogram(node)), cells if histogram.keys else None, cursor, listed))


def _matched(matching: Matching, cells: Any, listed: Listed | None, cursor: Cursor) -> Integers:
    node = matching if listed is None else refined_matching(matching, complete=listed.complete)
    result = _run(text_of(render_matching(node)), cells if matching.keys else None, cursor, listed)
    return matched_of(result, cells.num_rows if matching.keys else 1)


def _run(text: str, cells: Any, cursor: Cursor, listed: Listed | None = None) -> Any:
    """The result of a statement that may look at these cells and units, as an Arrow table."""
    _register(cells, listed, cursor)
    return cursor.arrow(text)


def _columns(result: Any) -> dict[str, Integers]:
    return {name: integers(result.column(name)) for name in result.column_names}


def _rows(text: str, cells: Any, cursor: Cursor, listed: Listed | None) -> dict[str, Integers]:
    """The columns of a small result of integers. It is fetched as rows, which are there sooner than an Arrow table."""
    _register(cells, listed, cursor)
    names, rows = cursor.rows(text)
    return {name: _exact([row[i] for row in rows]) for i, name in enumerate(names)}


def _register(cells: Any, listed: Listed | None, cursor: Cursor) -> None:
    """Let a statement read its cells and listed units. The cursor is one query's, and its names end with it: the next
    statement's take their place, and to take a name back is a statement of its own."""
    if cells is not None:
        cursor.register(CELLS, cells.append_column(CELL, column(np.arange(cells.num_rows, dtype=np.int64))))
    if listed is not None:
        cursor.register(LISTED, listed.units.select([UNIT]))


def _added(some: Integers, more: Integers) -> Integers:
    """Theorem PARTS-1. Sums of two parts: what fits 64 bits in each need not fit them in both."""
    return _exact([a + b for a, b in zip(some.tolist(), more.tolist(), strict=True)])


def _exact(values: list[int]) -> Integers:
    fit = all(-(2**63) <= v < 2**63 for v in values)
    return np.array(values, dtype=np.int64 if fit else object)
