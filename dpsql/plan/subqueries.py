"""Expressions over private rows: columns become plan columns, subqueries and windows columns of the relation.

A subquery over public things, or one that is itself a release, is answered before the statement runs, and its values
are constants there. A subquery over private rows may only tell a unit something about its own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.aggregates import form_of
from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.google import not_an_aggregate
from dpsql.plan.nodes import (
    Expr,
    Given,
    GroupUnits,
    Join,
    Mark,
    PublicTable,
    Relation,
    columns_of,
    scanned,
    unit_of,
)
from dpsql.plan.owners import one_owner, without_units
from dpsql.plan.refusals import misplaced, not_yet_correlated, only_counted
from dpsql.plan.rows import (
    Private,
    PublicRows,
    Rows,
    all_of,
    apart,
    conjuncts,
    fresh,
    given,
    plan_column,
    renamed,
    renamed_public,
    substituted,
)
from dpsql.plan.windows import add_window, over_results, spelt_out
from dpsql.sql.nodes import (
    aggregate_form,
    holds_aggregate,
    interval_end,
    is_aggregate,
    is_privacy_unit,
    is_window_function,
)
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import nodes_of, rebuilt

if TYPE_CHECKING:
    from dpsql.plan.build import Builder


def row_level(builder: Builder, node: Expr, rows: Rows) -> Expr:
    """A scalar expression over private rows, in plan columns."""

    def rewrite(e: exp.Expr) -> exp.Expr:
        if isinstance(e, exp.In) and e.args.get("query") is not None:
            return _member(builder, e, rewrite(e.this), rows)
        if isinstance(e, exp.Exists):
            return _exists(builder, e, rows)
        if isinstance(e, exp.Query):
            return _scalar(builder, e, rows)
        if isinstance(e, exp.Any | exp.All):
            raise refuse(
                PrivacyError,
                "ANY and ALL of a subquery over private rows are not supported",
                e,
                code="unsupported",
                hint="write IN (SELECT …), EXISTS (SELECT …), or compare with an aggregate",
            )
        if isinstance(e, exp.Window):
            if rows.windows is None:
                raise refuse(
                    PrivacyError,
                    "a window over private rows can't stand here",
                    e,
                    code="window-private",
                    hint="compute it in a derived table, partitioned by the unit; or aggregate first",
                )
            return add_window(over_results(spelt_out(e, rows.windows), rewrite), rows, builder.policy)
        if is_window_function(e):
            raise refuse(
                PrivacyError,
                "a window function needs a window",
                e,
                code="window-private",
                hint="write OVER (PARTITION BY PRIVACY_UNIT() ORDER BY …)",
            )
        if is_aggregate(e):
            raise misplaced(e)
        if isinstance(e, exp.Column):
            return builder.column(e, rows)
        if is_privacy_unit(e):
            unit = unit_of(rows.relation)
            if unit is None:
                raise only_counted(e)
            return plan_column(unit)
        if interval_end(e) is not None:
            raise not_an_aggregate(e)
        return rebuilt(e, rewrite)

    return rewrite(node)


def free_aliases(node: Expr) -> set[str]:
    """The sources that an expression looks at and doesn't bring along in a subquery of its own."""
    own = {t.alias for t in nodes_of(node, exp.Table, exp.Subquery, exp.Values) if t.alias}
    return {c.table for c in nodes_of(node, exp.Column) if c.table} - own


# ---------------------------------------------------------------- public values


def _scalar(builder: Builder, node: Expr, rows: Rows) -> Expr:
    """(SELECT …) as a value."""
    inner = node.this if isinstance(node, exp.Subquery) else node
    if free_aliases(inner) & rows.aliases:
        return _own_value(builder, inner, rows)
    if isinstance(inner, exp.Select) and inner.args.get("group") and not inner.args.get("limit"):
        raise refuse(
            PrivacyError,
            "a subquery that stands for a value has one row, and this one has a row for each group",
            inner,
            code="several-rows",
            hint="leave GROUP BY out, add ORDER BY … LIMIT 1, or use IN",
        )
    query = builder.answered(inner)
    return _constant(builder, exp.Subquery(this=query), exp.Subquery(this=inner.copy()), rows)


def _constant(builder: Builder, value: Expr, written: Expr, rows: Rows) -> Expr:
    """A value that is computed before the statement: one row, joined to every other."""
    queries = [exp.select(exp.alias_(v, "value", quoted=True)) for v in (value, written)]
    made = rows.made.get(queries[0])
    if made is not None:
        return made.copy()
    found = _given(builder, queries[0], ["value"], queries[1], one_row=True)
    new, _ = apart({}, found, columns_of(rows.relation))
    right = renamed_public(found, new)
    rows.relation = Join(rows.relation, right, "inner", None, None)
    rows.made[queries[0]] = plan_column(right.columns[0][0])
    return plan_column(right.columns[0][0])


