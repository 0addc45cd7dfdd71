"""build: Bound -> Plan. Splits the query into releases and post-processing.

Walk the scopes from the inside out. A scope that reads no private table stays as it is. A scope over private rows
that aggregates nothing, or only within each unit, is row-level and becomes plan nodes. A scope that aggregates private
rows is a release: it turns into SELECT … FROM r0, with its keys and aggregates replaced by r0's columns and HAVING by
WHERE. What is left then is plain SQL over public things, and needs no privacy reasoning (Theorem POST-1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlglot import exp

from dpsql.core.errors import PrivacyError, SQLError
from dpsql.plan.correlated import Around
from dpsql.plan.counted import count_of_distinct
from dpsql.plan.distinct import distinct_as_group, distinct_rows, first_rows
from dpsql.plan.estimates import trace_estimates
from dpsql.plan.google import check_post, check_unit, unit_column
from dpsql.plan.groups import group_units, release
from dpsql.plan.joins import JoinedSource, joined
from dpsql.plan.nodes import Expr, Filter, Link, Plan, PublicTable, Release, Responses, Scan, scanned, unit_of
from dpsql.plan.owners import determine, ways
from dpsql.plan.presence import tell_presence, together, without_needless, without_unused
from dpsql.plan.refusals import (
    check_distinct,
    lateral_rows,
    not_yet_correlated,
    only_counted,
    results_only,
    returns_rows,
    unit_in_sets,
)
from dpsql.plan.responses import check_alone, check_places, holds_response, no_private_rows, responses
from dpsql.plan.rows import Private, PublicRows, Rows, conjuncts, given, plan_column
from dpsql.plan.sets import list_of, set_operation, without_repeats
from dpsql.plan.subqueries import free_aliases, row_level
from dpsql.plan.unmatched import check_kept, rows_without_match
from dpsql.plan.winners import with_winners
from dpsql.policy.model import ColumnUnit, LinkedUnit, Policy, Table
from dpsql.sql.bind import MAX_NODES, Bound
from dpsql.sql.grouping import grouping_sets
from dpsql.sql.nodes import holds_aggregate, is_privacy_unit
from dpsql.sql.refuse import refuse
from dpsql.sql.trees import copied, nodes, nodes_of

MAX_TRIES = 64  # to read a query as another one that it may be
UNIT = "privacy unit"  # the plan column of a unit that no column of the table holds


def build(bound: Bound, policy: Policy) -> Plan:
    """Find the releases. Refuses what would return rows, and row-level steps that no rule knows."""
    taken = {*policy.tables, *(a.name for a in nodes_of(bound.root, exp.TableAlias))}
    builder = Builder(policy, taken)
    post = builder.query(bound.root)
    if isinstance(post, Private):
        raise returns_rows(bound.root, scanned(post.relation), "the query")
    check_post(post)
    public = frozenset(t.name for t in nodes_of(post, exp.Table) if t.name in policy.tables)
    named = list(zip(builder.names, builder.releases, strict=True))
    names = tuple(name for name, one in named if isinstance(one, Release))
    releases = tuple(one for one in builder.releases if isinstance(one, Release))
    responses = tuple((name, one) for name, one in named if isinstance(one, Responses))
    check_alone(releases, responses)
    trace_estimates(post, dict(responses))
    return with_winners(Plan(bound.text, releases, names, post, public, responses))


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
        unit = UNIT
        while any(plan == unit for plan, _ in columns):
            unit += "'"
        return Scan(name, columns, unit, owner, tuple(links), node)
    unit = next(plan for plan, column in columns if column.lower() == owner.lower())
    return Scan(name, columns, unit, owner, node=node)


class Builder:
    """What the scopes of one query share: the releases found so far."""

    def __init__(self, policy: Policy, taken: Iterable[str]) -> None:
        self.policy = policy
        self.releases: list[Release | Responses] = []
        self.nodes = 0
        self.tries = MAX_TRIES
        self.around: list[Around] = []  # the public scopes around a subquery
        self.prefix = "r"  # of the noisy tables' names, which no table of the policy and no source has
        while any(name.startswith(self.prefix) and name[len(self.prefix) :].isdigit() for name in taken):
            self.prefix += "_"

    @property
    def names(self) -> list[str]:
        """The names of the noisy tables."""
        return [f"{self.prefix}{i}" for i in range(len(self.releases))]

    def add(self, found: Release | Responses) -> str:
        """The name of a release's noisy table; an equal one that was there already is measured once."""
        for i, known in enumerate(self.releases):
            if (both := together(known, found)) is not None:
                self.releases[i] = both
                return self.names[i]
        self.releases.append(found)
        return self.names[-1]

    @contextmanager
    def trying(self) -> Iterator[bool]:
        """Builds in here leave no release behind. False once there were too many: a try within a try is built again."""
        self.tries -= 1
        before = list(self.releases)
        try:
            yield self.tries >= 0
        finally:
            self.releases = before

    def query(self, node: exp.Expr) -> exp.Query | Private:
        """A query over public things, or private rows."""
        match node:
            case exp.Select():
                return self.select(node)
            case exp.SetOperation():
                return set_operation(self, node)
            case _:
                raise refuse(
                    SQLError, "only a SELECT can stand here", node, code="unsupported", hint="write SELECT … FROM …"
                )

    # ---------------------------------------------------------------- one SELECT

    def select(self, node: exp.Select) -> exp.Query | Private:
        check_places(node)
        node = without_repeats(without_unused(node))
        if (counted := count_of_distinct(self, node)) is not None:
            node = counted
        found = self.rows_of(node, aggregated=True)
        if isinstance(found, Rows):
            return self.private(node, found)
        if holds_response(node):
            raise no_private_rows(node)
        return self.public(node, found)

    def rows_of(self, node: exp.Select, *, aggregated: bool = False) -> Rows | list[exp.Expr]:
        """FROM and WHERE: private rows, or the sources of a public scope.

        aggregated: the caller makes sure that public rows without a match (Rows.unmatched) aren't missed.
        """
        from_ = node.args.get("from_")
        joins = node.args.get("joins") or []
        trees = ([from_.this] if from_ else []) + [j.this for j in joins]
        sources = [self.source(s) for s in trees]
        if not any(isinstance(s, Rows) for s in sources):
            return [s for s in sources if not isinstance(s, Rows)]
        for join in joins:
            if join.args.get("method"):
                raise results_only(join)
            if isinstance(join.this, exp.Lateral):
                raise lateral_rows(join)
        listed = []
        for tree, source, join in zip(trees, sources, [None, *joins], strict=True):
            rows = source if isinstance(source, Rows) else self.public_rows(tree, source)
            side = str(join.args.get("side") or "").upper() if join is not None else ""
            kind = str(join.args.get("kind") or "").upper() if join is not None else ""
            side = kind if kind in ("SEMI", "ANTI") else side
            listed.append(JoinedSource(tree, rows, side, join.args.get("on") if join is not None else None))
        where = node.args.get("where")
        conditions = conjuncts(where.this if where else None)
        known = set().union(*(s.aliases for s in listed))
        foreign = [c for c in conditions if not free_aliases(c) <= known]
        rows = joined(listed, [c for c in conditions if c not in foreign], self.policy, self.row_level)
        rows.foreign = foreign
        if rows.unmatched is not None:
            if not aggregated:
                raise rows_without_match(rows.unmatched)
            check_kept(conditions, rows.private_aliases, rows.unmatched)
        return rows

    def public_rows(self, written: exp.Expr, built: exp.Expr) -> PublicRows:
        """A public source beside private ones: a table as it stands, or a query that is answered first."""
        alias = written.alias_or_name
        if isinstance(written, exp.Table):
            columns = written.meta["columns"]
            shown = self.renamed(written, list(columns))
            table = PublicTable(written.name, tuple((c.lower(), c) for c in columns))
            return PublicRows(table, {(alias, s): plan_column(c.lower()) for s, c in zip(shown, columns, strict=True)})
        if isinstance(written, exp.Values):
            query, bound = (exp.select("*").from_(v.copy()) for v in (built, written))
            outputs = [c.name for c in written.args["alias"].columns]
        else:
            query, bound = built.this.copy(), written.this.copy()
            outputs = [o.alias for o in _first_select(written.this).selects]
        shown = self.renamed(written, outputs)
        rows = given(query, outputs, bound, set(self.names), one_row=_is_one_row(bound))
        return PublicRows(rows, {(alias, s): plan_column(o.lower()) for s, o in zip(shown, outputs, strict=True)})

    def public(self, node: exp.Select, sources: list[exp.Expr]) -> exp.Select:
        """A scope over public things: keep it, with its sources and its subqueries rewritten."""
        if (column := unit_column(node)) is not None:
            check_unit(column, None, None, self.policy)
        copy = node.copy()
        for call in nodes_of(copy, exp.Anonymous):
            if is_privacy_unit(call) and call.find_ancestor(exp.Query) is copy:
                raise only_counted(call)
        if sources:
            copy.args["from_"].set("this", sources[0])
            for join, source in zip(copy.args.get("joins") or [], sources[1:], strict=True):
                join.set("this", source)
        where = node.args.get("where")
        self.around.append(
            Around({s.alias_or_name: s for s in sources}, tuple(conjuncts(where.this if where else None)))
        )
        for key, value in list(copy.args.items()):
            if key == "from_":
                continue
            if key == "joins":
                for join in value or []:
                    if join.args.get("on"):
                        join.set("on", self.subqueries(join.args["on"]))
            elif isinstance(value, exp.Expr):
                copy.set(key, self.subqueries(value))
            elif isinstance(value, list):
                copy.set(key, [self.subqueries(v) if isinstance(v, exp.Expr) else v for v in value])
        self.around.pop()
        tell_presence(self, copy)
        return copy

    def subqueries(self, node: exp.Expr) -> exp.Expr:
        """Rewrite the queries inside a post-processing expression."""

        def rewrite(e: exp.Expr) -> exp.Expr:
            if isinstance(e, exp.Query) and not isinstance(e, exp.Subquery):
                return self.answered(e, listed=_is_list(e))
            for key, value in list(e.args.items()):
                if isinstance(value, exp.Expr):
                    e.set(key, rewrite(value))
                elif isinstance(value, list):
                    e.set(key, [rewrite(v) if isinstance(v, exp.Expr) else v for v in value])
            return e

        return rewrite(node.copy())

    def answered(self, node: exp.Expr, *, listed: bool = False) -> exp.Query:
        """A query whose result may leave: over public things and releases. listed: which values it has is asked."""
        built = self.query(node)
        if isinstance(built, Private) and listed:
            built = self.query(list_of(node))
        if isinstance(built, Private):
            raise returns_rows(node, scanned(built.relation), "a subquery")
        return built

    def source(self, node: exp.Expr) -> exp.Expr | Rows:
        match node:
            case exp.Table():
                return node.copy() if self.policy.tables[node.name].public else self.scan(node)
            case exp.Subquery():
                built = self.query(node.this)
                if isinstance(built, Private):
                    columns = self.renamed(node, list(built.outputs))
                    outputs = zip(columns, built.outputs.values(), strict=True)
                    return Rows(built.relation, {(node.alias, new): e for new, e in outputs})
                copy = node.copy()
                copy.set("this", built)
                return copy
            case exp.Lateral():  # it may look at the sources before it: results and public tables, or rows_of says no
                beside = node.copy()
                beside.this.set("this", self.answered(node.this.this))
                return beside
            case exp.Values():
                return node.copy()
            case _:
                raise refuse(
                    SQLError, "this can't stand in FROM", node, code="unsupported", hint="name a table of the policy"
                )

    def renamed(self, node: exp.Expr, columns: list[str]) -> list[str]:
        new = [c.name for c in node.args["alias"].columns] if node.args.get("alias") else []
        return new or columns

    def scan(self, node: exp.Table) -> Rows:
        table = self.policy.tables[node.name]
        columns = node.meta["columns"]
        shown = self.renamed(node, list(columns))
        plan = [c.lower() for c in columns]  # local names: equal releases are equal wherever they stand
        scan = scan_of(self.policy, table, tuple(zip(plan, columns, strict=True)), node.this)
        return Rows(scan, {(node.alias, s): plan_column(p) for s, p in zip(shown, plan, strict=True)})

    # ---------------------------------------------------------------- over private rows

    def private(self, node: exp.Select, rows: Rows) -> exp.Query | Private:
        if (column := unit_column(node)) is not None:
            check_unit(column, self.column(column, rows), rows.relation, self.policy)
        if holds_response(node):
            return responses(self, node, rows)
        parts = [*node.selects, *(node.args[k] for k in ("having", "qualify", "order") if node.args.get(k))]
        if node.args.get("group") or any(holds_aggregate(p) for p in parts):
            return self.grouped(node, rows)
        if node.args.get("distinct"):
            if not (on := node.args["distinct"].args.get("on")) and not any(o.find(exp.Window) for o in node.selects):
                return self.grouped(distinct_as_group(node), rows)
            if on and (node.args.get("qualify") or not self.tells_unit(on.expressions, rows)):
                check_distinct(node)
            node = first_rows(node) if on else node
        if rows.unmatched is not None:
            raise rows_without_match(rows.unmatched)
        self.check_limits(node)
        if rows.foreign:
            raise not_yet_correlated(nodes_of(rows.foreign[0], exp.Column)[0])
        rows.windows = {w.name: w for w in node.args.get("windows") or []}
        outputs = {o.alias: self.row_level(o.this, rows) for o in node.selects}
        if qualify := node.args.get("qualify"):
            condition = self.row_level(qualify.this, rows)
            rows.relation = Filter(rows.relation, condition)
        found = Private(rows.relation, outputs)
        return distinct_rows(self, node, found) if node.args.get("distinct") else found

    def grouped(self, node: exp.Select, rows: Rows) -> exp.Query | Private:
        if not self.keeps_units(node, rows):
            return release(self, without_needless(node), rows)
        if rows.unmatched is not None:
            raise rows_without_match(rows.unmatched)
        return group_units(self, node, rows)

    def keeps_units(self, node: exp.Select, rows: Rows) -> bool:
        """Is each group of one unit alone? Then the result is private rows like any other."""
        sets = grouping_sets(node.args.get("group"))
        for one in sets:
            if self.tells_unit(one, rows):
                if len(sets) > 1:
                    raise unit_in_sets(one)
                return True
        return False

    def tells_unit(self, keys: Iterable[Expr], rows: Rows) -> bool:
        """Do all rows with the same values of these keys belong to one unit?"""
        found = []
        for key in keys:
            if is_privacy_unit(key):
                if unit_of(rows.relation) is None:
                    raise only_counted(key)
                return True
            if isinstance(key, exp.Column):
                found.append(self.column(key, rows))
        return determine(found, ways(rows.relation, self.policy))

    def check_limits(self, node: exp.Select) -> None:
        for part in ("limit", "offset"):
            if node.args.get(part):
                raise refuse(
                    PrivacyError,
                    f"{part.upper()} over private rows picks some people's rows and not others'",
                    node.args[part],
                    code="limit-private",
                    hint="aggregate first; LIMIT works on the result",
                )

    def row_level(self, node: Expr, rows: Rows) -> Expr:
        """A scalar expression over private rows, its columns replaced by plan columns."""
        return row_level(self, node, rows)

    def column(self, node: exp.Column, rows: Rows) -> Expr:
        """What a column of the query means over the plan."""
        found = rows.columns.get((node.table, node.name))
        if found is None:
            raise not_yet_correlated(node)
        if isinstance(found, exp.Column):
            copy = copied(found)
            copy.this.meta.update(node.this.meta)
            return copy
        self.nodes += len(nodes(found))  # columns of columns can double a query many times
        if self.nodes > MAX_NODES:
            raise SQLError(
                "the query is too large once its subqueries are expanded", code="too-long", hint="simplify it"
            )
        return copied(found)


def _is_list(query: exp.Expr) -> bool:
    """Is it the list of an IN?"""
    around = query.parent
    while isinstance(around, exp.Subquery):
        around = around.parent
    return isinstance(around, exp.In)


def _first_select(node: exp.Expr) -> exp.Select:
    while isinstance(node, exp.SetOperation):
        node = node.this
    assert isinstance(node, exp.Select)
    return node


def _is_one_row(node: exp.Expr) -> bool:
    """Is it a SELECT of aggregates without GROUP BY and HAVING: one row, whatever the data are?"""
    if not isinstance(node, exp.Select) or any(node.args.get(k) for k in ("group", "having", "qualify", "limit")):
        return False
    if node.args.get("offset") is not None or any(o.find(exp.Window) for o in node.selects):
        return False
    return any(holds_aggregate(o) for o in node.selects)
