"""Public rows beside private ones: their types, ranges, keys and repetitions, from public data alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from dpsql.analyze.domains import SUBQUERY, PublicEngine
from dpsql.analyze.variables import KeyColumn, PublicColumn
from dpsql.analyze.widths import span_of
from dpsql.core.arrays import to_python
from dpsql.core.errors import EngineError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr, Given, PublicTable
from dpsql.plan.rows import plan_column
from dpsql.policy.model import Policy
from dpsql.sql.refuse import offsets, refuse
from dpsql.sql.scalar import Scalar, post
from dpsql.sql.trees import copied

Schema = Mapping[str, tuple[tuple[str, str], ...]]  # table -> its (column, DuckDB type)s
Describe = Callable[[exp.Query], tuple[tuple[str, str], ...]]  # names and types of a query over all tables, empty ones


@dataclass(frozen=True, slots=True)
class PublicFacts:
    """What public data say of themselves."""

    policy: Policy
    schema: Schema
    engine: PublicEngine
    describe: Describe
    given: dict[str, Any]  # the rows of subqueries, which are computed once for all that is asked about them

    def columns(
        self, node: PublicTable | Given, used: Collection[str]
    ) -> tuple[PublicTable | Given, dict[str, KeyColumn]]:
        """Public rows and those of their columns that are used, with the range that the data themselves have."""
        if isinstance(node, PublicTable):
            types = {name.lower(): text for name, text in self.schema[node.table]}
            name = self.policy.tables[node.table].name
        else:
            described = self.described(node)
            types = {o.lower(): text for (_, o), (_, text) in zip(node.columns, described, strict=True)}
            name = SUBQUERY
        listed = tuple((plan, column) for plan, column in node.columns if plan in used)
        wanted = [(plan, column, Type.parse(types[column.lower()])) for plan, column in listed]
        if isinstance(node, Given):
            node = replace(node, columns=listed, types=tuple(t.sql for _, _, t in wanted))
            if node.noisy:
                # A released value may be a constant of a later step, never a range or a domain (Theorem STEP-1).
                return node, {p: KeyColumn(name, None, Scalar(plan_column(p), t, Range())) for p, _, t in wanted}
        source, rows = self.source(node)
        answer = self.ask(_extremes(source, [(c, t) for _, c, t in wanted]), node, rows)
        found: dict[str, KeyColumn] = {}
        for i, (plan, column, type_) in enumerate(wanted):
            known = Scalar(plan_column(plan), type_, _range(answer, i, type_))
            found[plan] = KeyColumn(name, None, known, PublicColumn(source, rows, column), width=span_of(known))
        return node, found

    def described(self, node: Given) -> tuple[tuple[str, str], ...]:
        try:
            return self.describe(node.written)
        except SQLError as error:
            error.offsets = offsets(node.written)
            raise

    def source(self, node: PublicTable | Given) -> tuple[Expr, dict[str, Any]]:
        """What to read public rows from. Those of a subquery are computed once, as publish computes them.

        A query around it could make the engine choose other rows, under a LIMIT for instance.
        """
        if isinstance(node, PublicTable):
            return exp.Table(this=exp.to_identifier(node.table, quoted=True)), {}
        if node.name not in self.given:
            total = post(node.query.copy())
            if total != node.query:  # a mistake is told before it is paid for
                self.ask(node.query, node, {})
            self.given[node.name] = self.ask(total, node, {})
        return exp.Table(this=exp.to_identifier(node.name, quoted=True)), {node.name: self.given[node.name]}

    def ask(self, query: exp.Query, about: PublicTable | Given, rows: dict[str, Any]) -> Any:
        """The answer to a query over public rows; where DuckDB can't give one, the analyst's query is refused."""
        try:
            return self.engine.table(query, rows)
        except EngineError as error:
            raise refuse(
                SQLError,
                f"a query over public tables fails: {error}",
                about.written if isinstance(about, Given) else None,
                code="public-data",
                hint="guard it, for instance with TRY_CAST; a subquery that stands for a value has one row",
            ) from None

    def fan_out(self, node: PublicTable | Given, plan: Collection[str]) -> int:
        """How many of the rows have the same values in these columns, at most."""
        if isinstance(node, Given) and node.noisy:
            return 1  # publish counts its rows
        columns = [_quoted(c) for p, c in node.columns if p in plan]
        source, rows = self.source(node)
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(source)
        if columns:
            counted = counted.group_by(*columns)
        inner = exp.Subquery(this=counted, alias=exp.TableAlias(this=exp.to_identifier("c")))
        most = self.ask(exp.select(exp.alias_(exp.Max(this=_quoted("n")), "n")).from_(inner), node, rows)
        return max(1, int(most.column("n")[0].as_py() or 0))

    def unique(self, node: PublicTable | Given, plan: Collection[str]) -> bool:
        """Is there at most one public row for each value of these columns?"""
        source, rows = self.source(node)
        return not self.ask(several(source, [_quoted(c) for p, c in node.columns if p in plan]), node, rows).num_rows


def several(source: Expr, columns: Sequence[Expr]) -> exp.Select:
    """A value of these columns that several rows have: an equality never holds for NULL."""
    return (
        exp.select(exp.alias_(exp.Literal.number(1), "k"))
        .from_(copied(source), copy=False)
        .where(*(exp.Not(this=exp.Is(this=copied(c), expression=exp.Null())) for c in columns), copy=False)
        .group_by(*(copied(c) for c in columns), copy=False)
        .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1)), copy=False)
        .limit(1, copy=False)
    )


def _quoted(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), copy=False)


def _extremes(source: Expr, columns: Sequence[tuple[str, Type]]) -> exp.Select:
    """The least and the greatest value of each column of public rows, and how many are NULL."""
    asked: list[Expr] = [exp.alias_(exp.Count(this=exp.Star()), "rows", copy=False)]
    for i, (column, type_) in enumerate(columns):
        missing = exp.Sub(this=exp.Count(this=exp.Star()), expression=exp.Count(this=_quoted(column)))
        asked.append(exp.alias_(missing, f"n{i}", copy=False))
        if type_.is_numeric or type_.is_date or type_.is_timestamp:
            asked.append(exp.alias_(exp.Min(this=_quoted(column)), f"l{i}", copy=False))
            asked.append(exp.alias_(exp.Max(this=_quoted(column)), f"h{i}", copy=False))
    return exp.select(*asked, copy=False).from_(copied(source), copy=False)


def _range(answer: Any, i: int, type_: Type) -> Range:
    nullable = bool(answer.column(f"n{i}")[0].as_py())
    if type_.is_boolean:
        return Range.of(0, 1, nullable)
    if f"l{i}" not in answer.column_names:
        return Range(nullable=nullable)
    try:
        ends = [to_python(answer.column(f"{end}{i}"))[0] for end in ("l", "h")]
        ends = [e.astimezone(UTC).replace(tzinfo=None) if isinstance(e, datetime) and e.tzinfo else e for e in ends]
        return Range.of(ends[0], ends[1], nullable, ("public data",))
    except (ValueError, OverflowError):  # NaN, ±inf, times that Python has no place for
        return Range(nullable=nullable)
