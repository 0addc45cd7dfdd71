"""Random joins: private rows with public ones, and with private rows of the same owner."""

from __future__ import annotations

from dataclasses import replace

from random_sql.sources import FAN, ORDERS, Sources
from random_sql.written import Col, Rows, both

BANDS = "(VALUES (-50, 5, 'low'), (5, 30, 'mid'), (30, 1000, 'top')) AS {}(lo, hi, band)"


class Joins(Sources):
    """Writes FROM with several sources."""

    def joined(self, depth: int) -> Rows:
        shape = self.pick("public", "public", "banded", "unit", "unit", "unit", "link", "link", "chain",
                          "star")  # fmt: skip
        rows = {
            "public": lambda: self.join_public(),
            "banded": lambda: self.join_banded(self.rows(depth - 1)),
            "unit": lambda: self.join_units(self.owned(depth - 1), self.owned(depth - 1)),
            "link": lambda: self.join_linked(depth),
            "chain": lambda: self.chained(depth),
            "star": lambda: self.starred(),
        }[shape]()
        return rows if rows.fan <= FAN else self.base()

    # ------------------------------------------------------------ with public tables

    def join_public(self) -> Rows:
        """A private table with a public one: every kind of join that keeps the private side."""
        left = self.pick("users", "items", "orders")
        a, b = self.fresh(left[0]), self.fresh("p")
        rows = self.base(left, a)
        public, column = {"users": ("cities", "city"), "items": (self.pick("skus", "tags"), "sku"), "orders": ("", "")}[
            left
        ]
        fan_out = public == "tags"
        if left == "orders":  # a condition that isn't an equality of columns
            public, fan_out = "skus", True
            on = self.pick(f"{a}.amount > {b}.list_price * 4", f"{b}.list_price BETWEEN {a}.amount / 9 AND {a}.amount")
            how = self.pick("JOIN", "LEFT JOIN")
            source = f"orders AS {a} {how} skus AS {b} ON {on}"
            tag = f"public {how} on a condition"
        else:
            how = self.pick("JOIN", "JOIN", "LEFT JOIN", "comma", "USING", "LEFT USING", "NATURAL", "CROSS", "RIGHT")
            on = f"{a}.{column} = {b}.{column}"
            x, y = f"{left} AS {a}", f"{public} AS {b}"
            source = {
                "JOIN": f"{x} {self.pick('JOIN', 'INNER JOIN')} {y} ON {on}",
                "LEFT JOIN": f"{x} LEFT JOIN {y} ON {on}" + (f" AND {a}.{column} <> 'a1'" if self.chance(0.3) else ""),
                "RIGHT": f"{y} RIGHT JOIN {x} ON {on}",
                "comma": self.pick(f"{x}, {y}", f"{y}, {x}"),
                "USING": f"{x} JOIN {y} USING ({column})",
                "LEFT USING": f"{x} LEFT JOIN {y} USING ({column})",
                "NATURAL": f"{x} NATURAL JOIN {y}",
                "CROSS": f"{x} CROSS JOIN {y}",
            }[how]
            tag = f"public {how}"
            fan_out |= how == "CROSS"
            if how == "comma":
                rows = replace(rows, where=(on,))
        more = {
            "cities": (Col(f"{b}.region", "text", True), Col(f"{b}.pop", "int", True)),
            "skus": (Col(f"{b}.color", "text", True), Col(f"{b}.list_price", "int", True)),
            "tags": (Col(f"{b}.tag", "text", True),),
        }[public]
        tags = {tag, "fan-out"} if fan_out else {tag}
        fan = rows.fan * (6 if fan_out else 1)
        return replace(rows, source=source, cols=(*rows.cols, *more, *more), fan=fan).tagged(*tags)

    def join_banded(self, rows: Rows) -> Rows:
        """Any rows with a list of values: which band a number lies in, or all of them."""
        b = self.fresh("b")
        number = self.column(rows.cols, "int", "decimal")
        source = rows.source if " JOIN " not in rows.source and ", " not in rows.source else None
        if number is None or source is None:
            inner = self.derived(rows)
            number, source, rows = self.column(inner.cols, "int", "decimal") or "7", inner.source, inner
        how = self.pick("JOIN", "LEFT JOIN")
        on = f"{number} >= {b}.lo AND {number} < {b}.hi"
        cols = (*rows.cols, Col(f"{b}.band", "text", True), Col(f"{b}.lo", "int", True))
        made = replace(rows, source=f"{source} {how} {BANDS.format(b)} ON {on}", cols=cols, fan=rows.fan * 3)
        return made.tagged(f"VALUES {how} on a condition")

    # ------------------------------------------------------------ with private rows

    def join_units(self, one: Rows, two: Rows) -> Rows:
        """Two sources whose unit is a column, on that."""
        if one.fan * two.fan > FAN:
            two = self.alone("users")
        how = self.pick("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "comma", "USING", "LEFT USING")
        on = f"{one.unit} = {two.unit}" if self.chance(0.5) else f"{two.unit} = {one.unit}"
        extra = ""
        if self.chance(0.4):
            extra = f" AND {self.boolean((*one.cols, *two.cols), 0)}"
        x, y = one.source, two.source
        source = {
            "JOIN": f"{x} JOIN {y} ON {on}{extra}",
            "LEFT JOIN": f"{x} LEFT JOIN {y} ON {on}{extra}",
            "RIGHT JOIN": f"{y} RIGHT JOIN {x} ON {on}{extra}",
            "comma": f"{x}, {y}",
            "USING": f"{x} JOIN {y} USING (uid)",
            "LEFT USING": f"{x} LEFT JOIN {y} USING (uid)",
        }[how]
        where = (on,) if how == "comma" else ()
        tags = {f"private {how}", "private join on the unit"}
        if "(" in x and "(" in y:
            tags.add("two derived tables joined")
        elif "(" in x + y:
            tags.add("derived table joined")
        elif x.split()[0] == y.split()[0]:
            tags.add("private join with itself")
        return Rows(
            source, (*one.cols, *two.cols), one.unit, where, one.tags | two.tags, True, one.fan * two.fan
        ).tagged(*tags)  # fmt: skip

    def join_linked(self, depth: int) -> Rows:
        """Along a link of the policy: orders with items, items with items of the same order, grouped items."""
        shape = self.pick("orders-items", "items-orders", "items-items", "grouped", "NATURAL", "self", "semi", "semi")
        if shape == "semi":
            return self.semi_linked()
        a, b = self.fresh("x"), self.fresh("y")
        how = self.pick("JOIN", "LEFT JOIN", "USING", "comma")
        more: tuple[Col, ...]
        if shape == "grouped":  # by the key of the order, which determines the unit
            one = self.base("orders", a)
            call, kind = self.dice.choice([("SUM(i.qty)", "int"), ("COUNT(*)", "int"), ("MAX(i.price)", "float")])
            condition = f" WHERE {self.condition(self.base('items', 'i').cols)}" if self.chance(0.4) else ""
            having = " HAVING COUNT(*) > 1" if self.chance(0.3) else ""
            y = f"(SELECT i.oid, {call} AS v FROM items AS i{condition} GROUP BY i.oid{having}) AS {b}"
            cols, fan, x = (Col(f"LEAST({b}.v, 300)", kind),), ORDERS, f"orders AS {a}"
            more, named, unit = cols, True, f"{a}.uid"
        else:
            left, right = {
                "orders-items": ("orders", "items"), "NATURAL": ("orders", "items"), "self": ("orders", "orders"),
                "items-orders": ("items", "orders"), "items-items": ("items", "items"),
            }[shape]  # fmt: skip
            one, two = self.base(left, a), self.base(right, b)
            x, y, more = f"{left} AS {a}", f"{right} AS {b}", two.cols
            named, unit = left == "orders", one.unit
            fan = 54 if shape == "items-items" else ORDERS if shape == "self" else 18
        on = f"{a}.oid = {b}.oid"
        extra = f" AND {self.boolean((*one.cols, *more), 0)}" if self.chance(0.3) else ""
        source = {
            "JOIN": f"{x} JOIN {y} ON {on}{extra}",
            "LEFT JOIN": f"{x} LEFT JOIN {y} ON {on}{extra}",
            "USING": f"{x} JOIN {y} USING (oid)",
            "comma": f"{x}, {y}",
        }[how]
        if shape == "NATURAL":
            source, how = f"{x} NATURAL JOIN {y}", "NATURAL"
        where = (on,) if how == "comma" else ()
        rows = Rows(source, (*one.cols, *more), unit, where, frozenset(), named, fan)
        return rows.tagged(
            f"private {how}", "GROUP BY a key, joined" if shape == "grouped" else "private join on a key"
        )

    def semi_linked(self) -> Rows:
        """Orders by their items, and items by their orders, without a join."""
        left, right = self.dice.choice([("orders", "items"), ("items", "orders"), ("orders", "orders")])
        one, two = self.alone(left), self.alone(right)
        a, b = (rows.source.split()[-1] for rows in (one, two))
        where = [self.condition(two.cols)] if self.chance(0.5) else []
        shape = self.pick("IN", "NOT IN", "EXISTS", "NOT EXISTS", "HAVING")
        if shape == "HAVING":
            text = f"{a}.oid IN (SELECT {b}.oid {two.body(where)} GROUP BY {b}.oid HAVING COUNT(*) > 1)"
        elif "IN" in shape:
            text = f"{a}.oid {shape} (SELECT {b}.oid {two.body(where)})"
        else:
            text = f"{shape} (SELECT 1 {two.body([f'{a}.oid = {b}.oid', *where])})"
        if shape.endswith("EXISTS") and right == "orders" and self.chance(0.5):
            more = self.alone("items")
            c = more.source.split()[-1]
            text = f"{text[:-1]} AND EXISTS (SELECT 1 {more.body([f'{c}.oid = {b}.oid'])}))"
        return replace(one, where=(text,)).tagged(f"key {shape}")

    def starred(self) -> Rows:
        """SELECT * over a join, whose merged columns are there once."""
        left, right, column = self.dice.choice(
            [
                ("users", "orders", "uid"),
                ("orders", "items", "oid"),
                ("users", "cities", "city"),
                ("items", "skus", "sku"),
            ]
        )
        one = self.base(left, left)
        more = {
            "cities": (Col("cities.region", "text", True), Col("cities.pop", "int", True)),
            "skus": (Col("skus.color", "text", True), Col("skus.list_price", "int", True)),
        }.get(right) or self.base(right, right).cols
        how = self.pick(
            f"JOIN {right} USING ({column})", f"LEFT JOIN {right} USING ({column})", f"NATURAL JOIN {right}"
        )
        names = {c.sql.split(".")[1]: replace(c, sql=c.sql.split(".")[1]) for c in (*one.cols, *more)}
        star, dropped = "*", self.dice.choice(sorted(names))
        if self.chance(0.4):
            star = f"* EXCLUDE ({dropped})"
            del names[dropped]
        named = left != "items"
        star += "" if named else both("", ", items.oid // 100 AS hidden")
        inner = replace(one, fan=18)
        unit = "uid" if named else "hidden"
        made = self.under(f"SELECT {star} FROM {left} {how}", tuple(names.values()), unit, inner, named=named)
        return made.tagged("* over a join")

    def chained(self, depth: int) -> Rows:
        """Three sources and more: users, orders, items, public tables."""
        u, o, i, s = self.fresh("u"), self.fresh("o"), self.fresh("i"), self.fresh("s")
        parts = [self.base("users", u), self.base("orders", o), self.base("items", i)]
        cols = [col for p in parts for col in p.cols]
        if self.chance(0.3):
            where = (f"{u}.uid = {o}.uid", f"{o}.oid = {i}.oid")
            rows = Rows(f"users AS {u}, orders AS {o}, items AS {i}", tuple(cols), f"{u}.uid", where, fan=18)
            return rows.tagged("private comma", "three sources or more")
        tags = {"three sources or more"}
        one, two = self.pick("JOIN", "LEFT JOIN"), self.pick("JOIN", "LEFT JOIN")
        if self.chance(0.3):
            source = f"items AS {i} JOIN orders AS {o} USING (oid) {two} users AS {u} USING (uid)"
            unit, named = f"{o}.uid", True
            tags |= {"private USING"}
        else:
            source = f"users AS {u} {one} orders AS {o} ON {u}.uid = {o}.uid {two} items AS {i} ON {o}.oid = {i}.oid"
            unit, named = f"{u}.uid", True
            tags |= {f"private {one}", f"private {two}"}
        fan = 18
        if self.chance(0.5):
            how = self.pick("JOIN", "LEFT JOIN")
            source += f" {how} skus AS {s} ON {s}.sku = {i}.sku"
            cols += [Col(f"{s}.color", "text", True), Col(f"{s}.list_price", "int", True)]
            tags.add(f"public {how}")
        elif depth > 1:
            more = self.owned(depth - 1)
            if more.fan * fan <= FAN:
                source += f" {one} {more.source} ON {more.unit} = {unit}"
                cols, fan, tags = [*cols, *more.cols], fan * more.fan, tags | more.tags
        return Rows(source, tuple(cols), unit, (), frozenset(tags), named, fan)
