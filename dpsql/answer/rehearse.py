"""rehearse: what will be run after payment is tried before it.

Statements over private rows are written out, with room on the stack to spare. Then the whole way from released tables
to rendered answers is gone with stand-ins that nobody measured (stand_ins.py): what fails whatever the noise, such as
ACOS('HOME'), fails then, and so does what fails where nothing is left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.domains import PublicEngine
from dpsql.answer.finish import answer_from, finish
from dpsql.answer.model import Answer
from dpsql.answer.notebook import html_table
from dpsql.answer.render import encode
from dpsql.answer.stand_ins import stand_ins
from dpsql.answer.tables import noisy_table
from dpsql.backends.base import Backend
from dpsql.core.errors import DataError, EngineError, SQLError
from dpsql.plan.nodes import Given, expressions_of, parts_of
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.model import Known, Quote, ResponseStep, Step
from dpsql.sql.as_sql import as_sql
from dpsql.sql.scalar import post
from dpsql.sql.trees import explicit

RENDERED = (("csv", "json", "parquet", "arrow", "notebook"), ("json", "table"), ("json",))
"""In which formats which turn of stand-ins is rendered. Not as charts, which say by themselves that there is none."""
SPARE = 150  # frames: more than lie between here and where a statement is written after payment
MOST = 1_000  # shapes that are remembered
SHALLOW = 12  # a tree of so few levels never comes near the stack's end
SHALLOW_STEP = 24  # nor do so many nodes of a plan, with expressions of so many levels


def rehearse(quote: Quote, backend: Backend, rehearsed: set[Hashable]) -> None:
    """Refuses a query that can't be answered whatever is measured, before anything is paid; it sees public values only.

    rehearsed: the shapes of answers that went well while public tables were as they are; this one is added.
    """
    try:
        _with_less_stack(SPARE, lambda: _rehearse(quote, backend, rehearsed))
    except RecursionError:
        raise too_deep() from None


def _rehearse(quote: Quote, backend: Backend, rehearsed: set[Hashable]) -> None:
    _write(quote, backend)
    shape = _shape(quote)
    if shape in rehearsed:
        return
    for turn, known in enumerate(stand_ins(quote, backend.public)):
        _answer(quote, known, turn, backend.public)
    if len(rehearsed) >= MOST:
        rehearsed.clear()
    rehearsed.add(shape)


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
        if isinstance(step, ResponseStep):
            backend.written(step)
            continue
        if backend.refuses_statements or _is_deep_step(step):
            backend.written(step)
        for one in (p for p in parts_of(step.checked.relation) if isinstance(p, Given)):
            _write_post(one.query)
    for part in quote.parts:
        _write_post(part.plan.post)


def _shape(quote: Quote) -> Hashable:
    """What decides how an answer is made of released numbers, whatever these and their noise are."""
    parts = tuple((as_sql(part.plan.post), part.result) for part in quote.parts)
    views = tuple((stage.kind, stage.views) for stage in quote.stages)
    return parts, views, tuple(_step_shape(step) for stage in quote.stages for step in stage.steps)


def _step_shape(step: Step | ResponseStep) -> Hashable:
    if isinstance(step, ResponseStep):
        return step.name, step.checked.columns and len(step.checked.columns)
    keys = tuple(key.type.sql for key in step.checked.keys)
    kinds = tuple((type(m.statistic), m.statistic.width, m.noise.kind) for m in step.measurements)
    given = tuple(as_sql(p.query) for p in parts_of(step.checked.relation) if isinstance(p, Given))
    return step.name, step.calls, keys, step.checked.private_keys, step.count, kinds, given


def _answer(quote: Quote, known: Known, turn: int, public: PublicEngine) -> None:
    """Make and render all answers that these tables give. Errors are simulated in the first turn: that takes long."""
    tables = {n.step.name: n for n in known[quote.main].noisy if isinstance(n, Noisy)}
    try:
        for given in _givens(quote):
            public.table(post(given.query.copy()), {name: noisy_table(n, given.query) for name, n in tables.items()})
        for index in range(len(quote.parts)):
            answer = finish(index, quote, known, known[quote.main].receipt, public, simulable=turn == 0)
            for format_ in RENDERED[turn]:
                _render(answer, format_)
        for stage, released in known.items():
            if stage.shown is not None:
                measured = [n for n in released.noisy if isinstance(n, Noisy)]
                encode(answer_from(stage.shown, measured, released.receipt, public), "json")
    except EngineError as error:
        raise _failed(str(error)) from None
    except DataError as error:
        raise _failed(error.message) from None


def _render(answer: Answer, format_: str) -> None:
    if format_ == "notebook":
        html_table(answer)
    else:
        encode(answer, format_, CONFIDENCE if format_ == "arrow" else None)


def _givens(quote: Quote) -> Iterator[Given]:
    """The rows that the public engine computes between two steps."""
    for step in quote.main.releases:
        yield from (p for p in parts_of(step.checked.relation) if isinstance(p, Given))


def _failed(text: str) -> SQLError:
    message = text.partition("Error: ")[2] or "it can't run this query"
    return SQLError(
        f"DuckDB: {message}",
        code="duckdb",
        hint="the part of the query over the results fails whatever they are: look at its constants",
    )


def _write_post(query: exp.Query) -> None:
    if _is_deep(query, SHALLOW):
        as_sql(explicit(post(query.copy())), copy=False)


def _is_deep_step(step: Step) -> bool:
    """Could writing the statements of a step come near the stack's end?"""
    checked = step.checked
    if sum(1 for _ in parts_of(checked.relation)) > SHALLOW_STEP:
        return True
    looked = [*expressions_of(checked.relation), *(key.sql for key in checked.keys)]
    for argument in checked.arguments:
        looked += [value.sql for value in (*argument.values, argument.where) if value is not None]
    return any(_is_deep(expression, SHALLOW_STEP) for expression in looked)


def _is_deep(tree: exp.Expr, levels: int) -> bool:
    """Has a tree more levels than these?"""
    level: list[exp.Expr] = [tree]
    for _ in range(levels):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True
