"""finish: Noisy -> Answer. Runs the query above the releases in an engine that holds only noisy and public tables.

Everything here is post-processing (Theorem POST-1): it sees nothing that wasn't released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.accounting.account import Receipt
from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import saturated
from dpsql.aggregates.noisy import Noisy, Responded
from dpsql.aggregates.present import note
from dpsql.analyze.domains import PublicEngine
from dpsql.analyze.public import several
from dpsql.answer.alone import noise_last, without_noise
from dpsql.answer.errors import numbers_of, with_cut, with_errors
from dpsql.answer.hidden import with_hidden
from dpsql.answer.model import Answer
from dpsql.answer.ranks import with_ranks
from dpsql.answer.tables import drawn, noisy_table, randomized_rows
from dpsql.answer.thread import Thread, numbered, ordered, origin_of, threaded
from dpsql.bounds.bias import bias_of, cuts_of, lines
from dpsql.bounds.histograms import enforced_in_words
from dpsql.bounds.unit_counts import Tables
from dpsql.core.errors import DataError, EngineError
from dpsql.plan.estimates import estimated
from dpsql.plan.nodes import Given, parts_of
from dpsql.plan.rows import given_rows, plan_column
from dpsql.quote.limits import better_limits
from dpsql.quote.lineage import written
from dpsql.quote.model import Known, Part, Quote, Released, Stage, Step
from dpsql.quote.notes import groups_left_out, nothing_shown
from dpsql.quote.spare import counted_units
from dpsql.sql.scalar import post

MAX_GIVEN = 100_000  # rows that a later step takes from earlier ones

Arrow = Any


def finish(
    index: int, quote: Quote, known: Known, receipt: Receipt, public: PublicEngine, *, simulable: bool = True
) -> Answer:
    """Answer one part of a quote from what its stages released; simulable: may errors be simulated?"""
    main = known[quote.main].stage
    counts = {**quote.counts, **counted_units(known)}
    tables = [table for released in known.values() for table in _views(released, index, counts)]
    ranges = tuple(a.facts() for a in main.automatic)
    mine = {view.step for view in main.views if view.part == index}
    steps = [step for i, step in enumerate(main.steps) if i in mine and isinstance(step, Step)]
    named = steps_of(main, index)
    answer = answer_from(quote.parts[index], tables, receipt, public, simulable=simulable)
    answer = with_cut(with_hidden(with_ranks(answer, named)))
    releases = [step.checked for step in steps]
    notes = (*lines(cuts_of(releases, counts)), *better_limits(steps, counts))
    listed = tuple(_lists(answer.noisy, named))
    left_out = tuple(_left_out(answer, quote.notes[index] if quote.notes else (), steps))
    limits = enforced_in_words(releases)
    return replace(answer, ranges=ranges, limits=limits, cut_notes=notes, lists=listed, left_out=left_out)


def _left_out(answer: Answer, standing: Sequence[str], steps: Sequence[Step]) -> Iterator[str]:
    """What the answer leaves out: why there is nothing at all, what was known before, how small a group isn't shown."""
    if not len(answer) and not any(line.startswith("nothing") for line in standing):
        yield from nothing_shown(steps, sum(n.count for n in answer.noisy))
    yield from standing
    yield from groups_left_out(steps)


def _lists(noisy: Sequence[Noisy], steps: Mapping[str, Step]) -> Iterator[str]:
    """Of each list of groups how small a group it may miss (Theorem PRESENT-1)."""
    for one in noisy:
        for call in one.step.calls:
            if RECIPES[call.function].tells_presence:
                checked = steps[one.step.name].checked
                keys = ", ".join(written(key) for key in checked.release.keys)
                yield note(one.step, call, f"groups of {checked.owner.table} by {keys}")


def steps_of(stage: Stage, part: int) -> dict[str, Step]:
    """The steps that a part reads the tables of, with the names and the aggregates that it has for them."""
    found = {}
    for view in stage.views:
        step = stage.steps[view.step]
        if view.part == part and isinstance(step, Step):
            calls = tuple(step.calls[i] for i in view.aggregates)
            found[view.name] = replace(step, name=view.name, calls=calls)
    return found