def _given(builder: Builder, query: exp.Query, outputs: list[str], written: exp.Query, *, one_row: bool) -> Given:
    """Rows that are computed before the statement, and so can't look at a row of any query around them."""
    outer = free_aliases(written)
    if outer:
        raise not_yet_correlated(next(c for c in nodes_of(written, exp.Column) if c.table in outer))
    return given(query, outputs, written, set(builder.names), one_row=one_row)


# ---------------------------------------------------------------- IN and EXISTS


def _member(builder: Builder, node: exp.In, value: Expr, rows: Rows) -> Expr:
    """value IN (SELECT …)."""
    inner = node.args["query"]
    inner = inner.this if isinstance(inner, exp.Subquery) else inner
    if free_aliases(inner) & rows.aliases:
        raise refuse(
            PrivacyError,
            "IN with a subquery that looks at the outer row is not supported",
            node,
            code="correlated",
            hint="write EXISTS (SELECT 1 FROM … WHERE … = …)",
        )
    built = builder.query(inner)
    values = list(value.expressions) if isinstance(value, exp.Tuple) else [value]
    if not isinstance(built, Private):
        if len(values) > 1:
            raise refuse(
                PrivacyError,
                "IN over public rows takes one value",
                node,
                code="unsupported",
                hint="write EXISTS (SELECT 1 FROM … WHERE … = … AND … = …)",
            )
        found = _given(builder, built, [_only_output(inner)], inner.copy(), one_row=False)
        new, _ = apart({}, found, columns_of(rows.relation))
        other = renamed_public(found, new)
        return _marked(rows, other, None, None, (values[0], plan_column(other.columns[0][0])))
    new, _ = apart({}, built.relation, columns_of(rows.relation))
    relation = renamed(built.relation, new)
    theirs = [substituted(e, new) for e in built.outputs.values()]
    if len(theirs) != len(values):
        raise refuse(
            SQLError,
            f"{len(values)} values can't be in rows of {len(theirs)} columns",
            node,
            code="column-count",
            hint="select as many columns as there are values",
        )
    conditions: list[Expr] = [exp.EQ(this=v.copy(), expression=t) for v, t in zip(values, theirs, strict=True)]
    _check_owners(builder, conditions, rows, relation, node)
    marked = _marked(rows, relation, _more(conditions, rows, relation), _units(rows, relation), None)
    missing = [
        exp.Is(this=v.copy(), expression=exp.Null())
        for v in values
        if not (isinstance(v, exp.Column) and v.name == unit_of(rows.relation))
    ]
    if not missing:
        return marked
    # NULL IN (…) is NULL. (Of no rows at all it would be FALSE, but whether there are any is other people's business.)
    made = exp.Case(ifs=[exp.If(this=m, true=exp.Null()) for m in missing], default=marked)
    made.meta["member"] = True
    return made


def _only_output(query: Expr) -> str:
    while isinstance(query, exp.SetOperation):
        query = query.this
    assert isinstance(query, exp.Select)
    return str(query.selects[0].alias)


def _exists(builder: Builder, node: exp.Exists, rows: Rows) -> Expr:
    """EXISTS (SELECT …): of the unit's own rows, or of public ones."""
    inner = node.this.this if isinstance(node.this, exp.Subquery) else node.this
    if not free_aliases(inner) & rows.aliases:
        built = builder.query(inner)
        if isinstance(built, Private):
            raise _strangers(node, scanned(built.relation).table)
        return _constant(builder, exp.Exists(this=built), exp.Exists(this=inner.copy()), rows)
    if any(holds_aggregate(o) for o in inner.selects):
        raise refuse(
            PrivacyError,
            "EXISTS of an aggregate is always true: there is one row, whatever it holds",
            node,
            code="correlated",
            hint="select a constant: EXISTS (SELECT 1 FROM … WHERE …)",
        )
    select, outer = _split(inner, rows)
    found = builder.rows_of(select)
    if isinstance(found, Rows):
        if found.foreign:  # they look at a row further out
            raise not_yet_correlated(nodes_of(found.foreign[0], exp.Column)[0])
        new, columns = apart(found.columns, found.relation, columns_of(rows.relation))
        relation = renamed(found.relation, new)
        both = Rows(rows.relation, {**rows.columns, **columns})
        conditions = [_plain(builder, c, both) for c in outer]
        _check_owners(builder, conditions, rows, relation, node)
        return _marked(rows, relation, _more(conditions, rows, relation), _units(rows, relation), None)
    public = _public_rows(builder, select, outer, rows)
    new, columns = apart(public.columns, public.relation, columns_of(rows.relation))
    both = Rows(rows.relation, {**rows.columns, **columns})
    condition = all_of(_plain(builder, c, both) for c in outer)
    return _marked(rows, renamed_public(public.relation, new), condition, None, None)


