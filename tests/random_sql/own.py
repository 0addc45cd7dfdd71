"""Random relations made of one unit's own rows each: groups, windows, DISTINCT, set operations."""

from __future__ import annotations

from dataclasses import replace

from random_sql.joins import Joins
from random_sql.sources import FAN
from random_sql.written import NUMBERS, Col, Rows, both


class Own(Joins):
    """Writes derived tables whose rows are values of one unit's rows."""

    def per_unit(self, depth: int) -> Rows:
        """GROUP BY the unit, or a key that determines it: one row for each person (and key)."""
        if self.chance(0.2):
            return self.by_key()
        inner = self.rows(depth - 1, owned=True)
        unit = both("PRIVACY_UNIT()", inner.unit) if not inner.named or self.chance(0.2) else inner.unit
        keys, items, cols, tags = [unit], [f"{unit} AS uid"], [], {"per-unit GROUP BY"}
        if self.chance(0.35):
            key = self.one([c for c in inner.cols if c.public] or [c for c in inner.cols if c.kind in ("text", "int")]
                           or [Col("'every'", "text")])  # fmt: skip
            keys.append(key.sql)
            items.append(f"{key.sql} AS k")
            cols.append(Col("k", key.kind, key.public))
        for _ in range(self.dice.randint(1, 3)):
            call, kind, name = self.own_aggregate(inner.cols, tags)
            column = self.fresh("m")
            if self.chance(0.2):
                call += f" FILTER (WHERE {self.boolean(inner.cols, 0)})" if "FILTER" not in call else ""
            items.append(f"{call} AS {column}")
            cols.append(Col(column, kind))
            tags.add(f"per-unit {name}")
        having = ""
        if self.chance(0.3):
            having = f" HAVING {self.pick('COUNT(*) > 1', 'COUNT(*) = 1', 'COUNT(*) <= 2', 'MAX(1) = 1')}"
            tags.add("per-unit HAVING")
        qualify = ""
        if self.chance(0.15):
            listed = ", ".join(["COUNT(*) DESC", *keys[1:], *(c.sql for c in cols if not c.public)])
            items.append(f"ROW_NUMBER() OVER (PARTITION BY {unit} ORDER BY {listed}) AS r")
            cols.append(Col("r", "int"))
            tags.add("window over per-unit groups")
            qualify = " QUALIFY r <= 2" if self.chance(0.5) else ""
        plain = "MAX(1)" not in having and not qualify and not any("OVER" in i for i in items)
        group = ", ".join(keys) if not plain or self.chance(0.8) else "ALL"
        body = f"SELECT {', '.join(items)} {inner.body()} GROUP BY {group}{having}{qualify}"
        made = self.under(body, tuple(cols), "uid", inner, named=True, tag="per-unit GROUP BY").tagged(*tags)
        return self.clipped(made, always="per-unit GROUP BY" in inner.tags or any("window" in t for t in inner.tags))

    def by_key(self) -> Rows:
        """GROUP BY the key of an order: of the table that has it, or of one that points to it."""
        rows = self.base(self.pick("items", "items", "orders"), "t")
        tags = {"per-unit GROUP BY", "GROUP BY a key of the unit"}
        call, kind, name = self.own_aggregate(rows.cols, tags)
        where = [self.condition(rows.cols)] if self.chance(0.4) else []
        body = f"SELECT t.oid, {call} AS m, COUNT(*) AS n {rows.body(where)} GROUP BY t.oid"
        made = self.under(body, (Col("m", kind), Col("n", "int")), "oid // 100", rows, named=False)
        return self.clipped(made.tagged(*tags, f"per-unit {name}"), always=False)

    def clipped(self, rows: Rows, *, always: bool) -> Rows:
        """Sums of sums have wide ranges, and noise in proportion: clip them for both."""
        bounds = {  # infinity stays what it is: it has no place in a range
            "int": "LEAST(GREATEST({0}, -50), 600)",
            "decimal": "LEAST(GREATEST({0}, 0), 600)",
            "float": "CASE WHEN ISFINITE(({0})::DOUBLE) THEN LEAST(GREATEST({0}, -99.5), 600.5) END",
        }
        cols = [
            replace(c, sql=bounds[c.kind].format(c.sql))
            if c.kind in bounds and not c.public and (always or self.chance(0.7))
            else c
            for c in rows.cols
        ]
        return replace(rows, cols=tuple(cols))

    def own_aggregate(self, cols: tuple[Col, ...], tags: set[str]) -> tuple[str, str, str]:
        """An aggregate of one unit's rows, its kind, its name."""
        numbers = [c for c in cols if c.kind in NUMBERS] or [Col("7", "int")]
        ordered = [c for c in cols if c.kind != "bool"] or numbers
        name = self.pick(
            "COUNT *", "COUNT", "COUNT DISTINCT", "SUM", "SUM", "AVG", "MIN", "MAX", "BOOL", "ARG", "FIRST"
        )
        x = self.one(ordered if name in ("COUNT", "COUNT DISTINCT", "MIN", "MAX", "ARG", "FIRST") else numbers)
        y = self.one(ordered)
        if name == "COUNT *":
            return "COUNT(*)", "int", name
        if name == "COUNT":
            return f"COUNT({x.sql})", "int", name
        if name == "COUNT DISTINCT":
            return f"COUNT(DISTINCT {x.sql})", "int", name
        if name in ("SUM", "AVG"):
            sql = x.sql if x.kind != "float" else self.finite(x.sql)
            return f"{name}({sql})", "float" if name == "AVG" else x.kind, name
        if name == "BOOL":
            return f"{self.pick('BOOL_AND', 'BOOL_OR')}({self.boolean(cols, 0)})", "bool", name
        if name == "ARG":
            most, order = self.dice.choice([("ARG_MAX", "DESC"), ("ARG_MIN", "ASC")])
            there = f"FILTER (WHERE {x.sql} IS NOT NULL AND {y.sql} IS NOT NULL)"
            ours = f"{most}({x.sql}, {y.sql})"
            return both(ours, f"FIRST({x.sql} ORDER BY {y.sql} {order}, {x.sql}) {there}"), x.kind, name
        if name == "FIRST":
            end, way = self.pick("FIRST", "LAST"), self.pick("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
            ours = f"{end}({x.sql} ORDER BY {y.sql}{way})"
            return both(ours, f"{end}({x.sql} ORDER BY {y.sql}{way}, {x.sql} NULLS LAST)"), x.kind, name
        return f"{name}({x.sql})", x.kind, name

    def window(self, depth: int) -> Rows:
        """Windows PARTITION BY the unit, with and without QUALIFY, over a relation whose columns order it wholly."""
        source = self.rows(depth - 1, owned=True)
        kept = self.dice.sample(source.cols, min(len(source.cols), 4))
        names = [self.fresh("c") for _ in kept]
        unit = both("PRIVACY_UNIT()", source.unit) if self.chance(0.2) else source.own
        partition = ", ".join([unit, *(c.sql for c in kept if c.public and self.chance(0.2))])
        first = self.dice.sample(kept, len(kept))
        way = self.pick("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
        order = ", ".join(f"{c.sql}{way if i == 0 else ''}" for i, c in enumerate(first))
        items = [f"{c.sql} AS {n}" for c, n in zip(kept, names, strict=True)]
        cols = [replace(c, sql=n) for c, n in zip(kept, names, strict=True)]
        tags: set[str] = set()
        named, clause = self.chance(0.2), ""
        if named:
            clause = f" WINDOW w AS (PARTITION BY {partition} ORDER BY {order})"
        for _ in range(self.dice.randint(1, 2)):
            call, kind, frame, word = self.window_call(kept)
            spec = "w" if named and not frame else f"(PARTITION BY {partition} ORDER BY {order}{frame})"
            if word in ("SUM", "COUNT", "AVG", "MAX", "MIN") and not frame and self.chance(0.4):
                spec = f"(PARTITION BY {partition})"
            name = self.fresh("w")
            items.append(f"{call} OVER {spec} AS {name}")
            cols.append(Col(name, kind))
            tags.add(f"per-unit window {word}")
        qualify = ""
        if self.chance(0.4):
            tags.add("per-unit QUALIFY")
            over = f"ROW_NUMBER() OVER (PARTITION BY {unit} ORDER BY {order})"
            qualify = f" QUALIFY {over} <= {self.dice.randint(1, 3)}"
        if " JOIN " in source.source:
            tags.add("window over a join")
        body = f"SELECT {source.own} AS uid, {', '.join(items)} {source.body()}{clause}{qualify}"
        made = self.under(body, tuple(cols), "uid", source, named=True, tag="derived table").tagged(*tags)
        return self.clipped(made, always="(" in source.source)

    def window_call(self, cols: list[Col]) -> tuple[str, str, str, str]:
        """A call, its kind, its frame and its name."""
        x = self.one(cols)
        numbers = [c for c in cols if c.kind in NUMBERS] or [Col("7", "int")]
        n = self.one(numbers)
        number = self.finite(n.sql) if n.kind == "float" else n.sql
        frames = ["", "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING",
                  " ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"]  # fmt: skip
        whole = " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        return self.dice.choice(
            [
                ("ROW_NUMBER()", "int", "", "ROW_NUMBER"),
                (self.pick("RANK()", "DENSE_RANK()"), "int", "", "RANK"),
                (f"LAG({x.sql})", x.kind, "", "LAG"),
                (f"LEAD({x.sql}, 2)", x.kind, "", "LEAD"),
                (f"LAG({n.sql}, 1, {n.sql})", n.kind, "", "LAG"),
                (f"SUM({number})", n.kind, self.dice.choice(frames), "SUM"),
                (f"AVG({number})", "float", self.dice.choice(frames), "AVG"),
                ("COUNT(*)", "int", self.dice.choice(frames), "COUNT"),
                (f"COUNT({x.sql})", "int", self.dice.choice(frames), "COUNT"),
                (f"MAX({n.sql})", n.kind, self.dice.choice(frames), "MAX"),
                (f"MIN({n.sql})", n.kind, self.dice.choice(frames), "MIN"),
                (f"FIRST_VALUE({x.sql})", x.kind, "", "FIRST_VALUE"),
                (f"LAST_VALUE({x.sql})", x.kind, whole, "LAST_VALUE"),
                ("CUME_DIST()", "float", "", "CUME_DIST"),
            ]
        )

    def distinct_rows(self, depth: int) -> Rows:
        """SELECT DISTINCT with the unit."""
        inner = self.rows(depth - 1, owned=True)
        kept = self.dice.sample(inner.cols, min(2, len(inner.cols)))
        cols = tuple(replace(c, sql=self.fresh("c")) for c in kept)
        items = ", ".join(f"{c.sql} AS {n.sql}" for c, n in zip(kept, cols, strict=True))
        body = f"SELECT DISTINCT {inner.own} AS uid, {items} {inner.body()}"
        return self.under(body, cols, "uid", inner, named=True, tag="DISTINCT with the unit")

    def combined(self, depth: int) -> Rows:
        """UNION ALL of private relations; UNION, INTERSECT and EXCEPT with the unit."""
        how = self.pick("UNION ALL", "UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT")
        number = self.dice.choice([2, 2, 3]) if how == "UNION ALL" else 2
        show = how != "UNION ALL" or self.chance(0.7)
        unit = "uid" if show else self.fresh("hidden")
        texts, tags, fan = [], {f"{how} of private rows"}, 0
        mixed = "mixed" if how == "UNION ALL" else "int"
        kinds = [self.pick("int", "text", "decimal", "bool", "date", mixed) for _ in range(self.dice.randint(1, 2))]
        for _ in range(number):
            rows = self.rows(depth - 1, owned=True)
            values = [f"{self.side(rows, k)} AS v{i}" for i, k in enumerate(kinds)]
            label = self.pick("'left'", "'right'", "'both'")
            shown = f"{rows.own} AS uid" if show else both("1 AS one", f"{rows.unit} AS {unit}")
            texts.append(f"SELECT {label} AS lbl, {', '.join(values)}, {shown} {rows.body()}")
            tags |= rows.tags
            fan += rows.fan
        if fan > FAN:
            return self.base()
        if any(" JOIN " in t for t in texts):
            tags.add("set operation over joins")
        name = self.fresh("w")
        cols = (
            Col(f"{name}.lbl", "text", True),
            *(Col(f"{name}.v{i}", "float" if k == "mixed" else k) for i, k in enumerate(kinds)),
        )
        return Rows(f"({f' {how} '.join(texts)}) AS {name}", cols, f"{name}.{unit}", (), frozenset(tags), show, fan)

    def side(self, rows: Rows, kind: str) -> str:
        """A column of one side of a union: of the same type on each side, or of any numbers' types."""
        if kind == "mixed":
            number = self.column(rows.cols, "int", "decimal", "float") or "2.5"
            return self.pick("NULL", "3", number, number, number)
        sql = self.expression(kind, rows.cols, 1)
        to = {"int": "BIGINT", "decimal": "DECIMAL(18, 3)", "date": "DATE"}.get(kind)
        return f"CAST({sql} AS {to})" if to else sql

    def finite(self, sql: str) -> str:
        """What a sum adds up: NaN and infinity count as NULL."""
        return both(sql, f"CASE WHEN ISFINITE(({sql})::DOUBLE) THEN {sql} END")
