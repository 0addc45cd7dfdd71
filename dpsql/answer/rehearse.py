"""rehearse: what will be run after payment is tried before it.

Statements over private rows are written out, with room on the stack to spare. Post-processing is run on tables of one
row that nobody measured: what fails whatever the noise, such as ACOS('HOME'), fails then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Rational
from dpsql.aggregates.present import COLUMN as PRESENT
from dpsql.analyze.domains import PublicEngine
from dpsql.answer.finish import steps_of
from dpsql.answer.tables import CELL
from dpsql.backends.base import Backend
from dpsql.core.errors import EngineError, SQLError
from dpsql.plan.google import interval_of
from dpsql.plan.nodes import Given, parts_of
from dpsql.quote.model import Quote, ResponseStep, Step
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import data_type
from dpsql.sql.scalar import post
from dpsql.sql.trees import explicit

SPARE = 150  # frames: more than lie between here and where a statement is written after payment
SHALLOW = 12  # a tree of so few levels never comes near the stack's end


def rehearse(quote: Quote, backend: Backend) -> None:
    """Refuses a query that can't be run whatever is measured, before anything is paid; it sees public values only."""
    try:
        _with_less_stack(SPARE, lambda: _write(quote, backend))
    except RecursionError:
        raise too_deep() from None
    _run(quote, backend.public)


def too_deep() -> SQLError:
    """The refusal of what would exhaust the stack."""
    return SQLError(
        "the query is nested too deeply",
        code="too-deep",
        hint="use fewer levels of subqueries, CTEs, set operations and parentheses; or split it into several queries",
    )


def _with_less_stack(frames: int, work: Callable[[], None]) -> None:
    if frames:
        _with_less_stack(frames - 1, work)
    else:
        work()


def _write(quote: Quote, backend: Backend) -> None:
    for step in (step for stage in quote.stages for step in stage.steps):
        backend.written(step)
        if isinstance(step, ResponseStep):
            continue
        for one in (p for p in parts_of(step.checked.relation) if isinstance(p, Given)):
            _write_post(one.query)
    for part in quote.parts:
        _write_post(part.plan.post)


def _run(quote: Quote, public: PublicEngine) -> None:
    """Tables of randomised rows have no stand-in: a statement over them is not rehearsed."""
    main = quote.main
    queries = [
        (p.query, main.releases) for s in main.releases for p in parts_of(s.checked.relation) if isinstance(p, Given)
    ]
    rows = {view.part for stage in quote.stages if stage.responses for view in stage.views}
    for index, part in enumerate(quote.parts):
        if index not in rows:
            queries.append((part.plan.post, tuple(steps_of(main, index).values())))
    try:
        for query, steps in queries:
            if query.find(exp.Literal) is not None:  # without constants there is nothing that fails by itself
                public.table(post(query.copy()), {s.name: _stand_in(s, query, public) for s in steps})
    except EngineError as error:
        message = str(error).partition("Error: ")[2] or "it can't run this query"
        raise SQLError(
            f"DuckDB: {message}",
            code="duckdb",
            hint="the part of the query over the results fails whatever they are: look at its constants",
        ) from None


def _stand_in(step: Step, query: exp.Query, public: PublicEngine) -> Any:
    """A table like the one that a step will leave, with one row: its first key, and 1 for all that is measured."""
    import pyarrow as pa

    one = {q: Rational(np.array([1], dtype=object), 1) for q in step.estimates}
    columns: dict[str, Any] = {CELL: pa.array([0], pa.int64())}
    if step.cells is not None:
        keys = {name: step.cells.column(name) for name in step.cells.column_names}
        columns |= {k: v.slice(0, 1) if len(v) else pa.nulls(1, v.type) for k, v in keys.items()}
    else:
        kinds = [exp.cast(exp.Null(), data_type(key.type.sql)) for key in step.checked.keys]
        nulls = public.table(exp.select(*(exp.alias_(k, f"k{i}") for i, k in enumerate(kinds))), {}) if kinds else None
        columns |= {} if nulls is None else {name: nulls.column(name) for name in nulls.column_names}
    for i, call in enumerate(step.calls):
        if RECIPES[call.function].tells_presence:
            columns[PRESENT] = pa.array([True])
            continue
        columns[f"a{i}"] = RECIPES[call.function].answer(call, one)
    for name in {c.name for c in query.find_all(exp.Column) if c.table == step.name}:
        if interval_of(name) is not None:
            columns[name] = pa.array([1.0], pa.float64())
    return pa.table(columns)


def _write_post(query: exp.Query) -> None:
    if _is_deep(query):
        as_sql(explicit(post(query.copy())), copy=False)


def _is_deep(query: exp.Query) -> bool:
    level: list[exp.Expr] = [query]
    for _ in range(SHALLOW):
        level = [child for node in level for child in node.iter_expressions()]
    return bool(level)
