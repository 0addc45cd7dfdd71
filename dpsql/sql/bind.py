"""bind: Tree -> Bound. Every name becomes a column of a source, by scope and lineage, never by spelling.

The bound tree is canonical: each source has an alias that is unique in the query, each column names its source, stars,
ordinals, alias references, GROUP BY ALL, USING and CTEs are expanded, and every output has a name. Nodes and functions
that are on no list are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.frozen import dataclass
from dpsql.sql.google import UNIT_COLUMN
from dpsql.sql.grouping import group, group_keys, grouping_sets
from dpsql.sql.names import UNWRITTEN, Scope, Unlisted, aliased, column, lookup, output_name, unique_names
from dpsql.sql.nodes import check_node, holds_aggregate, interval_end, is_starred
from dpsql.sql.parse import Tree
from dpsql.sql.refuse import refuse
from dpsql.sql.rewrite import rewrite
from dpsql.sql.series import checked_series, series_of
from dpsql.sql.sources import CTE, MAX_NODES, Sources, derived, unsupported
from dpsql.sql.stars import expand_columns, is_star, star
from dpsql.sql.trees import Rewrite, copied, nodes_of, rebuilt

MAX_OUTPUTS = 500

__all__ = ["MAX_NODES", "Bound", "bind"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A canonical tree, and the text it came from."""

    text: str
    root: exp.Query

    @property
    def tables(self) -> frozenset[str]:
        """The names of all tables in it, in lower case."""
        return frozenset(table.name.lower() for table in nodes_of(self.root, exp.Table))


_SELECT_PARTS = {
    "expressions", "from_", "joins", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct",
    "windows", "with_",
}  # fmt: skip


def bind(tree: Tree, schema: Mapping[str, tuple[str, ...]], unlisted: Unlisted | None = None) -> Bound:
    """Resolve a parsed query against the tables of the policy (lower-case name -> column names).

    unlisted: tables of which only those columns exist that the policy lists, for the message.
    """
    binder = _Binder(schema, unlisted or frozenset())
    root, _ = binder.query(rewrite(tree.root), {}, None)
    for cte in binder.ctes:  # one that nobody reads is checked like the others, and leaves no trace
        if cte.bound is None:
            binder.query(cte.node.this, cte.visible, None)
    return Bound(tree.shown, root)


