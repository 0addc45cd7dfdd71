"""UNION, INTERSECT and EXCEPT of private rows: within each unit."""

from __future__ import annotations

from sqlglot import exp

from dpsql.core.errors import PrivacyError
from dpsql.plan.groups import distinct_units
from dpsql.plan.nodes import Expr, Filter, Mark, Named, Project, Union, columns_of, scanned, unit_of
from dpsql.plan.owners import domain_of, positions, ways
from dpsql.plan.rows import Private, all_of, apart, fresh, plan_column, renamed, substituted
from dpsql.policy.model import Policy
from dpsql.sql.refuse import refuse

UNIT = "privacy unit"


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
            hint="select the unit, too, in the same place on both sides, so that each person's rows are compared with "
            "their own; or use UNION ALL",
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
