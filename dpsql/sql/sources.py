"""FROM: tables of the policy, CTEs, subqueries, VALUES, PIVOT, LATERAL and joins become sources with unique aliases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpsql.core.errors import SQLError, nearest
from dpsql.sql.names import FromItem, Scope, Unlisted, aliased, column, lookup, unique_names
from dpsql.sql.pivot import pivot_query
from dpsql.sql.refuse import offsets, refuse
from dpsql.sql.rewrite import rewrite
from dpsql.sql.series import checked_series, series_of
from dpsql.sql.trees import nodes

MAX_NODES = 20_000

_JOIN_METHODS = ("", "NATURAL", "ASOF", "POSITIONAL")  # the last two, SEMI and ANTI over results only: build says so
_JOIN_KINDS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")
_REASONS = {  # part of a SELECT or of a FROM: why not, and what instead
    "sample": ("sampling rows has no bound on what one person changes", "leave it out: noise protects each person"),
    "laterals": ("LATERAL joins are not supported", "compute the expression in the SELECT list of a subquery"),
    "pivots": ("one PIVOT can't follow another", "put the first one into a subquery"),
    "into": ("SELECT INTO writes a table, and queries only read", "leave it out"),
    "locks": ("FOR UPDATE locks rows, and queries only read", "leave it out"),
    "match": ("MATCH_RECOGNIZE is not supported", "leave it out"),
    "connect": ("CONNECT BY is not supported", "leave it out"),
}


@dataclass(slots=True)
class CTE:
    node: exp.CTE
    visible: Mapping[str, CTE]
    bound: tuple[exp.Query, tuple[str, ...]] | None = None


class Sources(ABC):
    """What the binder knows while it reads a FROM: the policy's tables, the aliases in use, the size of the query."""

    def __init__(self, schema: Mapping[str, tuple[str, ...]], unlisted: Unlisted) -> None:
        self.schema = schema
        self.unlisted = unlisted
        self.aliases: set[str] = set()
        self.ctes: list[CTE] = []
        self.nodes = 0

    @abstractmethod
    def query(self, node: exp.Expr, ctes: Mapping[str, CTE], outer: Scope | None) -> tuple[exp.Query, tuple[str, ...]]:
        """A bound query and the names of its columns."""

    @abstractmethod
    def with_ctes(self, node: exp.Expr, ctes: Mapping[str, CTE]) -> Mapping[str, CTE]:
        """The CTEs that a query sees, its own among them."""

    @abstractmethod
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
        """A bound copy of an expression."""

    def sources(self, node: exp.Select, bound: exp.Select, scope: Scope, ctes: Mapping[str, CTE]) -> None:
        from_ = node.args.get("from_")
        if from_ is None:
            return
        bound.set("from_", exp.From(this=self.source(from_.this, scope, ctes)))
        joins = []
        for join in [*(node.args.get("joins") or []), *(from_.this.args.get("joins") or [])]:
            joins.append(self.join(join, scope, ctes))
        if joins:
            bound.set("joins", joins)

    def join(self, node: exp.Join, scope: Scope, ctes: Mapping[str, CTE]) -> exp.Join:
        kind, side, method = (node.args.get(k) or "" for k in ("kind", "side", "method"))
        if method.upper() not in _JOIN_METHODS or kind.upper() not in _JOIN_KINDS:
            raise refuse(
                SQLError,
                f"{method or kind} JOIN is not supported".strip(),
                node,
                code="join-kind",
                hint="use INNER JOIN, LEFT JOIN or CROSS JOIN",
            )
        left, merged = list(scope.sources), dict(scope.merged)
        right_tree = self.source(node.this, scope, ctes)
        right = scope.sources[-1]
        using = {c.name: c for c in node.args.get("using") or []}
        if method.upper() == "NATURAL":
            mine = {c.lower() for c in right.columns}
            using = {c: node for s in left for c in s.columns if c.lower() in mine}
        on = node.args.get("on")
        condition = self.expression(on, scope, ctes, {}, None) if on is not None else None
        for name, place in using.items():
            pair = exp.EQ(
                this=lookup(Scope(left, None, dict(scope.merged)), name, None, place, self.unlisted),
                expression=lookup(Scope([right], None), name, None, place, self.unlisted),
            )
            condition = pair if condition is None else exp.and_(condition, pair)
            keep = right.alias if side.upper() == "RIGHT" else pair.this.table
            scope.merged[name.lower()] = keep
        if side.upper() == "FULL" and using:
            raise refuse(
                SQLError,
                "FULL JOIN … USING is not supported",
                node,
                code="join-kind",
                hint="use ON a.x = b.x, and COALESCE(a.x, b.x)",
            )
        if kind.upper() in ("SEMI", "ANTI"):  # what they look for is no part of the result
            scope.sources.remove(right)
            scope.merged.update({name: before for name, before in merged.items() if name in scope.merged})
            for name in set(scope.merged) - set(merged):
                del scope.merged[name]
        method = "" if method.upper() == "NATURAL" else method
        return exp.Join(this=right_tree, on=condition, kind=kind or None, side=side or None, method=method or None)

    def pivot(self, pivot: exp.Pivot, source: exp.Expr, ctes: Mapping[str, CTE], outer: Scope | None) -> exp.Query:
        """The query that a PIVOT stands for. Where it needs the columns of its source, that is bound once more."""

        def columns() -> tuple[str, ...]:
            found = Scope([], outer)
            self.source(source, found, ctes)
            return found.sources[0].columns

        return rewrite(pivot_query(pivot, source.copy(), columns))

    def pivoted(self, node: exp.Expr, scope: Scope, ctes: Mapping[str, CTE]) -> exp.Subquery:
        """FROM t PIVOT (…) AS p."""
        (pivot, *more) = node.args["pivots"]
        if more:
            raise unsupported("pivots", more, node)
        source = node.copy()
        source.set("pivots", None)
        joins = source.args.get("joins")
        source.set("joins", None)
        name = pivot.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.alias or node.name or "pivot"))
        query = self.pivot(pivot, source, ctes, scope.outer)
        return exp.Subquery(this=query, alias=name.copy(), joins=joins)

    def source(self, node: exp.Expr, scope: Scope, ctes: Mapping[str, CTE]) -> exp.Expr:
        if node.args.get("pivots"):
            return self.source(self.pivoted(node, scope, ctes), scope, ctes)
        extra = {k for k, v in node.args.items() if v} - {"this", "alias", "joins", "expressions", "with_"}
        if extra - {"db", "catalog"}:
            part = min(extra - {"db", "catalog"})
            raise unsupported(part, node.args[part], node)
        tree: exp.Expr
        columns: tuple[str, ...]
        series = series_of(node)
        if series is not None:
            column_name = "range" if series.args.get("is_end_exclusive") else "generate_series"
            if isinstance(node, exp.Unnest):
                column_name = "unnest"
            tree = exp.Select(expressions=[aliased(checked_series(series, node), column_name)])
            columns, name = (column_name,), node.alias or column_name
        elif isinstance(node, exp.Table):
            tree, columns, name = self.table(node, ctes)
        elif isinstance(node, exp.Subquery):
            tree, columns = self.query(node.this, self.with_ctes(node, ctes), scope.outer)
            name = node.alias or "subquery"
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            beside = Scope(list(scope.sources), scope.outer, dict(scope.merged))
            tree, columns = self.query(node.this, ctes, beside)
            name = node.alias or "subquery"
        elif isinstance(node, exp.Values):
            width = len(node.expressions[0].expressions) if node.expressions else 0
            for row in node.expressions:
                for cell in row.expressions:
                    if cell.find(exp.Query):
                        raise refuse(
                            SQLError,
                            "VALUES takes constants, not queries",
                            cell,
                            code="unsupported",
                            hint="select the value in a query of its own",
                        )
                    self.expression(cell, Scope([], None), {}, {}, None)
            tree, columns, name = node, tuple(f"col{i}" for i in range(width)), node.alias or "valueslist"
        else:
            raise refuse(
                SQLError,
                "only tables of the policy and subqueries can stand in FROM",
                node,
                code="unknown-table",
                hint=f"name a table of the policy ({', '.join(sorted(self.schema)) or 'none'}) or write a subquery",
            )
        renamed = [c.name for c in node.args["alias"].columns] if node.args.get("alias") else []
        if len(renamed) > len(columns):
            raise _too_many_aliases(len(renamed), len(columns), node.args["alias"], name)
        shown = tuple(unique_names([*renamed, *columns[len(renamed) :]]))
        if any(s.name.lower() == name.lower() for s in scope.sources) and node.alias:
            raise refuse(
                SQLError,
                f"two sources are called {name}",
                node.args["alias"],
                code="alias",
                hint=f"rename one of them: … AS {name}2",
            )
        alias = self.fresh(name)
        scope.sources.append(FromItem(name, alias, shown))
        identifier = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
        quoted = [exp.to_identifier(c, quoted=True) for c in shown]
        if isinstance(tree, exp.Table):
            tree.set("alias", identifier)
            if renamed:
                tree.set("alias", exp.TableAlias(this=identifier.this, columns=quoted))
            return tree
        if isinstance(tree, exp.Values):
            return exp.Values(
                expressions=[e.copy() for e in tree.expressions],
                alias=exp.TableAlias(this=identifier.this, columns=quoted),
            )
        named = exp.TableAlias(this=identifier.this, columns=quoted if renamed else None)
        if isinstance(node, exp.Lateral):
            return exp.Lateral(this=exp.Subquery(this=tree), alias=named)
        return exp.Subquery(this=tree, alias=named)

    def table(self, node: exp.Table, ctes: Mapping[str, CTE]) -> tuple[exp.Expr, tuple[str, ...], str]:
        if not isinstance(node.this, exp.Identifier) or node.args.get("db"):
            known = node.args.get("db") and node.name.lower() in self.schema
            raise refuse(
                SQLError,
                "table functions, files and other schemas can't be read",
                node,
                code="unknown-table",
                hint=f"leave the schema out: {node.name}"
                if known
                else f"tables of the policy: {', '.join(sorted(self.schema)) or 'none'}",
            )
        name = node.name
        cte = ctes.get(name.lower())
        if cte is not None:
            if cte.bound is None:
                tree, columns = self.query(cte.node.this, cte.visible, None)
                renamed = [c.name for c in cte.node.args["alias"].columns]
                if len(renamed) > len(columns):
                    raise _too_many_aliases(len(renamed), len(columns), cte.node.args["alias"], name)
                if renamed:
                    columns = (*renamed, *columns[len(renamed) :])
                    tree = self.with_names(tree, columns, name)
                cte.bound = (tree, columns)
            tree, columns = cte.bound
            self.count(tree)
            return tree.copy(), columns, node.alias or name
        if name.lower() not in self.schema:
            near = nearest(name, tuple(self.schema))
            raise refuse(
                SQLError,
                f"there is no table {name}",
                node,
                code="unknown-table",
                hint=f"did you mean {near}?" if near else f"tables of the policy: {', '.join(sorted(self.schema))}",
            )
        table = exp.Table(this=exp.to_identifier(name.lower(), quoted=True))
        table.this.meta.update(node.this.meta)
        table.meta["columns"] = self.schema[name.lower()]
        return table, self.schema[name.lower()], node.alias or name

    def fresh(self, name: str) -> str:
        alias, n = name.lower(), 2
        while alias in self.aliases:
            alias, n = f"{name.lower()}_{n}", n + 1
        self.aliases.add(alias)
        return alias

    def counted(self, alias: exp.Expr) -> exp.Expr:
        """A copy of what an alias stands for: aliases of aliases can double a query many times."""
        self.count(alias)
        return alias.copy()

    def count(self, tree: exp.Expr) -> None:
        self.nodes += len(nodes(tree))
        if self.nodes > MAX_NODES:
            raise SQLError(
                "the query is too large once its CTEs are expanded",
                code="too-long",
                hint="refer to each CTE less often",
            )

    def with_names(self, query: exp.Query, names: tuple[str, ...], name: str) -> exp.Query:
        """A query's rows under other names of its columns."""
        if isinstance(query, exp.Select):
            for output, other in zip(query.selects, names, strict=True):
                output.set("alias", exp.to_identifier(other, quoted=True))
            return query
        alias = self.fresh(name)
        outputs = [aliased(column(alias, n), n) for n in names]
        return exp.Select(expressions=outputs, from_=exp.From(this=derived(query, alias, names)))


def derived(query: exp.Query, alias: str, names: Iterable[str] = ()) -> exp.Subquery:
    """(query) AS alias (names)."""
    renamed = [exp.to_identifier(n, quoted=True) for n in names]
    return exp.Subquery(
        this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=renamed or None)
    )


def _too_many_aliases(given: int, there: int, place: exp.Expr, name: str) -> SQLError:
    message = f"{given} column aliases for {there} column{'s' if there > 1 else ''}"
    return refuse(SQLError, message, place, code="column-count", hint=f"give {name} at most {there}")


def unsupported(part: str, value: object, node: exp.Expr) -> SQLError:
    """A part of a SELECT or of a source that no rule knows; node is the whole of it."""
    reason, hint = _REASONS.get(part, (f"{part.strip('_').upper()} is not supported here", "leave it out"))
    place = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    return refuse(SQLError, reason, place if offsets(place) else node, code="unsupported", hint=hint)
