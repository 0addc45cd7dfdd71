"""build: Bound -> Plan. Splits the query into releases and post-processing.

Walk the scopes from the inside out. A scope that reads no private table stays as it is. A scope over private rows
without an aggregate is row-level and becomes plan nodes. A scope that aggregates private rows is a release: it turns
into SELECT … FROM r0, with its keys and aggregates replaced by r0's columns and HAVING by WHERE. What is left then
is plain SQL over public things, and needs no privacy reasoning (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.errors import PrivacyError, SQLError
from dpsql.plan.grouping import Groupings, united
from dpsql.plan.nodes import Aggregate, Expr, Filter, Link, Plan, Relation, Release, Scan, scanned
from dpsql.plan.refusals import (
    misplaced,
    not_grouped,
    only_counted,
    results_only,
    returns_rows,
    unsupported_aggregate,
)
from dpsql.plan.windows import over_results
from dpsql.policy import ColumnUnit, LinkedUnit, Policy, Table
from dpsql.sql.bind import MAX_NODES, Bound
from dpsql.sql.grouping import grouping_sets
from dpsql.sql.nodes import aggregate_name, holds_aggregate, is_aggregate, is_privacy_unit, is_window_function
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import rebuilt

MAX_KEYS, MAX_AGGREGATES = 50, 200


@dataclass(frozen=True, slots=True)
class _Rows:
    """A row-level relation: a plan node, and for each (source alias, column) its expression over plan columns."""

    node: Relation
    columns: Mapping[tuple[str, str], Expr]


@dataclass(frozen=True, slots=True)
class _Private:
    """A row-level SELECT: a plan node and its outputs by name."""

    node: Relation
    outputs: Mapping[str, Expr]


def build(bound: Bound, policy: Policy) -> Plan:
    """Find the releases. Refuses what would return rows, and row-level steps that no rule knows."""
    taken = {*policy.tables, *(a.name for a in bound.root.find_all(exp.TableAlias))}
    builder = _Builder(policy, taken)
    post = builder.query(bound.root)
    if isinstance(post, _Private):
        raise returns_rows(bound.root, scanned(post.node), "the query")
    public = frozenset(t.name for t in post.find_all(exp.Table) if t.name in policy.tables)
    names = tuple(f"{builder.prefix}{i}" for i in range(len(builder.releases)))
    return Plan(bound.text, tuple(builder.releases), names, post, public)


def scan_of(policy: Policy, table: Table, columns: tuple[tuple[str, str], ...], node: exp.Expr | None = None) -> Scan:
    """A scan with the way to each row's unit: a column of its own, or one at the end of the policy's links."""
    name, links = table.name.lower(), []
    while isinstance(table.unit, LinkedUnit):
        links.append(Link(table.unit.through.lower(), table.unit.on))
        table = policy.tables[table.unit.through.lower()]
    if not isinstance(table.unit, ColumnUnit):
        return Scan(name, columns, None, node=node)
    owner = table.unit.column
    if links:
        unit = "privacy unit"
        while any(plan == unit for plan, _ in columns):
            unit += "'"
        return Scan(name, columns, unit, owner, tuple(links), node)
    unit = next(plan for plan, column in columns if column.lower() == owner.lower())
    return Scan(name, columns, unit, owner, node=node)


class _Builder:
    def __init__(self, policy: Policy, taken: Iterable[str]) -> None:
        self.policy = policy
        self.releases: list[Release] = []
        self.nodes = 0
        self.private_sources: set[str] = set()  # aliases of row-level sources, unique in the query
        self.prefix = "r"  # of the noisy tables' names, which no table of the policy and no source has
        while any(name.startswith(self.prefix) and name[len(self.prefix) :].isdigit() for name in taken):
            self.prefix += "_"

    def query(self, node: exp.Expr) -> exp.Query | _Private:
        match node:
            case exp.Select():
                return self.select(node)
            case exp.SetOperation():
                left, right = self.query(node.this), self.query(node.expression)
                if isinstance(left, _Private) or isinstance(right, _Private):
                    raise refuse(
                        PrivacyError,
                        f"{node.key.upper()} of private rows is not supported by this version",
                        node,
                        code="not-yet",
                        hint="aggregate each side first, then combine the results: SELECT COUNT(*) … UNION ALL …",
                    )
                combined = node.copy()
                combined.set("this", left)
                combined.set("expression", right)
                return combined
            case _:
                raise refuse(
                    SQLError, "only a SELECT can stand here", node, code="unsupported", hint="write SELECT … FROM …"
                )

    # ---------------------------------------------------------------- one SELECT

    def select(self, node: exp.Select) -> exp.Query | _Private:
        from_ = node.args.get("from_")
        joins = node.args.get("joins") or []
        sources = [self.source(s) for s in ([from_.this] if from_ else []) + [j.this for j in joins]]
        private = [s for s in sources if isinstance(s, _Rows)]
        if not private:
            return self.public(node, [s for s in sources if not isinstance(s, _Rows)])
        for join in joins:
            if join.args.get("method") or str(join.args.get("kind") or "").upper() in ("SEMI", "ANTI"):
                raise results_only(join)
        if joins:
            both = len(private) > 1
            raise refuse(
                PrivacyError,
                "joins of private tables are not supported by this version",
                joins[0].this,
                code="not-yet",
                hint="aggregate each private table in a CTE of its own, then join the results"
                if both
                else "aggregate the private table in a CTE, then join the result",
            )
        return self.private(node, private[0])

    def public(self, node: exp.Select, sources: list[exp.Expr]) -> exp.Select:
        """A scope over public things: keep it, with its sources and its subqueries rewritten."""
        copy = node.copy()
        for call in copy.find_all(exp.Anonymous):
            if is_privacy_unit(call) and call.find_ancestor(exp.Query) is copy:
                raise only_counted(call)
        if sources:
            copy.args["from_"].set("this", sources[0])
            for join, source in zip(copy.args.get("joins") or [], sources[1:], strict=True):
                join.set("this", source)
        skip = {"from_"}
        for key, value in list(copy.args.items()):
            if key in skip:
                continue
            if key == "joins":
                for join in value or []:
                    if join.args.get("on"):
                        join.set("on", self.subqueries(join.args["on"]))
            elif isinstance(value, exp.Expr):
                copy.set(key, self.subqueries(value))
            elif isinstance(value, list):
                copy.set(key, [self.subqueries(v) if isinstance(v, exp.Expr) else v for v in value])
        return copy

    def subqueries(self, node: exp.Expr) -> exp.Expr:
        """Rewrite the queries inside a post-processing expression."""

        def rewrite(e: exp.Expr) -> exp.Expr:
            if isinstance(e, exp.Query) and not isinstance(e, exp.Subquery):
                return self.answered(e)
            for key, value in list(e.args.items()):
                if isinstance(value, exp.Expr):
                    e.set(key, rewrite(value))
                elif isinstance(value, list):
                    e.set(key, [rewrite(v) if isinstance(v, exp.Expr) else v for v in value])
            return e

        return rewrite(node.copy())

    def answered(self, node: exp.Expr) -> exp.Query:
        built = self.query(node)
        if isinstance(built, _Private):
            raise returns_rows(node, scanned(built.node), "a subquery")
        return built

    def source(self, node: exp.Expr) -> exp.Expr | _Rows:
        match node:
            case exp.Table():
                if self.policy.tables[node.name].public:
                    return node.copy()
                return self.scan(node)
            case exp.Subquery():
                built = self.query(node.this)
                if isinstance(built, _Private):
                    columns = self.renamed(node, list(built.outputs))
                    self.private_sources.add(node.alias)
                    named = {
                        (node.alias, new): built.outputs[old] for new, old in zip(columns, built.outputs, strict=True)
                    }
                    return _Rows(built.node, named)
                copy = node.copy()
                copy.set("this", built)
                return copy
            case exp.Lateral():
                return self.lateral(node)
            case exp.Values():
                return node.copy()
            case _:
                raise refuse(
                    SQLError, "this can't stand in FROM", node, code="unsupported", hint="name a table of the policy"
                )

    def lateral(self, node: exp.Lateral) -> exp.Lateral:
        """LATERAL (…) beside results and public tables: it may look at those, and at no private row."""
        inner = self.answered(node.this.this)
        for seen in inner.find_all(exp.Column):
            if seen.table in self.private_sources:
                raise refuse(
                    PrivacyError,
                    "LATERAL looks at single rows of a private table",
                    seen,
                    code="lateral-private",
                    hint="compute the expression in the SELECT list of a subquery",
                )
        copy = node.copy()
        copy.this.set("this", inner)
        return copy

    def renamed(self, node: exp.Expr, columns: list[str]) -> list[str]:
        new = [c.name for c in node.args["alias"].columns]
        return new or columns

    def scan(self, node: exp.Table) -> _Rows:
        table = self.policy.tables[node.name]
        self.private_sources.add(node.alias)
        columns = node.meta["columns"]
        shown = self.renamed(node, list(columns))
        plan = [c.lower() for c in columns]  # one scan a release: unique, and equal for equal releases
        scan = scan_of(self.policy, table, tuple(zip(plan, columns, strict=True)), node.this)
        named: dict[tuple[str, str], Expr] = {
            (node.alias, s): exp.column(exp.to_identifier(p, quoted=True)) for s, p in zip(shown, plan, strict=True)
        }
        return _Rows(scan, named)

    # ---------------------------------------------------------------- over private rows

    def private(self, node: exp.Select, rows: _Rows) -> exp.Query | _Private:
        relation: Relation = rows.node
        if where := node.args.get("where"):
            relation = Filter(relation, self.row_level(where.this, rows))
        parts = [*node.selects, *(node.args[k] for k in ("having", "qualify", "order") if node.args.get(k))]
        if node.args.get("group") or any(holds_aggregate(p) for p in parts):
            return self.release(node, relation, rows)
        if (distinct := node.args.get("distinct")) and distinct.args.get("on"):
            raise refuse(
                PrivacyError,
                "DISTINCT ON over private rows picks some people's rows and not others'",
                distinct.args["on"],
                code="limit-private",
                hint="aggregate first; DISTINCT ON works on the result",
            )
        if distinct:
            return self.release(self.distinct_as_group(node), relation, rows)
        for part in ("limit", "offset", "qualify"):
            if node.args.get(part):
                raise refuse(
                    PrivacyError,
                    f"{part.upper()} over private rows picks some people's rows and not others'",
                    node.args[part],
                    code="limit-private",
                    hint="aggregate first; LIMIT and QUALIFY work on the result",
                )
        outputs = {o.alias: self.row_level(o.this, rows) for o in node.selects}
        return _Private(relation, outputs)

    def distinct_as_group(self, node: exp.Select) -> exp.Select:
        """SELECT DISTINCT of row-level expressions is a GROUP BY of them, without aggregates."""
        grouped = node.copy()
        grouped.set("distinct", None)
        keys: list[Expr] = []
        for output in node.selects:
            if output.this not in keys:
                keys.append(output.this.copy())
        grouped.set("group", exp.Group(expressions=keys))
        return grouped

    def row_level(self, node: Expr, rows: _Rows) -> Expr:
        """A scalar expression over private rows, its columns replaced by plan columns."""

        def rewrite(e: exp.Expr) -> exp.Expr:
            if isinstance(e, exp.Query):
                raise refuse(
                    PrivacyError,
                    "a subquery inside a private query is not supported by this version",
                    e,
                    code="not-yet",
                    hint="ask for the inner value first and write it as a constant",
                )
            if isinstance(e, exp.Window) or is_window_function(e):
                raise refuse(
                    PrivacyError,
                    "a window over private rows mixes people",
                    e,
                    code="window-private",
                    hint="aggregate first; windows work on the result",
                )
            if is_aggregate(e):
                raise misplaced(e)
            if isinstance(e, exp.Column):
                return self.plan_column(e, rows)
            if is_privacy_unit(e):
                raise only_counted(e)
            return rebuilt(e, rewrite)

        return rewrite(node)

    def plan_column(self, node: exp.Column, rows: _Rows) -> Expr:
        found = rows.columns.get((node.table, node.name))
        if found is None:
            raise refuse(
                PrivacyError,
                f"{node.name} belongs to an outer query: correlated subqueries are not supported by this version",
                node,
                code="not-yet",
                hint="aggregate in a CTE and join the result",
            )
        if isinstance(found, exp.Column):
            copy = found.copy()
            copy.this.meta.update(node.this.meta)
            return copy
        self.nodes += sum(1 for _ in found.walk())  # columns of columns can double a query many times
        if self.nodes > MAX_NODES:
            raise SQLError(
                "the query is too large once its subqueries are expanded", code="too-long", hint="simplify it"
            )
        return found.copy()

    # ---------------------------------------------------------------- a release

    def release(self, node: exp.Select, relation: Relation, rows: _Rows) -> exp.Select:
        keys: list[Expr] = []
        sets: list[tuple[int, ...]] = []  # the keys of each grouping set, by number
        for written in grouping_sets(node.args.get("group")):
            plans = [self.row_level(key, rows) for key in written]
            keys += [p for i, p in enumerate(plans) if p not in keys and p not in plans[:i]]
            sets.append(tuple(dict.fromkeys(keys.index(p) for p in plans)))
        groupings = Groupings(keys, lambda e: self.try_key(e, rows), len(sets) > 1)
        aggregates: list[Aggregate] = []
        places: list[exp.Column] = []

        def column(name: str) -> exp.Column:
            made = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier("r", quoted=True))
            places.append(made)
            return made

        def rewrite(e: exp.Expr) -> exp.Expr:
            if isinstance(e, exp.Query):
                return self.correlated(self.answered_in_place(e), rows, keys, column)
            if not isinstance(e, exp.Window) and not is_window_function(e) and _is_call(e):
                found = self.aggregate(e, rows)
                if found not in aggregates:
                    aggregates.append(found)
                return column(f"a{aggregates.index(found)}")
            if isinstance(e, exp.Grouping | exp.GroupingId):
                return groupings.rewrite(e, column)
            if not holds_aggregate(e) and not isinstance(e, exp.Literal | exp.Order | exp.Ordered | exp.Alias):
                plan = self.try_key(e, rows)
                if plan is not None and plan in keys:
                    return column(f"k{keys.index(plan)}")
            if isinstance(e, exp.Column):
                raise not_grouped(e)
            if is_privacy_unit(e):
                raise only_counted(e)
            if isinstance(e, exp.Window):
                return over_results(e, rewrite)
            return rebuilt(e, rewrite)

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
        if len(keys) > MAX_KEYS or len(aggregates) > MAX_AGGREGATES:
            raise SQLError(
                f"one SELECT takes at most {MAX_KEYS} keys and {MAX_AGGREGATES} aggregates of private rows",
                code="too-large",
                hint="ask for some of them in a query of their own",
            )
        tables = {}  # an equal release that was there already is measured once
        for numbers in sets:
            release = Release(relation, tuple(keys[i] for i in numbers), tuple(aggregates))
            tables[numbers] = f"{self.prefix}{self.add(release)}"
        source: exp.Expr = exp.Table(this=exp.to_identifier(tables[sets[0]], quoted=True))
        if len(sets) > 1:
            source = united(sets, tables, len(aggregates), groupings, len(keys))
        for place in places:
            place.set("table", exp.to_identifier(source.alias_or_name, quoted=True))
        post.set("from_", exp.From(this=source))
        return post

    def add(self, release: Release) -> int:
        if release not in self.releases:
            self.releases.append(release)
        return self.releases.index(release)

    def answered_in_place(self, e: exp.Query) -> exp.Expr:
        if isinstance(e, exp.Subquery):
            return exp.Subquery(this=self.answered(e.this))
        return self.answered(e)

    def correlated(
        self, inner: exp.Expr, rows: _Rows, keys: list[Expr], column: Callable[[str], exp.Column]
    ) -> exp.Expr:
        """A subquery beside aggregates: of this scope's rows it may see the keys."""
        for outer in [c for c in inner.find_all(exp.Column) if (c.table, c.name) in rows.columns]:
            plan = self.row_level(outer, rows)
            if plan not in keys:
                raise not_grouped(outer)
            outer.replace(column(f"k{keys.index(plan)}"))
        return inner

    def try_key(self, e: Expr, rows: _Rows) -> Expr | None:
        try:
            return self.row_level(e, rows)
        except (SQLError, PrivacyError):
            return None

    def count_units(
        self, call: Expr, name: str, distinct: bool, where: Expr | None, node: Expr, rows: _Rows
    ) -> Aggregate:
        """COUNT(DISTINCT PRIVACY_UNIT()): the unit of the rows, whatever its column is called."""
        if name != "COUNT" or not distinct:
            raise only_counted(call)
        unit = scanned(rows.node).unit
        if unit is None:  # each row is a unit
            return Aggregate("COUNT", None, False, where, node)
        return Aggregate("COUNT", exp.column(exp.to_identifier(unit, quoted=True)), True, where, node)

    def aggregate(self, node: Expr, rows: _Rows) -> Aggregate:
        """An aggregate call, with or without FILTER, over row-level expressions."""
        where = None
        call = node
        if isinstance(node, exp.Filter):
            where = self.row_level(node.expression.this, rows)
            call = node.this
        name = aggregate_name(call)
        if name not in RECIPES:
            raise unsupported_aggregate(name, call)
        argument, distinct = call.args.get("this"), False
        if isinstance(call, exp.Anonymous):
            argument = call.expressions[0] if call.expressions else None
        if isinstance(argument, exp.Distinct):
            if len(argument.expressions) != 1:
                raise refuse(
                    SQLError,
                    "DISTINCT takes one expression here",
                    call,
                    code="distinct",
                    hint="count the unit: COUNT(DISTINCT PRIVACY_UNIT())",
                )
            argument, distinct = argument.expressions[0], True
        if is_privacy_unit(argument):
            return self.count_units(call, name, distinct, where, node, rows)
        if isinstance(argument, exp.Order):
            argument = argument.this  # the order can't matter for what is supported here
        if isinstance(argument, exp.Star):
            argument = None
        extra = [v for k, v in call.args.items() if v and k not in ("this", "big_int") and call.key != "anonymous"]
        further = call.expressions[1:] if isinstance(call, exp.Anonymous) else []
        if further or any((isinstance(v, list) and v) or isinstance(v, exp.Expr) for v in extra):
            raise refuse(
                SQLError, f"{name} takes one argument", call, code="arity", hint=f"write {name}(x) for each of them"
            )
        if argument is None and name != "COUNT":
            raise refuse(SQLError, f"{name} needs an argument", call, code="arity", hint=f"write {name}(x)")
        plan = self.row_level(argument, rows) if argument is not None else None
        return Aggregate(name, plan, distinct, where, node)


def _is_call(e: Expr) -> bool:
    return is_aggregate(e) or (isinstance(e, exp.Filter) and is_aggregate(e.this))
