"""GROUP BY over private rows: a release, or rows of one unit each; and the query over the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates.form import ByValue
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.aggregates import aggregate_of
from dpsql.plan.by_value import Groups, of_counts
from dpsql.plan.correlated import Around, correlated_keys, one_row
from dpsql.plan.google import contribution, interval_column, interval_of
from dpsql.plan.grouping import Groupings, united
from dpsql.plan.nodes import Aggregate, Expr, Filter, GroupUnits, Named, Project, Release, columns_of, unit_of
from dpsql.plan.pairs import any_value
from dpsql.plan.presence import tell_presence
from dpsql.plan.refusals import check_distinct, not_grouped, not_yet_correlated, only_counted
from dpsql.plan.rows import Private, Rows, conjuncts, fresh, plan_column
from dpsql.plan.subqueries import free_aliases
from dpsql.plan.windows import add_window, over_results, spelt_out
from dpsql.sql.grouping import grouping_sets
from dpsql.sql.nodes import (
    aggregate_form,
    bare,
    holds_aggregate,
    interval_end,
    is_aggregate,
    is_privacy_unit,
    is_window_function,
)
from dpsql.sql.refuse import refuse, shown
from dpsql.sql.trees import copied, holds, nodes_of, rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder

MAX_KEYS, MAX_AGGREGATES = 50, 200


# ---------------------------------------------------------------- a release


def release(builder: Builder, node: exp.Select, rows: Rows) -> exp.Select:
    """Aggregates of private rows: a noisy table, and the rest of the SELECT over it."""
    correlated = correlated_keys(builder, rows)
    keys: list[Expr] = []
    sets: list[tuple[int, ...]] = []  # the keys of each grouping set, by number
    listed = grouping_sets(node.args.get("group"))
    if len(listed) > 1:
        _check_apart(builder, listed, rows)
    for written in listed:
        plans = [*_keys(builder, written, rows), *(k for k, _ in correlated)]
        keys += [p for i, p in enumerate(plans) if p not in keys and p not in plans[:i]]
        sets.append(tuple(dict.fromkeys(keys.index(p) for p in plans)))
    groupings = Groupings(keys, lambda e: _try_key(builder, e, rows, keys), len(sets) > 1)
    aggregates: list[Aggregate] = []
    places: list[exp.Column] = []
    by_value: list[ByValue] = []  # aggregates that are measured by releases of their own

    def column(name: str) -> exp.Column:
        made = exp.Column(this=exp.to_identifier(name, quoted=True))
        places.append(made)
        return made

    def aggregate(e: Expr) -> Expr:
        if (known := any_value(e, rewrite)) is not None:
            return known
        form = aggregate_form(e.this if isinstance(e, exp.Filter) else e)
        if isinstance(form, ByValue):
            by_value.append(form)
            return of_counts(builder, form, e, rows, Groups(node.args.get("group"), keys, column, len(sets) > 1))
        found = aggregate_of(builder, e, rows)
        if found not in aggregates:
            aggregates.append(found)
        return column(f"a{aggregates.index(found)}")

    def subquery(e: Expr) -> Expr:
        """A subquery beside aggregates: of this scope's rows it may see the keys."""
        builder.around.append(Around(dict.fromkeys(rows.aliases)))
        inner: Expr = (
            exp.Subquery(this=builder.answered(e.this)) if isinstance(e, exp.Subquery) else builder.answered(e)
        )
        builder.around.pop()
        for outer in [c for c in inner.find_all(exp.Column) if (c.table, c.name) in rows.columns]:
            plan = builder.row_level(outer, rows)
            if plan not in keys:
                raise not_grouped(outer)
            outer.replace(column(f"k{keys.index(plan)}"))
        return inner

    def special(e: Expr) -> Expr | None:
        if interval_end(e) is not None:
            return column(interval_column(e, rewrite))
        return groupings.rewrite(e, column) if isinstance(e, exp.Grouping | exp.GroupingId) else None

    rewrite = _over_groups(
        builder, rows, keys, lambda i: column(f"k{i}"), aggregate, subquery, lambda e: over_results(e, rewrite), special
    )
    post = exp.Select()
    post.set("expressions", [rewrite(o) for o in node.selects])
    if having := node.args.get("having"):
        post.set("where", exp.Where(this=rewrite(having.this)))
    for part in ("qualify", "order"):
        if clause := node.args.get(part):
            post.set(part, rewrite(clause))
    if windows := node.args.get("windows"):
        post.set("windows", [over_results(w, rewrite) for w in windows])
    if distinct := node.args.get("distinct"):
        post.set("distinct", rebuilt(distinct, rewrite))
    for part in ("limit", "offset"):
        if clause := node.args.get(part):
            post.set(part, clause.copy())
    _check_size(keys, aggregates)
    for key, outer in correlated:
        post.where(exp.EQ(this=column(f"k{keys.index(key)}"), expression=outer.copy()), copy=False)
    if correlated:
        one_row(node, post, aggregates, places)
    every = rows.unmatched is not None and not _looks_at(node, rows.private_aliases)
    alone = len(sets) == 1 and not every and not by_value and not correlated
    kept = _conditions_on_keys(post, keys) if alone else ()
    measured = tuple(aggregates)
    tables = {
        numbers: builder.add(Release(rows.relation, tuple(keys[i] for i in numbers), measured, every=every, kept=kept))
        for numbers in sets
    }
    source: Expr = exp.Table(this=exp.to_identifier(tables[sets[0]], quoted=True))
    if len(sets) > 1:
        ends = sorted({p.name for p in places if interval_of(p.name) is not None})
        answers = [*(f"a{i}" for i in range(len(aggregates))), *ends]
        source = united(sets, tables, answers, groupings, len(keys))
    for place in places:
        place.set("table", exp.to_identifier(source.alias_or_name, quoted=True))
    post.set("from_", exp.From(this=source))
    if not correlated and not by_value:
        tell_presence(builder, post, lists=not aggregates)
    return post