def _views(released: Released, part: int, counts: Tables) -> Iterator[Noisy | Responded]:
    """The tables that a part reads of what a stage released, under its names for them, and what is cut of them."""
    for view in released.stage.views:
        if view.part == part:
            noisy, step = released.noisy[view.step], released.stage.steps[view.step]
            if isinstance(noisy, Responded):
                yield replace(noisy, name=view.name)
            else:
                assert isinstance(step, Step)
                bias = bias_of(step.checked, counts).of(view.aggregates)
                yield replace(noisy.named(view.name, view.aggregates), bias=bias if bias.cuts else None)


def answer_from(
    part: Part,
    noisy: Sequence[Noisy | Responded],
    receipt: Receipt,
    public: PublicEngine,
    *,
    simulable: bool = True,
) -> Answer:
    """The answer that a statement gives over its noisy tables."""
    measured = tuple(n for n in noisy if isinstance(n, Noisy))
    responded = [n for n in noisy if isinstance(n, Responded)]
    query = without_noise(noise_last(part.plan.post.copy(), measured), measured)
    tables = {n.step.name: noisy_table(n, query) for n in measured}
    if (shown := _shown(part, tables)) is not None:
        origins = tuple(origin_of(o.this, tuple(tables)) for o in part.plan.post.selects)
        return Answer(shown, measured, origins, range(shown.num_rows), receipt.cost, receipt)
    tables |= {n.name: randomized_rows(n) for n in responded}
    whole = numbered(estimated(query, drawn(responded)))
    result, made, thread = _run(whole, measured, tables, public)
    table = _conform(result, part.result, made)
    cells = None if thread is None else result.column(len(part.result)).to_pylist()
    answer = Answer(table, measured, (None,) * len(part.result), cells, receipt.cost, receipt)
    return with_errors(answer, part, whole, thread, result, public, simulable=simulable and not responded)


def _run(
    whole: exp.Query, noisy: Sequence[Noisy], tables: Mapping[str, Arrow], public: PublicEngine
) -> tuple[Arrow, list[str], Thread | None]:
    """The rows, their types, and the thread whose cell and slopes come behind the outputs.

    Slopes are for intervals alone: where the engine can't compute them, the answer goes without.
    """
    releases = frozenset(n.step.name for n in noisy)
    for slopes in (True, False):
        root, thread = threaded(ordered(whole.copy(), releases), releases, numbers_of(noisy), slopes=slopes)
        try:
            return *public.run(post(root), tables), thread
        except EngineError as error:
            if slopes and thread is not None and thread.hidden:
                continue
            # Noisy and public values only: the message can't leak. The answer was paid for, so say what went wrong.
            raise DataError(
                f"the query over the noisy results failed: {error}",
                code="post-processing",
                hint="the query stays charged, and what it released is stored: asking for it in another way is free; "
                "guard the expression, for instance with TRY_CAST or CASE",
            ) from None
    raise AssertionError("the second run returns or raises")


def _shown(part: Part, tables: Mapping[str, Arrow]) -> Arrow | None:
    """The answer to a query that only shows columns of its one release: no engine has to compute anything.

    Types that Arrow and DuckDB may spell in several ways are left to the engine.
    """
    root = part.plan.post
    clauses = {name for name, value in root.args.items() if value}
    if not isinstance(root, exp.Select) or clauses != {"expressions", "from_"} or len(tables) != 1:
        return None
    ((release, table),) = tables.items()
    outputs = [o.unalias() for o in root.selects]
    known = all(isinstance(o, exp.Column) and o.table == release and o.name in table.column_names for o in outputs)
    if not known or any(text not in _PLAIN for _, text in part.result):
        return None
    columns = [table.column(o.name) for o in outputs]
    made = ["DECIMAL" if "decimal" in str(c.type) else "" for c in columns]
    return _conform(table.from_arrays(columns, [o.name for o in outputs]), part.result, made)


