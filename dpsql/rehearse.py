"""rehearse: everything that will be run is written out once before it is paid for, with room on the stack to spare."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dpsql.backends.duckdb.distinct import render_matching
from dpsql.backends.duckdb.render import render, render_histogram, text_of
from dpsql.backends.duckdb.run import DIALECT
from dpsql.errors import SQLError
from dpsql.plan.nodes import Given, parts_of
from dpsql.quote import Quote
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import post
from dpsql.sql.trees import explicit

SPARE = 150  # frames: more than lie between here and where a statement is written after payment
SHALLOW = 12  # a tree of so few levels never comes near the stack's end


def rehearse(quote: Quote) -> None:
    """Refuses a query that is nested too deeply to be run, before anything is paid."""
    try:
        _with_less_stack(SPARE, lambda: _write(quote))
    except RecursionError:
        raise too_deep() from None


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


def _write(quote: Quote) -> None:
    for step in quote.steps:
        if DIALECT not in step.texts:
            step.texts[DIALECT] = text_of(render(step.statement))
        for histogram in step.histograms:
            text_of(render_histogram(histogram))
        for matching in step.matchings:
            text_of(render_matching(matching))
        for one in (p for p in parts_of(step.checked.relation) if isinstance(p, Given)):
            _write_post(one.query)
    _write_post(quote.plan.post)


def _write_post(query: exp.Query) -> None:
    if _is_deep(query):
        as_sql(explicit(post(query.copy())), copy=False)


def _is_deep(query: exp.Query) -> bool:
    level: list[exp.Expr] = [query]
    for _ in range(SHALLOW):
        level = [child for node in level for child in node.iter_expressions()]
    return bool(level)
