"""GROUP BY a, ROLLUP (b) is GROUP BY GROUPING SETS ((a, b), (a)): every set of keys, spelled out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import replaced

MAX_SETS = 64

_Keys = list[exp.Expr]
_NESTED = exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple


def rollup_and_cube(tree: exp.Query) -> exp.Query:
    """The query with GROUP BY of plain keys, or of one GROUPING SETS whose elements are plain keys in parentheses."""
    return replaced(tree, (exp.Group,), _spelled_out)


def _spelled_out(node: exp.Expr) -> exp.Expr:
    if isinstance(node.parent, exp.Pivot):
        return node  # its keys are outputs, too: they are spelled out in the query that the PIVOT stands for
    if _are_plain(node.expressions) or _are_spelled_out(node.expressions):
        return node
    sets: list[_Keys] = [[]]
    for item in node.expressions:  # GROUP BY x, ROLLUP(y): every set of the one with every set of the other
        further = _sets(item)
        _check(len(sets) * len(further), item)
        sets = [[*one, *other] for one in sets for other in further]
    spelled = [exp.Tuple(expressions=[k.copy() for k in keys]) for keys in sets]
    group = node.copy()  # with what else it says: WITH ROLLUP, which bind refuses
    group.set("expressions", [exp.GroupingSets(expressions=spelled)])
    return group


def _are_plain(items: list[exp.Expr]) -> bool:
    return not any(isinstance(item, _NESTED) for item in items)


def _are_spelled_out(items: list[exp.Expr]) -> bool:
    one = items[0] if len(items) == 1 else None
    sets = one.expressions if isinstance(one, exp.GroupingSets) else [None]
    return all(isinstance(s, exp.Tuple) and _are_plain(s.expressions) for s in sets)


def _sets(item: exp.Expr) -> list[_Keys]:
    match item:
        case exp.Rollup():
            elements = [_element(e) for e in item.expressions]
            _check(len(elements) + 1, item)
            return [_flat(elements[:n]) for n in range(len(elements), -1, -1)]
        case exp.Cube():
            elements = [_element(e) for e in item.expressions]
            _check(2 ** min(len(elements), 64), item)
            kept = product((True, False), repeat=len(elements))  # the finest first, like ROLLUP
            return [_flat(e for e, keep in zip(elements, k, strict=True) if keep) for k in kept]
        case exp.GroupingSets():
            sets = [s for e in item.expressions for s in _sets(e)]
            _check(len(sets), item)
            return sets
        case _:
            return [_element(item)]


def _element(item: exp.Expr) -> _Keys:
    """One key, or several that come and go together: (a, b)."""
    if isinstance(item, exp.Tuple):
        return _flat(_element(e) for e in item.expressions)
    return [item.unnest()]


def _flat(elements: Iterable[_Keys]) -> _Keys:
    return [k for e in elements for k in e]


def _check(count: int, item: exp.Expr) -> None:
    if count > MAX_SETS:
        raise refuse(
            SQLError,
            f"GROUP BY makes more than {MAX_SETS} grouping sets",
            item,
            code="too-large",
            hint="list the ones you need: GROUP BY GROUPING SETS ((a, b), (a), ())",
        )
