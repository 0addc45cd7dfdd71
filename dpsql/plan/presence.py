"""Which groups are there: where a query asks for that, and how it is told.

A release over public keys has all cells that there can be, empty ones too. A query that shows aggregates of each has
them all. Where it asks which groups there are, or how many (lists of groups, aggregates over them, LIMIT over keys),
cells count only if their noisy number of units, or of rows, is more than noise explains (Theorem PRESENT-1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import form_of
from dpsql.aggregates.present import COLUMN
from dpsql.plan.grouping import SETS, branches
from dpsql.plan.nodes import Aggregate, Expr, Release, Responses, counted_groups, counts_rows
from dpsql.plan.questions import Parts, Question, own_nodes, sources_of
from dpsql.plan.rows import all_of, conjuncts
from dpsql.sql.nodes import holds_aggregate
from dpsql.sql.trees import nodes_of

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


def tell_presence(builder: Builder, select: exp.Select, *, lists: bool = False) -> None:
    """Let a SELECT over releases, or over queries of them, look at groups that are there only, if it asks for them.

    lists: it has no aggregates of the groups.
    """
    question = Question(builder, select)
    if lists or question.asks:
        only_present(builder, select)
    elif question.shows_none or question.compares:
        only_present(builder, select, free=True)


def only_present(builder: Builder, tree: Expr, *, free: bool = False) -> None:
    """Drop the groups that aren't there from every release whose groups are rows of this query.

    free: only of releases whose rows are counted in any case, so that it costs nothing.
    """
    if isinstance(tree, exp.SetOperation):
        only_present(builder, tree.this, free=free)
        only_present(builder, tree.expression, free=free)
    if not isinstance(tree, exp.Select):
        return
    for source in sources_of(tree).values():
        if isinstance(source, exp.Table) and source.name in builder.names:
            _mark(builder, tree, source.name, free)
        elif isinstance(source, exp.Subquery) and SETS in source.meta:
            for branch, table in zip(branches(source.this), source.meta[SETS], strict=True):
                _mark(builder, branch, table, free)
        elif isinstance(source, exp.Subquery) and not _is_one_row(source.this):
            only_present(builder, source.this, free=free)


def _is_one_row(query: Expr) -> bool:
    return isinstance(query, exp.Select) and not query.args.get("group") and Parts(query).aggregated


def _mark(builder: Builder, select: exp.Select, table: str, free: bool) -> None:
    index = builder.names.index(table)
    release = builder.releases[index]
    if (
        not isinstance(release, Release)
        or not release.keys
        or release.every
        or (free and not _counts_rows(release.aggregates))
    ):
        return
    builder.releases[index] = with_presence(release)
    there = exp.Column(this=exp.to_identifier(COLUMN, quoted=True), table=exp.to_identifier(table, quoted=True))
    where = select.args.get("where")
    if where is None or there not in list(own_nodes(where)):
        select.where(there, copy=False)


def with_presence(release: Release) -> Release:
    """A release that also tells which groups are there: by their rows, where these are counted anyway, or by units."""
    others = measured(release)
    told = counted_groups(by_units=not _counts_rows(others))
    return replace(release, aggregates=(*others, told))


def measured(release: Release) -> tuple[Aggregate, ...]:
    """The aggregates of a release that a query shows, without what tells which groups are there."""
    return tuple(a for a in release.aggregates if not tells_presence(a))


def tells_presence(aggregate: Aggregate) -> bool:
    """Does it say which groups are there?"""
    return aggregate.recipe is not None and aggregate.recipe.tells_presence


def _counts_rows(aggregates: tuple[Aggregate, ...]) -> bool:
    """Is the number of all rows of each group among them?"""
    return any(map(counts_rows, aggregates))


def together(known: Release | Responses, found: Release | Responses) -> Release | Responses | None:
    """One release for both, in which all columns of both have their places; None where they are two.

    A list of groups is part of any other release of the same groups, and whether presence is told makes no difference.
    """
    if known == found:
        return known
    if not isinstance(known, Release) or not isinstance(found, Release):
        return None
    mine, theirs = measured(known), measured(found)
    rows = [(one.input, one.keys, one.listed_for, one.every) for one in (known, found)]
    kept = known.kept if known.kept == found.kept else ()  # groups that either of them shows
    same = rows[0] == rows[1]
    if not same or not known.keys or (mine and theirs and mine != theirs):
        return None
    whole = replace(known, aggregates=mine or theirs, kept=kept)
    told = any(map(tells_presence, (*known.aggregates, *found.aggregates)))
    return with_presence(whole) if told else whole


def without_unused(node: exp.Select) -> exp.Select:
    """A SELECT whose derived tables have no aggregates where it looks at none of them: then these list groups."""
    used = {(c.table, c.name) for c in nodes_of(node, exp.Column)}
    lists = {alias: _as_list(alias, source, used) for alias, source in sources_of(node).items()}
    if all(one is None for one in lists.values()):
        return node
    copy = node.copy()
    for alias, source in sources_of(copy).items():
        if lists[alias] is not None:
            source.set("this", lists[alias])
    return copy


def _as_list(alias: str, source: Expr, used: set[tuple[str, str]]) -> exp.Select | None:
    """The list of groups that a derived table with aggregates is, if none of these is looked at or decides anything."""
    inner = source.this if isinstance(source, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not inner.args.get("group") or inner.args.get("distinct"):
        return None
    names = [c.name for c in source.args["alias"].columns] or [o.alias for o in inner.selects]
    listed = inner.copy()
    for name, output in zip(names, listed.selects, strict=True):
        if isinstance(output, exp.Alias) and (alias, name) not in used and output.find(exp.Query) is None:
            output.set("this", exp.Literal.number(1) if holds_aggregate(output) else output.this)
    listed = without_needless(listed)
    return None if listed == inner or any(map(holds_aggregate, Parts(listed).every)) else listed


def without_needless(node: exp.Select) -> exp.Select:
    """HAVING COUNT(*) > 0 says nothing of groups that are listed: each has a row."""
    having, parts = node.args.get("having"), Parts(node)
    if having is None or not node.args.get("group"):
        return node
    conditions = conjuncts(having.this)
    kept = [c for c in conditions if not _is_needless(c)]
    others = [e for e in parts.every if e is not having]
    if len(kept) == len(conditions) or any(holds_aggregate(e) for e in (*others, *kept)):
        return node
    copy = node.copy()
    rest = all_of(c.copy() for c in kept)
    copy.set("having", None if rest is None else exp.Having(this=rest))
    return copy


def _is_needless(condition: Expr) -> bool:
    """COUNT(*) > 0, COUNT(*) >= 1, COUNT(*) <> 0."""
    node = condition.unnest()
    if not isinstance(node, exp.GT | exp.NEQ | exp.GTE):
        return False
    least = "1" if isinstance(node, exp.GTE) else "0"
    call, number = node.this.unnest(), node.expression.unnest()
    form = form_of(call)
    counts = form is not None and form.starred and form.zero_where_empty and isinstance(call.this, exp.Star)
    return counts and isinstance(number, exp.Literal) and number.name == least
