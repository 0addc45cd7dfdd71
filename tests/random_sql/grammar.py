"""A grammar that writes random queries over the tables of world.py, each as two texts: dpsql's and plain DuckDB's.

The two differ only where dpsql's contract does: SUM of nothing is 0, NaN and infinity count as NULL inside of an
aggregate, PRIVACY_UNIT() is a column, and keys that aren't public leave only with two units or more. Nothing that is
written here depends on a tie between noisy values: results are ordered and cut by keys and whole counts, and compared
with numbers that no sum of the data hits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from random_sql.refused import Refused
from random_sql.written import Out, Query, Rows, Table, both, render


class Grammar(Refused):
    """Writes whole queries."""

    def query(self) -> Query:
        """One query: mostly plain constructs, some that no version supports, some hostile, some no SQL at all."""
        roll = self.dice.random()
        if roll < 0.06:
            return self.hostile()
        if roll < 0.10:
            return self.broken(self.simple().sql)
        if roll < 0.16:
            return self.unsupported()
        makers: list[tuple[Callable[[], Query], int]] = [
            (self.simple, 40),
            (self.limited, 8),
            (self.cte_query, 10),
            (self.over_results, 10),
            (self.set_operation, 6),
            (self.scalar_subquery, 5),
            (self.noisy_filter, 6),
            (self.grouping_sets, 6),
            (self.pivot, 3),
            (self.correlated, 4),
            (self.results_joined, 6),
            (self.distinct, 5),
            (self.listed, 6),
        ]
        return self.dice.choices([m for m, _ in makers], [w for _, w in makers])[0]()

    def finished(self, table: Table, *, ordered: bool = False, expect: str = "same", tag: str | None = None) -> Query:
        tags = table.tags | ({tag} if tag else set())
        sql, plain, few = (render(table.sql, side) for side in (1, 2, 3))
        return Query(sql, plain, few, tuple(o.role for o in table.outs), frozenset(tags), ordered, expect)

    def simple(self) -> Query:
        rows = self.rows()
        table = self.release(rows, exact=False)
        if self.chance(0.3) and (keys := [i for i, o in enumerate(table.outs, 1) if o.role == "key"]):
            order = ", ".join(f"{i} {self.pick('', 'DESC', 'NULLS FIRST', 'DESC NULLS LAST')}".strip() for i in keys)
            return self.finished(replace(table, sql=f"{table.sql} ORDER BY {order}"), tag="ORDER BY")
        return self.finished(table)

    def limited(self) -> Query:
        """ORDER BY and LIMIT over results: a whole count first, then every key."""
        table = self.release(self.rows(), exact=True, keys=self.dice.randint(1, 2), counted=True)
        outs = list(table.outs)
        count = next(i for i, o in enumerate(outs, 1) if o.role == "count")
        keys = ", ".join(str(i) for i, o in enumerate(outs, 1) if o.role == "key")
        tail = f" ORDER BY {count} {self.pick('DESC', 'ASC')}, {keys} LIMIT {self.dice.randint(1, 4)}"
        tail += " OFFSET 1" if self.chance(0.2) else ""
        return self.finished(replace(table, sql=table.sql + tail), ordered=True, tag="LIMIT over results")

    # ------------------------------------------------------------ over results

    def cte_query(self) -> Query:
        """CTEs: of rows, of results, nested, reused, shadowing a table."""
        shape = self.pick("rows", "rows", "shadow", "nested", "reused", "result", "unused")
        name = self.fresh("t")
        if shape == "shadow":
            table = self.pick("users", "orders", "survey")
            inner = self.base(table, table)
            where = self.condition(inner.cols)
            made = self.release(self.base(table, table), exact=False)
            sql = f"WITH {table} AS (SELECT * FROM {table} WHERE {where}) {made.sql}"
            return self.finished(replace(made, sql=sql), tag="CTE that shadows a table")
        inner = self.rows(1)
        show = self.chance(0.6)
        body, cols, unit = self.projected(inner, show=show)
        held = tuple(replace(c, sql=f"{name}.{c.sql}") for c in cols)
        over = Rows(name, held, f"{name}.{unit}" if unit else "", (), inner.tags, show, inner.fan)
        if shape in ("rows", "unused"):
            made = self.release(over, exact=False)
            unused = f", {self.fresh('t')} AS (SELECT uid FROM orders)" if shape == "unused" else ""
            return self.finished(
                replace(made, sql=f"WITH {name} AS ({body}){unused} {made.sql}"), tag=f"CTE of {shape}"
            )
        if shape == "nested":
            second = self.fresh("t")
            below = f"SELECT * FROM {name}" + (f" WHERE {self.condition(over.cols)}" if self.chance(0.7) else "")
            again = replace(
                over,
                source=second,
                cols=tuple(replace(c, sql=c.sql.replace(name, second, 1)) for c in over.cols),
                unit=over.unit.replace(name, second, 1),
            )
            made = self.release(again, exact=False)
            return self.finished(
                replace(made, sql=f"WITH {name} AS ({body}), {second} AS ({below}) {made.sql}"), tag="nested CTEs"
            )
        if shape == "reused":
            one, two = self.release(over, exact=True, keys=0), self.release(over, exact=True, keys=0)
            outs = (*one.outs, *two.outs)
            sql = f"WITH {name} AS ({body}) SELECT * FROM ({one.sql}) AS l CROSS JOIN ({two.sql}) AS r"
            return self.finished(Table(sql, outs, one.tags | two.tags), tag="CTE used twice")
        made = self.release(self.rows(1), exact=True, counted=True)
        columns = ", ".join(o.name for o in made.outs)
        sql = f"WITH {name} AS ({made.sql}) SELECT {columns} FROM {name}"
        return self.finished(replace(made, sql=sql), tag="CTE of a result")

    def over_results(self) -> Query:
        """Post-processing: filters, windows, aggregates and joins over a released table."""
        made = self.release(self.rows(1), exact=True, keys=self.dice.randint(1, 2), counted=True)
        keys = [o.name for o in made.outs if o.role == "key"]
        count = next(o.name for o in made.outs if o.role == "count")
        shape = self.pick("aggregate", "window", "filter", "share", "qualify", "group")
        t = self.fresh("r")
        tags = made.tags | {f"over results: {shape}"}
        if shape == "aggregate":
            sql = f"SELECT COUNT(*) AS n, MAX({t}.{count}) AS m, SUM({t}.{count}) AS s FROM ({made.sql}) AS {t}"
            return self.finished(Table(sql, (Out("n", "post"), Out("m", "post"), Out("s", "post")), tags))
        if shape == "group":
            sql = f"SELECT {t}.{count} AS c, COUNT(*) AS n FROM ({made.sql}) AS {t} GROUP BY {t}.{count}"
            return self.finished(Table(sql, (Out("c", "key"), Out("n", "count")), tags))
        listed = ", ".join(f"{t}.{k}" for k in keys)
        outs = tuple(Out(k, "key") for k in keys)
        if shape == "filter":
            sql = f"SELECT {listed}, {t}.{count} * 2 AS n FROM ({made.sql}) AS {t} WHERE {t}.{count} > 2"
            return self.finished(Table(sql, (*outs, Out("n", "post")), tags))
        if shape == "share":
            value = f"{t}.{count} * 1.0 / SUM({t}.{count}) OVER ()"
        else:
            call = self.pick("RANK()", "DENSE_RANK()", "ROW_NUMBER()", f"SUM({t}.{count})", f"LAG({t}.{count})")
            value = f"{call} OVER (ORDER BY {t}.{count} DESC, {listed})"
        tail = f" QUALIFY ROW_NUMBER() OVER (ORDER BY {t}.{count}, {listed}) <= 3" if shape == "qualify" else ""
        sql = f"SELECT {listed}, {value} AS w FROM ({made.sql}) AS {t}{tail}"
        return self.finished(Table(sql, (*outs, Out("w", "post")), tags))

    def set_operation(self) -> Query:
        """UNION, INTERSECT and EXCEPT of results."""
        how = self.pick("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        sides, tags = [], {f"{how} of results"}
        for _ in range(2):
            rows = self.rows(1)
            key = self.text(rows.cols, 1)
            sides.append(f"SELECT {key} AS k, COUNT(*) AS n {rows.body()} GROUP BY 1 HAVING {self.units(rows)} > 1")
            tags |= rows.tags
        tail = " ORDER BY k, n" if self.chance(0.5) else ""
        sql = f" {how} ".join(sides) + tail
        return self.finished(Table(sql, (Out("k", "key"), Out("n", "post")), frozenset(tags)))

    def scalar_subquery(self) -> Query:
        """A scalar subquery over a release, beside and inside of another release's result."""
        inner, outer = self.rows(1), self.rows(1)
        total = f"(SELECT COUNT(*) {inner.body()})"
        tags = inner.tags | outer.tags
        if self.chance(0.5):
            sql = f"SELECT COUNT(*) AS n, {total} AS m, COUNT(*) * 1.0 / NULLIF({total}, 0) AS q {outer.body()}"
            outs = (Out("n", "count"), Out("m", "count"), Out("q", "post"))
            return self.finished(Table(sql, outs, tags), tag="scalar subquery over a release")
        made = self.release(outer, exact=True, keys=1, counted=True)
        count = next(o.name for o in made.outs if o.role == "count")
        sql = f"SELECT * FROM ({made.sql}) AS f WHERE f.{count} * 3 >= {total}"
        return self.finished(replace(made, sql=sql, tags=made.tags | tags), tag="result against a scalar subquery")

    def noisy_filter(self) -> Query:
        """A noisy value inside of a filter of private rows: an earlier step, then a constant."""
        shape = self.pick("average", "count", "list", "list", "argument")
        u = self.fresh("u")
        if shape == "average":
            users = self.base("users", u)
            users = replace(users, where=(f"{u}.age > (SELECT AVG(age) + {self.odd(-9, 9)} FROM users)",))
            made = self.release(users, exact=False)
        elif shape == "count":
            rows = self.rows(1)
            x = self.integer(rows.cols, 1)
            inner = self.base("orders", self.fresh("o"))
            rows = replace(rows, where=(*rows.where, f"{x} <= (SELECT COUNT(*) {inner.body()})"))
            made = self.release(rows, exact=False)
        elif shape == "list":
            rows = self.base("users", u)
            negated = self.pick("IN", "NOT IN")
            frequent = "SELECT city FROM users WHERE city IS NOT NULL GROUP BY city HAVING COUNT(*) > 2"
            made = self.release(replace(rows, where=(f"{u}.city {negated} ({frequent})",)), exact=False)
        else:
            rows = self.base("users", u)
            value = f"SUM(LEAST(GREATEST({u}.age - (SELECT COUNT(*) FROM orders), -99), 99))"
            sql = f"SELECT {both('', 'COALESCE(')}{value}{both('', ', 0)')} AS s {rows.body()}"
            made = Table(sql, (Out("s", "whole"),), rows.tags)
        return self.finished(made, tag=f"noisy value in a private query: {shape}")

    def grouping_sets(self) -> Query:
        rows = self.rows(1)
        keys = [c.sql for c in rows.cols if c.public]
        if not keys:
            rows = self.join_public()
            keys = [c.sql for c in rows.cols if c.public]
        keys = self.dice.sample(keys, min(len(keys), self.dice.randint(1, 2)))
        keys = list(dict.fromkeys(keys))
        listed = ", ".join(keys)
        how = self.pick("ROLLUP", "CUBE", "GROUPING SETS")
        clause = f"{how} ({listed})" if how != "GROUPING SETS" else f"GROUPING SETS (({listed}), ({keys[0]}), ())"
        marks = f", GROUPING({keys[0]}) AS g" if self.chance(0.3) else ""
        outs = [Out(f"k{i}", "key") for i, _ in enumerate(keys)] + ([Out("g", "key")] if marks else [])
        items = ", ".join(f"{k} AS k{i}" for i, k in enumerate(keys))
        more, role = self.aggregate(rows, set())
        having = f" HAVING {self.units(rows)} > 1"
        sql = f"SELECT {items}{marks}, COUNT(*) AS n, {more} AS m {rows.body()} GROUP BY {clause}{having}"
        return self.finished(Table(sql, (*outs, Out("n", "count"), Out("m", role)), rows.tags), tag=how)

    def pivot(self) -> Query:
        """PIVOT with its values listed, as a clause of FROM and as a statement; DuckDB is asked with FILTER."""
        if self.chance(0.3):
            sql = "PIVOT users ON city IN ('bern', 'lima', 'oslo') USING COUNT(*) AS n GROUP BY vip"
            return Query(sql, sql, sql, ("key", "count", "count", "count"), frozenset({"PIVOT … IN"}))
        rows = self.rows(1)
        word, number = self.column(rows.cols, "text") or "'gift'", self.integer(rows.cols, 1)
        call = self.pick("COUNT(*)", "COUNT(x)", "SUM(x)")
        inner = f"(SELECT {word} AS k{f', {number} AS x' if 'x' in call else ''} {rows.body()})"
        values = self.dice.sample(["gift", "new", "oslo", "rome", "a1", "left", "red"], 3)
        listed = ", ".join(f"'{v}'" for v in values)
        filtered = ", ".join(f"COALESCE({call} FILTER (WHERE k = '{v}'), 0) AS {v}" for v in values)
        ours = f"SELECT * FROM {inner} PIVOT ({call} FOR k IN ({listed}))"
        table = Table(both(ours, f"SELECT {filtered} FROM {inner}"), tuple(Out(v, "whole") for v in values), rows.tags)
        return self.finished(table, tag="PIVOT … IN")

    def correlated(self) -> Query:
        """A scalar subquery over private rows for each row of a public table."""
        rows = self.rows(1)
        public, key = self.dice.choice([("cities", "city"), ("skus", "sku"), ("tags", "tag")])
        word = self.column(rows.cols, "text") or "'oslo'"
        x = self.integer(rows.cols, 1)
        value = self.pick("COUNT(*)", f"SUM({x})")
        looked = f"(SELECT {value} {rows.body([f'{word} = p.{key}'])})"
        sql = f"SELECT DISTINCT p.{key} AS k, COALESCE({looked}, 0) AS n FROM {public} AS p"
        return self.finished(
            Table(sql, (Out("k", "key"), Out("n", "whole")), rows.tags),
            tag="correlated scalar subquery, public table",
        )

    def results_joined(self) -> Query:
        """Several releases, joined by their keys or to a public table."""
        how = self.pick("JOIN", "LEFT JOIN", "FULL JOIN", "USING", "public")
        users, orders = self.base("users", "u"), self.base("orders", "o")
        first, second = self.aggregate(users, set()), self.aggregate(orders, set())
        where = f"WHERE {self.condition(users.cols)}" if self.chance(0.5) else ""
        a = (
            f"a AS (SELECT u.age % 4 AS k, COUNT(*) AS n, {first[0]} AS x FROM users AS u {where} "
            "GROUP BY 1 HAVING COUNT(DISTINCT u.uid) > 1)"
        )
        b = (
            f"b AS (SELECT MONTH(o.day) AS k, COUNT(*) AS m, {second[0]} AS y FROM orders AS o "
            "GROUP BY 1 HAVING COUNT(DISTINCT o.uid) > 1)"
        )
        if how == "public":
            sql = (
                f"WITH c AS (SELECT u.city, COUNT(*) AS n FROM users AS u {where} GROUP BY u.city HAVING COUNT(*) > 0) "
                "SELECT p.region AS k, SUM(c.n) AS n FROM c JOIN cities AS p USING (city) GROUP BY p.region"
            )
            table = Table(sql, (Out("k", "key"), Out("n", "post")), users.tags)
            return self.finished(table, tag="result joined to a public table")
        clause = "JOIN b USING (k)" if how == "USING" else f"{how} b ON a.k = b.k"
        sql = f"WITH {a}, {b} SELECT a.k AS k, n, m, x, y FROM a {clause}"
        outs = (Out("k", "key"), Out("n", "post"), Out("m", "post"), Out("x", first[1]), Out("y", second[1]))
        return self.finished(Table(sql, outs, users.tags), tag=f"results joined: {how}")

    def distinct(self) -> Query:
        """SELECT DISTINCT of private rows, and over results."""
        rows = self.rows(1)
        tags: set[str] = set()
        key = self.key(rows, tags, plain=False)
        own = f"COUNT(DISTINCT {rows.unit})" if rows.unit else "COUNT(*)"
        few = f"SELECT {key} AS k {rows.body()} GROUP BY 1 HAVING {own} > 1"
        sql = f"SELECT DISTINCT {key} AS k {rows.body()}"
        table = Table(both(sql, sql, few), (Out("k", "key"),), rows.tags | tags)
        return self.finished(table, tag="SELECT DISTINCT")

    def listed(self) -> Query:
        """Which groups are there, and how many: lists of public keys, aggregates over them, LIMIT over keys."""
        rows = self.rows(1)
        keys = [c.sql for c in rows.cols if c.public]
        if not keys:
            rows = self.join_public()
            keys = [c.sql for c in rows.cols if c.public]
        keys = self.dice.sample(keys, min(len(keys), self.dice.randint(1, 2)))
        items = ", ".join(f"{k} AS k{i}" for i, k in enumerate(keys))
        names = [f"k{i}" for i in range(len(keys))]
        outs = tuple(Out(n, "key") for n in names)
        body, listed = rows.body(), ", ".join(keys)
        shape = self.pick("how many", "group by", "having", "over counts", "limit", "except", "union", "intersect")
        order = ", ".join(f"{i + 1}" for i in range(len(keys)))
        if shape == "how many":
            counts = f"SELECT {items}, COUNT(*) AS n {body} GROUP BY {listed}"
            sql = f"SELECT COUNT(*) AS n FROM ({self.pick(f'SELECT DISTINCT {items} {body}', counts)}) AS q"
            return self.finished(Table(sql, (Out("n", "count"),), rows.tags), tag=f"lists: {shape}")
        if shape == "over counts":
            inner = f"SELECT {items}, COUNT(*) AS n {body} GROUP BY {listed}"
            sql = f"SELECT MIN(q.n) AS a, AVG(q.n) AS b, COUNT(*) AS c FROM ({inner}) AS q"
            made = (Out("a", "post"), Out("b", "post"), Out("c", "count"))
            return self.finished(Table(sql, made, rows.tags), tag=f"lists: {shape}")
        if shape == "limit":
            sql = f"SELECT {items}, COUNT(*) AS n {body} GROUP BY {listed} ORDER BY {order} LIMIT 3"
            return self.finished(Table(sql, (*outs, Out("n", "count")), rows.tags), ordered=True, tag=f"lists: {shape}")
        if shape in ("group by", "having"):
            having = " HAVING COUNT(*) > 0" if shape == "having" else ""
            sql = f"SELECT {items} {body} GROUP BY {listed}{having}"
            return self.finished(Table(sql, outs, rows.tags), tag=f"lists: {shape}")
        other = rows.body([self.condition(rows.cols)])
        distinct = self.pick("", "DISTINCT ")
        sql = f"SELECT {items} {body} {shape.upper()} SELECT {distinct}{listed} {other}"
        return self.finished(Table(sql, outs, rows.tags), tag=f"lists: {shape}")
