"""Random relations of private rows: what stands in FROM, and what decides in WHERE."""

from __future__ import annotations

from dataclasses import replace

from random_sql.own import Own
from random_sql.sources import FAN
from random_sql.written import Col, Rows, both

OWN_VALUE = "correlated scalar subquery, per unit"


class PrivateRows(Own):
    """Writes what stands in FROM and WHERE."""

    def rows(self, depth: int = 2, *, owned: bool = False) -> Rows:
        """A relation of private rows. owned: by somebody, so no table in which each row is a unit."""
        rows = self.source(depth)
        while owned and not rows.unit:
            rows = self.base()
        if self.chance(0.4):
            rows = replace(rows, where=(*rows.where, self.condition(rows.cols))).tagged("WHERE")
        if depth > 0 and rows.unit and self.chance(0.15):
            rows = self.filtered(rows, self.membership(rows, depth))
        if depth > 0 and self.chance(0.08):
            rows = self.filtered(rows, self.noisy(rows))
        if rows.named and rows.unit and self.chance(0.08):
            rows = self.filtered(rows, self.own_value(rows))
        if self.chance(0.06):
            rows = self.filtered(rows, self.public_subquery(rows))
        return rows

    def source(self, depth: int) -> Rows:
        if depth <= 0:
            return self.base()
        made = self.pick("base", "base", "joined", "joined", "joined", "nested", "set", "group", "group", "window",
                         "distinct", "crossed")  # fmt: skip
        rows = {
            "base": lambda: self.base(),
            "joined": lambda: self.joined(depth),
            "nested": lambda: self.derived(self.rows(depth - 1)),
            "set": lambda: self.combined(depth),
            "group": lambda: self.per_unit(depth),
            "window": lambda: self.window(depth),
            "distinct": lambda: self.distinct_rows(depth),
            "crossed": lambda: self.crossed(depth),
        }[made]()
        return rows if rows.fan <= FAN else self.base()

    def filtered(self, rows: Rows, found: tuple[str, str]) -> Rows:
        text, tag = found
        return replace(rows, where=(*rows.where, text)).tagged(tag)

    def membership(self, rows: Rows, depth: int) -> tuple[str, str]:
        """A semi- or anti-join on the unit, as a condition."""
        inner = self.owned(depth - 1)
        where = [self.condition(inner.cols)] if self.chance(0.6) else []
        shape = self.pick("IN", "NOT IN", "EXISTS", "NOT EXISTS", "INTERSECT", "EXCEPT", "UNION", "HAVING")
        if shape in ("EXISTS", "NOT EXISTS") and not rows.named:
            shape = shape.replace("EXISTS", "IN")
        if shape in ("IN", "NOT IN"):
            text = f"{rows.own} {shape} (SELECT {inner.unit} {inner.body(where)})"
        elif shape == "HAVING":
            having = self.pick("COUNT(*) > 1", "COUNT(*) = 1", f"MAX({self.integer(inner.cols, 0)}) > 9")
            text = f"{rows.own} IN (SELECT {inner.unit} {inner.body(where)} GROUP BY {inner.unit} HAVING {having})"
        elif shape in ("INTERSECT", "EXCEPT", "UNION"):
            text = f"{rows.own} IN (SELECT {inner.unit} {inner.body(where)} {shape} SELECT uid FROM orders)"
        else:
            if self.chance(0.4):
                where.append(self.boolean((*inner.cols, *rows.cols), 0))
            text = f"{shape} (SELECT 1 {inner.body([f'{inner.unit} = {rows.unit}', *where])})"
        if self.chance(0.15):
            text = f"({text} OR {self.boolean(rows.cols, 0)})"
        return text, f"unit {shape}"

    def noisy(self, rows: Rows) -> tuple[str, str]:
        """A comparison with a noisy value, which is an earlier step's."""
        number = self.column(rows.cols, "int", "decimal", "float") or "7"
        word = self.column(rows.cols, "text")
        other = self.rows(0)
        shape = self.pick("average", "count", "list" if word else "count", "case")
        if shape == "average":
            u = self.fresh("u")
            average = f"(SELECT AVG({u}.age) + {self.odd(-9, 9)} FROM users AS {u})"
            text = f"{number} {self.pick('>', '<')} {average}"
        elif shape == "count":
            text = f"{number} {self.pick('<=', '>')} (SELECT COUNT(*) {other.body()})"
        elif shape == "list":
            key = self.pick("users.city", "orders.kind", "items.sku")
            table, column = key.split(".")
            frequent = f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL GROUP BY {column} HAVING COUNT(*) > 2"
            text = f"{word} {self.pick('IN', 'NOT IN')} ({frequent})"
        else:
            text = f"CASE WHEN (SELECT COUNT(*) {other.body()}) > 4 THEN {self.boolean(rows.cols, 0)} ELSE TRUE END"
        return text, f"noisy value in a filter: {shape}"

    def own_value(self, rows: Rows) -> tuple[str, str]:
        """A comparison with an aggregate of the same unit's rows."""
        value, kind = self.looked_up(rows)
        column = self.column(rows.cols, kind)
        text = f"{value} {self.pick('>=', '<')} {column}" if column else f"{value} IS NOT NULL"
        return text, OWN_VALUE

    def looked_up(self, rows: Rows) -> tuple[str, str]:
        """An aggregate of the same unit's rows, and its kind."""
        inner = self.alone(self.pick("orders", "users"))
        call, kind, _ = self.own_aggregate(inner.cols, set())
        where = [f"{inner.unit} = {rows.unit}"] + ([self.condition(inner.cols)] if self.chance(0.4) else [])
        return f"(SELECT {call} {inner.body(where)})", kind

    def public_subquery(self, rows: Rows) -> tuple[str, str]:
        """Public tables in a condition."""
        number = self.column(rows.cols, "int", "decimal", "float") or "7"
        word = self.column(rows.cols, "text") or "'oslo'"
        text = self.pick(
            f"{word} IN (SELECT sku FROM skus WHERE list_price > 15)",
            f"{word} NOT IN (SELECT city FROM cities WHERE pop > 500)",
            f"{number} < (SELECT MAX(list_price) FROM skus)",
            f"EXISTS (SELECT 1 FROM tags AS pt WHERE pt.sku = {word})",
            f"NOT EXISTS (SELECT 1 FROM cities AS pc WHERE pc.city = {word} AND pc.pop > {number} * 20)",
            "EXISTS (SELECT 1 FROM skus WHERE list_price > 80)",
            f"{word} NOT IN (SELECT color FROM skus)",
            f"({word} IN (SELECT color FROM skus)) IS NULL",
        )
        return text, "public subquery in a filter"

    def crossed(self, depth: int) -> Rows:
        """CROSS JOIN of a noisy aggregate."""
        rows = self.rows(depth - 1)
        if " JOIN " in rows.source or ", " in rows.source:
            rows = self.derived(rows)
        q, other = self.fresh("q"), self.rows(0)
        how = self.pick(" CROSS JOIN ", ", ")
        source = f"{rows.source}{how}(SELECT COUNT(*) AS m, {both('', 'COALESCE(')}SUM({self.integer(other.cols, 0)})"
        source += f"{both('', ', 0)')} AS s {other.body()}) AS {q}"
        number = self.column(rows.cols, "int", "decimal") or "7"
        where = (*rows.where, f"{number} {self.pick('<=', '>')} {q}.m {self.pick('', '+ 3', '* 2')}")
        cols = (*rows.cols, Col(f"LEAST(GREATEST({q}.m, 0), 99)", "int"))
        return replace(rows, source=source, where=where, cols=cols).tagged("CROSS JOIN of a noisy aggregate")
