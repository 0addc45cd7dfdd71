"""Expressions of total forms -> Spark's SQL. A closed set of nodes: whatever isn't listed here is refused.

sqlglot writes none of it. It would translate names, not meanings: of what DuckDB and Spark compute from the same text,
a third differs without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from dpsql.backends.spark import casts, grids, patterns
from dpsql.backends.spark.constants import constant, written_number
from dpsql.backends.spark.values import (
    MAX_ROWS,
    MOST,
    Value,
    common,
    in_type,
    integer,
    lacks,
    negative,
    spark_type,
    type_for,
    value,
    width,
)
from dpsql.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, FLOAT, INTERVAL, NULL, TIMESTAMP, VARCHAR, Type, decimal
from dpsql.sql.as_sql import as_sql
from dpsql.sql.dialect import constants

HALF_OCTAVES = "CEIL(CAST(2 AS DOUBLE) * LOG2(NULLIF(GREATEST(CAST({} AS DOUBLE) - CAST(0.5 AS DOUBLE), 0), 0)))"
LARGEST_SQUARE = 2**31  # a larger n has as many bits as counts: n² − n fits 64 bits up to here
LONGEST = 100_000  # characters of an expression: some spellings repeat their argument, and nested ones multiply
Facts = Mapping[exp.Expr, tuple[int | None, int | None]]
"""What conditions around an expression say of values: bounds of whole numbers."""


class Names(Protocol):
    """What columns mean here, and where texts of the query go."""

    def column(self, node: exp.Column) -> Value: ...
    def parameter(self, text: str) -> str: ...
    def special(self, node: exp.Expr, writer: Expressions) -> Value | None: ...


Spelling = Callable[["Expressions", Sequence[Value]], Value]


class Expressions:
    """Writes expressions over the columns that `names` knows."""

    def __init__(self, names: Names, spellings: Mapping[str, Spelling], facts: Facts | None = None) -> None:
        self.names = names
        self.spellings = spellings
        self._facts: Facts = facts or {}

    def __call__(self, node: exp.Expr) -> Value:
        """An expression's text, type and bounds."""
        found = self._write(node)
        if len(found.text) > LONGEST:
            raise lacks("an expression this deep", "compute a part of it in the data, or in a subquery of its own")
        if found.type.is_integer and (found.low is None or found.high is None):
            found = replace(value(found.text, found.type, found.low, found.high, found.each), is_there=found.is_there)
        low, high = self._facts.get(node, (None, None)) if self._facts else (None, None)
        if low is not None and found.low is not None:
            found = replace(found, low=max(low, found.low))
        if high is not None and found.high is not None:
            found = replace(found, high=min(high, found.high))
        return found

    def _write(self, node: exp.Expr) -> Value:
        special = self.names.special(node, self)
        if special is not None:
            return special
        match node:
            case exp.Column():
                return self.names.column(node)
            case exp.Literal():
                return self.text(str(node.this)) if node.is_string else written_number(str(node.this))
            case exp.Null():
                return Value("NULL", NULL)
            case exp.Boolean():
                return value("TRUE" if node.this else "FALSE", BOOLEAN)
            case exp.Paren():
                return self(node.this)
            case exp.Cast():  # TRY_CAST is one of them
                return self._cast(node)
            case exp.Neg():
                return self._negated(node)
            case exp.Add() | exp.Sub() | exp.Mul():
                return self._arithmetic(node)
            case exp.Div() | exp.IntDiv() | exp.Mod():
                return self._quotient(node)
            case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseNot():
                return self._bits(node)
            case exp.Case():
                return self._case(node)
            case exp.Coalesce():
                return self._coalesced(node)
            case exp.Nullif():
                return self._nullif(node)
            case exp.Like() | exp.ILike() | exp.Escape():
                return patterns.like(self, node)
            case exp.DPipe():
                parts = self(node.this), self(node.expression)
                return Value(f"({parts[0].text} || {parts[1].text})", VARCHAR)
            case exp.Anonymous():
                return self._bits_of(node) or self.call(str(node.this).lower(), [self(a) for a in node.expressions])
            case exp.Abs() | exp.Sqrt() | exp.Floor() | exp.Length():  # as statements of our own write them
                return self.call(node.key, [self(node.this)])
            case exp.Least() | exp.Greatest():
                return self.chosen(node.key.upper(), [self(e) for e in (node.this, *node.expressions)])
        test = self._test(node)
        if test is None:
            raise lacks(node.key.upper())
        return value(test, BOOLEAN)

    def text(self, said: str) -> Value:
        """A text of the query: a parameter, which Spark takes as it is."""
        return Value(self.names.parameter(said), VARCHAR, constant=said)

    def call(self, name: str, arguments: Sequence[Value]) -> Value:
        """A primitive in Spark's words."""
        spelling = self.spellings.get(name)
        if spelling is None:
            raise lacks(name.upper())
        return spelling(self, arguments)

    def _bits_of(self, node: exp.Anonymous) -> Value | None:
        """⌈2·log₂(n − 1/2)⌉ of a whole number n, as units' rows are counted by: how many bits n² − n has, of n above 1.

        2·log₂(n − 1/2) is log₂(n² − n + 1/4), which is above k exactly if n² − n ≥ 2^k: that is the CEIL of DuckDB's
        LOG2, which tells n from its neighbours. Spelled one by one, both would repeat n a hundred times. None of all
        else.
        """
        whole = node.find(exp.Column) if node.this == "ceil" else None
        if whole is None or as_sql(node) != HALF_OCTAVES.format(as_sql(whole)):
            return None
        n = self(whole)
        if not n.type.is_integer or n.high is None or n.high > MAX_ROWS:
            return None
        few = f"LEAST({n.text}, {LARGEST_SQUARE}L)"
        bits = f"CAST(LENGTH(BIN({few} * ({few} - 1))) AS DOUBLE)"
        return Value(f"(CASE WHEN {n.text} > 1 THEN {bits} WHEN {n.text} = 1 THEN -2D END)", DOUBLE)

    def under(self, conditions: Sequence[exp.Expr]) -> Expressions:
        """The same where these conditions hold."""
        found = {fact: bounds for c in conditions for fact, bounds in _facts(c)}
        return Expressions(self.names, self.spellings, {**self._facts, **found}) if found else self

    # ---------------------------------------------------------------- numbers

    def _cast(self, node: exp.Cast) -> Value:
        to = Type.parse(as_sql(node.args["to"]))
        inner = node.this.unnest()
        if isinstance(inner, exp.Literal) and inner.is_string:
            return self.text(str(inner.this)) if to == VARCHAR else constant(str(inner.this), to)
        return casts.cast(self(node.this), to)

    def _negated(self, node: exp.Neg) -> Value:
        v = self(node.this)
        if v.type.is_integer:
            assert v.low is not None and v.high is not None
            kind = type_for(min(v.low, -v.high), max(v.high, -v.low), v.type)
            return Value(negative(in_type(v, kind)), kind, -v.high, -v.low, v.each)
        if not v.type.is_numeric:
            raise lacks("the negative of what is no number")
        bounds = (None, None) if v.low is None or v.high is None else (-v.high, -v.low)
        return Value(negative(v), v.type, *bounds)

    def _arithmetic(self, node: exp.Binary) -> Value:
        interval = self._interval(node.expression)
        a = self(node.this)
        if interval is not None:
            return _shifted(a, interval, -1 if isinstance(node, exp.Sub) else 1)
        b = self(node.expression)
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]
        if a.type.is_date or b.type.is_date:
            return _days(a, b, sign)
        if a.type.is_integer and b.type.is_integer:
            return _integers(a, b, sign)
        if a.type.is_float or b.type.is_float:
            kind = DOUBLE if DOUBLE in (a.type, b.type) else FLOAT
            return Value(f"({_as_float(a, kind)} {sign} {_as_float(b, kind)})", kind)
        return _decimals(a, b, sign)

    def _interval(self, node: exp.Expr) -> tuple[int, int, int] | None:
        inner = node.unnest()
        if not isinstance(inner, exp.Cast) or Type.parse(as_sql(inner.args["to"])) != INTERVAL:
            return None
        found = constants().interval(str(inner.this.unnest().this))
        assert found is not None, "constants are read before a query is planned"
        return found

    def _quotient(self, node: exp.Binary) -> Value:
        a, b = self(node.this), self(node.expression)
        if isinstance(node, exp.Div):
            kind = DOUBLE if DOUBLE in (a.type, b.type) else FLOAT
            if not (a.type.is_float or b.type.is_float):
                raise lacks("a division that isn't one of floats")
            quotient = f"({_as_float(a, kind)} / {_as_float(b, kind)})"
            within = (0, a.high) if (a.low or -1) >= 0 and (b.low or 0) >= 1 else (None, None)
            return Value(f"CAST({quotient} AS FLOAT)" if kind == FLOAT else quotient, kind, *within)
        if a.type.is_integer and b.type.is_integer:
            assert a.low is not None and a.high is not None and b.low is not None and b.high is not None
            kind = common((a, b))
            first, second = in_type(a, kind).text, in_type(b, kind).text
            if isinstance(node, exp.Mod):
                top = max(abs(b.low), abs(b.high)) - 1
                return Value(f"({first} % {second})", kind, max(min(a.low, 0), -top), min(max(a.high, 0), top))
            if b.low >= 1:
                low, high = min(0, -(-a.low // b.low)), max(0, a.high // b.low)
            else:  # of either sign
                low, high = -(a.size or 0), a.size or 0
            if high >= 2**63 or low < -(2**63):  # what div gives has 64 bits
                raise lacks("an integer division of more than 64 bits", "cast what is divided to DOUBLE")
            return Value(f"({first} div {second})", BIGINT, low, high)
        if isinstance(node, exp.Mod) and a.type.is_float and a.type == b.type:
            return Value(f"({a.text} % {b.text})", a.type)
        raise lacks(f"{node.key.upper()} of {a.type.sql} and {b.type.sql}")

    def _bits(self, node: exp.Expr) -> Value:
        a = self(node.this)
        b = a if isinstance(node, exp.BitwiseNot) else self(node.expression)
        kind = common((a, b))
        if not kind.is_integer or kind.is_unsigned or kind.bits > 64:
            raise lacks(f"bits of {kind.sql}")
        if isinstance(node, exp.BitwiseNot):
            return value(f"(~ {a.text})", kind)
        sign = "&" if isinstance(node, exp.BitwiseAnd) else "|"
        return value(f"({in_type(a, kind).text} {sign} {in_type(b, kind).text})", kind)

    # ---------------------------------------------------------------- choices

    def _case(self, node: exp.Case) -> Value:
        subject = node.args.get("this")
        tests, values = [], []
        for one in node.args["ifs"]:
            if subject is None:
                tests.append(self(one.this).text)
                chosen = self.under([one.this])(one.args["true"])
                values.append(grids.bounded(chosen, one.this, one.args["true"]))
            else:
                tests.append(_compared("=", self(subject), self(one.this)))
                values.append(self(one.args["true"]))
        default = node.args.get("default")
        last = Value("NULL", NULL) if default is None else self(default)
        kind, made = _alike([*values, last])
        branches = " ".join(f"WHEN {t} THEN {v.text}" for t, v in zip(tests, made, strict=False))
        end = "" if default is None else f" ELSE {made[-1].text}"
        return _hull(f"CASE {branches}{end} END", kind, made)

    def _coalesced(self, node: exp.Coalesce) -> Value:
        kind, made = _alike([self(e) for e in (node.this, *node.expressions)])
        return _hull(f"COALESCE({', '.join(v.text for v in made)})", kind, made)

    def _nullif(self, node: exp.Nullif) -> Value:
        a, b = self(node.this), self(node.expression)
        text = f"CASE WHEN {_compared('=', a, b)} THEN NULL ELSE {a.text} END"
        low = 1 if a.low == 0 and b.low == b.high == 0 and b.is_there and a.type.is_integer else a.low
        return replace(a, text=text, low=low, constant=None, is_there=False)

    def chosen(self, name: str, values: Sequence[Value]) -> Value:
        """LEAST or GREATEST, which pass over NULLs; NaN is above all numbers."""
        kind, made = _alike(values)
        if kind.is_float and any(v.type.is_integer for v in values):
            made = [v if v.type.is_float else casts.cast(v, kind) for v in made]
        whole = _hull(f"{name}({', '.join(v.text for v in made)})", kind, made)
        known = [v for v in made if v.type != NULL and v.low is not None and v.high is not None]
        if len(known) == len(made) and all(not v.type.is_float for v in made):
            # One of them may be NULL: then the other is taken, whatever it is. A constant never is.
            fixed = [v for v in known if v.is_there]
            if name == "LEAST" and fixed and whole.high is not None:
                whole = replace(whole, high=min(v.high for v in fixed if v.high is not None))
            if name == "GREATEST" and fixed and whole.low is not None:
                whole = replace(whole, low=max(v.low for v in fixed if v.low is not None))
        return whole

    # ---------------------------------------------------------------- tests

    def _test(self, node: exp.Expr) -> str | None:
        compared = _SIGNS.get(type(node))
        if compared is not None:
            return f"({_compared(compared, self(node.this), self(node.expression))})"
        match node:
            case exp.NullSafeNEQ():
                return f"(NOT {_compared('<=>', self(node.this), self(node.expression))})"
            case exp.And() | exp.Or():
                word = "AND" if isinstance(node, exp.And) else "OR"
                return f"({self(node.this).text} {word} {self(node.expression).text})"
            case exp.Not():
                return f"(NOT {self(node.this).text})"
            case exp.Is():
                asked = "NULL" if isinstance(node.expression, exp.Null) else str(bool(node.expression.this)).upper()
                return f"({self(node.this).text} IS {asked})"
            case exp.Between():
                x = self(node.this)
                low, high = (_compared(s, x, self(node.args[e])) for s, e in ((">=", "low"), ("<=", "high")))
                return f"({low} AND {high})"
            case exp.In() if node.expressions and not node.args.get("query"):
                x, listed = self(node.this), [self(e) for e in node.expressions]
                if not x.type.is_float and all(v.type == x.type for v in listed):
                    return f"({x.text} IN ({', '.join(v.text for v in listed)}))"
                return "(" + " OR ".join(_compared("=", x, v) for v in listed) + ")"  # -0.0 is in no set of 0.0
        return None


_SIGNS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip


def _compared(sign: str, a: Value, b: Value) -> str:
    """A comparison in one type. Rules have aligned both sides, but for literals of their own."""
    if a.type != b.type and NULL not in (a.type, b.type):
        if a.type.is_float or b.type.is_float:
            kind = FLOAT if FLOAT in (a.type, b.type) and DOUBLE not in (a.type, b.type) else DOUBLE
            return f"{_as_float(a, kind)} {sign} {_as_float(b, kind)}"
        exact = all(v.type.is_integer or v.type.is_decimal for v in (a, b))
        texts = all(v.type.is_text for v in (a, b))
        if not exact and not texts:
            raise lacks(f"a comparison of {a.type.sql} with {b.type.sql}")
    return f"{a.text} {sign} {b.text}"


def _as_float(v: Value, kind: Type) -> str:
    return v.text if v.type == kind else f"CAST({v.text} AS {spark_type(kind)})"


def _facts(condition: exp.Expr) -> list[tuple[exp.Expr, tuple[int | None, int | None]]]:
    """What a condition that holds says of an expression, by constants on its right side."""
    node = condition.unnest()
    if isinstance(node, exp.And):
        return [*_facts(node.this), *_facts(node.expression)]
    if isinstance(node, exp.Between):
        low, high = (_constant(node.args[e]) for e in ("low", "high"))
        return [(node.this, (low, high))]
    if isinstance(node, exp.GT | exp.GTE) and (least := _constant(node.expression)) is not None:
        return [(node.this, (least + isinstance(node, exp.GT), None))]
    return []


def _constant(node: exp.Expr) -> int | None:
    inner = node.unnest()
    if isinstance(inner, exp.Cast):
        return _constant(inner.this)
    if isinstance(inner, exp.Neg):
        found = _constant(inner.this)
        return None if found is None else -found
    return int(inner.this) if isinstance(inner, exp.Literal) and not inner.is_string and inner.is_int else None


def _alike(values: Sequence[Value]) -> tuple[Type, list[Value]]:
    kind = common(values)
    return kind, [v if v.type in (kind, NULL) else casts.cast(v, kind) for v in values]


def _hull(text: str, kind: Type, values: Sequence[Value]) -> Value:
    """A choice among values: between the least and the greatest of their bounds."""
    there = [v for v in values if v.type != NULL]
    lows, highs, shares = ([getattr(v, a) for v in there] for a in ("low", "high", "share"))
    if not there or None in lows or None in highs:
        return Value(text, kind)
    return Value(text, kind, min(lows), max(highs), None if None in shares else max(shares))


def _integers(a: Value, b: Value, sign: str) -> Value:
    assert a.low is not None and a.high is not None and b.low is not None and b.high is not None
    if sign == "*":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        shares = [(a.share or 0) * (b.size or 0), (a.size or 0) * (b.share or 0)]
    else:
        other = (b.low, b.high) if sign == "+" else (-b.high, -b.low)
        corners = [a.low + other[0], a.high + other[1]]
        shares = [(a.share or 0) + (b.share or 0)]
    low, high = min(corners), max(corners)
    kind = type_for(min(low, a.low, b.low), max(high, a.high, b.high), max(a.type, b.type, key=width))
    return integer(f"({in_type(a, kind).text} {sign} {in_type(b, kind).text})", low, high, min(shares), least=kind)


def _decimals(a: Value, b: Value, sign: str) -> Value:
    """Decimals, in 38 digits: rules have proved that these are enough (Theorem TOTAL-1)."""
    kinds = [v.type if v.type.is_decimal else decimal(38, 0) for v in (a, b)]
    if not all(v.type.is_decimal or v.type.is_integer for v in (a, b)):
        raise lacks(f"{a.type.sql} {sign} {b.type.sql}")
    scales = [k.scale or 0 for k in kinds]
    scale = sum(scales) if sign == "*" else max(scales)
    widths = [k.width or 0 for k in kinds]
    width = sum(widths) if sign == "*" else max(w - s for w, s in zip(widths, scales, strict=True)) + scale + 1
    if scale > 38:
        raise lacks("a product of decimals with more than 38 digits", "cast one of them to DOUBLE")
    to = decimal(min(width, 38), scale)
    texts = [in_type(v, k).text for v, k in zip((a, b), kinds, strict=True)]
    return Value(f"CAST(({texts[0]} {sign} {texts[1]}) AS {spark_type(to)})", to)


def _days(a: Value, b: Value, sign: str) -> Value:
    """A day plus or minus a number of days; or the days between two."""
    if sign == "-" and a.type.is_date and b.type.is_date:
        return Value(f"CAST(DATEDIFF({a.text}, {b.text}) AS BIGINT)", BIGINT, -(2**33), 2**33)
    day, count = (a, b) if a.type.is_date else (b, a)
    if not count.type.is_integer or (sign == "-" and not a.type.is_date) or (count.size or MOST) > 2**31 - 1:
        raise lacks(f"{a.type.sql} {sign} {b.type.sql}")
    name = "DATE_ADD" if sign == "+" else "DATE_SUB"
    return Value(f"{name}({day.text}, CAST({count.text} AS INT))", DATE)


def _shifted(moment: Value, interval: tuple[int, int, int], sign: int) -> Value:
    """A moment and a constant interval: months first, then days and the rest, as DuckDB has it."""
    if not (moment.type.is_date or moment.type.is_timestamp):
        raise lacks(f"an INTERVAL with {moment.type.sql}")
    months, days, micros = (sign * part for part in interval)
    kind = moment.type if moment.type.has_zone else TIMESTAMP
    text = casts.cast(moment, kind).text
    if months:
        text = f"({text} + INTERVAL '{months}' MONTH)"
    if days:
        text = f"({text} + INTERVAL '{days}' DAY)"
    if micros:
        seconds, rest = divmod(abs(micros), 1_000_000)
        text = f"({text} + INTERVAL '{'-' if micros < 0 else ''}{seconds}.{rest:06d}' SECOND)"
    return Value(text, kind)
