"""Running statements: the exact integers of a step. The only errors that leave are constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.backends.base import SECRET, Codes, Deadline, Exact
from dpsql.backends.listed import HeavyUnits, listed_for
from dpsql.backends.spark.forms import form_of
from dpsql.backends.spark.heavy_units import heavy_units, is_short, unit_type
from dpsql.backends.spark.queries import Table, Text, write
from dpsql.backends.spark.server import Connection
from dpsql.backends.spark.sources import as_arrow, columns_of, uploaded
from dpsql.backends.statements.bounding import Form
from dpsql.backends.statements.codes import LISTED, render_codes
from dpsql.backends.statements.distinct import render_matching
from dpsql.backends.statements.once import matched_once, render_once
from dpsql.backends.statements.render import render, render_histogram
from dpsql.backends.statements.results import counts_of, integers, matched_of
from dpsql.backends.statements.rows import CELL, CELLS
from dpsql.core.arrays import column
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Given, Group, Histogram, Matching, OnCells, Statement, parts_of
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import Owned, Use, use_of
from dpsql.quote.model import ResponseStep, Step
from dpsql.quote.refined import LISTED as LISTED_UNITS
from dpsql.quote.refined import told_apart

Tables = Mapping[str, Table]


def written(step: Step | ResponseStep, tables: Tables) -> list[Text]:
    """A step's statements, over views that stand for the public values that they will be given."""
    if isinstance(step, ResponseStep):
        lists = {f"{LISTED}{i}": _standing(kinds) for i, kinds in _lists(step)}
        return [write(render_codes(step.statement), {**tables, **lists})]
    known = {**tables, **{name: _standing(kinds) for name, kinds in _givens(step).items()}}
    found = [_statement(step, known)] if step.tallies else []
    asked: list[Histogram | Matching] = [*step.histograms, *step.matchings]
    for one in asked:
        found.append(write(_tree(one, known), {**known, CELLS: _standing(_cell_kinds(one.keys, one.types))}))
    return found


def _standing(kinds: Mapping[str, str]) -> Table:
    return Table("public values", columns_of(list(kinds.items())))


def _statement(step: Step, tables: Tables) -> Text:
    statement = step.statement
    if isinstance(statement, OnCells) and CELLS not in tables:
        tables = {**tables, CELLS: _standing(_cell_kinds(statement.input.keys, statement.types))}
    return write(_rendered(statement, tables), tables)


def _rendered(statement: Statement, tables: Tables) -> exp.Select:
    if LISTED_UNITS in tables:
        return render(told_apart(statement), Form.FEW)  # Theorem INDEX-1, In one look
    skewed = any(table.skewed for table in tables.values())
    form = form_of(statement, {name: table.rows for name, table in tables.items()}, skewed)
    return _placed(render(statement, form), tables)


def _placed(query: exp.Select, tables: Tables) -> exp.Select:
    """Without moving rows to their unit where a table has them there: then Spark knows whether they must be moved."""
    if any(name in tables and tables[name].bucketed for name in {one.name for one in query.find_all(exp.Table)}):
        for part in query.find_all(exp.Select):
            part.set("distribute", None)
    return query


def _tree(node: Histogram | Matching, tables: Tables) -> exp.Select:
    if isinstance(node, Histogram):
        return _placed(render_histogram(node, Form.WINDOWS), tables)
    render_values = render_once if _is_shared(node) else render_matching
    return _placed(render_values(node, Form.WINDOWS), tables)


def forms_of(step: Step | ResponseStep) -> Iterator[exp.Query]:
    """A step's statements in every form that a number of rows or an index may choose."""
    if isinstance(step, ResponseStep):
        yield render_codes(step.statement)
        return
    if step.tallies:
        yield from (render(step.statement, form) for form in (Form.WINDOWS, Form.FEW))
    asked: list[Histogram | Matching] = [*step.histograms, *step.matchings]
    yield from (_tree(one, {}) for one in asked)


def _is_shared(node: Matching) -> bool:
    """May a unit take only some of its values?"""
    return node.mass is not None or node.peak is not None


def _cell_kinds(keys: tuple[str, ...], types: tuple[str, ...]) -> dict[str, str]:
    return {CELL: "BIGINT", **dict(zip(keys, types, strict=True))}


def _givens(step: Step) -> dict[str, dict[str, str]]:
    """The public values that a step is given: names of columns and their types."""
    found = [part for part in parts_of(step.checked.relation) if isinstance(part, Given)]
    return {g.name: {source: t for (_, source), t in zip(g.columns, g.types, strict=True)} for g in found}


def _lists(step: ResponseStep) -> Iterator[tuple[int, dict[str, str]]]:
    for i, (_, _, kind) in enumerate(step.statement.columns):
        if kind is not None:
            yield i, {"v": kind, "p": "BIGINT"}