class _Binder(Sources):
    # ---------------------------------------------------------------- queries

    def query(self, node: exp.Expr, ctes: Mapping[str, CTE], outer: Scope | None) -> tuple[exp.Query, tuple[str, ...]]:
        ctes = self.with_ctes(node, ctes)
        match node:
            case exp.Select():
                return self.select(node, ctes, outer)
            case exp.SetOperation():
                return self.set_operation(node, ctes, outer)
            case exp.Subquery():
                return self.query(node.this, ctes, outer)
            case exp.Pivot():
                return self.query(self.pivot(node, node.this, ctes, outer), ctes, outer)
            case _:
                raise refuse(
                    SQLError, "only a SELECT can stand here", node, code="unsupported", hint="write SELECT … FROM …"
                )

    def with_ctes(self, node: exp.Expr, ctes: Mapping[str, CTE]) -> Mapping[str, CTE]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise refuse(
                SQLError,
                "WITH RECURSIVE is not supported",
                clause,
                code="recursive",
                hint="leave RECURSIVE out, and write each step as a CTE of its own",
            )
        visible = dict(ctes)
        for cte in clause.expressions:
            visible[cte.alias.lower()] = CTE(cte, dict(visible))
            self.ctes.append(visible[cte.alias.lower()])
        return visible

    def set_operation(
        self, node: exp.SetOperation, ctes: Mapping[str, CTE], outer: Scope | None
    ) -> tuple[exp.Query, tuple[str, ...]]:
        extra = {k for k, v in node.args.items() if v} - {
            "this", "expression", "distinct", "order", "limit", "offset", "with_", "by_name",
        }  # fmt: skip
        if extra:
            raise refuse(
                SQLError,
                f"{min(extra).upper()} in a {node.key.upper()} is not supported",
                node,
                code="unsupported",
                hint="leave it out, and list the columns in the same order on both sides",
            )
        left, names = self.query(node.this, ctes, outer)
        right, right_names = self.query(node.expression, ctes, outer)
        if node.args.get("by_name"):
            known = {n.lower() for n in names}
            every = (*names, *(n for n in right_names if n.lower() not in known))
            left, right = self.rearranged(left, names, every), self.rearranged(right, right_names, every)
            names = right_names = every
        if len(names) != len(right_names):
            raise refuse(
                SQLError,
                f"the two sides have {len(names)} and {len(right_names)} columns",
                node,
                code="column-count",
                hint="select the same number of columns on both sides",
            )
        bound = type(node)(this=left, expression=right, distinct=node.args.get("distinct"))
        columns: list[exp.Expr] = [exp.column(exp.to_identifier(n, quoted=True)) for n in names]
        self.order_by(node, bound, columns, lambda e: self.union_order(e, names))
        self.limits(node, bound)
        return bound, names

    def rearranged(self, query: exp.Query, names: tuple[str, ...], wanted: tuple[str, ...]) -> exp.Query:
        """A query's rows with the wanted columns, in that order; NULL for a column that the query lacks."""
        if names == wanted:
            return query
        alias = self.fresh("side")
        mine = {n.lower(): n for n in names}
        select = exp.Select(from_=exp.From(this=derived(query, alias)))
        values = [column(alias, mine[n.lower()]) if n.lower() in mine else exp.Null() for n in wanted]
        select.set("expressions", [aliased(v, n) for v, n in zip(values, wanted, strict=True)])
        return select

    def union_order(self, node: exp.Expr, names: tuple[str, ...]) -> exp.Expr:
        for name in names:
            if isinstance(node, exp.Column) and not node.table and node.name.lower() == name.lower():
                return exp.column(exp.to_identifier(name, quoted=True))
        raise refuse(
            SQLError,
            "ORDER BY of a UNION takes an output column",
            node,
            code="order-by",
            hint=f"use a name or a number: {', '.join(names)}, or 1 to {len(names)}",
        )

    # ---------------------------------------------------------------- one SELECT

    def select(
        self, node: exp.Select, ctes: Mapping[str, CTE], outer: Scope | None
    ) -> tuple[exp.Select, tuple[str, ...]]:
        for part, value in node.args.items():
            if value and part not in _SELECT_PARTS:
                raise unsupported(part, value, node)
        bound = exp.Select()
        scope = Scope([], outer)
        self.sources(node, bound, scope, ctes)

        def resolve(e: exp.Expr, aliases: Mapping[str, exp.Expr], first: Iterable[exp.Expr] | None) -> exp.Expr:
            return self.expression(e, scope, ctes, aliases, first)

        def by_alias(e: exp.Expr) -> exp.Expr:
            return self.expression(e, scope, ctes, aliases, None, alias_first=True)

        if len(node.expressions) > MAX_OUTPUTS:
            raise SQLError(f"one SELECT has at most {MAX_OUTPUTS} columns", code="too-large", hint="select fewer")
        outputs: list[exp.Expr] = []
        names: list[str] = []
        aliases: dict[str, exp.Expr] = {}
        for item in node.expressions:
            for name, output in self.outputs(item, scope, ctes, aliases):
                outputs.append(output)
                names.append(name)
                if isinstance(item, exp.Alias) and not item.meta.get(UNWRITTEN):
                    aliases.setdefault(name.lower(), output)
        if where := node.args.get("where"):
            bound.set("where", exp.Where(this=resolve(where.this, aliases, None)))
        grouped = self.group_by(node, outputs, lambda e: resolve(e, aliases, None))
        keys = group_keys(grouped)
        if grouped is not None:
            bound.set("group", grouped)
        if having := node.args.get("having"):
            bound.set("having", exp.Having(this=resolve(having.this, aliases, keys)))
        if windows := node.args.get("windows"):
            bound.set("windows", [resolve(w, aliases, keys) for w in windows])
        if qualify := node.args.get("qualify"):
            bound.set("qualify", exp.Qualify(this=resolve(qualify.this, aliases, keys)))
        if distinct := node.args.get("distinct"):
            bound.set("distinct", self.distinct(distinct, outputs, by_alias))
        unique = unique_names(names)
        bound.set("expressions", [aliased(copied(v), n) for v, n in zip(outputs, unique, strict=True)])
        self.order_by(node, bound, outputs, by_alias)
        self.limits(node, bound)
        if (unit := node.meta.get(UNIT_COLUMN)) is not None:
            bound.meta[UNIT_COLUMN] = resolve(unit, {}, None)
        self.count(bound)
        return bound, tuple(unique)

    def outputs(
        self, item: exp.Expr, scope: Scope, ctes: Mapping[str, CTE], aliases: Mapping[str, exp.Expr]
    ) -> list[tuple[str, exp.Expr]]:
        if is_star(item):
            return star(item, scope, lambda e: self.expression(e, scope, ctes, {}, None))
        several = expand_columns(item, scope)
        if several is not None:
            return [o for one in several for o in self.outputs(one, scope, ctes, aliases)]
        value = item.this if isinstance(item, exp.Alias) else item
        bound = self.expression(value, scope, ctes, aliases, None)
        return [(output_name(item), bound)]

    def group_by(self, node: exp.Select, outputs: list[exp.Expr], resolve: Rewrite) -> exp.Group | None:
        clause = node.args.get("group")
        if clause is None:
            return None
        if clause.args.get("all"):
            return exp.Group(expressions=[o.copy() for o in outputs if not holds_aggregate(o)])
        if clause.args.get("rollup") or clause.args.get("cube"):
            raise refuse(
                SQLError,
                "WITH ROLLUP and WITH CUBE are not DuckDB's way to write it",
                clause,
                code="group-by",
                hint="write GROUP BY ROLLUP (a, b) or GROUP BY CUBE (a, b)",
            )
        if max(len(keys) for keys in grouping_sets(clause)) > MAX_OUTPUTS:
            raise SQLError(f"GROUP BY takes at most {MAX_OUTPUTS} keys", code="too-large", hint="group by fewer")

        def key(item: exp.Expr) -> exp.Expr:
            bare = item.unnest()
            whole = isinstance(bare, exp.Literal) and bare.is_int
            bound = self.ordinal(bare, outputs, "GROUP BY").copy() if whole else resolve(bare)
            if holds_aggregate(bound):
                raise refuse(
                    SQLError,
                    "GROUP BY can't hold an aggregate",
                    item,
                    code="group-by",
                    hint="group by columns, or by the result in a query around this one",
                )
            return bound

        return group(clause, key, self.counted)

    def distinct(self, clause: exp.Expr, outputs: list[exp.Expr], resolve: Rewrite) -> exp.Distinct:
        """DISTINCT, or DISTINCT ON (…), whose expressions are outputs by number, or anything that ORDER BY takes."""
        on = clause.args.get("on")
        if on is None:
            return exp.Distinct()
        keys = [
            self.ordinal(e, outputs, "DISTINCT ON").copy() if isinstance(e, exp.Literal) and e.is_int else resolve(e)
            for e in on.expressions
        ]
        return exp.Distinct(on=exp.Tuple(expressions=keys))

    def ordinal(self, item: exp.Expr, outputs: list[exp.Expr], clause: str) -> exp.Expr:
        position = int(item.this)
        if not 1 <= position <= len(outputs):
            raise refuse(
                SQLError,
                f"{clause} {position} is out of range",
                item,
                code="ordinal",
                hint=f"write 1 to {len(outputs)}, or the name of a column"
                if len(outputs) > 1
                else "write 1, or a name",
            )
        return outputs[position - 1]

    def order_by(self, node: exp.Expr, bound: exp.Query, outputs: list[exp.Expr], resolve: Rewrite) -> None:
        order = node.args.get("order")
        if order is None:
            return
        items: list[exp.Expr] = []
        for item in order.expressions:
            if not isinstance(item, exp.Ordered) or item.args.get("with_fill"):
                raise refuse(
                    SQLError,
                    "this ORDER BY is not supported",
                    item,
                    code="order-by",
                    hint="use ORDER BY x ASC or DESC, NULLS FIRST or LAST",
                )
            flags = {"desc": item.args.get("desc"), "nulls_first": item.args.get("nulls_first")}
            if isinstance(item.this, exp.Var) and item.this.name.upper() == "ALL":
                items.extend(exp.Ordered(this=o.copy(), **flags) for o in outputs)
            elif isinstance(item.this, exp.Literal) and item.this.is_int:
                items.append(exp.Ordered(this=self.ordinal(item.this, outputs, "ORDER BY").copy(), **flags))
            else:
                items.append(exp.Ordered(this=resolve(item.this), **flags))
        bound.set("order", exp.Order(expressions=items))

    def limits(self, node: exp.Expr, bound: exp.Query) -> None:
        for part in ("limit", "offset"):
            clause = node.args.get(part)
            if clause is None:
                continue
            value = clause.expression
            if not (isinstance(clause, exp.Limit | exp.Offset) and isinstance(value, exp.Literal) and value.is_int):
                raise refuse(
                    SQLError,
                    f"{part.upper()} takes a whole number",
                    clause,
                    code="limit",
                    hint=f"write a constant: {part.upper()} 10",
                )
            if clause.args.get("limit_options") or clause.args.get("expressions"):
                raise refuse(
                    SQLError,
                    "LIMIT … % is not supported",
                    clause,
                    code="limit",
                    hint="write a number of rows: LIMIT 10",
                )
            bound.set(part, clause.copy())

    # ---------------------------------------------------------------- expressions

    def expression(
        self,
        node: exp.Expr,
        scope: Scope,
        ctes: Mapping[str, CTE],
        aliases: Mapping[str, exp.Expr],
        keys: Iterable[exp.Expr] | None,
        *,
        alias_first: bool = False,
    ) -> exp.Expr:
        """A bound copy. keys: in HAVING and QUALIFY an alias wins over a column that isn't a group key."""

        def walk(e: exp.Expr, depth: int) -> exp.Expr:
            if depth > 200:
                raise refuse(
                    SQLError,
                    "the expression is nested too deeply",
                    e,
                    code="too-deep",
                    hint="compute a part of it in a subquery",
                )
            if isinstance(e, exp.Column):
                return self.column(e, scope, aliases, keys, alias_first or interval_end(e.parent) is not None)
            if isinstance(e, exp.Query):
                tree, _ = self.query(e, ctes, scope)
                return exp.Subquery(this=tree) if isinstance(e, exp.Subquery) else tree
            if isinstance(e, exp.Star) and not is_starred(e.parent):
                hint = "name one column, or choose several: COLUMNS('^a')"
                raise refuse(SQLError, "* can't stand here", e.parent or e, code="unsupported", hint=hint)
            if isinstance(e, exp.Explode) and not scope.sources and (series := series_of(e)) is not None:
                return checked_series(series, e)
            check_node(e)
            return rebuilt(e, lambda child: walk(child, depth + 1))

        return walk(node, 0)

    def column(
        self,
        node: exp.Column,
        scope: Scope,
        aliases: Mapping[str, exp.Expr],
        keys: Iterable[exp.Expr] | None,
        alias_first: bool,
    ) -> exp.Expr:
        if isinstance(node.this, exp.Star) or node.args.get("db"):
            star = isinstance(node.this, exp.Star)
            raise refuse(
                SQLError,
                "* can't stand here" if star else "a column has no schema here",
                node,
                code="unsupported",
                hint="name one column" if star else f"write {node.table}.{node.name}",
            )
        name = node.name
        alias = aliases.get(name.lower()) if not node.table else None
        if alias is not None and alias_first:
            return self.counted(alias)
        found = lookup(scope, name, node.table or None, node, self.unlisted, missing_ok=alias is not None)
        if found is not None and keys is not None and alias is not None and found not in list(keys):
            return self.counted(alias)
        if found is None:
            assert alias is not None
            return self.counted(alias)
        return found
