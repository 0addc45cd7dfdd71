"""Aggregates of the noisy counts of a value's values: a release of its own by them, and a scalar subquery over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates.form import ByValue
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.core.frozen import dataclass
from dpsql.plan.google import contribution
from dpsql.plan.nodes import Expr, Filter, Release, counted_rows
from dpsql.plan.refusals import not_yet_correlated
from dpsql.plan.rows import Rows
from dpsql.plan.unmatched import rows_without_match
from dpsql.sql.refuse import refuse, shown

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


@dataclass(frozen=True, slots=True)
class Groups:
    """The GROUP BY that an aggregate stands beside."""

    written: Expr | None  # the clause
    keys: Sequence[Expr]
    column: Callable[[str], Expr]  # a column of the noisy table by these keys
    several: bool  # are there several grouping sets?


def of_counts(builder: Builder, form: ByValue, node: Expr, rows: Rows, groups: Groups) -> Expr:
    """A release by the value of all rows that have one, and what the aggregate makes of a group's noisy counts."""
    if rows.foreign:
        raise not_yet_correlated(next(rows.foreign[0].find_all(exp.Column)))
    if rows.unmatched is not None:
        raise rows_without_match(rows.unmatched)
    value = _argument(form, node)
    if groups.several and form.beside_groups is None:
        raise refuse(
            PrivacyError,
            f"{form.name} can't stand beside several grouping sets",
            node,
            code="unsupported-aggregate",
            hint=f"ask for {form.name} in a query of its own for each set: GROUP BY its keys",
        )
    if groups.written is not None and form.beside_groups is not None:
        why, way = form.beside_groups
        raise refuse(PrivacyError, why, node, code="unsupported-aggregate", hint=way.replace("{x}", shown(value)))
    key = builder.row_level(value, rows)
    there: Expr = exp.Not(this=exp.Paren(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.Null())))
    if isinstance(node, exp.Filter):
        there = exp.and_(there, exp.Paren(this=builder.row_level(node.expression.this, rows)))
    contribution(node.this if isinstance(node, exp.Filter) else node, form, False)
    keys = list(dict.fromkeys([*groups.keys, key]))
    counted = counted_rows(None, form.shown_as(node), form.counts)
    listed_for = form.name if form.public else None
    made = Release(Filter(rows.relation, there), tuple(keys), (counted,), listed_for=listed_for)
    name = builder.add(made)
    query = form.over(_column(f"k{keys.index(key)}", name), _column("a0", name))
    query = query.from_(exp.Table(this=exp.to_identifier(name, quoted=True)))
    for i in range(len(groups.keys)):
        query = query.where(exp.NullSafeEQ(this=_column(f"k{i}", name), expression=groups.column(f"k{i}")), copy=False)
    return exp.Subquery(this=query)


def _argument(form: ByValue, node: Expr) -> Expr:
    """The one value that it is taken of."""
    call = node.this if isinstance(node, exp.Filter) else node
    given = call.expressions if isinstance(call, exp.Anonymous) else [call.this]
    if len(given) != 1 or not isinstance(given[0], exp.Expr) or isinstance(given[0], exp.Distinct | exp.Star):
        raise refuse(SQLError, f"{form.name} takes one value", node, code="arity", hint=f"write {form.name}(x)")
    return given[0]


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
