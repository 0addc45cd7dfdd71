"""One aggregate of private rows, as the query writes it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Recipe
from dpsql.aggregates.form import Form
from dpsql.core.errors import SQLError
from dpsql.plan.google import contribution
from dpsql.plan.nodes import Aggregate, Expr, Relation, counted_rows, unit_of
from dpsql.plan.owners import units, ways
from dpsql.plan.pairs import second_argument
from dpsql.plan.refusals import only_counted, unsupported_aggregate
from dpsql.plan.rows import Rows, all_of, plan_column
from dpsql.plan.shares import shares
from dpsql.plan.unmatched import check_unseen
from dpsql.policy.model import Policy
from dpsql.sql.nodes import aggregate_form, is_privacy_unit
from dpsql.sql.refuse import refuse

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


_ROW = "name what is counted: COUNT(DISTINCT (a, b))"
_ONE = "combinations of values can only be counted: COUNT(DISTINCT (a, b))"


def aggregate_of(builder: Builder, node: Expr, rows: Rows) -> Aggregate:
    """An aggregate call, with or without FILTER, over row-level expressions."""
    if rows.unmatched is not None:
        check_unseen(node, rows.private_aliases, rows.unmatched)
    where = None
    call = node
    if isinstance(node, exp.Filter):
        where = builder.row_level(node.expression.this, rows)
        call = node.this
    written = aggregate_form(call)
    distinct = written.distinct_of is not None
    form: Form = written if written.distinct_of is None else RECIPES[written.distinct_of]
    if not form.answered:
        raise unsupported_aggregate(form, call)
    at, listed = _shares(form, call)
    second = second_argument(call, written)
    argument = call.args.get("this")
    if isinstance(call, exp.Anonymous):
        argument = call.expressions[0] if call.expressions else None
    if isinstance(argument, exp.Distinct):
        several = len(argument.expressions) != 1
        argument = argument.expressions[0]
        if isinstance(argument.unnest(), exp.Tuple):
            argument = argument.unnest()
            several = not (isinstance(form, Recipe) and form.counts_distinct)
        if several:
            raise refuse(SQLError, "DISTINCT takes one expression here", call, code="distinct", hint=_ONE)
        distinct = not (isinstance(form, Recipe) and form.same_of_distinct)
    bounds = contribution(call, form, distinct)
    if is_privacy_unit(second):
        raise only_counted(call)
    if is_privacy_unit(argument):
        return _count_units(call, form, distinct, where, node, rows)
    if isinstance(argument, exp.Order):
        argument = argument.this  # the order can't matter for what is supported here
    if isinstance(argument, exp.Star):
        if distinct:
            raise refuse(SQLError, "DISTINCT * counts nothing that has a name", call, code="distinct", hint=_ROW)
        argument = None
    if argument is None and not form.starred:
        raise refuse(SQLError, f"{form.name} needs an argument", call, code="arity", hint=f"write {form.name}(x)")
    plan: Expr | None = None
    if isinstance(argument, exp.Tuple):
        plan = exp.Tuple(expressions=[builder.row_level(e, rows) for e in argument.expressions])
    elif argument is not None:
        plan = builder.row_level(argument, rows)
    if form.condition and plan is not None and not distinct:  # rows that pass a FILTER, and nothing else
        return counted_rows(all_of([*([] if where is None else [where]), plan]), node)
    if isinstance(form, Recipe) and plan is not None:
        plan = form.value(plan)
    if isinstance(form, Recipe) and form.counts_distinct and distinct and plan is not None:
        counted = _counted_unit(plan, rows.relation, builder.policy)
        if counted is not None:
            plan, conditions = counted
            where = all_of([*([] if where is None else [where]), *conditions])
    other = builder.row_level(second, rows) if second is not None else None
    return Aggregate(form.name, plan, distinct, where, node, bounds, at=at, listed=listed, second=other)


def _shares(form: Form, call: Expr) -> tuple[tuple[Fraction, ...], bool]:
    """What a quantile is asked for; nothing of other aggregates."""
    if not form.takes_shares:
        return (form.at if isinstance(form, Recipe) else ()), False
    name = form.name
    share = call.args.get("expression") or call.args.get("quantile")
    if share is None:
        raise refuse(SQLError, f"{name} needs a share of the rows", call, code="arity", hint=f"write {name}(x, 0.5)")
    return shares(share, call)


def _count_units(call: Expr, form: Form, distinct: bool, where: Expr | None, node: Expr, rows: Rows) -> Aggregate:
    """COUNT(DISTINCT PRIVACY_UNIT()): the unit of the rows, whatever its column is called."""
    if not (isinstance(form, Recipe) and form.counts_distinct and distinct):
        raise only_counted(call)
    unit = unit_of(rows.relation)
    # Without a column each row is a unit; analyze knows whether a join repeats it.
    return Aggregate(form.name, None if unit is None else plan_column(unit), True, where, node)


def _counted_unit(argument: Expr, relation: Relation, policy: Policy) -> tuple[Expr, list[Expr]] | None:
    """The unit, and where it is counted, for an argument that is NULL or the row's own unit; None for any other.

    CASE WHEN c THEN unit END counts the units with a row where c holds. A unit's column on the other side of a LEFT
    JOIN is the row's own unit where there is a match, and NULL elsewhere (Theorem OWN-3): it counts those with a match.
    """
    unit = unit_of(relation)
    node: Expr = argument.unnest()
    conditions: list[Expr] = []
    if isinstance(node, exp.If):
        node = exp.Case(ifs=[exp.If(this=node.this, true=node.args["true"])], default=node.args.get("false"))
    if isinstance(node, exp.Case):
        default, ifs = node.args.get("default"), node.args["ifs"]
        if node.this is not None or not (default is None or isinstance(default.unnest(), exp.Null)):
            return None
        if any(one.args["true"] != ifs[0].args["true"] for one in ifs):
            return None
        tests = [exp.Paren(this=one.this.copy()) for one in ifs]
        conditions.append(exp.or_(*tests, copy=False) if len(tests) > 1 else tests[0])
        node = ifs[0].args["true"].unnest()
    if unit is None or not isinstance(node, exp.Column):
        return None
    if node.name not in units(ways(relation, policy)):
        if node.name not in units(ways(relation, policy, matched=True)):
            return None
        conditions.append(exp.Not(this=exp.Is(this=node.copy(), expression=exp.Null())))
    return plan_column(unit), conditions