def publish(step: Step, noisy: Sequence[Noisy], public: PublicEngine) -> dict[str, Arrow]:
    """What a step's statement is given: values of public tables and of earlier releases, which are constants to it."""
    found: dict[str, Arrow] = {}
    try:
        for one in (p for p in parts_of(step.checked.relation) if isinstance(p, Given)):
            if one.name not in found:
                tables = {n.step.name: noisy_table(n, one.query) for n in noisy}
                found[one.name] = public.table(post(one.query.copy()), tables)
            rows = found[one.name]
            # Theorem OWN-3: what a bound rests on holds for the very rows that are joined.
            if (one.one_row and rows.num_rows > 1) or (one.noisy and rows.num_rows > MAX_GIVEN):
                raise DataError(
                    "a subquery over public or noisy values has too many rows",
                    code="post-processing",
                    hint="the query stays charged; aggregate in the subquery, or add a LIMIT",
                )
            if any(public.table(_repeated(one, columns), found).num_rows for columns in one.unique):
                raise DataError(
                    "a subquery over public tables gave other rows than when the query was priced",
                    code="post-processing",
                    hint="the query stays charged; order its rows before a LIMIT, and leave random values out",
                )
    except EngineError as error:
        raise DataError(
            f"a subquery over public or noisy values failed: {error}",
            code="post-processing",
            hint="the query stays charged; guard the expression, for instance with TRY_CAST or CASE",
        ) from None
    return found


def _repeated(one: Given, columns: tuple[str, ...]) -> exp.Select:
    """Values of these columns that several rows have, as the statement reads them."""
    rows = exp.Subquery(this=given_rows(one), alias=exp.TableAlias(this=exp.to_identifier("q")))
    return several(rows, [plan_column(c) for c in columns])


# ---------------------------------------------------------------- names and types as DuckDB would give them


def _conform(table: Arrow, result: Sequence[tuple[str, str]], made: Sequence[str]) -> Arrow:
    import pyarrow as pa

    columns = [_column(table.column(i), text, made[i]) for i, (_, text) in enumerate(result)]
    fields = [pa.field(name, column.type) for (name, _), column in zip(result, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


# HUGEINT, which Arrow lacks, becomes BIGINT; a sum that may need more was made DECIMAL(38, 0) by its recipe.
_PLAIN: Mapping[str, str] = {
    "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64", "UTINYINT": "uint8",
    "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64", "FLOAT": "float32", "DOUBLE": "float64",
    "HUGEINT": "int64", "UHUGEINT": "int64", "DATE": "date32", "BOOLEAN": "bool_", "VARCHAR": "string",
}  # fmt: skip


def _column(column: Arrow, text: str, made: str) -> Arrow:
    """DuckDB's type. `made` is the post-processing engine's, which decides between BIGINT and DECIMAL(38, 0)."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if text.startswith("DECIMAL(") and pa.types.is_floating(column.type):
        return _decimals(column, text)
    name = _PLAIN.get(text)
    if name is None or (text in ("HUGEINT", "UHUGEINT") and made.startswith("DECIMAL")):
        return column
    wanted = getattr(pa, name)()
    if column.type == wanted:
        return column
    if text in ("HUGEINT", "UHUGEINT"):
        return saturated(np.array([None if v is None else round(v) for v in column.to_pylist()], dtype=object))
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _decimals(column: Arrow, text: str) -> Arrow:
    """A sum made of doubles as the decimals that DuckDB would give; what has no place there stays a double."""
    import pyarrow as pa

    width, scale = (int(n) for n in text.removeprefix("DECIMAL(").removesuffix(")").split(","))
    unit, most = Decimal(1).scaleb(-scale), Decimal(10) ** (width - scale)
    with localcontext(prec=2 * width):
        values = [None if v is None else Decimal(v).quantize(unit) if isfinite(v) else most for v in column.to_pylist()]
    if any(v is not None and abs(v) >= most for v in values):
        return column
    return pa.array(values, pa.decimal128(width, scale))
