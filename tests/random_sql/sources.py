"""Random sources of private rows: tables, and derived tables over any other relation."""

from __future__ import annotations

from dataclasses import replace

from random_sql.scalars import Scalars
from random_sql.written import NUMBERS, Col, Rows, both

FAN = 300  # one person has no more rows than this anywhere, so that a limit above it changes nothing
ORDERS, ITEMS = 6, 18  # of one person in world.py


class Sources(Scalars):
    """Writes what stands in FROM. Subclasses say what `rows` there are."""

    def rows(self, depth: int = 2, *, owned: bool = False) -> Rows:
        raise NotImplementedError

    def base(self, table: str | None = None, alias: str | None = None) -> Rows:
        table = table or self.pick("users", "users", "orders", "orders", "items", "survey")
        a = alias or (self.fresh(table[0]) if self.chance(0.6) else table)
        written = {
            "users": [("city", "text", 1), ("age", "int", 0), ("score", "float", 0), ("vip", "bool", 1),
                      ("name", "text", 0), ("born", "date", 0)],
            "orders": [("day", "date", 0), ("amount", "decimal", 0), ("kind", "text", 1), ("placed", "time", 0)],
            "items": [("sku", "text", 1), ("qty", "int", 0), ("price", "float", 0)],
            "survey": [("answer", "int", 1), ("weight", "float", 0), ("grp", "text", 1), ("note", "text", 0)],
        }[table]  # fmt: skip
        cols = tuple(Col(f"{a}.{name}", kind, bool(key)) for name, kind, key in written)
        unit = {"users": f"{a}.uid", "orders": f"{a}.uid", "items": f"{a}.oid // 100", "survey": ""}[table]
        source = f"{table} AS {a}" if a != table else table
        tags = {"items": {"linked table"}, "survey": {"row unit"}}.get(table, set())
        fan = {"orders": ORDERS, "items": ITEMS}.get(table, 1)
        return Rows(source, cols, unit, (), frozenset(tags), table in ("users", "orders"), fan)

    def alone(self, table: str) -> Rows:
        """A table under a name of its own."""
        return self.base(table, self.fresh(table[0]))

    def owned(self, depth: int) -> Rows:
        """One source without conditions whose unit is a column: a table or a derived one."""
        if depth <= 0 or self.chance(0.4):
            return self.alone(self.pick("users", "orders", "orders"))
        return self.derived(self.rows(depth - 1, owned=True), named=True)

    def derived(self, inner: Rows, *, named: bool | None = None) -> Rows:
        """A derived table with computed columns. named: its unit is a column; None: by chance."""
        show = self.chance(0.7) if named is None else named
        body, cols, unit = self.projected(inner, show=show)
        return self.under(body, cols, unit, inner, named=show)

    def under(self, body: str, cols: tuple[Col, ...], unit: str, inner: Rows, *, named: bool, tag: str = "") -> Rows:
        """A query in brackets, with a name."""
        name = self.fresh("d")
        held = tuple(replace(c, sql=f"{name}.{c.sql}") for c in cols)
        tags = inner.tags | {tag or "derived table"}
        return Rows(f"({body}) AS {name}", held, f"{name}.{unit}" if unit else "", (), tags, named, inner.fan)

    def projected(self, inner: Rows, *, show: bool) -> tuple[str, tuple[Col, ...], str]:
        """SELECT of columns and expressions. DuckDB's text hands the unit on, dpsql's only if it is to be shown."""
        items: list[str] = []
        cols: list[Col] = []
        for _ in range(self.dice.randint(3, 5)):
            col = self.one(inner.cols)
            computed = self.chance(0.3) and col.kind != "time"
            sql = self.expression(col.kind, inner.cols, 1) if computed else col.sql
            name = self.fresh("c")
            items.append(f"{f'CAST({sql} AS DATE)' if computed and col.kind == 'date' else sql} AS {name}")
            cols.append(Col(name, col.kind, col.public and not computed))
        if self.chance(0.3) and (numeric := [c for c in cols if c.kind in NUMBERS]):
            base = self.one(numeric)  # an alias of this very SELECT
            name = self.fresh("c")
            items.append(f"{base.sql} + 1 AS {name}")
            cols.append(Col(name, base.kind))
        listed = ", ".join(items)
        if not inner.unit:
            return f"SELECT {listed} {inner.body()}", tuple(cols), ""
        unit = "uid" if show else self.fresh("hidden")
        shown = f", {inner.own} AS uid" if show else both("", f", {inner.unit} AS {unit}")
        return f"SELECT {listed}{shown} {inner.body()}", tuple(cols), unit
