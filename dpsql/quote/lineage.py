"""Which columns of releases each output of a query is made of, and whether it shows one of them as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Literal

from sqlglot import exp

from dpsql.aggregates.present import COLUMN
from dpsql.plan.google import interval_of
from dpsql.plan.grouping import SETS, branches
from dpsql.plan.nodes import Aggregate
from dpsql.sql.as_sql import as_sql
from dpsql.sql.nodes import holds_aggregate
from dpsql.sql.trees import as_written

ReleaseColumn = tuple[str, str]  # (release, column)
Lineage = tuple[frozenset[ReleaseColumn], bool]
"""The release columns that an output is made of; is it one of them, unchanged?"""
Kind = Literal["public", "expression", "key", "aggregate", "response", "interval"]


def kind_of(found: Lineage, responses: Set[str]) -> Kind:
    """What an output is: a key or an aggregate as it stands, an end of its interval, an expression, or nothing noisy.

    responses: the tables whose rows were randomised one by one.
    """
    places, unchanged = found
    if not places:
        return "public"
    if not unchanged:
        return "expression"
    release, column = min(places)
    if interval_of(column) is not None:
        return "interval"
    if release in responses:
        return "response"
    return "key" if column.startswith("k") else "aggregate"


def call_text(call: Aggregate) -> str:
    """An aggregate as the query writes it, its contribution bounds included."""
    text = written(call.node)
    if call.bounds is None:
        return text
    plain = written(call.node.this if isinstance(call.node, exp.Filter) else call.node)
    return text.replace(plain, f"{plain[:-1]}, {call.bounds.text})", 1)


def written(node: exp.Expr) -> str:
    """An expression as the query writes it."""
    return as_sql(as_written(node)).replace('"', "")


def lineage(query: exp.Expr, releases: set[str], around: Mapping[str, _Source] | None = None) -> list[Lineage]:
    """For each output of a query over releases, the release columns in it; `around`: what a correlated query sees."""
    if isinstance(query, exp.SetOperation):
        sides = lineage(query.this, releases, around), lineage(query.expression, releases, around)
        return [(a[0] | b[0], False) for a, b in zip(*sides, strict=True)]
    if not isinstance(query, exp.Select):
        return [(_within(query, around or {}, releases), False)]
    sources: dict[str, _Source] = dict(around or {})
    from_ = query.args.get("from_")
    for node in [*([from_.this] if from_ else []), *(j.this for j in query.args.get("joins") or [])]:
        sources[node.alias_or_name] = _source(node, releases, sources)
    found = [_output(output.unalias(), sources, releases) for output in query.selects]
    counted = frozenset(
        (c.table, c.name) for c in query.find_all(exp.Column) if c.name == COLUMN and c.table in releases
    )
    return [
        (counted, False) if not places and holds_aggregate(output) else (places, unchanged)
        for output, (places, unchanged) in zip(query.selects, found, strict=True)
    ]


_Source = Mapping[str, Lineage] | str  # a query's outputs by name, or the name of a release


def _output(node: exp.Expr, sources: Mapping[str, _Source], releases: set[str]) -> Lineage:
    if isinstance(node, exp.Column):
        source = sources.get(node.table, {})
        if isinstance(source, str):
            return frozenset({(source, node.name)}), True
        return source.get(node.name, (frozenset(), False))
    return _within(node, sources, releases), False


def _source(node: exp.Expr, releases: set[str], around: Mapping[str, _Source]) -> _Source:
    if isinstance(node, exp.Table) and node.name in releases:
        return node.name
    if not isinstance(node, exp.Subquery | exp.Lateral):
        return {}
    if SETS in node.meta:  # one row is one cell of one set: each column shows what it shows in that set
        outputs = zip(*(lineage(b, releases) for b in branches(node.this)), strict=True)
        united = [(frozenset().union(*(places for places, _ in output)), True) for output in outputs]
        return dict(zip(node.this.named_selects, united, strict=True))
    alias = node.args.get("alias")
    query = node.this.unnest()
    names = [c.name for c in alias.columns] if alias is not None and alias.columns else query.named_selects
    return dict(zip(names, lineage(query, releases, around), strict=False))


def _within(node: exp.Expr, sources: Mapping[str, _Source], releases: set[str]) -> frozenset[ReleaseColumn]:
    if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        return frozenset().union(*(places for places, _ in lineage(node, releases, sources)))
    if isinstance(node, exp.Column):
        return _output(node, sources, releases)[0]
    return frozenset().union(*(_within(child, sources, releases) for child in node.iter_expressions()))
