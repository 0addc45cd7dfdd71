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
from dpsql.analyze.domains import PublicEngine
from dpsql.analyze.public import several
from dpsql.answer.model import SET_SIZE, Answer, Origin, intervals
from dpsql.core.arrow import column
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.response import RandomizedResponse
from dpsql.plan.estimates import ResponseColumn, estimated
from dpsql.plan.google import interval_of
from dpsql.plan.grouping import SETS, branches
from dpsql.plan.nodes import Given, parts_of
from dpsql.plan.rows import given_rows, plan_column
from dpsql.quote.cut_estimate import may_cut, read_cuts
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.model import Known, Part, Quote, Released, Step
from dpsql.sql.scalar import post

MAX_GIVEN = 100_000  # rows that a later step takes from earlier ones
CELL = "dpsql hidden cell"  # which cell of a release a result row comes from, for its intervals

Arrow = Any


def finish(index: int, quote: Quote, known: Known, receipt: Receipt, public: PublicEngine) -> Answer:
    """Answer one part of a quote from what its stages released."""
    tables = [table for released in known.values() for table in _views(released, index)]
    main = known[quote.main].stage
    ranges = tuple(a.facts() for a in main.automatic)
    mine = {view.step for view in main.views if view.part == index}
    cut = may_cut([step for i, step in enumerate(main.steps) if i in mine and isinstance(step, Step)])
    estimate = next((known[stage] for stage in quote.stages if stage.kind == "estimate" and stage in known), None)
    clipping = None if estimate is None else read_cuts(main, estimate.noisy)
    answer = answer_from(quote.parts[index], tables, receipt, public)
    return replace(answer, ranges=ranges, limits=cut, clipping=clipping)


def _views(released: Released, part: int) -> Iterator[Noisy | Responded]:
    """The tables that a part reads of what a stage released, under the names that it has for them."""
    for view in released.stage.views:
        if view.part == part:
            noisy = released.noisy[view.step]
            if isinstance(noisy, Responded):
                yield replace(noisy, name=view.name)
            else:
                yield noisy.named(view.name, view.aggregates)


def answer_from(part: Part, noisy: Sequence[Noisy | Responded], receipt: Receipt, public: PublicEngine) -> Answer:
    """The answer that a statement gives over its noisy tables."""
    measured = tuple(n for n in noisy if isinstance(n, Noisy))
    responded = [n for n in noisy if isinstance(n, Responded)]
    tables = {n.step.name: noisy_table(n, part.plan.post) for n in measured}
    releases = frozenset(tables)
    if (shown := _shown(part, tables)) is not None:
        origins = tuple(_origin(o.this, tuple(releases)) for o in part.plan.post.selects)
        cells = range(shown.num_rows)
        return Answer(shown, measured, origins, cells, receipt.cost, receipt)
    whole = estimated(part.plan.post.copy(), drawn(responded))
    root, thread = _thread(_ordered(_numbered(whole), releases), releases)
    tables |= {n.name: randomized_rows(n) for n in responded}
    try:
        result, made = public.run(post(root), tables)
    except EngineError as error:
        # Noisy and public values only: the message can't leak. The answer was paid for, so say what went wrong.
        raise DataError(
            f"the query over the noisy results failed: {error}",
            code="post-processing",
            hint="the query stays charged, and what it released is stored: asking for it in another way is free; guard "
            "the expression, for instance with TRY_CAST or CASE",
        ) from None
    last = result.num_columns - 1
    numbers = result.column(last).to_pylist() if thread is not None else None
    if thread is not None:
        result = result.remove_column(last)
    origins = thread.origins if thread is not None else (None,) * len(part.result)
    table = _conform(result, part.result, made)
    return Answer(table, measured, origins, numbers, receipt.cost, receipt)


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


def noisy_table(noisy: Noisy, query: exp.Query) -> Arrow:
    """A release as a table: keys in order, the answers to its aggregates, and the interval ends that a query reads."""
    import pyarrow as pa

    step = noisy.step
    quantities = {q: noisy.estimate(linear) for q, linear in step.estimates.items()}
    columns: dict[str, Arrow] = {CELL: column(np.arange(noisy.count))}
    if noisy.cells is not None:
        columns |= {name: noisy.cells.column(name) for name in noisy.cells.column_names}
    for i, call in enumerate(step.calls):
        columns[f"a{i}"] = RECIPES[call.function].answer(call, quantities)
    for name in sorted({c.name for c in query.find_all(exp.Column) if c.table == step.name}):
        if (end := interval_of(name)) is not None:
            side = 0 if end[1] == "low" else 1
            found = [None if i is None else i[side] for i in intervals(noisy, end[0], CONFIDENCE)]
            columns[name] = pa.array(found, pa.float64())
    return pa.table(columns)


