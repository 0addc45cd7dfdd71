"""A subquery over private rows for each row of a public scope: a release, whose keys are what it looks at there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import FORMS
from dpsql.core.errors import PrivacyError
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import Aggregate, Expr, Join, columns_of
from dpsql.plan.refusals import not_yet_correlated
from dpsql.plan.rows import Rows, all_of, apart, given, plan_column, renamed_public
from dpsql.plan.subqueries import free_aliases
from dpsql.sql.nodes import holds_aggregate
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


@dataclass(frozen=True, slots=True)
class Around:
    """A public scope around a subquery: its sources by alias (None: a release's, whose keys can be seen), and WHERE."""

    sources: Mapping[str, Expr | None]
    where: tuple[Expr, ...] = ()


def correlated_keys(builder: Builder, rows: Rows) -> list[tuple[Expr, Expr]]:
    """The keys by which a release is looked up, each with the outer value that it equals.

    Rows are joined to the distinct public values that the conditions look at (Theorem OWN-3), whatever the conditions
    are; so the keys are public. Where the outer values are no public rows, an equality makes a key of its own side.
    """
    if not rows.foreign:
        return []
    outer = _outer_columns(rows)
    source = _public_source(builder, {c.table for c in outer})
    if source is None or any(c.find(exp.Query) for c in rows.foreign):
        return [_correlated_key(builder, c, rows) for c in rows.foreign]
    names = [f"outer{i}" for i in range(len(outer))]
    query = exp.Select(
        expressions=[exp.alias_(c.copy(), n, quoted=True) for c, n in zip(outer, names, strict=True)],
        from_=exp.From(this=source.copy()),
        distinct=exp.Distinct(),
    )
    for condition in _restrictions(builder, source.alias_or_name):
        query.where(condition.copy(), copy=False)
    found = given(query, names, query.copy(), set(builder.names), one_row=False)
    new, _ = apart({}, found, columns_of(rows.relation))
    other = renamed_public(found, new)
    keys = [plan_column(plan) for plan, _ in other.columns]
    both = Rows(rows.relation, {**rows.columns, **{(c.table, c.name): k for c, k in zip(outer, keys, strict=True)}})
    conditions = [builder.row_level(c, both) for c in rows.foreign]
    rows.relation = Join(both.relation, other, "inner", all_of(conditions), None)
    return list(zip(keys, outer, strict=True))


def _outer_columns(rows: Rows) -> list[exp.Column]:
    found: list[exp.Column] = []
    for condition in rows.foreign:
        for column in condition.find_all(exp.Column):
            if column.table and column.table not in rows.aliases and column not in found:
                found.append(column)
    return found


def _public_source(builder: Builder, aliases: set[str]) -> Expr | None:
    """The one source around, without noisy values, that has these aliases."""
    if len(aliases) != 1:
        return None
    (alias,) = aliases
    source = next((a.sources[alias] for a in reversed(builder.around) if alias in a.sources), None)
    if not isinstance(source, exp.Table | exp.Subquery | exp.Values):
        return None
    noisy = any(t.name in builder.names for t in source.find_all(exp.Table))
    return None if noisy else source


def _restrictions(builder: Builder, alias: str) -> list[Expr]:
    """What the outer WHERE says of this source alone: values that it drops need no group."""
    around = next(a for a in reversed(builder.around) if alias in a.sources)
    return [c for c in around.where if free_aliases(c) == {alias} and not c.find(exp.Query)]


def _correlated_key(builder: Builder, condition: Expr, rows: Rows) -> tuple[Expr, Expr]:
    """own = outer, where outer is public: the release gets a key for it, and the subquery looks its group up."""
    node = condition.unnest()
    known = {alias for around in builder.around for alias in around.sources}
    if isinstance(node, exp.EQ):
        for own, outer in ((node.this, node.expression), (node.expression, node.this)):
            if free_aliases(own) <= rows.aliases and free_aliases(outer) <= known and not outer.find(exp.Query):
                return builder.row_level(own, rows), outer
    raise not_yet_correlated(next(c for c in condition.find_all(exp.Column) if c.table not in rows.aliases))


def one_row(node: exp.Select, post: exp.Select, aggregates: list[Aggregate], places: list[exp.Column]) -> None:
    """A correlated scalar subquery: the group that it looks up, or that of no rows."""
    plain = len(node.selects) == 1 and not any(
        node.args.get(k) for k in ("group", "having", "qualify", "limit", "offset", "distinct", "order")
    )
    if not plain or not holds_aggregate(node.selects[0]):
        raise refuse(
            PrivacyError,
            "a subquery that looks at an outer row can only be one aggregate of private rows",
            node.selects,
            code="correlated",
            hint="aggregate with GROUP BY in a CTE, and join the result",
        )
    shown = post.selects[0]

    def looked_up(e: Expr) -> Expr:
        if isinstance(e, exp.Column) and any(e is place for place in places):
            value: Expr = exp.AnyValue(this=e)
            counts = e.name.startswith("a") and FORMS[aggregates[int(e.name[1:])].function].zero_where_empty
            return exp.func("coalesce", value, exp.Literal.number(0), copy=False) if counts else value
        return rebuilt(e, looked_up)

    shown.set("this", looked_up(shown.this))