def _split(inner: Expr, rows: Rows) -> tuple[exp.Select, list[Expr]]:
    """A correlated SELECT without the conditions that look at the outer row, and those conditions."""
    if not isinstance(inner, exp.Select) or any(
        inner.args.get(k) for k in ("group", "having", "qualify", "limit", "offset")
    ):
        raise refuse(
            PrivacyError,
            "a correlated subquery over private rows is FROM and WHERE only",
            inner,
            code="correlated",
            hint="group in a derived table, and look at its rows: EXISTS (SELECT 1 FROM (SELECT …) AS q WHERE …)",
        )
    where = inner.args.get("where")
    listed = conjuncts(where.this if where else None)
    outer = [c for c in listed if free_aliases(c) & rows.aliases]
    select = inner.copy()
    own = all_of(c.copy() for c in listed if c not in outer)
    select.set("where", exp.Where(this=own) if own is not None else None)
    if free_aliases(select) & rows.aliases and not all(
        free_aliases(o) <= rows.aliases | _aliases(select) for o in select.selects
    ):
        raise not_yet_correlated(next(c for c in nodes_of(select, exp.Column) if c.table in rows.aliases))
    return select, outer


def _aliases(select: exp.Select) -> set[str]:
    from_ = select.args.get("from_")
    trees = ([from_.this] if from_ else []) + [j.this for j in select.args.get("joins") or []]
    return {t.alias_or_name for t in trees}


def _public_rows(builder: Builder, select: exp.Select, outer: list[Expr], rows: Rows) -> PublicRows:
    """The columns of a public SELECT that conditions on the outer row look at, as rows that are given."""
    needed: list[exp.Column] = []
    for condition in outer:
        for column in nodes_of(condition, exp.Column):
            if column.table not in rows.aliases and column not in needed:
                needed.append(column)
    names = [f"c{i}" for i in range(len(needed))] or ["c0"]
    values: list[Expr] = [c.copy() for c in needed] or [exp.Literal.number(1)]
    listed = [exp.alias_(v, n, quoted=True) for v, n in zip(values, names, strict=True)]
    bare = select.copy()
    bare.set("expressions", listed)
    bare.set("distinct", exp.Distinct())
    bare.set("order", None)
    found = _given(builder, builder.answered(bare), names, bare, one_row=False)
    columns: dict[tuple[str, str], Expr] = {
        (c.table, c.name): plan_column(n) for c, n in zip(needed, names, strict=False)
    }
    return PublicRows(found, columns)


def _plain(builder: Builder, condition: Expr, both: Rows) -> Expr:
    if condition.find(exp.Query):
        raise refuse(
            PrivacyError,
            "a subquery inside a condition that looks at the outer row is not supported",
            condition,
            code="correlated",
            hint="compute it in a derived table",
        )
    return builder.row_level(condition, both)


def _marked(
    rows: Rows,
    other: Relation | PublicTable | Given,
    condition: Expr | None,
    units: tuple[str, str] | None,
    member: tuple[Expr, Expr] | None,
) -> Expr:
    key = (other, condition, units, member)
    made = rows.made.get(key)
    if made is not None:
        return made.copy()
    name = fresh("mark", (*columns_of(rows.relation), *columns_of(other)))
    rows.relation = Mark(rows.relation, other, name, condition, units, member)
    rows.made[key] = plan_column(name)
    return plan_column(name)


def _units(rows: Rows, other: Relation) -> tuple[str, str]:
    mine, theirs = unit_of(rows.relation), unit_of(other)
    assert mine is not None and theirs is not None
    return mine, theirs


def _more(conditions: list[Expr], rows: Rows, other: Relation) -> Expr | None:
    return all_of(without_units(conditions, _units(rows, other)))


def _check_owners(builder: Builder, conditions: list[Expr], rows: Rows, other: Relation, node: Expr) -> None:
    if not one_owner(conditions, rows.relation, other, builder.policy):
        raise _strangers(node, scanned(other).table)


