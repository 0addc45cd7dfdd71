"""UNION, INTERSECT and EXCEPT of private rows: within each unit, or of the lists of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.core.errors import PrivacyError
from dpsql.plan.groups import distinct_units
from dpsql.plan.nodes import Expr, Filter, Mark, Named, Project, Union, columns_of, scanned, unit_of
from dpsql.plan.owners import domain_of, positions, ways
from dpsql.plan.rows import Private, all_of, apart, fresh, plan_column, renamed, substituted
from dpsql.policy.model import Policy
from dpsql.sql.nodes import holds_aggregate
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder

UNIT = "privacy unit"


ROWS = "rows"  # the alias of rows whose values are listed


def set_operation(builder: Builder, node: exp.SetOperation) -> exp.Query | Private:
    """The rows that a set operation keeps, or the query over lists that it is."""
    if (listed := united_list(builder, node)) is not None:
        return builder.select(listed)
    sides: list[exp.Expr] = [node.this, node.expression]
    sides = [as_rows(side) for side in sides] if node.args.get("distinct") else sides
    built = [builder.query(side) for side in sides]
    rows = [one for one in built if isinstance(one, Private)]
    if rows and node.args.get("distinct") and not (len(rows) == 2 and _shared(rows, builder.policy)):
        # Which values there are on either side is measured, each by itself.
        built = [
            builder.query(list_of(side)) if isinstance(one, Private) else one
            for side, one in zip(sides, built, strict=True)
        ]
        rows = [one for one in built if isinstance(one, Private)]  # a person's own: no list that may leave
    if rows:
        return combined(node, built[0], built[1], builder.policy)
    both = node.copy()
    both.set("this", built[0])
    both.set("expression", built[1])
    return both


def united_list(builder: Builder, node: exp.Expr) -> exp.Select | None:
    """UNION of rows of different people as SELECT DISTINCT over their UNION ALL; None where it is something else."""
    if not isinstance(node, exp.Union) or not node.args.get("distinct"):
        return None
    leaves = [as_rows(leaf) for leaf in _leaves(node)]
    with builder.trying() as may:
        built = [builder.query(leaf) for leaf in leaves] if may else []
    rows = [one for one in built if isinstance(one, Private)]
    if len(rows) < len(leaves) or _shared(rows, builder.policy):
        return None
    tables = [builder.policy.tables[scanned(one.relation).table] for one in rows]
    if len({domain_of(table, builder.policy) for table in tables}) > 1:
        return None
    whole = leaves[0]
    for leaf in leaves[1:]:
        whole = exp.Union(this=whole, expression=leaf, distinct=False)
    listed = list_of(whole)
    for part in ("limit", "offset"):
        if node.args.get(part):
            listed.set(part, node.args[part].copy())
    if order := node.args.get("order"):
        listed.set("order", rebuilt(order, _of_rows))
    return listed


def without_repeats(node: exp.Select) -> exp.Select:
    """A list of what a list shows, as a list of the rows below: SELECT DISTINCT a FROM (SELECT DISTINCT a, b …)."""
    from_ = node.args.get("from_")
    source = from_.this if from_ is not None and not node.args.get("joins") else None
    if not isinstance(source, exp.Subquery) or as_rows(node) is node:
        return node
    rows = as_rows(source.this)
    if rows is source.this:
        return node
    copy = node.copy()
    copy.args["from_"].this.set("this", rows)
    return copy


def list_of(rows: exp.Expr) -> exp.Select:
    """SELECT DISTINCT over a query's rows."""
    first = rows
    while isinstance(first, exp.SetOperation):
        first = first.this
    assert isinstance(first, exp.Select)
    alias = exp.TableAlias(this=exp.to_identifier(ROWS, quoted=True))
    outputs = [exp.alias_(_listed(o), o.alias, quoted=True) for o in first.selects]
    source = exp.Subquery(this=rows.copy(), alias=alias)
    return exp.Select(expressions=outputs, from_=exp.From(this=source), distinct=exp.Distinct())


def _listed(output: exp.Expr) -> exp.Column:
    """A column of the rows, which stands where it was written."""
    column = exp.column(output.alias, ROWS, quoted=True)
    written = output.unalias()
    if isinstance(written, exp.Column):
        column.this.meta.update(written.this.meta)
    return column


def as_rows(side: exp.Expr) -> exp.Expr:
    """A side of a set operation without its own DISTINCT, or GROUP BY of what it shows: that changes nothing."""
    if not isinstance(side, exp.Select) or any(side.args.get(k) for k in ("having", "qualify", "limit", "offset")):
        return side
    distinct, group = side.args.get("distinct"), side.args.get("group")
    listed = group is not None and not any(value for name, value in group.args.items() if name != "expressions")
    if (distinct is None or distinct.args.get("on")) and not listed:
        return side
    if any(holds_aggregate(o) or o.find(exp.Window) for o in side.selects) or side.args.get("windows"):
        return side
    rows = side.copy()
    for part in ("distinct", "group", "order"):
        rows.set(part, None)
    return rows


