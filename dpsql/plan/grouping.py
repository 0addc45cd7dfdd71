"""Grouping sets over private rows: one release for each distinct set, and a UNION ALL of their noisy tables.

Each set is a release of its own: one unit is in every set, so the prices of the sets add up (Theorem SETS-1), and each
is bounded by itself, since a coarser cell holds more of a unit's rows than a finer one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.plan.nodes import Expr
from dpsql.sql.dialect import cast
from dpsql.sql.refuse import refuse, shown

TABLE = "grouping sets"  # the alias of the union
SETS = "sets"  # in its meta: the noisy table of each branch, in order

KeyNumbers = tuple[int, ...]  # the keys that a set or a GROUPING() names, by number


class Groupings:
    """The GROUPING() calls of one SELECT; each becomes a column that is constant in every branch of the union."""

    def __init__(self, keys: Sequence[Expr], plan: Callable[[Expr], Expr | None], several: bool) -> None:
        self._keys, self._plan, self._several = keys, plan, several
        self.calls: list[KeyNumbers] = []

    def rewrite(self, node: exp.Expr, column: Callable[[str], exp.Expr]) -> exp.Expr:
        """GROUPING(a, b): a number with one bit for each argument, the first the highest, 1 where it is left out."""
        if not self._keys:
            raise refuse(
                SQLError,
                "GROUPING needs a GROUP BY",
                node,
                code="group-by",
                hint="group by ROLLUP (a, b), and ask for GROUPING(a, b)",
            )
        place = tuple(self._number(e) for e in node.expressions)
        if not self._several:
            return cast(exp.Literal.number(0), "BIGINT")
        if place not in self.calls:
            self.calls.append(place)
        return column(f"g{self.calls.index(place)}")

    def _number(self, node: Expr) -> int:
        plan = self._plan(node)
        if plan is None or plan not in self._keys:
            raise refuse(
                SQLError,
                f"GROUPING takes keys of GROUP BY, and {shown(node)} is none",
                node,
                code="group-by",
                hint=f"write one of them: {', '.join(shown(k) for k in self._keys)}",
            )
        return self._keys.index(plan)


def united(
    sets: Sequence[KeyNumbers],
    tables: Mapping[KeyNumbers, str],
    answers: Sequence[str],
    groupings: Groupings,
    keys: int,
) -> exp.Subquery:
    """Every set's noisy table, one after the other; a key that a set leaves out is NULL there.

    answers: the columns of the noisy tables that hold aggregates, and ends of their intervals. A set that was given
    twice is there twice, and was measured once.
    """
    branches = [_branch(s, tables[s], answers, groupings, keys) for s in sets]
    union: exp.Query = branches[0]
    for branch in branches[1:]:
        union = exp.Union(this=union, expression=branch, distinct=False)
    subquery = exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier(TABLE, quoted=True)))
    subquery.meta[SETS] = tuple(tables[s] for s in sets)
    return subquery


def branches(query: exp.Expr) -> list[exp.Select]:
    """The SELECTs of a UNION ALL, in order."""
    if isinstance(query, exp.SetOperation):
        return [*branches(query.this), *branches(query.expression)]
    assert isinstance(query, exp.Select)
    return [query]


def _branch(place: KeyNumbers, table: str, answers: Sequence[str], groupings: Groupings, keys: int) -> exp.Select:
    def column(name: str) -> exp.Expr:
        return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))

    values: list[tuple[str, exp.Expr]] = []
    for i in range(keys):
        values.append((f"k{i}", column(f"k{place.index(i)}") if i in place else exp.Null()))
    values += [(name, column(name)) for name in answers]
    for i, call in enumerate(groupings.calls):
        bits = sum((k not in place) << (len(call) - 1 - j) for j, k in enumerate(call))
        values.append((f"g{i}", cast(exp.Literal.number(bits), "BIGINT")))
    # A set without keys and aggregates is one row that nothing is asked of.
    outputs = [exp.alias_(v, name, quoted=True) for name, v in values] or [exp.alias_(exp.Null(), "k0", quoted=True)]
    return exp.Select(expressions=outputs, from_=exp.From(this=exp.Table(this=exp.to_identifier(table, quoted=True))))