def _conditions_on_keys(post: exp.Select, keys: Sequence[Expr]) -> tuple[Expr, ...]:
    """What HAVING says of the keys alone, over plan columns: aggregates, noisy values and subqueries say nothing here.

    Theorem STEP-1: which cells there are rests on no noisy value.
    """
    numbers = {f"k{i}": key for i, key in enumerate(keys)}

    def rewrite(e: Expr) -> Expr:
        return copied(numbers[e.name]) if isinstance(e, exp.Column) else rebuilt(e, rewrite)

    having = post.args.get("where")
    listed = conjuncts(having.this) if having is not None else []
    alone = [c for c in listed if not holds(c, exp.Query, exp.Window, exp.AggFunc)]
    about = [c for c in alone if (names := {n.name for n in nodes_of(c, exp.Column)}) and names <= numbers.keys()]
    return tuple(rewrite(c) for c in about)


def _looks_at(node: exp.Select, private: Set[str]) -> bool:
    """Do the rows and groups of a SELECT hang on columns of these sources?"""
    parts = [part for name in ("where", "group") if (part := node.args.get(name))]
    return any(c.table in private for part in parts for c in part.find_all(exp.Column))


def _check_apart(builder: Builder, sets: Iterable[Sequence[Expr]], rows: Rows) -> None:
    """A set may leave one key out and keep another, so the same column can't be both of them."""
    known: dict[Expr, Expr] = {}
    for key in (k for one in sets for k in one):
        plan = _keys(builder, [key], rows)[0]
        if known.setdefault(plan, key) != key:
            raise refuse(
                SQLError,
                f"{shown(known[plan])} and {shown(key)} are the same column, and grouping sets tell their keys apart",
                key,
                code="group-by",
                hint="group by one of them",
            )


def _check_size(keys: list[Expr], aggregates: list[Aggregate]) -> None:
    if len(keys) > MAX_KEYS or len(aggregates) > MAX_AGGREGATES:
        raise SQLError(
            f"one SELECT takes at most {MAX_KEYS} keys and {MAX_AGGREGATES} aggregates of private rows",
            code="too-large",
            hint="ask for some of them in a query of their own",
        )


