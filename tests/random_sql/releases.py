"""Random aggregates of private rows: keys, aggregates, HAVING."""

from __future__ import annotations

from random_sql.rows import OWN_VALUE, PrivateRows
from random_sql.written import Out, Rows, Table, both


class Releases(PrivateRows):
    """Writes a SELECT that aggregates private rows."""

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
        clause = self.clause(rows, tags) if self.chance(0.08) else ""
        order = list(range(len(items)))
        if group != " GROUP BY ALL" and "ordinal" not in tags and self.chance(0.2):
            self.dice.shuffle(order)
        sql = f"SELECT {clause}{', '.join(items[i] for i in order)} {rows.body()}{group}{having}"
        tags.discard("ordinal")
        return Table(sql, tuple(outs[i] for i in order), frozenset(tags | {"aggregates"}))

    def clause(self, rows: Rows, tags: set[str]) -> str:
        """Google's clause, with what contradicts no option."""
        tags.add("WITH DIFFERENTIAL_PRIVACY")
        options = ["group_selection_strategy = LAPLACE_THRESHOLD"]
        if rows.named and rows.unit:
            options.append(f"privacy_unit_column = {rows.unit}")
        return both(f"WITH DIFFERENTIAL_PRIVACY OPTIONS({self.pick(*options)}) ", "")

    def key(self, rows: Rows, tags: set[str], *, plain: bool) -> str:
        good = [c for c in rows.cols if c.public]
        if good and (plain or self.chance(0.6)):
            tags.add("public key")
            return self.one(good).sql
        if rows.unit and self.chance(0.06):
            text, tag = self.membership(rows, 1)
            tags |= {tag, "membership as a value"}
            return f"CASE WHEN {text} THEN 'in' ELSE 'out' END"
        if (stepped := self.stepped(rows)) and self.chance(0.3):
            tags.add("stepped key")
            return stepped
        kind = self.one([c for c in rows.cols if c.kind != "time"] or rows.cols).kind
        tags.add("computed key")
        if kind in ("float", "decimal"):
            return self.integer(rows.cols, 1)
        return self.expression(kind, rows.cols, 1)

    def stepped(self, rows: Rows) -> str | None:
        """A value in steps. What isn't finite is NULL: it would be outside of every range."""
        found = [c for c in rows.cols if c.kind in ("float", "decimal", "time", "date", "int")]
        if not found:
            return None
        column = self.one(found)
        x = column.sql
        if column.kind in ("time", "date"):
            return self.pick(
                f"DATE_TRUNC('month', {x})", f"TIME_BUCKET(INTERVAL '1 week', {x})", f"DATE_TRUNC('quarter', {x})",
                f"CAST(DATE_TRUNC('week', {x}) AS DATE)", f"TIME_BUCKET(INTERVAL '2 months', {x})",
            )  # fmt: skip
        step = self.pick(
            f"FLOOR({x} / 50) * 50", f"CAST(FLOOR({x} / 7) AS INTEGER) * 7", f"ROUND({x}, -1)", f"CEIL({x} / 10)",
            f"TRUNC({x} / 25)", f"CAST({x} / 20 AS INTEGER)",
        )  # fmt: skip
        return f"CASE WHEN ISFINITE(CAST({x} AS DOUBLE)) THEN {step} END"

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
            "COUNT(*)", "COUNT(*)", "COUNT", "units", "SUM", "SUM", "SUM", "AVG", "AVG", "VAR", "CASE", "post",
            "bounded",
        )  # fmt: skip
        where = ""
        if self.chance(0.2) and function != "post":
            tags.add("FILTER")
            condition = self.boolean(rows.cols, 1)
            if rows.unit and self.chance(0.2):
                condition, tag = self.membership(rows, 1)
                tags |= {tag, "membership as a value"}
            where = f" FILTER (WHERE {condition})"
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
        if rows.named and rows.unit and self.chance(0.06):
            found, own = self.looked_up(rows)
            if own in ("int", "decimal"):
                x, kind = f"LEAST({found}, 99)", own
                tags.add(OWN_VALUE)
        if function == "bounded":
            return self.bounded(x, kind, where, tags)
        if function == "VAR":  # squares are measured relative to the range: keep it short
            x = self.expression(kind, rows.cols, 0)
            x = x if kind == "float" else f"LEAST({x}, 99)"
        finite = self.finite(x)
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

    def bounded(self, x: str, kind: str, where: str, tags: set[str]) -> tuple[str, str]:
        """Contribution bounds: of each row, or so wide that no unit's rows in a group reach them."""
        tags.add("contribution bounds")
        role = "whole" if kind == "int" else "real"
        wide = "contribution_bounds_per_group => (-100000000, 100000000)"
        clipped = f"CASE WHEN ISFINITE(({x})::DOUBLE) THEN LEAST(GREATEST({x}, 0), 40) END"
        if self.chance(0.3):
            return f"COUNT({both('*, contribution_bounds_per_group => (0, 400)', '*')}){where}", "count"
        if self.chance(0.5):
            return f"{both(f'SUM({x}, {wide})', f'COALESCE(SUM({self.finite(x)})')}{where}{both('', ', 0)')}", "wide"
        ours, plain = f"SUM({x}, contribution_bounds_per_row => (0, 40))", f"COALESCE(SUM({clipped})"
        return f"{both(ours, plain)}{where}{both('', ', 0)')}", role
