"""A bound GROUP BY and its grouping sets; ROLLUP, CUBE and the rest were spelled out before, in rewrite."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from dpsql.sql.refuse import offsets
from dpsql.sql.trees import Rewrite

Keys = list[exp.Expr]


def group(clause: exp.Expr, key: Rewrite, copied: Rewrite) -> exp.Group:
    """A GROUP BY whose keys are bound by `key`; one that ROLLUP or CUBE put into several sets is bound once."""
    if not _has_sets(clause):
        return exp.Group(expressions=_distinct(key(item) for item in clause.expressions))
    known: dict[object, exp.Expr] = {}  # by what is written, and where

    def bound(item: exp.Expr) -> exp.Expr:
        written = (item, offsets(item))
        if written not in known:
            known[written] = key(item)
        return known[written]

    sets = [_distinct(bound(item) for item in s) for s in grouping_sets(clause)]
    spelled = [exp.Tuple(expressions=[copied(k) for k in s]) for s in sets]
    return exp.Group(expressions=[exp.GroupingSets(expressions=spelled)])


def grouping_sets(clause: exp.Expr | None) -> list[Keys]:
    """The sets of a GROUP BY; one without keys where there is no GROUP BY."""
    if clause is None:
        return [[]]
    if _has_sets(clause):
        return [list(s.expressions) for s in clause.expressions[0].expressions]
    return [list(clause.expressions)]


def group_keys(clause: exp.Expr | None) -> Keys:
    """The keys of a bound GROUP BY, each once, in the order in which they were written."""
    return _distinct(k for s in grouping_sets(clause) for k in s)


def _has_sets(clause: exp.Expr) -> bool:
    return bool(clause.expressions) and isinstance(clause.expressions[0], exp.GroupingSets)


def _distinct(keys: Iterable[exp.Expr]) -> Keys:
    unique: Keys = []
    for k in keys:
        if k not in unique:
            unique.append(k)
    return unique
