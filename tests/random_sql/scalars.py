"""Random scalar expressions of each type over the columns at hand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from random_sql.world import CITIES, GROUPS, KINDS, SKUS
from random_sql.written import Col


class Scalars:
    """Dice, and expressions made with them; the same seed makes the same ones."""

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

    def condition(self, cols: Sequence[Col]) -> str:
        parts = [self.boolean(cols, 1) for _ in range(self.dice.choice([1, 1, 2]))]
        return parts[0] if len(parts) == 1 else f"({parts[0]} {self.pick('AND', 'OR')} {parts[1]})"

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
            options += [f"LEAST(LENGTH({s}), 9)", f"LEAST(POSITION('o' IN {s}), 9)", f"LEAST(STRLEN({s}), 20)"]
        if b := self.column(cols, "bool"):
            options += [f"CAST({b} AS INTEGER)", f"{b}::INT + 1"]
        return self.dice.choice(options)

    def float(self, cols: Sequence[Col], depth: int) -> str:
        x = self.column(cols, "float") or self.column(cols, "int", "decimal") or "1.5::DOUBLE"
        if depth <= 0:
            return x
        y = self.column(cols, "float", "int", "decimal") or "2"
        # NaN and infinity either stay what they are or become a number inside of the range: otherwise it is clipped.
        return self.pick(
            x, f"{x} * 0.5", f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"ABS({x})", f"{x} / 4", f"COALESCE({x}, 1.25)",
            f"LEAST(GREATEST({x}, 0.5), 1.5)", f"SQRT(ABS({x}))", f"EXP(ABS({x}) / 50)", f"LN(ABS({x}) + 1)",
            f"FLOOR({x})", f"CEIL({x})", f"ROUND({x}, 1)", f"TRUNC({x})",
            f"CASE WHEN {self.boolean(cols, 0)} THEN {x} END", f"POWER(ABS({x}), 2)",
            f"RADIANS({x})", f"CBRT({x})", f"-{x}", f"CAST({y} AS DOUBLE)",
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