def drawn(responded: Sequence[Responded]) -> dict[ResponseColumn, tuple[RandomizedResponse, str]]:
    """What was drawn for each column of randomised values, and the column's type."""
    return {ResponseColumn(n.name, i): (c.mechanism, c.type) for n in responded for i, c in enumerate(n.columns)}


def randomized_rows(responded: Responded) -> Arrow:
    """Randomised rows as a table, in the order in which they left."""
    import pyarrow as pa

    return pa.table({f"a{i}": c.values.take(pa.array(c.codes)) for i, c in enumerate(responded.columns)})


# ---------------------------------------------------------------- which result row comes from which cell


@dataclass(frozen=True, slots=True)
class _Thread:
    """A SELECT that keeps the cells of releases, and for each output the aggregate it shows unchanged."""

    origins: tuple[Origin | None, ...]


def _numbered(root: exp.Query) -> exp.Query:
    """Give the cells of grouping sets one numbering: those of the second set come after those of the first."""
    for subquery in root.find_all(exp.Subquery):
        if SETS in subquery.meta:
            for i, (branch, table) in enumerate(zip(branches(subquery.this), subquery.meta[SETS], strict=True)):
                number = exp.Add(this=_cell(table), expression=exp.Literal.number(i * SET_SIZE))
                branch.append("expressions", exp.alias_(number, CELL, quoted=True))
    return root


def _ordered(root: exp.Query, releases: frozenset[str]) -> exp.Query:
    """Answers come in key order unless the query orders them (attack 36)."""
    if not isinstance(root, exp.Select) or _released(root, releases) is None:
        return root
    if not root.args.get("order") and not root.args.get("distinct"):
        root.set("order", exp.Order(expressions=[exp.Ordered(this=_cell(root.args["from_"].this.alias_or_name))]))
    return root


def _released(root: exp.Select, releases: frozenset[str]) -> tuple[str, ...] | None:
    """The release that a SELECT reads, or the releases of its grouping sets; None where it reads anything else."""
    from_ = root.args.get("from_")
    if from_ is None or root.args.get("joins"):
        return None
    source = from_.this
    if isinstance(source, exp.Table) and source.name in releases and not source.args.get("alias"):
        return (source.name,)
    found: tuple[str, ...] | None = source.meta.get(SETS)
    return found


def _thread(root: exp.Query, releases: frozenset[str]) -> tuple[exp.Query, _Thread | None]:
    """Add the hidden cell to the output, where each result row is one cell of one release."""
    if not isinstance(root, exp.Select) or root.args.get("distinct") or root.args.get("group"):
        return root, None
    if any(o.alias_or_name.lower() == CELL for o in root.selects):  # somebody's own column
        return root, None
    if (tables := _released(root, releases)) is not None:
        origins = tuple(_origin(o.this, tables) for o in root.selects)
        root.append("expressions", exp.alias_(_cell(root.args["from_"].this.alias_or_name), CELL, quoted=True))
        return root, _Thread(origins)
    from_ = root.args.get("from_")
    if from_ is None or root.args.get("joins") or not isinstance(from_.this, exp.Subquery) or _aggregates(root):
        return root, None
    inner, thread = _thread(from_.this.this, releases)
    if thread is None:
        return root, None
    names = [c.name for c in from_.this.args["alias"].columns] or [o.alias for o in inner.selects[:-1]]
    if from_.this.args["alias"].columns:
        from_.this.args["alias"].append("columns", exp.to_identifier(CELL, quoted=True))
    known = dict(zip(names, thread.origins, strict=False))
    origins = tuple(known.get(o.this.name) if isinstance(o.this, exp.Column) else None for o in root.selects)
    root.append("expressions", exp.alias_(_cell(from_.this.alias), CELL, quoted=True))
    return root, _Thread(origins)


def _aggregates(root: exp.Select) -> bool:
    from dpsql.sql.nodes import holds_aggregate

    return any(holds_aggregate(o) for o in root.selects) or root.args.get("having") is not None


def _origin(node: exp.Expr, releases: tuple[str, ...]) -> Origin | None:
    if isinstance(node, exp.Column) and node.name.startswith("a") and node.name[1:].isdigit():
        return Origin(releases, int(node.name[1:]))
    return None


def _cell(table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(CELL, quoted=True), table=exp.to_identifier(table, quoted=True))


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
