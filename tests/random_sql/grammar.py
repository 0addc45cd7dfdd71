"""A grammar that writes random queries over the tables of world.py, each as two texts: dpsql's and plain DuckDB's.

The two differ only where dpsql's contract does: SUM of nothing is 0, NaN and infinity count as NULL inside of an
aggregate, PRIVACY_UNIT() is a column, and keys that aren't public leave only with two units or more. Nothing that is
written here depends on a tie between noisy values: results are ordered and cut by keys and whole counts, and compared
with numbers that no sum of the data hits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from random_sql.world import CITIES, GROUPS, KINDS, SKUS

NUMBERS = ("int", "float", "decimal")


# ---------------------------------------------------------------- one text for both


def both(ours: str, plain: str, few: str | None = None) -> str:
    """A piece that reads differently for dpsql and for DuckDB; `few`: for DuckDB, where keys are selected privately."""
    return f"\x01{ours}\x02{plain}\x02{plain if few is None else few}\x03"


_PIECE = re.compile("\x01([^\x01-\x03]*)\x02([^\x01-\x03]*)\x02([^\x01-\x03]*)\x03")


def render(text: str, side: int) -> str:
    """The text for dpsql (1), for DuckDB (2), or for DuckDB without keys of one unit (3)."""
    while "\x01" in text:
        text = _PIECE.sub(lambda m: m[side], text)
    return text


# ---------------------------------------------------------------- what is written


@dataclass(frozen=True)
class Col:
    """A column that an expression may use."""

    sql: str
    kind: str  # int, float, decimal, text, bool, date
    public: bool = False  # a good key


@dataclass(frozen=True)
class Rows:
    """Private rows: what stands in FROM and WHERE, the columns, and the unit as DuckDB can name it."""

    source: str
    cols: tuple[Col, ...]
    unit: str
    where: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    named: bool = True  # the unit is a column that dpsql's text may name, too

    def tagged(self, *tags: str) -> Rows:
        return replace(self, tags=self.tags | set(tags))

    def of(self, *kinds: str) -> list[Col]:
        return [c for c in self.cols if c.kind in kinds]

    def body(self, extra: Sequence[str] = ()) -> str:
        conditions = [*self.where, *extra]
        return f"FROM {self.source}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


@dataclass(frozen=True)
class Out:
    """A result column: its name and what it is, for the comparison."""

    name: str
    role: str  # key, count, whole (an exact sum), real (a sum of floats), ratio, spread, post


@dataclass(frozen=True)
class Table:
    """The text of a query over results, and its columns."""

    sql: str
    outs: tuple[Out, ...]
    tags: frozenset[str]


@dataclass(frozen=True)
class Query:
    """A query, what it uses, and how its answer is to be compared."""

    sql: str
    plain: str
    few: str  # DuckDB's, without keys of a single unit
    roles: tuple[str, ...]
    tags: frozenset[str]
    ordered: bool = False
    expect: str = "same"  # same: as DuckDB or refused; refused: always; anything: only no crash

    def __str__(self) -> str:
        return self.sql


class Grammar:
    """Writes queries; the same seed writes the same ones."""

    def __init__(self, seed: object) -> None:
        self.dice = Random(str(seed))
        self.names = 0

    # ------------------------------------------------------------ dice

    def chance(self, p: float) -> bool:
        return self.dice.random() < p

    def pick(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def one(self, cols: Sequence[Col]) -> Col:
        return self.dice.choice(list(cols))

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def odd(self, low: float, high: float) -> str:
        """A number that no value or sum of the data equals."""
        return f"{self.dice.uniform(low, high):.3f}00731"

    # ------------------------------------------------------------ a whole query

    def query(self) -> Query:
        """One query: mostly plain constructs, some that no version supports, some hostile, some no SQL at all."""
        roll = self.dice.random()
        if roll < 0.06:
            return self.hostile()
        if roll < 0.10:
            return self.broken()
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

    # ------------------------------------------------------------ private rows

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

    def condition(self, cols: Sequence[Col]) -> str:
        parts = [self.boolean(cols, 1) for _ in range(self.dice.choice([1, 1, 2]))]
        return parts[0] if len(parts) == 1 else f"({parts[0]} {self.pick('AND', 'OR')} {parts[1]})"

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

    # ------------------------------------------------------------ scalar expressions

    def expression(self, kind: str, cols: Sequence[Col], depth: int) -> str:
        return {
            "int": self.integer,
            "float": self.float,
            "decimal": self.decimal,
            "text": self.text,
            "bool": self.boolean,
            "date": self.date,
            "time": self.time,
        }[kind](cols, depth)

    def column(self, cols: Sequence[Col], *kinds: str) -> str | None:
        found = [c for c in cols if c.kind in kinds]
        return self.one(found).sql if found else None

    def integer(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "int")
        if depth <= 0:
            return x or str(self.dice.randint(0, 9))
        options = [f"CASE WHEN {self.boolean(cols, 0)} THEN {self.dice.randint(-3, 9)} ELSE {x or 0} END"]
        if x:
            y = self.column(cols, "int")
            options += [
                x, f"{x} + {y}", f"{x} - {y}", f"{x} * 3", f"-{x}", f"ABS({x} - 40)", f"{x} % 7", f"{x} // 10",
                f"COALESCE({x}, 5)", f"LEAST({x}, 30)", f"GREATEST({x}, {y})", f"NULLIF({x}, 3)", f"SIGN({x} - 20)",
                f"{x} & 12", f"xor({x}, 5)", f"{x}::BIGINT", f"CAST({x} AS SMALLINT) * 2", f"IF({x} > 9, {x}, 1)",
            ]  # fmt: skip
        if d := self.column(cols, "date"):
            options += [
                f"YEAR({d})", f"EXTRACT(month FROM {d})", f"DATE_PART('dow', {d})", f"QUARTER({d})",
                f"DATE_DIFF('day', DATE '2024-01-01', {d})", f"DAYOFYEAR({d})", f"ISODOW({d})", f"WEEK({d})",
            ]  # fmt: skip
        if t := self.column(cols, "time"):
            options += [f"HOUR({t})", f"MINUTE({t})", f"DATE_DIFF('hour', TIMESTAMP '2024-01-01', {t})"]
        if s := self.column(cols, "text"):
            options += [f"LEAST(LENGTH({s}), 9)", f"POSITION('o' IN {s})", f"LEAST(STRLEN({s}), 20)"]
        if b := self.column(cols, "bool"):
            options += [f"CAST({b} AS INTEGER)", f"{b}::INT + 1"]
        return self.dice.choice(options)

    def float(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "float") or self.column(cols, "int", "decimal") or "1.5::DOUBLE"
        if depth <= 0:
            return x
        y = self.column(cols, "float", "int", "decimal") or "2"
        return self.pick(
            x, f"{x} * 0.5", f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"ABS({x})", f"{x} / 4", f"COALESCE({x}, 1.25)",
            f"LEAST(GREATEST({x}, 0), 5)", f"SQRT(ABS({x}))", f"EXP({x} / 50)", f"LN(ABS({x}) + 1)", f"FLOOR({x})",
            f"CEIL({x})", f"ROUND({x}, 1)", f"TRUNC({x})", f"CASE WHEN {self.boolean(cols, 0)} THEN {x} END",
            f"POWER(ABS({x}), 2)", f"RADIANS({x})", f"CBRT({x})", f"-{x}", f"CAST({y} AS DOUBLE)",
            f"LOG10(ABS({x}) + 2)", f"CASE WHEN ISFINITE({x}::DOUBLE) THEN {x} ELSE 0 END",
        )  # fmt: skip

    def decimal(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "decimal")
        if x is None:
            return f"CAST({self.integer(cols, 0)} AS DECIMAL(9, 2))"
        if depth <= 0:
            return x
        y = self.column(cols, "decimal", "int") or "2"
        return self.pick(
            x, f"{x} * 2", f"{x} - 1.50", f"{x} * (1 - 0.25)", f"{x} + {y}", f"COALESCE({x}, 0)", f"ABS({x} - 100)",
            f"LEAST({x}, 99.99)", f"CASE WHEN {self.boolean(cols, 0)} THEN {x} ELSE 0 END", f"ROUND({x}, 1)",
            f"CAST({x} AS DECIMAL(12, 3))", f"CAST({x} AS INTEGER)", f"{x} / 8", f"NULLIF({x}, 0)", f"FLOOR({x})",
        )  # fmt: skip

    def text(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "text")
        if x is None:
            return self.pick("'k'", "'other'")
        if depth <= 0:
            return x
        return self.pick(
            x, f"UPPER({x})", f"LOWER({x})", f"SUBSTRING({x}, 1, 1)", f"LEFT({x}, 2)", f"{x} || '!'", f"TRIM({x})",
            f"COALESCE({x}, 'none')", f"CASE WHEN {self.boolean(cols, 0)} THEN 'yes' ELSE 'no' END", f"REVERSE({x})",
            f"REPLACE({x}, 'o', '0')", f"CONCAT({x}, '-', 'x')", f"SPLIT_PART({x}, '-', 1)", f"NULLIF({x}, 'oslo')",
            f"REGEXP_EXTRACT({x}, '[a-m]+')", f"CASE {x} WHEN 'rome' THEN 'south' WHEN 'x' THEN 'ex' END",
            f"RIGHT({x}, 1)", f"IF({self.boolean(cols, 0)}, {x}, 'else')",
        )  # fmt: skip

    def date(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "date")
        if x is None:
            t = self.column(cols, "time")
            return f"CAST({t} AS DATE)" if t else "DATE '2024-03-01'"
        if depth <= 0:
            return x
        return self.pick(
            x, f"DATE_TRUNC('month', {x})", f"DATE_TRUNC('quarter', {x})", f"{x} + 3", f"LAST_DAY({x})",
            f"COALESCE({x}, DATE '2024-02-29')", f"{x} + INTERVAL 1 MONTH", f"DATE_TRUNC('week', {x})",
        )  # fmt: skip

    def time(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "time") or "TIMESTAMP '2024-03-01 12:00:00'"
        return x if depth <= 0 else self.pick(x, f"DATE_TRUNC('day', {x})", f"DATE_TRUNC('month', {x})")

    def boolean(self, cols: Sequence[Col], depth: int) -> str:
        if depth > 0 and self.chance(0.35):
            a, b = self.boolean(cols, depth - 1), self.boolean(cols, depth - 1)
            return self.pick(
                f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})", f"({a}) IS NOT TRUE", f"({a} AND NOT {b})"
            )
        options = ["TRUE"] if not cols else []
        if x := self.column(cols, "int"):
            n, m = self.dice.randint(0, 9), self.dice.randint(10, 60)
            options += [
                f"{x} > {n}", f"{x} <= {m}", f"{x} BETWEEN {n} AND {m}", f"{x} IN (1, 2, 3, {m})", f"{x} % 2 = 0",
                f"{x} IS NULL", f"{x} IS NOT NULL", f"{x} <> {n}", f"{x} NOT BETWEEN {n} AND {m}", f"{x} = {n}",
                f"{x} IS DISTINCT FROM {m}", f"COALESCE({x}, 0) < {m}",
            ]  # fmt: skip
        if x := self.column(cols, "float"):
            options += [f"{x} > {self.odd(-5, 5)}", f"{x} < {self.odd(0, 60)}", f"{x} IS NOT NULL", f"{x} >= 1.5"]
        if x := self.column(cols, "decimal"):
            options += [f"{x} > {self.dice.randint(1, 300)}", f"{x} BETWEEN 20.5 AND 250", f"{x} IS NULL", f"{x} < 99"]
        if x := self.column(cols, "text"):
            word = self.pick(*CITIES, *KINDS, *SKUS, *GROUPS)
            options += [
                f"{x} = '{word}'", f"{x} IN ('{word}', 'oslo', 'new')", f"{x} LIKE '%{word[0]}%'", f"{x} <> '{word}'",
                f"{x} IS NOT NULL", f"{x} NOT IN ('{word}', 'gift')", f"STARTS_WITH({x}, '{word[0]}')",
                f"{x} ILIKE 'A%'", f"REGEXP_MATCHES({x}, '^[a-m]')", f"LENGTH({x}) > 3", f"{x} >= '{word}'",
                f"CONTAINS({x}, 'o')",
            ]  # fmt: skip
        if x := self.column(cols, "bool"):
            options += [x, f"NOT {x}", f"{x} IS TRUE", f"{x} IS NULL"]
        if x := self.column(cols, "date"):
            options += [
                f"{x} < DATE '2024-03-15'", f"{x} BETWEEN DATE '2024-02-01' AND DATE '2024-05-31'",
                f"YEAR({x}) = 2024", f"EXTRACT(month FROM {x}) IN (1, 2, 5)", f"{x} >= '2024-02-10'",
                f"{x} >= DATE '1990-01-01' + INTERVAL 3 YEAR",
            ]  # fmt: skip
        if x := self.column(cols, "time"):
            options += [f"{x} < TIMESTAMP '2024-04-01 00:00:00'", f"HOUR({x}) >= 12"]
        return self.dice.choice(options)

    # ------------------------------------------------------------ releases

    def release(
        self, rows: Rows, *, exact: bool, keys: int | None = None, counted: bool = False, plain_keys: bool = False
    ) -> Table:
        """SELECT of keys and aggregates. exact: only groups of two units and more, so that both texts mean the same."""
        tags = set(rows.tags)
        count = self.dice.choice([0, 1, 1, 2]) if keys is None else keys
        items: list[str] = []
        outs: list[Out] = []
        written: list[str] = []
        for _ in range(count):
            sql = self.key(rows, tags, plain=plain_keys)
            if sql in written:
                continue
            name = self.fresh("k")
            items.append(f"{sql} AS {name}")
            outs.append(Out(name, "key"))
            written.append(sql)
        for i in range(self.dice.randint(1, 3)):
            sql, role = self.aggregate(rows, tags) if i or not counted else ("COUNT(*)", "count")
            name = self.fresh("a")
            items.append(f"{sql} AS {name}")
            outs.append(Out(name, role))
        group = ""
        if written:
            group = self.group_by(written, outs, tags)
        having = self.having(rows, exact, tags) if written else ""
        distinct = ""
        order = list(range(len(items)))
        if group != " GROUP BY ALL" and "ordinal" not in tags and self.chance(0.2):
            self.dice.shuffle(order)
        sql = f"SELECT {distinct}{', '.join(items[i] for i in order)} {rows.body()}{group}{having}"
        tags.discard("ordinal")
        return Table(sql, tuple(outs[i] for i in order), frozenset(tags | {"aggregates"}))

    def key(self, rows: Rows, tags: set[str], *, plain: bool) -> str:
        good = [c for c in rows.cols if c.public]
        if good and (plain or self.chance(0.6)):
            tags.add("public key")
            return self.one(good).sql
        kind = self.one([c for c in rows.cols if c.kind != "time"] or rows.cols).kind
        tags.add("computed key")
        if kind in ("float", "decimal"):
            return self.integer(rows.cols, 1)
        return self.expression(kind, rows.cols, 1)

    def group_by(self, written: list[str], outs: list[Out], tags: set[str]) -> str:
        how = self.pick("expressions", "expressions", "ordinals", "aliases", "ALL")
        tags.add(f"GROUP BY {how}")
        if how == "ALL":
            return " GROUP BY ALL"
        if how == "ordinals":
            tags.add("ordinal")
            return f" GROUP BY {', '.join(str(i + 1) for i in range(len(written)))}"
        if how == "aliases":
            return f" GROUP BY {', '.join(o.name for o in outs if o.role == 'key')}"
        return f" GROUP BY {', '.join(written)}"

    def units(self, rows: Rows) -> str:
        """The number of units: as the analyst writes it, and as DuckDB can."""
        if not rows.unit:
            return "COUNT(*)"
        own = f"COUNT(DISTINCT {rows.unit})"
        ours = own if rows.named and self.chance(0.5) else "COUNT(DISTINCT PRIVACY_UNIT())"
        return both(ours, own)

    def having(self, rows: Rows, exact: bool, tags: set[str]) -> str:
        several = f"{self.units(rows)} > 1"
        if exact:
            return f" HAVING {several}"
        if self.chance(0.75):
            own = f"COUNT(DISTINCT {rows.unit})" if rows.unit else "COUNT(*)"
            return both("", "", f" HAVING {own} > 1")
        tags.add("HAVING")
        x = self.expression(self.pick("int", "decimal"), rows.cols, 0)
        more = self.pick(
            "COUNT(*) > 2", "COUNT(*) BETWEEN 2 AND 5",
            f"{both(f'SUM({x})', f'COALESCE(SUM({x}), 0)')} > {self.odd(0, 90)}",
            f"COUNT(*) > 1 AND COUNT(*) FILTER (WHERE {self.boolean(rows.cols, 0)}) > 0",
        )  # fmt: skip
        return f" HAVING {several} AND {more}"

    def aggregate(self, rows: Rows, tags: set[str]) -> tuple[str, str]:
        """An aggregate and what it is."""
        function = self.pick(
            "COUNT(*)", "COUNT(*)", "COUNT", "units", "SUM", "SUM", "SUM", "AVG", "AVG", "VAR", "CASE", "post"
        )
        where = ""
        if self.chance(0.2) and function != "post":
            tags.add("FILTER")
            where = f" FILTER (WHERE {self.boolean(rows.cols, 1)})"
        if function == "COUNT(*)":
            return f"COUNT(*){where}", "count"
        if function == "units":
            tags.add("COUNT(DISTINCT unit)")
            return f"{self.units(rows)}{where}", "count"
        if function == "CASE":
            tags.add("SUM(CASE)")
            return f"SUM(CASE WHEN {self.boolean(rows.cols, 1)} THEN 1 ELSE 0 END){where}".replace(
                "SUM(", both("SUM(", "COALESCE(SUM("), 1
            ) + both("", ", 0)"), "count"
        kind = self.pick("int", "int", "float", "decimal")
        x = self.expression(kind, rows.cols, 1)
        if function == "VAR":  # squares are measured relative to the range: keep it short
            x = f"LEAST({self.expression(kind, rows.cols, 0)}, 99)"
        finite = both(x, f"CASE WHEN ISFINITE(({x})::DOUBLE) THEN {x} END")
        if function == "COUNT":
            return f"COUNT({finite}){where}", "count"
        if function == "SUM":
            role = "whole" if kind == "int" else "real"
            return f"{both('', 'COALESCE(')}SUM({finite}){where}{both('', ', 0)')}", role
        if function == "AVG":
            return f"AVG({finite}){where}", "ratio"
        if function == "VAR":
            tags.add("VAR, STDDEV")
            return f"{self.pick('VAR_POP', 'VAR_SAMP', 'STDDEV', 'STDDEV_POP')}({finite}){where}", "spread"
        tags.add("arithmetic over aggregates")
        total = both(f"SUM({finite})", f"COALESCE(SUM({finite}), 0)")
        return self.pick(
            f"{total} * 100.0 / NULLIF(COUNT(*), 0)", f"CASE WHEN COUNT(*) > 3 THEN {total} ELSE -1 END",
            f"COUNT(*) + COUNT({finite})", f"{total} - 2 * COUNT(*)",
            f"100.0 * COUNT(*) FILTER (WHERE {self.boolean(rows.cols, 0)}) / NULLIF(COUNT(*), 0)",
        ), "post"  # fmt: skip

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
        body, cols, hidden = self.projected(inner)
        over = Rows(
            name,
            tuple(replace(c, sql=f"{name}.{c.sql}") for c in cols),
            f"{name}.{hidden}" if hidden else "",
            (),
            inner.tags,
            inner.named,
        )
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
            value = f"SUM({u}.age - (SELECT COUNT(*) FROM orders))"
            sql = f"SELECT {both('', 'COALESCE(')}{value}{both('', ', 0)')} AS s {rows.body()}"
            made = Table(sql, (Out("s", "whole"),), rows.tags)
        return self.finished(made, tag=f"noisy value in a private query: {shape}")

    def grouping_sets(self) -> Query:
        rows = self.base(self.pick("users", "orders", "items", "survey")) if self.chance(0.6) else self.join_public()
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
        if self.chance(0.5):
            sql = (
                "SELECT * FROM (SELECT kind, amount FROM orders) "
                "PIVOT (COUNT(*) AS n FOR kind IN ('gift', 'new', 'used'))"
            )
            if self.chance(0.5):
                sql = (
                    "SELECT * FROM (SELECT city, vip FROM users WHERE vip IS NOT NULL) "
                    "PIVOT (COUNT(*) FOR city IN ('bern', 'oslo', 'rome') GROUP BY vip)"
                )
            roles = ("post",) * 4
            return Query(sql, sql, sql, roles, frozenset({"PIVOT … IN"}))
        sql = "PIVOT users ON city IN ('bern', 'lima', 'oslo') USING COUNT(*) AS n GROUP BY vip"
        return Query(sql, sql, sql, ("key", "count", "count", "count"), frozenset({"PIVOT … IN"}))

    def correlated(self) -> Query:
        """A scalar subquery over private rows for each row of a public table."""
        if self.chance(0.5):
            u = self.fresh("u")
            where = f" AND {self.condition(self.base('users', u).cols)}" if self.chance(0.5) else ""
            sql = (
                f"SELECT c.city AS k, (SELECT COUNT(*) FROM users AS {u} WHERE {u}.city = c.city{where}) AS n "
                "FROM cities AS c"
            )
        else:
            value = both("SUM(i.qty)", "COALESCE(SUM(i.qty), 0)")
            sql = f"SELECT s.sku AS k, (SELECT {value} FROM items AS i WHERE i.sku = s.sku) AS n FROM skus AS s"
        return self.finished(
            Table(sql, (Out("k", "key"), Out("n", "count")), frozenset()),
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

    # ------------------------------------------------------------ what must not be answered

    def hostile(self) -> Query:
        """Shapes that mix people, read rows, or reach outside: always refused."""
        c = self.condition(self.base("users", "a").cols)
        sql = self.pick(
            "SELECT * FROM users",
            f"SELECT a.name, a.age FROM users AS a WHERE {c}",
            f"SELECT COUNT(*) FROM users AS a JOIN users AS b ON a.age = b.age WHERE {c}",
            "SELECT COUNT(*) FROM users AS a JOIN orders AS b ON a.uid = b.uid + 1",
            "SELECT COUNT(*) FROM users AS a JOIN orders AS b ON a.uid = b.uid OR a.vip",
            "SELECT COUNT(*) FROM users AS a CROSS JOIN orders AS b",
            "SELECT COUNT(*) FROM users AS a, orders AS b",
            "SELECT COUNT(*) FROM users AS a FULL JOIN orders AS b ON a.uid = b.uid",
            "SELECT COUNT(*) FROM cities AS c LEFT JOIN users AS u ON c.city = u.city",
            "SELECT COUNT(*) FROM orders AS a JOIN (SELECT 1 AS uid) AS b USING (uid) JOIN users AS d ON d.age = b.uid",
            "SELECT COUNT(*) FROM (SELECT * FROM users LIMIT 5) AS q",
            "SELECT COUNT(*) FROM users USING SAMPLE 10%",
            "SELECT COUNT(*) FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY score) AS n FROM users) AS q WHERE n < 5",
            "SELECT COUNT(*) FROM (SELECT age, NTILE(4) OVER (PARTITION BY city ORDER BY age) AS n FROM users) AS q",
            "SELECT COUNT(*) FROM users WHERE EXISTS (SELECT 1 FROM orders WHERE amount > 400)",
            "SELECT COUNT(*) FROM users AS u WHERE u.age IN (SELECT b.age FROM users AS b WHERE b.uid <> u.uid)",
            "SELECT COUNT(*) FROM users WHERE age = (SELECT age FROM users WHERE uid = 3)",
            "SELECT uid, COUNT(*) FROM (SELECT 1 AS uid, age FROM users) AS q GROUP BY uid, age, RANDOM()",
            "SELECT SUM(RANDOM()) FROM users",
            "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
            "SELECT COUNT(*) FROM '/etc/passwd'",
            "SELECT COUNT(*) FROM duckdb_tables()",
            "SELECT COUNT(*) FROM users WHERE error(name) IS NULL",
            "SELECT SUM(GETVARIABLE('x')) FROM users",
            "SELECT LIST(age) FROM users",
            "SELECT STRING_AGG(name, ',') FROM users",
            "SELECT ANY_VALUE(name) FROM users",
            "SELECT SUM(name) FROM users",
            "SELECT COUNT(*) FROM survey AS a JOIN survey AS b ON a.answer = b.answer",
            "SELECT COUNT(*) FROM (SELECT uid FROM users UNION ALL SELECT pop FROM cities) AS q",
            "SELECT COUNT(*) FROM users; SELECT 1",
            "DELETE FROM users",
            "SUMMARIZE users",
            "DESCRIBE users",
            "EXPLAIN ANALYZE SELECT COUNT(*) FROM users",
            "SELECT COUNT(*), (SELECT MAX(age) FROM users AS b WHERE b.city = 'rome' LIMIT 1) FROM nobody",
            "WITH RECURSIVE t AS (SELECT uid FROM users UNION ALL SELECT uid + 1 FROM t) SELECT COUNT(*) FROM t",
        )  # fmt: skip
        return Query(sql, sql, sql, (), frozenset({"hostile"}), expect="refused")

    def unsupported(self) -> Query:
        """Shapes that some version may learn: refused, or answered as the contract says; never a crash."""
        rows = self.rows(1)
        x = self.integer(rows.cols, 1)
        sql = self.pick(
            f"SELECT MIN({x}), MAX({x}) {rows.body()}",
            f"SELECT MEDIAN({x}) {rows.body()}",
            f"SELECT QUANTILE_CONT({x}, 0.25) {rows.body()}",
            f"SELECT COUNT(DISTINCT {x}) {rows.body()}",
            f"SELECT MODE({x}) {rows.body()}",
            f"SELECT APPROX_COUNT_DISTINCT({x}) {rows.body()}",
            f"SELECT SUM(DISTINCT {x}) {rows.body()}",
            f"SELECT CORR({x}, {self.integer(rows.cols, 1)}) {rows.body()}",
            f"SELECT COUNT(*) AS n {rows.body()} GROUP BY {x} ORDER BY n DESC LIMIT 1 WITH TIES",
            f"SELECT COUNT(*) OVER () {rows.body()}",
            f"SELECT {x}, COUNT(*) {rows.body()} GROUP BY {x} UNION BY NAME SELECT 1 AS n",
            f"SELECT ({x}, COUNT(*)) {rows.body()} GROUP BY {x}",
            f"FROM (SELECT {x} AS x {rows.body()}) SELECT COUNT(*)",
            f"SELECT COUNT(*) FROM (SELECT DISTINCT ON ({x}) {x} AS x {rows.body()}) AS q",
            f"SELECT BOOL_OR({self.boolean(rows.cols, 1)}), PRODUCT({x}) {rows.body()}",
            f"SELECT COLUMNS('.*') {rows.body()}",
            f"SELECT SUM({x} ORDER BY {x}), COUNT(*) FILTER ({self.boolean(rows.cols, 1)}) {rows.body()}",
            "SELECT COUNT(*) FROM users AS u SEMI JOIN orders AS o ON u.uid = o.uid",
            "SELECT COUNT(*) FROM users AS u ANTI JOIN orders AS o USING (uid)",
            "SELECT COUNT(*) FROM users AS u ASOF JOIN orders AS o ON u.uid = o.uid AND u.born <= o.day",
            "SELECT COUNT(*) FROM orders AS o RIGHT JOIN users AS u ON u.uid = o.uid",
            "SELECT COUNT(*) FROM users AS u, LATERAL (SELECT o.amount FROM orders AS o WHERE o.uid = u.uid) AS l",
            "SELECT COUNT(*) FROM users AS u POSITIONAL JOIN orders AS o",
            "SELECT u.city, COUNT(*) FROM users AS u GROUP BY u.city HAVING u.city > ALL (SELECT city FROM cities)",
        )  # fmt: skip
        return Query(
            render(sql, 1), render(sql, 2), render(sql, 3), (), frozenset({"no version's promise"}), expect="anything"
        )

    def broken(self) -> Query:
        """A query with some of its words lost, doubled or exchanged."""
        sql = self.simple().sql
        words = re.findall(r"'[^']*'|\w+|\s+|[^\w\s]", sql)
        for _ in range(self.dice.randint(1, 3)):
            i, j = self.dice.randrange(len(words)), self.dice.randrange(len(words))
            match self.pick("lose", "double", "exchange", "insert"):
                case "lose":
                    words[i] = ""
                case "double":
                    words[i] = f"{words[i]} {words[i]}"
                case "exchange":
                    words[i], words[j] = words[j], words[i]
                case _:
                    words[i] += self.pick(
                        "(", ")", "'", '"', "NULL", "::", ".", "*", "\x00", "é", "--", "/*", " AS ", ","
                    )
        sql = "".join(words)
        return Query(sql, sql, sql, (), frozenset({"broken text"}), expect="anything")
