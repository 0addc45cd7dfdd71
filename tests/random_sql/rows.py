"""Random relations of private rows: tables, joins, derived tables, unions, per-unit subqueries and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from random_sql.scalars import Scalars
from random_sql.written import NUMBERS, Col, Rows, both


class PrivateRows(Scalars):
    """Writes what stands in FROM and WHERE."""

    def rows(self, depth: int = 2) -> Rows:
        """A relation of private rows."""
        made = self.pick(*["base"] * 5, *["joined"] * 5, *["nested"] * 4, "union", "per_unit", "per_unit", "window")
        rows = self.base()
        if depth > 0 and made != "base":
            rows = {
                "joined": self.joined,
                "nested": self.nested,
                "union": self.union_all,
                "per_unit": self.per_unit,
                "window": self.window,
            }[made](depth)
        if self.chance(0.45):
            rows = replace(rows, where=(*rows.where, self.condition(rows.cols))).tagged("WHERE")
        if self.chance(0.12) and rows.named:
            text, tag = self.membership(rows)
            rows = replace(rows, where=(*rows.where, text)).tagged(tag)
        return rows

    def base(self, table: str | None = None, alias: str | None = None) -> Rows:
        table = table or self.pick("users", "users", "orders", "orders", "items", "survey")
        a = alias or (self.fresh(table[0]) if self.chance(0.6) else table)
        written = {
            "users": [("city", "text", 1), ("age", "int", 0), ("score", "float", 0), ("vip", "bool", 1),
                      ("name", "text", 0), ("born", "date", 0)],
            "orders": [("day", "date", 0), ("amount", "decimal", 0), ("kind", "text", 1), ("at", "time", 0)],
            "items": [("sku", "text", 1), ("qty", "int", 0), ("price", "float", 0)],
            "survey": [("answer", "int", 1), ("weight", "float", 0), ("grp", "text", 1), ("note", "text", 0)],
        }[table]  # fmt: skip
        cols = tuple(Col(f"{a}.{name}", kind, bool(key)) for name, kind, key in written)
        unit = {"users": f"{a}.uid", "orders": f"{a}.uid", "items": f"{a}.oid // 100", "survey": ""}[table]
        source = f"{table} AS {a}" if a != table else table
        tags = {"items": {"linked table"}, "survey": {"row unit"}}.get(table, set())
        return Rows(source, cols, unit, (), frozenset(tags), table in ("users", "orders"))

    def joined(self, depth: int) -> Rows:
        return self.join_public() if self.chance(0.45) else self.join_private(depth)

    def join_public(self) -> Rows:
        """Private rows with a public table: every kind of join that keeps the private side."""
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
            how = self.pick("JOIN", "JOIN", "LEFT JOIN", "comma", "USING", "LEFT USING", "NATURAL", "CROSS")
            on = f"{a}.{column} = {b}.{column}"
            x, y = f"{left} AS {a}", f"{public} AS {b}"
            source = {
                "JOIN": f"{x} {self.pick('JOIN', 'INNER JOIN')} {y} ON {on}",
                "LEFT JOIN": f"{x} LEFT JOIN {y} ON {on}" + (f" AND {a}.{column} <> 'a1'" if self.chance(0.3) else ""),
                "comma": f"{x}, {y}",
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
        return replace(rows, source=source, cols=(*rows.cols, *more, *more)).tagged(*tags)

    def join_private(self, depth: int) -> Rows:
        """Private rows with private rows of the same unit: on the unit, along a link, with themselves."""
        shape = self.pick("users-orders", "users-orders", "orders-items", "three", "self", "derived")
        if shape == "derived" and depth > 0:
            inner = self.per_unit(0, self.pick("orders", "users")) if self.chance(0.5) else self.nested(0, "orders")
            name = inner.source.split()[-1]
            a = self.fresh("u")
            rows = self.base("users", a)
            how = self.pick("JOIN", "LEFT JOIN")
            source = f"users AS {a} {how} {inner.source} ON {a}.uid = {name}.uid"
            return Rows(source, (*rows.cols, *inner.cols), rows.unit, inner.where, inner.tags).tagged(
                f"private {how}", "derived table joined"
            )
        if shape == "three":
            a, b, c = self.fresh("u"), self.fresh("o"), self.fresh("i")
            parts = [self.base("users", a), self.base("orders", b), self.base("items", c)]
            cols = tuple(col for p in parts for col in p.cols)
            how = self.pick("JOIN", "LEFT JOIN")
            if self.chance(0.3):
                where = (f"{a}.uid = {b}.uid", f"{b}.oid = {c}.oid")
                source = f"users AS {a}, orders AS {b}, items AS {c}"
                return Rows(source, cols, f"{a}.uid", where).tagged("private comma", "three tables")
            source = f"users AS {a} {how} orders AS {b} ON {a}.uid = {b}.uid {how} items AS {c} ON {b}.oid = {c}.oid"
            return Rows(source, cols, f"{a}.uid").tagged(f"private {how}", "three tables")
        left, right, column = {
            "users-orders": ("users", "orders", "uid"),
            "derived": ("users", "orders", "uid"),
            "orders-items": ("orders", "items", "oid"),
            "self": ("orders", "orders", "uid"),
        }[shape]
        if shape == "orders-items" and self.chance(0.3):
            left, right = right, left
        a, b = self.fresh(left[0]), self.fresh(right[0])
        one, two = self.base(left, a), self.base(right, b)
        how = self.pick("JOIN", "JOIN", "LEFT JOIN", "comma", "USING", "LEFT USING", "NATURAL")
        if shape == "self" and how == "NATURAL":
            how = "JOIN"
        on = f"{a}.{column} = {b}.{column}"
        extra = f" AND {a}.oid < {b}.oid" if shape == "self" and self.chance(0.6) else ""
        if not extra and self.chance(0.2):
            extra = f" AND {self.boolean(two.cols, 0)}"
        x, y = f"{left} AS {a}", f"{right} AS {b}"
        source = {
            "JOIN": f"{x} JOIN {y} ON {on}{extra}",
            "LEFT JOIN": f"{x} LEFT JOIN {y} ON {on}{extra}",
            "comma": f"{x}, {y}",
            "USING": f"{x} JOIN {y} USING ({column})",
            "LEFT USING": f"{x} LEFT JOIN {y} USING ({column})",
            "NATURAL": f"{x} NATURAL JOIN {y}",
        }[how]
        where = (on,) if how == "comma" else ()
        unit = f"{a}.uid" if left != "items" else one.unit
        along = {"users-orders": "on the unit", "orders-items": "along a link", "self": "with itself"}
        rows = Rows(source, (*one.cols, *two.cols), unit, where, named=left != "items")
        return rows.tagged(f"private {how}", f"private join {along.get(shape, 'on the unit')}")

    def nested(self, depth: int, table: str | None = None) -> Rows:
        """A derived table, or one inside of another, with computed columns."""
        inner = self.rows(depth - 1) if depth > 0 and table is None else self.base(table)
        body, cols, hidden = self.projected(inner)
        name = self.fresh("d")
        unit = f"{name}.{hidden}" if hidden else ""
        cols = tuple(replace(c, sql=f"{name}.{c.sql}") for c in cols)
        return Rows(f"({body}) AS {name}", cols, unit, (), inner.tags | {"derived table"}, inner.named)

    def projected(self, inner: Rows, names: Sequence[str] | None = None) -> tuple[str, tuple[Col, ...], str]:
        """SELECT of some columns and expressions; DuckDB's text also hands on the unit where dpsql's need not."""
        items: list[str] = []
        cols: list[Col] = []
        for _ in range(self.dice.randint(3, 5)):
            col = self.one(inner.cols)
            computed = self.chance(0.3) and col.kind != "time"
            sql = self.expression(col.kind, inner.cols, 1) if computed else col.sql
            name = self.fresh("c")
            items.append(f"{sql} AS {name}")
            cols.append(Col(name, col.kind, col.public and not computed))
        if self.chance(0.3) and (numeric := [c for c in cols if c.kind in NUMBERS]):
            base = self.one(numeric)  # an alias of this very SELECT
            name = self.fresh("c")
            items.append(f"{base.sql} + 1 AS {name}")
            cols.append(Col(name, base.kind))
        hidden = ""
        if inner.unit:
            hidden = "uid" if inner.named else self.fresh("hidden")
            shown = f"{inner.unit} AS {hidden}"
            items.append(shown if inner.named else both("", shown))
        listed = ", ".join(items[:-1]) + (", " + items[-1] if inner.named or not hidden else both("", ", " + items[-1]))
        return f"SELECT {listed} {inner.body()}", tuple(cols), hidden

    def union_all(self, depth: int) -> Rows:
        """UNION ALL of private relations with the same columns."""
        name = self.fresh("w")
        sides = []
        named = True
        for _ in range(self.dice.choice([2, 2, 3])):
            rows = self.base(self.pick("users", "orders", "items"))
            where = (self.condition(rows.cols),) if self.chance(0.5) else ()
            label = self.pick("'left'", "'right'", "'both'")
            number = self.expression("int", rows.cols, 1)
            named &= rows.named
            sides.append((rows, f"SELECT {label} AS lbl, {number} AS n, {rows.unit} AS uid {rows.body(where)}"))
        if not named:  # the unit of a linked table has no name that dpsql's text could use
            texts = []
            for rows, text in sides:
                ours = text.replace(f", {rows.unit} AS uid ", " ")
                texts.append(both(ours, text))
        else:
            texts = [text for _, text in sides]
        body = " UNION ALL ".join(texts)
        cols = (Col(f"{name}.lbl", "text", True), Col(f"{name}.n", "int"))
        return Rows(f"({body}) AS {name}", cols, f"{name}.uid", (), frozenset({"UNION ALL of private rows"}), named)

    def per_unit(self, depth: int, table: str | None = None) -> Rows:
        """GROUP BY of the unit inside of a subquery: one row for each person (and key)."""
        name = self.fresh("g")
        table = table or self.pick("orders", "orders", "users", "items")
        rows = self.base(table, self.fresh(table[0]))
        if table == "items":  # by the key of the order, which determines the unit
            alias = rows.source.split()[-1]
            value = self.pick(f"SUM({alias}.qty)", f"MAX({alias}.price)", f"MIN({alias}.qty)", f"MAX({alias}.qty)")
            kind = "float" if "price" in value else "int"
            body = f"SELECT {alias}.oid, {value} AS m, COUNT(*) AS n {rows.body()} GROUP BY {alias}.oid"
            cols = (Col(f"{name}.m", kind), Col(f"LEAST({name}.n, 40)", "int"))
            return Rows(f"({body}) AS {name}", cols, f"{name}.oid // 100", (), rows.tags, False).tagged(
                "per-unit GROUP BY", "GROUP BY a key of the unit"
            )
        alias = rows.source.split()[-1]
        where = (self.condition(rows.cols),) if self.chance(0.3) else ()
        numbers = [c for c in rows.cols if c.kind in ("int", "decimal")]
        keys = [f"{alias}.uid"]
        cols: list[Col] = []
        items = [f"{alias}.uid AS uid"]
        if self.chance(0.3):
            key = self.one([c for c in rows.cols if c.public])
            keys.append(key.sql)
            items.append(f"{key.sql} AS k")
            cols.append(Col(f"{name}.k", key.kind, True))
        for _ in range(self.dice.randint(1, 2)):
            column, x = self.fresh("m"), self.one(numbers)
            function = self.pick("MAX", "MIN", "SUM", "AVG", "COUNT", "COUNT DISTINCT", "COUNT *")
            call = {"COUNT *": "COUNT(*)", "COUNT DISTINCT": f"COUNT(DISTINCT {x.sql})"}.get(
                function, f"{function}({x.sql})"
            )
            items.append(f"{call} AS {column}")
            kind = "int" if function.startswith("COUNT") else "float" if function == "AVG" else x.kind
            bounds = {"int": "LEAST(GREATEST({}, 0), 600)", "decimal": "LEAST(GREATEST({}, 0), 5000)"}
            clipped = self.chance(0.7) and kind in bounds and function not in ("MIN", "MAX", "AVG")
            reference = f"{name}.{column}"
            cols.append(Col(bounds[kind].format(reference) if clipped else reference, kind))
        having = f" HAVING COUNT(*) {self.pick('> 1', '= 1', '<= 2')}" if self.chance(0.3) else ""
        group = ", ".join(keys) if self.chance(0.8) or len(keys) > 1 else "ALL"
        body = f"SELECT {', '.join(items)} {rows.body(where)} GROUP BY {group}{having}"
        tags = {"per-unit GROUP BY", "per-unit HAVING"} if having else {"per-unit GROUP BY"}
        return Rows(f"({body}) AS {name}", tuple(cols), f"{name}.uid", (), rows.tags).tagged(*tags)

    def window(self, depth: int) -> Rows:
        """A window PARTITION BY the unit, with and without QUALIFY."""
        name, a = self.fresh("v"), self.fresh("o")
        rows = self.base("orders", a)
        order = self.pick(f"{a}.oid", f"{a}.day, {a}.oid", f"{a}.amount DESC NULLS LAST, {a}.oid")
        call, kind = self.dice.choice(
            [
                ("ROW_NUMBER()", "int"),
                ("RANK()", "int"),
                (f"LAG({a}.amount)", "decimal"),
                (f"SUM({a}.amount)", "decimal"),
                ("COUNT(*)", "int"),
                (f"MAX({a}.amount)", "decimal"),
                (f"FIRST_VALUE({a}.kind)", "text"),
            ]
        )
        over = f"{call} OVER (PARTITION BY {a}.uid ORDER BY {order})"
        tags = {f"per-unit window {call.split('(')[0]}"}
        qualify = ""
        if self.chance(0.4):
            tags.add("per-unit QUALIFY")
            qualify = f" QUALIFY ROW_NUMBER() OVER (PARTITION BY {a}.uid ORDER BY {order}) <= {self.dice.randint(1, 3)}"
        body = f"SELECT {a}.uid AS uid, {a}.kind AS kind, {a}.amount AS amount, {over} AS w {rows.body()}{qualify}"
        clip = {"int": "LEAST({}, 50)", "decimal": "LEAST({}, 5000)", "text": "{}"}[kind]
        value = f"{name}.w" if self.chance(0.3) else clip.format(f"{name}.w")
        cols = (Col(f"{name}.kind", "text", True), Col(f"{name}.amount", "decimal"), Col(value, kind, kind == "text"))
        return Rows(f"({body}) AS {name}", cols, f"{name}.uid").tagged(*tags)

    def membership(self, rows: Rows) -> tuple[str, str]:
        """A semi- or anti-join on the unit, as a condition."""
        table = self.pick("orders", "users")
        b = self.fresh(table[0])
        inner = self.base(table, b)
        where = [self.condition(inner.cols)] if self.chance(0.6) else []
        shape = self.pick("IN", "NOT IN", "EXISTS", "NOT EXISTS", "INTERSECT", "EXCEPT", "UNION")
        if shape in ("IN", "NOT IN"):
            text = f"{rows.unit} {shape} (SELECT {b}.uid {inner.body(where)})"
        elif shape in ("INTERSECT", "EXCEPT", "UNION"):
            text = f"{rows.unit} IN (SELECT {b}.uid {inner.body(where)} {shape} SELECT uid FROM orders)"
        else:
            text = f"{shape} (SELECT 1 {inner.body([f'{b}.uid = {rows.unit}', *where])})"
        return text, f"unit {shape}"
