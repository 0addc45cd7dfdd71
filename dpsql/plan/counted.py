"""How many groups there are: COUNT(*) over a list of groups is a count of distinct values.

SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM t) is SELECT COUNT(DISTINCT (a, b)) FROM t. A count of values needs no
list of them, and no value is shown or missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import form_of
from dpsql.plan.distinct import distinct_as_group
from dpsql.plan.nodes import Expr
from dpsql.plan.presence import without_needless
from dpsql.plan.questions import sources_of
from dpsql.plan.rows import Rows, all_of, conjuncts
from dpsql.plan.sets import united_list, without_repeats
from dpsql.sql.nodes import holds_aggregate, is_privacy_unit
from dpsql.sql.trees import rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder

_AROUND = ("expressions", "from_", "where", "group", "having", "order", "limit", "offset", "kind")
_LIST = ("expressions", "from_", "joins", "where", "group", "having", "order", "distinct", "kind")


def count_of_distinct(builder: Builder, node: exp.Select) -> exp.Select | None:
    """A SELECT of counts over a list of groups as one of distinct values; None where it isn't one."""
    source = next(iter(sources_of(node).values()), None)
    if not isinstance(source, exp.Subquery) or not _has_only(node, _AROUND):
        return None
    listed = united_list(builder, source.this) or source.this
    if not isinstance(listed, exp.Select) or not _has_only(listed, _LIST):
        return None
    listed = without_repeats(without_needless(listed))
    parts = [*node.selects, *(node.args[k] for k in ("having", "order") if node.args.get(k))]
    outside = [*parts, *(node.args[k] for k in ("where", "group") if node.args.get(k))]
    if any(e.find(exp.Query) or e.find(exp.Window) for e in outside) or not any(map(holds_aggregate, parts)):
        return None
    if any(is_privacy_unit(e) for part in outside for e in part.walk()):  # a list of groups has none
        return None
    keys = _keys(listed)
    if keys is None or not _lists_private_rows(builder, listed):
        return None
    names = [c.name for c in source.args["alias"].columns] or [o.alias for o in listed.selects]
    columns = {n: o.this for n, o in zip(names, listed.selects, strict=True)}
    rewritten = _Counts(source.alias, columns, keys)
    return rewritten.over(node, listed) if all(map(rewritten.known, parts)) else None


def _has_only(node: exp.Select, clauses: tuple[str, ...]) -> bool:
    return not any(value for name, value in node.args.items() if name not in clauses)


def _keys(listed: exp.Select) -> list[Expr] | None:
    """By what the rows of a list differ; None where it is no list of groups."""
    group, distinct = listed.args.get("group"), listed.args.get("distinct")
    every = [*listed.selects, *(listed.args[k] for k in ("having", "order") if listed.args.get(k))]
    if any(holds_aggregate(e) or e.find(exp.Window) for e in every):
        return None
    if distinct:
        return None if distinct.args.get("on") else [o.this for o in listed.selects]
    if group is None or any(value for name, value in group.args.items() if name != "expressions"):
        return None
    return list(group.expressions)


def _lists_private_rows(builder: Builder, listed: exp.Select) -> bool:
    """Are its groups of more than one unit? Others are rows of their units, which are counted as such."""
    with builder.trying() as may:
        found = builder.rows_of(listed, aggregated=True) if may else None
        if not isinstance(found, Rows) or found.foreign or found.unmatched is not None:
            return False
        return not builder.keeps_units(distinct_as_group(listed) if listed.args.get("distinct") else listed, found)


class _Counts:
    """Expressions over a list of groups, as expressions over the rows that it is made of."""

    def __init__(self, alias: str, columns: Mapping[str, Expr], keys: list[Expr]) -> None:
        self.alias, self.columns, self.keys = alias, columns, keys

    def known(self, node: Expr) -> bool:
        """Are its aggregates counts?"""
        form = form_of(node)
        if form is not None:
            return form.starred and form.zero_where_empty and form.answered
        return all(map(self.known, node.iter_expressions()))

    def over(self, node: exp.Select, listed: exp.Select) -> exp.Select:
        """The SELECT over the rows of the list."""
        made = listed.copy()
        for part in ("group", "having", "order", "distinct", "windows"):
            made.set(part, None)
        made.set("expressions", [self._rows(o) for o in node.selects])
        for part in ("group", "having", "order"):
            if node.args.get(part):
                made.set(part, self._rows(node.args[part]))
        for part in ("limit", "offset"):
            if node.args.get(part):
                made.set(part, node.args[part].copy())
        below = [clause for clause in (listed.args.get("where"), listed.args.get("having")) if clause]
        conditions = [c.copy() for clause in below for c in conjuncts(clause.this)]
        if where := node.args.get("where"):
            conditions += [self._rows(c) for c in conjuncts(where.this)]
        every = all_of(exp.Paren(this=c) for c in conditions)
        made.set("where", None if every is None else exp.Where(this=every))
        return made

    def _rows(self, node: Expr) -> Expr:
        filtered = node.this if isinstance(node, exp.Filter) else node
        if form_of(filtered) is not None:
            condition = [self._rows(node.expression.this)] if isinstance(node, exp.Filter) else []
            return self._count(filtered, condition)
        if isinstance(node, exp.Column) and node.table == self.alias:
            return self.columns[node.name].copy()
        return rebuilt(node, self._rows)

    def _count(self, call: Expr, conditions: list[Expr]) -> Expr:
        """COUNT(*), COUNT(x) or COUNT(DISTINCT x) of groups: of distinct keys, of those with an x, of distinct x."""
        made = call.copy()
        if isinstance(call.this, exp.Distinct):
            made.set("this", rebuilt(call.this, self._rows))
        else:
            whole = exp.Tuple(expressions=[k.copy() for k in self.keys])
            made.set("this", exp.Distinct(expressions=[whole]))
            if not isinstance(call.this, exp.Star):
                there = exp.Is(this=exp.Paren(this=self._rows(call.this)), expression=exp.Null())
                conditions = [*conditions, exp.Not(this=exp.Paren(this=there))]
        where = all_of(exp.Paren(this=c) for c in conditions)
        return made if where is None else exp.Filter(this=made, expression=exp.Where(this=where))
