"""GROUP BY as grouping sets: ROLLUP, CUBE, GROUPING SETS, composite elements and (), expanded into lists of keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import Rewrite

MAX_SETS = 64

Keys = list[exp.Expr]
_NESTED = exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple


def group(items: Sequence[exp.Expr], key: Rewrite, copied: Rewrite) -> exp.Group:
    """A bound GROUP BY: plain keys as they are; else one GROUPING SETS with every set spelled out, keys copied."""
    if not any(isinstance(item, _NESTED) for item in items):
        return exp.Group(expressions=_distinct(key(item) for item in items))
    sets: list[Keys] = [[]]
    for item in items:  # GROUP BY x, ROLLUP(y): every set of the one with every set of the other
        further = _sets(item, key)
        _check(len(sets) * len(further), item)
        sets = [[*one, *other] for one in sets for other in further]
    spelled = [exp.Tuple(expressions=[copied(k) for k in _distinct(s)]) for s in sets]
    return exp.Group(expressions=[exp.GroupingSets(expressions=spelled)])


def grouping_sets(clause: exp.Expr | None) -> list[Keys]:
    """The sets of a bound GROUP BY; one without keys where there is no GROUP BY."""
    if clause is None:
        return [[]]
    if clause.expressions and isinstance(clause.expressions[0], exp.GroupingSets):
        return [list(s.expressions) for s in clause.expressions[0].expressions]
    return [list(clause.expressions)]


def group_keys(clause: exp.Expr | None) -> Keys:
    """The keys of a bound GROUP BY, each once, in the order in which they were written."""
    return _distinct(k for s in grouping_sets(clause) for k in s)


def _sets(item: exp.Expr, key: Rewrite) -> list[Keys]:
    match item:
        case exp.Rollup():
            elements = [_element(e, key) for e in item.expressions]
            _check(len(elements) + 1, item)
            return [_flat(elements[:n]) for n in range(len(elements), -1, -1)]
        case exp.Cube():
            elements = [_element(e, key) for e in item.expressions]
            _check(2 ** min(len(elements), 64), item)
            kept = product((True, False), repeat=len(elements))  # the finest first, like ROLLUP
            return [_flat(e for e, keep in zip(elements, k, strict=True) if keep) for k in kept]
        case exp.GroupingSets():
            sets = [s for e in item.expressions for s in _sets(e, key)]
            _check(len(sets), item)
            return sets
        case _:
            return [_element(item, key)]


def _element(item: exp.Expr, key: Rewrite) -> Keys:
    """One key, or several that come and go together: (a, b)."""
    if isinstance(item, exp.Tuple):
        return _flat(_element(e, key) for e in item.expressions)
    return [key(item)]


def _flat(elements: Iterable[Keys]) -> Keys:
    return [k for e in elements for k in e]


def _distinct(keys: Iterable[exp.Expr]) -> Keys:
    unique: Keys = []
    for k in keys:
        if k not in unique:
            unique.append(k)
    return unique


def _check(count: int, item: exp.Expr) -> None:
    if count > MAX_SETS:
        raise refuse(
            SQLError,
            f"GROUP BY makes more than {MAX_SETS} grouping sets",
            item,
            code="too-large",
            hint="list the ones you need: GROUP BY GROUPING SETS ((a, b), (a), ())",
        )