def _strangers(node: Expr, table: str) -> PrivacyError:
    return refuse(
        PrivacyError,
        f"this subquery lets rows of {table} decide about other people's rows",
        node,
        code="cross-unit",
        hint="let it look at the same unit: unit IN (SELECT unit FROM …), or EXISTS (SELECT 1 FROM … WHERE its unit = "
        "the outer unit); or aggregate in it: a noisy value may filter rows",
    )


# ---------------------------------------------------------------- a value of the unit's own rows


def _own_value(builder: Builder, inner: Expr, rows: Rows) -> Expr:
    """(SELECT MAX(x) FROM … WHERE its unit = the outer unit): a per-unit aggregate, joined to the unit's rows."""
    select, outer = _split(inner, rows)
    if len(select.selects) != 1 or not holds_aggregate(select.selects[0]):
        raise refuse(
            PrivacyError,
            "a subquery that looks at the outer row must be one aggregate of the unit's own rows",
            inner,
            code="correlated",
            hint="write (SELECT MAX(x) FROM … WHERE its unit = the outer unit), or a join",
        )
    pairs: list[tuple[Expr, Expr]] = []
    for condition in outer:
        node = condition.unnest()
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        mine = [s for s in sides if free_aliases(s) <= rows.aliases]
        theirs = [s for s in sides if not free_aliases(s) & rows.aliases]
        if len(mine) != 1 or len(theirs) != 1 or condition.find(exp.Query):
            raise not_yet_correlated(next(c for c in nodes_of(condition, exp.Column) if c.table in rows.aliases))
        pairs.append((mine[0], theirs[0]))
    names = [f"key{i}" for i in range(len(pairs))]
    grouped = select.copy()
    grouped.set(
        "expressions",
        [
            *(exp.alias_(theirs.copy(), n, quoted=True) for (_, theirs), n in zip(pairs, names, strict=True)),
            exp.alias_(select.selects[0].unalias().copy(), "value", quoted=True),
        ],
    )
    grouped.set("group", exp.Group(expressions=[theirs.copy() for _, theirs in pairs]))
    built = builder.query(grouped)
    if not isinstance(built, Private):
        return _looked_up(builder, built, grouped, [mine for mine, _ in pairs], rows)
    new, _ = apart({}, built.relation, columns_of(rows.relation))
    relation = renamed(built.relation, new)
    conditions: list[Expr] = [
        exp.EQ(this=builder.row_level(mine, rows), expression=substituted(built.outputs[n], new))
        for (mine, _), n in zip(pairs, names, strict=True)
    ]
    _check_owners(builder, conditions, rows, relation, inner)
    more = _more(conditions, rows, relation)
    rows.relation = Join(rows.relation, relation, "left", more, _units(rows, relation))
    counts = {new.get(name, name) for name in _counts(built.relation)}
    return _or_zero(substituted(built.outputs["value"], new), counts)


def _looked_up(builder: Builder, built: exp.Query, written: exp.Select, mine: list[Expr], rows: Rows) -> Expr:
    """A correlated aggregate over everybody's rows: a release by key, answered first, where each row looks up its own.

    Its noisy values are constants of this step (Theorem STEP-1); that a key has one group bounds nothing.
    """
    names = [o.alias for o in written.selects]
    found = given(built, names, written, set(builder.names), one_row=False)
    new, _ = apart({}, found, columns_of(rows.relation))
    other = renamed_public(found, new)
    *keys, value = (plan_column(plan) for plan, _ in other.columns)
    same: list[Expr] = [exp.EQ(this=builder.row_level(m, rows), expression=k) for m, k in zip(mine, keys, strict=True)]
    rows.relation = Join(rows.relation, other, "left", all_of(same), None)
    form = form_of(written.selects[-1].unalias())
    counts = form is not None and form.zero_where_empty
    return exp.func("coalesce", value, exp.Literal.number(0)) if counts else value


def _counts(relation: Relation) -> set[str]:
    """The columns that count rows: 0, not NULL, where there are none."""
    assert isinstance(relation, GroupUnits)
    found = set()
    for name, call in relation.columns:
        plain = call.this if isinstance(call, exp.Filter) else call
        if aggregate_form(plain).zero_where_empty:
            found.add(name)
    return found


def _or_zero(node: Expr, counts: set[str]) -> Expr:
    if isinstance(node, exp.Column) and node.name in counts:
        return exp.func("coalesce", node.copy(), exp.Literal.number(0))
    return rebuilt(node, lambda e: _or_zero(e, counts))