# ---------------------------------------------------------------- rows of one unit each


def group_units(builder: Builder, node: exp.Select, rows: Rows) -> Private:
    """Groups that hold rows of one unit only: private rows again, one for each unit and key (Theorem OWN-6)."""
    if rows.foreign:
        raise not_yet_correlated(next(rows.foreign[0].find_all(exp.Column)))
    builder.check_limits(node)
    check_distinct(node)
    unit = unit_of(rows.relation)
    assert unit is not None
    keys = _keys(builder, grouping_sets(node.args.get("group"))[0], rows)
    taken = [unit]
    names: list[str] = []
    for key in keys:
        own = isinstance(key, exp.Column) and key.name == unit
        names.append(unit if own else fresh(key.name if isinstance(key, exp.Column) else "key", taken))
        taken.append(names[-1])
    calls: list[Named] = []
    made: list[Named] = []  # windows over the groups

    def aggregate(e: Expr) -> Expr:
        found = _own_call(builder, e, rows)
        name = next((n for n, known in calls if known == found), None)
        if name is None:
            name = fresh("value", [*taken, *(n for n, _ in (*calls, *made))])
            calls.append((name, found))
        return plan_column(name)

    grouped = Rows(rows.relation, {})  # what is computed over the groups: windows and subqueries add to it
    grouped.windows = {w.name: w for w in node.args.get("windows") or []}

    def over(e: Expr) -> Expr:
        """A window over the groups: its column is added once they are there."""
        assert isinstance(e, exp.Window) and grouped.windows is not None
        inner = over_results(spelt_out(e, grouped.windows), rewrite)
        name = next((n for n, known in made if known == inner), None)
        if name is None:
            name = fresh("window", [*taken, *(n for n, _ in (*calls, *made))])
            made.append((name, inner))
        return plan_column(name)

    answers: list[tuple[Expr, str]] = []  # (SELECT AVG(x) …) as a value, and its column

    def subquery(e: Expr) -> Expr:
        """A value that is answered first, as a step of its own: one row, joined to every group (Theorem STEP-1)."""
        listed = isinstance(e.parent, exp.In | exp.Any | exp.All | exp.Exists)
        if listed or not isinstance(e, exp.Subquery) or free_aliases(e.this) & rows.aliases:
            raise refuse(
                PrivacyError,
                "a subquery here, beside groups of one unit, can only be a value that doesn't look at them",
                e,
                code="unsupported",
                hint="group in a derived table, and put the condition into the WHERE around it",
            )
        name = next((n for known, n in answers if known == e), None)
        if name is None:
            name = fresh("answer", [*taken, *(n for _, n in answers)])
            answers.append((e, name))
        return plan_column(name)

    rewrite = _over_groups(builder, rows, keys, lambda i: plan_column(names[i]), aggregate, subquery, over)
    outputs = {o.alias: rewrite(o.this) for o in node.selects}
    having = rewrite(node.args["having"].this) if node.args.get("having") else None
    qualify = rewrite(node.args["qualify"].this) if node.args.get("qualify") else None
    listed = tuple((n, k) for n, k in zip(names, keys, strict=True) if n != unit)
    grouped.relation = GroupUnits(rows.relation, unit, listed, tuple(calls))
    if answers:
        found = {name: builder.row_level(e, grouped) for e, name in answers}
        columns = [*((n, plan_column(n)) for n in columns_of(grouped.relation)), *found.items()]
        grouped.relation = Project(grouped.relation, tuple(columns), unit)
    if having is not None:
        grouped.relation = Filter(grouped.relation, having)
    for name, one in made:
        add_window(one, grouped, builder.policy, name)
    if qualify is not None:
        grouped.relation = Filter(grouped.relation, qualify)
    result = Private(grouped.relation, outputs)
    if not node.args.get("distinct"):
        return result
    return distinct_units(result)