@dataclass(frozen=True, slots=True)
class Steps:
    """A way to private rows, for the steps of one query."""

    connection: Connection
    tables: Tables
    until: Deadline | None
    secret: int | None = None  # of caps (Theorem CAP-1)

    def execute(self, step: Step, given: Mapping[str, Any], secret: int, heavy: Sequence[HeavyUnits] = ()) -> Exact:
        """Run a step's statements; the main one by way of listed units, where indexes serve all that it needs."""
        return replace(self, secret=secret)._executed(step, given, heavy)

    def _executed(self, step: Step, given: Mapping[str, Any], heavy: Sequence[HeavyUnits]) -> Exact:
        named = {name: (given[name], of) for name, of in _givens(step).items()}
        with self._given(named) as tables:
            exact = self._main(step, tables, heavy) if step.tallies else Exact({})
            cells = exact.cells if step.cells is None else step.cells
            spectra = {h.spectrum: counts_of(self._asked(h, cells, tables)) for h in step.histograms}
            matched = {
                m.tally: (matched_once if _is_shared(m) else matched_of)(
                    self._asked(m, cells, tables), cells.num_rows if m.keys else 1
                )
                for m in step.matchings
            }
        return replace(exact, tallies={**exact.tallies, **matched}, spectra=spectra)

    def uses(self, step: Step) -> tuple[Use, ...]:
        """What the main statement needs; distinct values are found without a list."""
        use = use_of(step.statement) if step.tallies else None
        return () if use is None or any(need.sizes is not None for need in use.needs) else (use,)

    def heavy_units(self, of: Owned, above: int, by: tuple[exp.Expr, ...] = ()) -> HeavyUnits | None:
        """Look for heavy units."""
        return heavy_units(of, above, by, self.tables, self._run)

    def all_units(self, of: Owned, columns: tuple[exp.Expr, ...]) -> HeavyUnits | None:
        """No table of all units: it would be fetched whole."""
        return None

    def encode(self, step: ResponseStep) -> Codes:
        """Run the statement of a step whose rows leave."""
        import pyarrow as pa

        lists = {}
        for i, kinds in _lists(step):
            values = step.checked.columns[i].values
            places = pa.array(np.arange(len(values), dtype=np.int64))
            lists[f"{LISTED}{i}"] = (pa.table({"v": values, "p": places}), kinds)
        with self._given(lists) as tables:
            result = self._run(write(render_codes(step.statement), tables))
        return Codes(tuple(integers(result.column(name)).astype(np.uint32) for name, _, _ in step.statement.columns))

    def _main(self, step: Step, tables: Tables, heavy: Sequence[HeavyUnits]) -> Exact:
        use = next(iter(self.uses(step)), None) if heavy else None
        listed = None if use is None else listed_for(use, heavy)
        kind = None if use is None else unit_type(use.needs[0].of, tables)
        if listed is None or kind is None or not is_short(listed):
            return self._tallied(step, tables)
        with ExitStack() as stack:
            try:
                known = stack.enter_context(self._given({LISTED_UNITS: (listed.units, {UNIT: kind.sql})}))
            except (
                DataError
            ):  # a server that takes no list so long: how long it is must not decide whether a query fails
                known = {}
            return self._tallied(step, {**tables, **known})

    def _tallied(self, step: Step, tables: Tables) -> Exact:
        statement, cells = step.statement, step.cells
        if isinstance(statement, Group):
            result = self._run(write(_rendered(statement, tables), tables))
            if not statement.keys:
                return Exact({t: integers(result.column(f"t{i}")) for i, t in enumerate(step.tallies)})
            import pyarrow as pa
            import pyarrow.compute as pc

            kinds = [key.type for key in step.checked.keys]
            keys = pa.table({k: as_arrow(result.column(k), t) for k, t in zip(statement.keys, kinds, strict=True)})
            # Rows leave in an order that says nothing of them. Sorting them in Spark would take another exchange.
            sorted_by = [(k, "ascending", "at_end") for k in statement.keys]
            order = pc.sort_indices(keys, sort_keys=sorted_by)
            places = np.asarray(order)
            found = {t: integers(result.column(f"t{i}"))[places] for i, t in enumerate(step.tallies)}
            return Exact(found, keys.take(order))
        with self._cells(cells, statement.input.keys, statement.types, tables) as known:
            result = self._run(write(_rendered(statement, tables), known))
        order = np.argsort(integers(result.column(CELL)), kind="stable")
        return Exact({t: integers(result.column(f"t{i}"))[order] for i, t in enumerate(step.tallies)})

    def _asked(self, node: Histogram | Matching, cells: Any, tables: Tables) -> Any:
        if not node.keys:
            return self._run(write(_tree(node, tables), tables))
        with self._cells(cells, node.keys, node.types, tables) as known:
            return self._run(write(_tree(node, known), known))

    def _run(self, text: Text) -> Any:
        own = {SECRET: str(self.secret)} if f":{SECRET}" in text.sql else {}
        return self.connection.arrow(text.sql, {**text.parameters, **own}, self.until)

    @contextmanager
    def _cells(self, cells: Any, keys: tuple[str, ...], types: tuple[str, ...], tables: Tables) -> Iterator[Tables]:
        numbered = cells.append_column(CELL, column(np.arange(cells.num_rows, dtype=np.int64)))
        with self._given({CELLS: (numbered, _cell_kinds(keys, types))}) as known:
            yield {**tables, **known}

    @contextmanager
    def _given(self, values: Mapping[str, tuple[Any, Mapping[str, str]]]) -> Iterator[Tables]:
        """The tables, and these public values as views beside them, for as long as the context lasts."""
        found: dict[str, Table] = {}
        try:
            for name, (table, kinds) in values.items():
                found[name] = uploaded(self.connection, table, kinds, until=self.until)
            yield {**self.tables, **found}
        finally:
            for table in found.values():
                self.connection.drop(table.view)
