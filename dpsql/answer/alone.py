"""Numbers that may be noise alone: their groups come last where a LIMIT takes the first of an order, nothing is divided
by them, and a scalar sum that is no more than that is NULL.

Which these are is told by released numbers and the noise that was drawn for them: post-processing (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.base import Call, Rational
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.intervals import FEW, too_few, weights_of, widths
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.sql.nodes import holds_aggregate
from dpsql.statistics.base import Quantity

FLAG = "dpsql hidden noise of "


def flagged(name: str) -> int | None:
    """The aggregate of which a column of a noisy table says where it may be noise alone; None of other columns."""
    number = name.removeprefix(FLAG)
    return int(number) if name.startswith(FLAG) and number.isdigit() else None


def may_be_noise(noisy: Noisy, call: Call, quantities: Mapping[Quantity, Rational]) -> NDArray[np.bool_]:
    """The cells in which an aggregate's number of rows, or itself where it has none, is within its own noise of 0."""
    recipe = RECIPES[call.function]
    if recipe.rows(call) is not None:
        return too_few(noisy, call, quantities)
    terms = [
        (weight, noisy.step.measurements[place[0]].noise)
        for place, weight in weights_of(noisy, call, quantities).items()
    ]
    drawn = [(weight, noise) for weight, noise in terms if not isinstance(noise, NoisyMax)]
    if len(drawn) < len(terms):
        return np.zeros(noisy.count, dtype=np.bool_)
    centre = recipe.spread(call, quantities).centre
    return np.asarray(centre <= widths(drawn, FEW, noisy.count))


def noise_last(root: exp.Query, noisy: Sequence[Noisy]) -> exp.Query:
    """The query with groups that may be noise alone behind all others, wherever an order of results is cut off."""
    tables = {n.step.name: n for n in noisy}
    for select in list(root.find_all(exp.Select)):
        order = select.args.get("order")
        if order is None or not (select.args.get("limit") or select.args.get("offset")):
            continue
        names = {c.name for one in order.expressions for c in one.find_all(exp.Column)}
        if (flag := _flag(select, names, tables)) is not None:
            order.set("expressions", [exp.Ordered(this=flag), *order.expressions])
    return root


def without_noise(root: exp.Query, noisy: Sequence[Noisy]) -> exp.Query:
    """The query with NULL for what may be noise alone, in scalar subqueries that look a group up.

    These are sums and what is divided by, where they are never below 0 without noise: so a scalar SUM over no rows is
    NULL, as SQL has it. Elsewhere the errors of an answer tell what is divided by (errors.py).
    """
    tables = {n.step.name: n for n in noisy}
    for column in [c for c in root.find_all(exp.Column) if c.table in tables]:
        aggregate = int(column.name[1:]) if column.name.startswith("a") and column.name[1:].isdigit() else None
        select = column.find_ancestor(exp.Select)
        if aggregate is None or select is None or not never_below_0(tables[column.table].step.calls[aggregate]):
            continue
        if not isinstance(column.parent, exp.AnyValue) or not isinstance(select.parent, exp.Subquery):
            continue
        summed = not RECIPES[tables[column.table].step.calls[aggregate].function].counted
        if summed or _is_divisor(column, select):
            flag = _column(f"{FLAG}{aggregate}", column.table)
            column.replace(exp.Case(ifs=[exp.If(this=flag, true=exp.Null())], default=column.copy()))
    return root


def _is_divisor(column: exp.Column, select: exp.Select) -> bool:
    """Is something divided by an expression that this column stands in?"""
    node: exp.Expr = column
    while node.parent is not None and node is not select:
        if isinstance(node.parent, exp.Div | exp.IntDiv | exp.Mod) and node.arg_key == "expression":
            return True
        node = node.parent
    return False


def _flag(select: exp.Select, names: set[str], tables: Mapping[str, Noisy]) -> exp.Column | None:
    """A column that is TRUE where the group of a row may be noise alone, if these columns are made of its numbers.

    The SELECT reads one release, or a subquery that does; of which each row is one group.
    """
    from_ = select.args.get("from_")
    if from_ is None or select.args.get("joins") or select.args.get("group") or select.args.get("distinct"):
        return None
    if any(holds_aggregate(one) for one in select.selects):
        return None
    source = from_.this
    if isinstance(source, exp.Table) and source.name in tables and not source.args.get("alias"):
        aggregate = _telling(tables[source.name], names)
        return None if aggregate is None else _column(f"{FLAG}{aggregate}", source.name)
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select) or not source.alias:
        return None
    if source.args["alias"].columns:
        return None
    below = [o for o in source.this.selects if o.alias_or_name in names]
    flag = _flag(source.this, {c.name for o in below for c in o.find_all(exp.Column)}, tables)
    if flag is None:
        return None
    if all(o.alias_or_name != flag.name for o in source.this.selects):
        source.this.append("expressions", exp.alias_(flag, flag.name, quoted=True))
    return _column(flag.name, source.alias)


def _telling(noisy: Noisy, names: set[str]) -> int | None:
    """The aggregate that tells how sure a group is: its number of rows, if that was released beside what is ordered by.

    Else the one that is ordered by, where it can't be below 0 without noise. None: the order is one of keys, or of what
    may as well be around 0.
    """
    calls = noisy.step.calls
    mine = [i for i in range(len(calls)) if f"a{i}" in names]
    if not mine:
        return None
    rows = [i for i, call in enumerate(calls) if _counts_rows(call)]
    return next((i for i in (*rows, *mine) if _tells(calls[i])), None)


def _counts_rows(call: Call) -> bool:
    recipe = RECIPES[call.function]
    return recipe.one_number and recipe.counted and call.value is None and call.where is None


def _tells(call: Call) -> bool:
    """Is it never below 0 without noise, or an average, which tells its number of rows?"""
    recipe = RECIPES[call.function]
    if recipe.tells_presence or recipe.ranked:
        return False
    return recipe.rows(call) is not None or never_below_0(call)


def never_below_0(call: Call) -> bool:
    """Is it a count, or a sum of values that aren't negative?"""
    recipe = RECIPES[call.function]
    return recipe.one_number and (recipe.counted or (call.value is not None and call.value.grid.low >= 0))


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
