"""SELECT DISTINCT over private rows: keys of a release, or rows of each unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.plan.groups import distinct_units, release
from dpsql.plan.nodes import Expr
from dpsql.plan.owners import determine, ways
from dpsql.plan.refusals import not_selected
from dpsql.plan.rows import Private, Rows

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


def distinct_rows(builder: Builder, node: exp.Select, found: Private) -> exp.Query | Private:
    """SELECT DISTINCT of rows with windows: first the windows, then what is distinct of them."""
    if determine(found.outputs.values(), ways(found.relation, builder.policy)):
        return distinct_units(found)
    rows = Rows(found.relation, {("", name): e for name, e in found.outputs.items()})
    listed = {o.alias: exp.column(o.alias, quoted=True) for o in node.selects}
    outer = exp.Select(expressions=[exp.alias_(c, name, quoted=True) for name, c in listed.items()])
    if order := node.args.get("order"):
        names = {o.this: o.alias for o in node.selects}
        for item in order.expressions:
            if item.this not in names:
                raise not_selected(item)
        flags = [{k: o.args.get(k) for k in ("desc", "nulls_first")} for o in order.expressions]
        places = [exp.column(names[o.this], quoted=True) for o in order.expressions]
        items = [exp.Ordered(this=p, **f) for p, f in zip(places, flags, strict=True)]
        outer.set("order", exp.Order(expressions=items))
    return release(builder, distinct_as_group(outer), rows)


def first_rows(node: exp.Select) -> exp.Select:
    """DISTINCT ON (keys) … ORDER BY … is the first row of each key: ROW_NUMBER() = 1."""
    first = node.copy()
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[k.copy() for k in node.args["distinct"].args["on"].expressions],
        order=node.args["order"].copy() if node.args.get("order") else None,
        over="OVER",
    )
    for part in ("distinct", "order"):
        first.set(part, None)
    first.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=exp.Literal.number(1))))
    return first


def distinct_as_group(node: exp.Select) -> exp.Select:
    """SELECT DISTINCT of row-level expressions is a GROUP BY of them, without aggregates."""
    grouped = node.copy()
    grouped.set("distinct", None)
    keys: list[Expr] = []
    for output in node.selects:
        if output.this not in keys:
            keys.append(output.this.copy())
    grouped.set("group", exp.Group(expressions=keys))
    return grouped