def distinct_units(rows: Private) -> Private:
    """Each unit's distinct rows."""
    unit = unit_of(rows.relation)
    assert unit is not None
    names: dict[str, str] = {}
    keys: list[Named] = []
    for name, e in rows.outputs.items():
        if isinstance(e, exp.Column) and e.name == unit:
            names[name] = unit
            continue
        names[name] = fresh(e.name if isinstance(e, exp.Column) else "key", [unit, *names.values()])
        keys.append((names[name], e))
    outputs = {name: plan_column(plan) for name, plan in names.items()}
    return Private(GroupUnits(rows.relation, unit, tuple(keys), ()), outputs)


def _own_call(builder: Builder, node: Expr, rows: Rows) -> Expr:
    """An aggregate of one unit's rows, over plan columns."""

    def rewrite(e: Expr) -> Expr:
        if isinstance(e, exp.Star):
            return e.copy()
        if is_privacy_unit(e):
            unit = unit_of(rows.relation)
            assert unit is not None
            return plan_column(unit)
        if isinstance(e, exp.Distinct | exp.Order | exp.Ordered | exp.Where):
            return rebuilt(e, rewrite)
        return builder.row_level(e, rows)

    call = node.this if isinstance(node, exp.Filter) else node
    if contribution(call, aggregate_form(call), False) is not None:
        raise refuse(
            PrivacyError,
            "contribution bounds belong to the aggregates that leave, and these are one unit's own",
            node,
            code="contribution-bounds",
            hint="clip the values: SUM(CLIP(x, 0, 100))",
        )
    if isinstance(node, exp.Filter):
        return rebuilt(node, lambda e: rebuilt(e, rewrite))
    return rebuilt(node, rewrite)


# ---------------------------------------------------------------- both


def _keys(builder: Builder, written: Iterable[Expr], rows: Rows) -> list[Expr]:
    keys: list[Expr] = []
    for key in written:
        if is_privacy_unit(key):
            unit = unit_of(rows.relation)
            if unit is None:
                raise only_counted(key)
            plan: Expr = plan_column(unit)
        else:
            plan = builder.row_level(key, rows)
        if plan not in keys:
            keys.append(plan)
    return keys


def _over_groups(
    builder: Builder,
    rows: Rows,
    keys: list[Expr],
    key: Callable[[int], Expr],
    aggregate: Callable[[Expr], Expr],
    subquery: Callable[[Expr], Expr],
    over: Callable[[Expr], Expr],
    special: Callable[[Expr], Expr | None] = lambda e: None,
) -> Callable[[Expr], Expr]:
    """Rewrites an expression over groups: its aggregates, keys, subqueries and windows are replaced."""

    def rewrite(e: Expr) -> Expr:
        e = bare(e)
        if isinstance(e, exp.Query):
            return e if isinstance(e, exp.Subquery) and e.this is None else subquery(e)
        if not isinstance(e, exp.Window) and not is_window_function(e) and _is_call(e):
            return aggregate(e)
        if (found := special(e)) is not None:
            return found
        if not holds_aggregate(e) and not isinstance(e, exp.Literal | exp.Order | exp.Ordered | exp.Alias):
            plan = _try_key(builder, e, rows, keys)
            if plan is not None:
                return key(keys.index(plan))
        if isinstance(e, exp.Column):
            raise not_grouped(e)
        if is_privacy_unit(e):
            raise only_counted(e)
        if isinstance(e, exp.Window):
            return over(e)
        return rebuilt(e, rewrite)

    return rewrite


def _try_key(builder: Builder, e: Expr, rows: Rows, keys: list[Expr]) -> Expr | None:
    """The key that an expression is; whatever it would add to the rows otherwise is taken back."""
    if e.find(exp.Window):
        return None
    before, made, releases = rows.relation, dict(rows.made), list(builder.releases)
    try:
        plan = builder.row_level(e, rows)
    except (SQLError, PrivacyError):
        plan = None
    if plan is not None and plan in keys:
        return plan
    rows.relation, rows.made, builder.releases = before, made, releases
    return None


def _is_call(e: Expr) -> bool:
    return is_aggregate(e) or (isinstance(e, exp.Filter) and is_aggregate(e.this))