def _of_rows(node: exp.Expr) -> exp.Expr:
    return exp.column(node.name, ROWS, quoted=True) if isinstance(node, exp.Column) else rebuilt(node, _of_rows)


def _leaves(node: exp.Expr) -> list[exp.Expr]:
    """The queries of a union of unions: in one that is DISTINCT, the inner ones needn't be."""
    if not isinstance(node, exp.Union):
        return [node]
    sides = (node.this, node.expression)
    return [
        leaf
        for side in sides
        for leaf in ([side] if any(side.args.get(k) for k in ("limit", "offset")) else _leaves(side))
    ]


def _shared(rows: list[Private], policy: Policy) -> bool:
    """Is the unit in the same place on all sides, so that each person's rows are compared with their own?"""
    places = [positions(side.outputs.values(), ways(side.relation, policy)) for side in rows]
    return bool(places[0].intersection(*places[1:]))


def combined(node: exp.SetOperation, left: object, right: object, policy: Policy) -> Private:
    """The rows of both sides that a set operation keeps; each keeps its owner (Theorem OWN-5)."""
    word = node.key.upper()
    if not isinstance(left, Private) or not isinstance(right, Private):
        raise refuse(
            PrivacyError,
            f"{word} of private rows and public ones: the public rows belong to nobody",
            node,
            code="union-public",
            hint="aggregate the private side first, then combine the results",
        )
    mine, theirs = (policy.tables[scanned(p.relation).table] for p in (left, right))
    if domain_of(mine, policy) != domain_of(theirs, policy):
        raise refuse(
            PrivacyError,
            f"the units of {mine.name} and {theirs.name} are not the same, so their rows can't be combined",
            node,
            code="union-domain",
            hint="aggregate each side first, then combine the results",
        )
    for part in ("limit", "offset"):
        if node.args.get(part):
            raise refuse(
                PrivacyError,
                f"{part.upper()} over private rows picks some people's rows and not others'",
                node.args[part],
                code="limit-private",
                hint="aggregate first; LIMIT works on the result",
            )
    if isinstance(node, exp.Union) and not node.args.get("distinct"):
        return _union(left, right)
    places = [positions(side.outputs.values(), ways(side.relation, policy)) for side in (left, right)]
    if not node.args.get("distinct") or not places[0] & places[1]:
        raise refuse(
            PrivacyError,
            f"{word}{'' if node.args.get('distinct') else ' ALL'} compares rows of different people",
            node,
            code="set-operation-private",
            hint="leave ALL out: then which values there are is measured; or select the unit, too, in the same place "
            "on both sides, so that each person's rows are compared with their own",
        )
    if isinstance(node, exp.Union):
        return distinct_units(_union(left, right))
    return _matched(distinct_units(left), right, keep=isinstance(node, exp.Intersect))


def _union(left: Private, right: Private) -> Private:
    names: list[str] = []
    for output in left.outputs:
        names.append(fresh(output.lower(), [UNIT, *names]))
    sides = tuple(_side(side, names) for side in (left, right))
    flat = tuple(one for side in sides for one in _flattened(side))
    return Private(Union(flat), {o: plan_column(n) for o, n in zip(left.outputs, names, strict=True)})


def _flattened(side: Project) -> tuple[Project, ...]:
    """The inputs of a union of unions, where this is one with the same columns."""
    inner = side.input
    same = all(isinstance(e, exp.Column) and e.name == name for name, e in side.columns)
    return inner.inputs if same and isinstance(inner, Union) else (side,)


def _side(side: Private, names: list[str]) -> Project:
    unit = unit_of(side.relation)
    columns: list[Named] = [] if unit is None else [(UNIT, plan_column(unit))]
    columns += [(name, e) for name, e in zip(names, side.outputs.values(), strict=True)]
    return Project(side.relation, tuple(columns), None if unit is None else UNIT)


def _matched(left: Private, right: Private, *, keep: bool) -> Private:
    """Each unit's distinct rows that it has, or doesn't have, on the other side, too; NULLs are equal here."""
    new, _ = apart({}, right.relation, columns_of(left.relation))
    other = renamed(right.relation, new)
    theirs = [substituted(e, new) for e in right.outputs.values()]
    same: list[Expr] = [
        exp.NullSafeEQ(this=a.copy(), expression=b.copy()) for a, b in zip(left.outputs.values(), theirs, strict=True)
    ]
    mine, their = unit_of(left.relation), unit_of(other)
    assert mine is not None and their is not None
    name = fresh("mark", [*columns_of(left.relation), *columns_of(other)])
    marked = Mark(left.relation, other, name, all_of(same), (mine, their))
    condition: Expr = plan_column(name) if keep else exp.Not(this=plan_column(name))
    return Private(Filter(marked, condition), left.outputs)
