"""What the rows show: types, ranges, values, repetitions. Trusted: what is found here is not private.

Everything is asked of the very views that queries read, so that what is proposed is what queries will see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dpsql.backends.base import Backend
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.build import scan_of
from dpsql.plan.nodes import Scan
from dpsql.policy.model import Policy, RowUnit, Table
from dpsql.refresh.promises import AT_ONCE
from dpsql.sql.dialect import data_type
from dpsql.steward.ranges import (
    Range,
    Ranged,
    call,
    column_node,
    count_if,
    finite,
    in_order,
    literal,
    look,
    not_null,
    of,
    ranges,
    table_node,
)
from dpsql.steward.unit_guess import repeats_like_an_id

MISSING = ("", "NA", "N/A", "#N/A", "NULL", "NAN", "NONE", "NIL", "-", "?", ".", "\\N")
"""Texts that stand for a value that isn't there, in upper case."""
MOST_VALUES = 50
"""Different values of a column that is a short list."""
MANY_UNITS = 100
"""So many units at least hold what is read off the rows and proposed for a policy: each value of a list, a limit."""
ID_PARTS, THIN = 8, 3
"""Into so many parts the numbers of a column are cut, in their order; a part is thin with so many times fewer rows."""
_PATTERNS = (  # the first type that all texts of a column match, and are
    ("BOOLEAN", r"(?i)true|false|t|f"),
    ("BIGINT", r"[+-]?(0|[1-9]\d*)"),
    ("DOUBLE", r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?|(?i:[+-]?inf(inity)?)"),
    ("DATE", r"\d{4}-\d\d?-\d\d?"),
    ("TIMESTAMP", r"\d{4}-\d\d?-\d\d?[ T]\d\d?:\d\d(:\d\d(\.\d+)?)?Z?"),
    ("TIMESTAMP WITH TIME ZONE", r"\d{4}-\d\d?-\d\d?[ T]\d\d?:\d\d(:\d\d(\.\d+)?)?\s?(Z|[+-]\d\d(:?\d\d)?)"),
)


@dataclass(frozen=True, slots=True)
class ColumnSeen:
    """One column as the rows show it. range: of numbers, dates and timestamps. values: all of a text's, where few."""

    name: str
    type: Type
    nulls: int
    missing: int  # texts like NA: they count as NULL where the type isn't text
    distinct: int  # about so many
    range: Range | None = None
    values: tuple[Any, ...] | None = None
    unique: bool = False


@dataclass(frozen=True, slots=True)
class TableSeen:
    """One table as the rows show it."""

    rows: int
    columns: Mapping[str, ColumnSeen]  # by lower-cased name
    repeating: frozenset[str] = frozenset()  # names, as written, of columns whose values repeat as people's ids do


@dataclass(frozen=True, slots=True)
class UnitRows:
    """How many rows units have: the most that half, 90%, 99% and all of them have."""

    units: int
    rows: int
    half: int
    most90: int
    most99: int
    most: int

    def __str__(self) -> str:
        return (
            f"50% have at most {self.half:,}, 90% {self.most90:,}, 99% {self.most99:,}, all of them {self.most:,} "
            f"({self.units:,} in all)"
        )


def see(backend: Backend, table: Table, *, typed: bool) -> TableSeen:
    """Look at all rows of a table. typed: its columns have their types already."""
    schema = [(name, Type.parse(text)) for name, text in backend.schema[table.name.lower()]]
    columns = [(name, type_) for name, type_ in schema if type_.is_key]
    seen: dict[str, ColumnSeen] = {}
    for start in range(0, len(columns), AT_ONCE):
        some = columns[start : start + AT_ONCE]
        proposed = some if typed else _types(backend, table, [name for name, _ in some])
        seen |= {c.name.lower(): c for c in _columns(backend, table, proposed, typed)}
    rows = _total(backend, table)
    return TableSeen(rows, seen, _repeating(backend, table, list(seen.values()), rows, typed))


def _total(backend: Backend, table: Table) -> int:
    (count,) = look(backend, exp.select(exp.Count(this=exp.Star())).from_(table_node(table)))
    return int(count)


def _types(backend: Backend, table: Table, names: Sequence[str]) -> list[tuple[str, Type]]:
    """The types that all texts of each column have; what stands for a missing value aside."""
    some = exp.select("*").from_(table_node(table)).limit(1000).subquery("some")
    every = [kind for kind, _ in _PATTERNS]
    possible = _fitting(backend, some, dict.fromkeys(names, every), whole=False)
    found = _fitting(backend, table_node(table), possible, whole=True)
    return [(name, Type.parse((found[name] or ["VARCHAR"])[0])) for name in names]


def _fitting(
    backend: Backend, rows: exp.Expr, asked: Mapping[str, Sequence[str]], *, whole: bool
) -> dict[str, list[str]]:
    """Of the types that are asked about, those that all texts of a column have; whole: at least one text."""
    queries: list[exp.Expr] = [exp.Count(this=exp.Star())]
    for name, kinds in asked.items():
        there = exp.and_(not_null(column_node(name)), exp.Not(this=_is_missing(name)))
        fits = [
            exp.and_(
                there.copy(),
                call("regexp_full_match", call("trim", column_node(name)), exp.Literal.string(dict(_PATTERNS)[kind])),
                not_null(exp.TryCast(this=column_node(name), to=data_type(kind))),
            )
            for kind in kinds
        ]
        queries += map(count_if, (there, *fits))
    _, *counts = look(backend, exp.select(*queries).from_(rows))
    left = iter(counts)
    found: dict[str, list[str]] = {}
    for name, kinds in asked.items():
        there = next(left)
        found[name] = [kind for kind in kinds if next(left) == there and (there or not whole)]
    return found


def _columns(backend: Backend, table: Table, columns: Sequence[tuple[str, Type]], typed: bool) -> Iterator[ColumnSeen]:
    values = [column_node(name) if typed or type_.is_text else _read_as(name, type_) for name, type_ in columns]
    asked: list[exp.Expr] = []
    for (name, type_), value in zip(columns, values, strict=True):
        asked += [
            count_if(exp.Is(this=value.copy(), expression=exp.Null())),
            count_if(exp.false() if typed else _is_missing(name)),
            exp.Count(this=exp.Distinct(expressions=[value.copy()])),
            *(_ends(value, type_) if _is_ranged(type_) else (exp.Null(), exp.Null(), exp.Null())),
        ]
    rows, *found = look(backend, exp.select(exp.Count(this=exp.Star()), *asked).from_(table_node(table)))
    facts = [found[6 * i : 6 * i + 6] for i in range(len(columns))]
    few = [type_.is_text and 0 < fact[2] <= MOST_VALUES for (_, type_), fact in zip(columns, facts, strict=True)]
    listed = iter(_values(backend, table, [value for value, is_few in zip(values, few, strict=True) if is_few]))
    ranged = [
        Ranged(name, type_, value, int(count), least, greatest)
        for (name, type_), value, (*_, count, least, greatest) in zip(columns, values, facts, strict=True)
        if _is_ranged(type_)
    ]
    proposed = ranges(backend, table, ranged)
    for (name, type_), (nulls, missing, distinct, _, least, greatest), is_few in zip(columns, facts, few, strict=True):
        narrowed = _integer(least, greatest) if type_.is_integer and not typed else type_
        all_values = next(listed) if is_few else None
        unique = rows > 0 and distinct == rows
        yield ColumnSeen(name, narrowed, nulls, missing, distinct, proposed.get(name), all_values, unique)


def _ends(value: exp.Expr, type_: Type) -> tuple[exp.Expr, exp.Expr, exp.Expr]:
    """How many values there are, the least of them and the greatest."""
    there, shown = finite(value, type_), in_order(value, type_)
    count = of(exp.Count(this=value.copy()), there)
    least, greatest = (of(end(this=shown.copy()), there and there.copy()) for end in (exp.Min, exp.Max))
    return count, least, greatest


def _is_ranged(type_: Type) -> bool:
    return type_.is_numeric or type_.is_date or type_.is_timestamp


def _values(backend: Backend, table: Table, values: Sequence[exp.Expr]) -> Iterator[tuple[Any, ...]]:
    """All values of each column, in their order."""
    lists = (exp.ArrayAgg(this=exp.Distinct(expressions=[value.copy()])) for value in values)
    asked = [of(every, not_null(value)) for every, value in zip(lists, values, strict=True)]
    if asked:
        yield from (tuple(sorted(found or ())) for found in look(backend, exp.select(*asked).from_(table_node(table))))


def _repeating(backend: Backend, table: Table, columns: Sequence[ColumnSeen], rows: int, typed: bool) -> frozenset[str]:
    """Columns whose values repeat as people's ids do."""
    like_ids = [c for c in columns if repeats_like_an_id(table.name, c.name, c.type, c.distinct, rows)]
    return frozenset(c.name for c in like_ids if c.type.is_text or not _is_bell(backend, table, c, typed))


def _is_bell(backend: Backend, table: Table, column: ColumnSeen, typed: bool) -> bool:
    """Are the least numbers of a column rare, and the greatest, too, or are some below zero? Quantities are so.

    Ids aren't, at both ends: at most the latest of them have fewer rows than the others.
    """
    if column.range is None or column.range.least < 0:
        return True
    value: exp.Expr = column_node(column.name) if typed else _read_as(column.name, column.type)
    counts = exp.select(exp.alias_(value.copy(), "v"), exp.Count(this=exp.Star()).as_("n")).from_(table_node(table))
    counts = counts.where(not_null(value)).group_by(value)
    by_value = exp.Order(expressions=[exp.Ordered(this=column_node("v"))])
    part = exp.Window(this=call("ntile", literal(ID_PARTS)), order=by_value)
    most = exp.Mul(this=literal(THIN), expression=exp.Window(this=exp.Avg(this=column_node("n"))))
    capped = call("least", column_node("n"), most)  # one id of very many rows makes no part of them
    parts = exp.select(capped.as_("n"), part.as_("part")).from_(counts.subquery("counts"))
    number = [exp.EQ(this=column_node("part"), expression=literal(place + 1)) for place in range(ID_PARTS)]
    sums = [of(exp.Sum(this=column_node("n")), condition) for condition in number]
    rows = [float(n or 0) for n in look(backend, exp.select(*sums).from_(parts.subquery("parts")))]
    return THIN * max(rows[0], rows[-1]) < max(rows)


def nulls_and_values(
    backend: Backend, table: Table, columns: Sequence[tuple[str, Type]]
) -> tuple[int, dict[str, int], dict[str, int]]:
    """How many rows a table has, and for each column how many NULLs and about how many different values."""
    rows, nulls, distinct = _total(backend, table), dict[str, int](), dict[str, int]()
    for start in range(0, len(columns), AT_ONCE):
        names = [name for name, _ in columns[start : start + AT_ONCE]]
        asked = [count_if(exp.Is(this=column_node(name), expression=exp.Null())) for name in names]
        asked += [call("approx_count_distinct", column_node(name)) for name in names]
        found = look(backend, exp.select(*asked).from_(table_node(table)))
        nulls |= dict(zip(names, found[: len(names)], strict=True))
        distinct |= dict(zip(names, found[len(names) :], strict=True))
    return rows, nulls, distinct


def unit_rows(backend: Backend, policy: Policy, table: Table) -> UnitRows | None:
    """How many rows units have in a table, by the very scan that queries read; None where each row is a unit."""
    if table.unit is None or isinstance(table.unit, RowUnit):
        return None
    quantiles = [call("quantile_disc", column_node("n"), literal(p)) for p in (0.5, 0.9, 0.99)]
    asked = [exp.Count(this=exp.Star()), exp.Sum(this=column_node("n")), *quantiles, exp.Max(this=column_node("n"))]
    found = look(backend, exp.select(*asked).from_(_counts(backend, policy, table)))
    units, *rest = [int(number or 0) for number in found]
    return UnitRows(units, *rest) if units else None


def least_holders(backend: Backend, policy: Policy, table: Table, columns: Sequence[str]) -> dict[str, int]:
    """For each column, how many units hold the value that the fewest units hold."""
    scan = _scan(backend, policy, table)
    units: exp.Expr = exp.Star()  # each row is a unit
    if scan.unit is not None:
        units = exp.Distinct(expressions=[column_node(scan.unit)])
    found: dict[str, int] = {}
    for name in columns:
        value = column_node(name.lower())
        counts = exp.select(exp.Count(this=units.copy()).as_("n")).from_(backend.rows(scan).subquery("owned"))
        counts = counts.where(not_null(value)).group_by(value)
        (least,) = look(backend, exp.select(exp.Min(this=column_node("n"))).from_(counts.subquery("held")))
        found[name] = int(least or 0)
    return found


def within_units(backend: Backend, policy: Policy, table: Table, columns: Sequence[str]) -> frozenset[str]:
    """Those of the columns of which no value stands in rows of two units: what hides a unit hides their values."""
    scan = _scan(backend, policy, table)
    found = []
    for name in columns if scan.unit is not None else ():
        value, units = column_node(name.lower()), exp.Distinct(expressions=[column_node(str(scan.unit))])
        counts = exp.select(exp.Count(this=units).as_("n")).from_(backend.rows(scan).subquery("owned"))
        counts = counts.where(not_null(value)).group_by(value)
        (most,) = look(backend, exp.select(exp.Max(this=column_node("n"))).from_(counts.subquery("held")))
        found += [name] if most == 1 else []
    return frozenset(found)


def units_with_more(backend: Backend, policy: Policy, table: Table, limits: Sequence[int]) -> list[int]:
    """For each limit, how many units have more rows."""
    over = [count_if(exp.GT(this=column_node("n"), expression=literal(limit))) for limit in limits]
    return [int(n) for n in look(backend, exp.select(*over).from_(_counts(backend, policy, table)))]


def rows_beyond(backend: Backend, policy: Policy, table: Table, limits: Sequence[int]) -> list[int]:
    """For each limit, how many rows of units lie beyond it."""
    over = [
        exp.Sum(this=call("greatest", exp.Sub(this=column_node("n"), expression=literal(limit)), literal(0)))
        for limit in limits
    ]
    return [int(n or 0) for n in look(backend, exp.select(*over).from_(_counts(backend, policy, table)))]


def _scan(backend: Backend, policy: Policy, table: Table) -> Scan:
    """The very scan that queries read: rows that belong to nobody are dropped."""
    columns = tuple((name.lower(), name) for name, _ in backend.schema[table.name.lower()])
    return scan_of(policy, table, columns)


def _counts(backend: Backend, policy: Policy, table: Table) -> exp.Subquery:
    scan = _scan(backend, policy, table)
    assert scan.unit is not None
    rows = backend.rows(scan).subquery("owned")
    counts = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(rows).group_by(column_node(scan.unit))
    return counts.subquery("units")


def _integer(low: Any, high: Any) -> Type:
    fits = low is not None and low >= -(2**31) and high < 2**31
    return Type.parse("INTEGER" if fits else "BIGINT")


# ---------------------------------------------------------------- trees


def _read_as(name: str, type_: Type) -> exp.Expr:
    """A text as a column of this type reads it."""
    text = call("nullif", column_node(name), exp.Literal.string(""))
    return exp.TryCast(this=text, to=data_type(type_.sql))


def _is_missing(name: str) -> exp.Expr:
    listed = [exp.Literal.string(text) for text in MISSING]
    return exp.In(this=call("upper", call("trim", column_node(name))), expressions=listed)
