"""What a SELECT over groups asks of them: which are there, or what each of them has?

The first is asked by lists of keys, by aggregates over groups that empty ones would change, and by LIMIT over keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import form_of
from dpsql.plan.grouping import branches
from dpsql.plan.nodes import Aggregate, Expr, Release
from dpsql.plan.windows import spelt_out
from dpsql.sql.nodes import holds_aggregate, is_aggregate

if TYPE_CHECKING:
    from dpsql.plan.build import Builder

Sources = Mapping[str, Expr]  # of one SELECT, by alias
_NEIGHBOURS = (exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_SCALING = (exp.Paren, exp.Alias, exp.Cast, exp.TryCast, exp.Neg, exp.Abs, exp.Round, exp.Filter)


def sources_of(select: exp.Select) -> dict[str, Expr]:
    """What a SELECT reads, by alias."""
    from_ = select.args.get("from_")
    trees = ([from_.this] if from_ else []) + [j.this for j in select.args.get("joins") or []]
    return {t.alias_or_name: t for t in trees}


class Parts:
    """The expressions of one SELECT."""

    def __init__(self, select: exp.Select) -> None:
        self.select = select
        clauses = [select.args[k] for k in ("having", "qualify", "order") if select.args.get(k)]
        self.every: list[Expr] = [*select.selects, *clauses]
        self.aggregated = bool(select.args.get("group")) or any(holds_aggregate(e) for e in self.every)

    def calls(self) -> Iterator[Expr]:
        """Its calls of aggregates, those of windows not among them."""
        for part in self.every:
            yield from _calls(part)

    def windows(self) -> Iterator[exp.Window]:
        named = {w.name: w for w in self.select.args.get("windows") or []}
        for part in self.every:
            yield from (spelt_out(w, named) for w in own_nodes(part) if isinstance(w, exp.Window))


def own_nodes(node: Expr) -> Iterator[Expr]:
    """A node and all below it, without the queries in it."""
    if isinstance(node, exp.Query):
        return
    yield node
    for child in node.iter_expressions():
        yield from own_nodes(child)


def _calls(node: Expr) -> Iterator[Expr]:
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        function = _function(node)
        for child in (*function.iter_expressions(), *(c for c in node.iter_expressions() if c is not node.this)):
            yield from _calls(child)
    elif is_aggregate(node):
        yield node
    else:
        for child in node.iter_expressions():
            yield from _calls(child)


def _function(window: exp.Window) -> Expr:
    function: Expr = window.this
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    return function


class Question:
    """Does a SELECT ask which groups there are in the releases, or in the queries over them, that it reads?"""

    def __init__(self, builder: Builder, select: exp.Select) -> None:
        self.builder, self.select = builder, select
        self.parts, self.sources = Parts(select), sources_of(select)

    @property
    def asks(self) -> bool:
        calls, grouped = list(self.parts.calls()), self.select.args.get("group")
        if grouped and not calls:
            return True
        if any(not self._neutral(call) for call in calls):
            return True
        if self._lists or self._limits_keys:
            return True
        return any(self._window_asks(w) for w in self.parts.windows() if not self._compares_numbers(w))

    @property
    def compares(self) -> bool:
        """Is each group compared with others, in a window over aggregates? All groups are shown then as well."""
        return any(self._window_asks(window) for window in self.parts.windows())

    @property
    def shows_none(self) -> bool:
        """Are only keys shown, of groups that aggregates decide about?"""
        decided = self.select.args.get("limit") or self.select.args.get("offset") or self.parts.aggregated
        return not decided and not any(self._has_numbers(o) for o in self.select.selects)

    @property
    def _lists(self) -> bool:
        """Is it DISTINCT over keys?"""
        return bool(self.select.args.get("distinct")) and not any(self._has_numbers(o) for o in self.select.selects)

    @property
    def _limits_keys(self) -> bool:
        if not (self.select.args.get("limit") or self.select.args.get("offset")):
            return False
        return self._orders_keys(self.select.args.get("order"))

    def _orders_keys(self, order: Expr | None) -> bool:
        """Do groups come first that may be empty: in no order, by key, or the smallest counts and sums?"""
        if order is None or not order.expressions:
            return True
        first = order.expressions[0]
        value, descending = (first.this, bool(first.args.get("desc"))) if isinstance(first, exp.Ordered) else (first, 0)
        return not self._has_numbers(value) or (not descending and self._vanishes(value))

    def _window_asks(self, window: exp.Window) -> bool:
        function = _function(window)
        if isinstance(function, _NEIGHBOURS):
            return False
        order = window.args.get("order")
        if is_aggregate(function):
            return order is None and not self._neutral(function)
        return self._orders_keys(order)

    def _compares_numbers(self, window: exp.Window) -> bool:
        """Does it look at aggregates that are mostly NULL in empty groups, or rank groups by aggregates?"""
        function, order = _function(window), window.args.get("order")
        if is_aggregate(function):
            values = list(function.iter_expressions())
            return any(map(self._has_numbers, values)) and not any(map(self._vanishes, values))
        return order is not None and any(map(self._has_numbers, order.expressions))

    def _neutral(self, call: Expr) -> bool:
        """Is an aggregate over groups the same whether empty ones are among them or not?"""
        form = form_of(call)
        value = call.expression if form is not None and form.by_second else call.this
        if form is None or not isinstance(value, exp.Expr) or not (form.adds_up or form.takes_largest):
            return False
        return self._vanishes(value)

    def _vanishes(self, e: Expr) -> bool:
        """Is it about 0 where a group is empty?"""
        return _vanishes(self.builder, e, self.sources)

    def _has_numbers(self, e: Expr) -> bool:
        return holds_aggregate(e) or any(
            _reads_numbers(self.builder, c, self.sources) for c in own_nodes(e) if isinstance(c, exp.Column)
        )


def _vanishes(builder: Builder, e: Expr, sources: Sources) -> bool:
    match e:
        case exp.Literal():
            return not e.is_string and e.name in ("0", "0.0")
        case exp.Null():
            return True
        case exp.Column():
            return all(_zero(builder, one) for one in _traced(builder, e, sources))
        case exp.Mul():
            return any(_vanishes(builder, side, sources) for side in (e.this, e.expression))
        case exp.Div() | exp.IntDiv():
            return _vanishes(builder, e.this, sources)
        case exp.Add() | exp.Sub():
            return all(_vanishes(builder, side, sources) for side in (e.this, e.expression))
        case exp.Coalesce():
            return all(_vanishes(builder, one, sources) for one in (e.this, *e.expressions))
        case exp.Case():
            arms = [i.args["true"] for i in e.args["ifs"]]
            return all(_vanishes(builder, arm, sources) for arm in (*arms, e.args.get("default") or exp.Null()))
        case _:
            form = form_of(e)
            if isinstance(e, _SCALING) or (form is not None and form.adds_up):
                return isinstance(e.this, exp.Expr) and _vanishes(builder, e.this, sources)
            return False


Traced = Aggregate | tuple[Expr, Sources] | None
"""What a column shows: an aggregate of a release, an expression of a subquery over its own sources, or neither."""


def _traced(builder: Builder, column: exp.Column, sources: Sources) -> list[Traced]:
    """What a column shows; several of a union."""
    source = sources.get(column.table)
    if isinstance(source, exp.Table) and source.name in builder.names:
        release = builder.releases[builder.names.index(source.name)]
        number = column.name[1:]
        is_aggregate_column = column.name.startswith("a") and number.isdigit()
        return [release.aggregates[int(number)] if isinstance(release, Release) and is_aggregate_column else None]
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select | exp.SetOperation):
        return [None]
    alias = source.args.get("alias")
    names = [c.name for c in alias.columns] if alias is not None else []
    names = names or source.this.named_selects
    if column.name not in names:
        return [None]
    place = names.index(column.name)
    return [(one.selects[place].unalias(), sources_of(one)) for one in branches(source.this)]


def _zero(builder: Builder, found: Traced) -> bool:
    if isinstance(found, Aggregate):
        return found.recipe is not None and found.recipe.one_number
    return found is not None and _vanishes(builder, *found)


def _reads_numbers(builder: Builder, column: exp.Column, sources: Sources) -> bool:
    """Is an aggregate in what a column shows?"""
    for found in _traced(builder, column, sources):
        if isinstance(found, Aggregate):
            return True
        if found is not None:
            e, inner = found
            columns = [c for c in own_nodes(e) if isinstance(c, exp.Column)]
            if holds_aggregate(e) or any(_reads_numbers(builder, c, inner) for c in columns):
                return True
    return False
