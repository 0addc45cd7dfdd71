"""The rows that a relation's are among, whatever noisy values it is given: conditions on those are left out.

Units are counted in these before the noisy values are measured. One unit has no fewer rows here than in the relation
itself, in no fewer groups: a limit that is chosen by them cuts no more than is estimated. Nothing private rests on
that, since limits are enforced on the relation itself, whoever chose them (Theorem LIMITS-1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Expr,
    Filter,
    Given,
    GroupUnits,
    Join,
    Mark,
    Project,
    PublicTable,
    Relation,
    Scan,
    Union,
    Windows,
    parts_of,
)
from dpsql.plan.rows import all_of, conjuncts
from dpsql.sql.trees import nodes_of

Side = Relation | PublicTable | Given


@dataclass(frozen=True, slots=True)
class Unconditional:
    """A relation without what noisy values decide, and the columns that it lacks by that."""

    relation: Relation
    lost: frozenset[str] = frozenset()

    def keeps(self, expressions: Iterable[Expr]) -> bool:
        """Can these still be computed?"""
        return not any(c.name in self.lost for e in expressions for c in nodes_of(e, exp.Column))


def is_noisy(relation: Side) -> bool:
    """Do noisy values take part in it?"""
    return any(isinstance(part, Given) and part.noisy for part in parts_of(relation))


def unconditional(relation: Relation) -> Unconditional | None:
    """The relation without conditions on noisy values; None where more than conditions rests on them."""
    if not is_noisy(relation):
        return Unconditional(relation)
    match relation:
        case Filter():
            return _filter(relation)
        case Project():
            below = unconditional(relation.input)
            if below is None:
                return None
            kept = tuple((name, e) for name, e in relation.columns if below.keeps([e]))
            lost = frozenset(name for name, _ in relation.columns) - {name for name, _ in kept}
            return Unconditional(replace(relation, input=below.relation, columns=kept), lost)
        case Join():
            return _join(relation)
        case Mark():
            return _mark(relation)
        case GroupUnits():
            below = unconditional(relation.input)
            if below is None or relation.columns or not below.keeps(e for _, e in relation.keys):
                return None  # what is added up of more rows is another number
            return Unconditional(replace(relation, input=below.relation))
        case Scan() | Union() | Windows():
            return None


def _filter(node: Filter) -> Unconditional | None:
    below = unconditional(node.input)
    if below is None:
        return None
    condition = all_of(c.copy() for c in conjuncts(node.condition) if below.keeps([c]))
    if condition is None:
        return below
    return replace(below, relation=Filter(below.relation, condition, node.narrows))


def _join(node: Join) -> Unconditional | None:
    """A join with one noisy row, or by the keys of noisy groups, is taken to repeat no row."""
    left = unconditional(node.left)
    if left is None:
        return None
    if isinstance(node.right, Given) and node.right.noisy:
        if not node.right.one_row and not any(isinstance(c, exp.EQ) for c in conjuncts(node.condition)):
            return None
        return replace(left, lost=left.lost | {name for name, _ in node.right.columns})
    conditions = [] if node.condition is None else [node.condition]
    if is_noisy(node.right) or not left.keeps(conditions):
        return None
    return replace(left, relation=replace(node, left=left.relation))


def _mark(node: Mark) -> Unconditional | None:
    below = unconditional(node.input)
    if below is None:
        return None
    used = [e for e in (node.condition, *(node.member or ())) if e is not None]
    if is_noisy(node.other) or not below.keeps(used):
        return replace(below, lost=below.lost | {node.column})
    return replace(below, relation=replace(node, input=below.relation))
