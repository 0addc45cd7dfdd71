"""What the rows show: types, ranges, values, repetitions. Trusted: what is found here is not private.

Everything is asked of the very views that queries read, so that what is proposed is what queries will see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp

from dpsql.backends.base import Backend
from dpsql.core.errors import DataError, EngineError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.build import scan_of
from dpsql.policy.model import Policy, RowUnit, Table
from dpsql.refresh.promises import AT_ONCE
from dpsql.sql.dialect import data_type

MISSING = ("", "NA", "N/A", "#N/A", "NULL", "NAN", "NONE", "NIL", "-", "?", ".", "\\N")
"""Texts that stand for a value that isn't there, in upper case."""
MOST_VALUES = 50
"""Different values of a column that is a short list."""
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
    """One column as the rows show it. low and high: of numbers, dates and timestamps. values: all, where few."""

    name: str
    type: Type
    nulls: int
    missing: int  # texts like NA: they count as NULL where the type isn't text
    distinct: int  # about so many
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None
    unique: bool = False


@dataclass(frozen=True, slots=True)
class TableSeen:
    """One table as the rows show it."""

    rows: int
    columns: Mapping[str, ColumnSeen]  # by lower-cased name


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
    return TableSeen(_total(backend, table), seen)


def _total(backend: Backend, table: Table) -> int:
    (count,) = look(backend, exp.select(exp.Count(this=exp.Star())).from_(_table(table)))
    return int(count)


def _types(backend: Backend, table: Table, names: Sequence[str]) -> list[tuple[str, Type]]:
    """The types that all texts of each column have; what stands for a missing value aside."""
    some = exp.select("*").from_(_table(table)).limit(1000).subquery("some")
    every = [kind for kind, _ in _PATTERNS]
    possible = _fitting(backend, some, dict.fromkeys(names, every), whole=False)
    found = _fitting(backend, _table(table), possible, whole=True)
    return [(name, Type.parse((found[name] or ["VARCHAR"])[0])) for name in names]


def _fitting(
    backend: Backend, rows: exp.Expr, asked: Mapping[str, Sequence[str]], *, whole: bool
) -> dict[str, list[str]]:
    """Of the types that are asked about, those that all texts of a column have; whole: at least one text."""
    queries: list[exp.Expr] = [exp.Count(this=exp.Star())]
    for name, kinds in asked.items():
        there = exp.and_(_not_null(_column(name)), exp.Not(this=_is_missing(name)))
        fits = [
            exp.and_(
                there.copy(),
                _call("regexp_full_match", _call("trim", _column(name)), exp.Literal.string(dict(_PATTERNS)[kind])),
                _not_null(exp.TryCast(this=_column(name), to=data_type(kind))),
            )
            for kind in kinds
        ]
        queries += map(_count_if, (there, *fits))
    _, *counts = look(backend, exp.select(*queries).from_(rows))
    left = iter(counts)
    found: dict[str, list[str]] = {}
    for name, kinds in asked.items():
        there = next(left)
        found[name] = [kind for kind in kinds if next(left) == there and (there or not whole)]
    return found


def _columns(backend: Backend, table: Table, columns: Sequence[tuple[str, Type]], typed: bool) -> Iterator[ColumnSeen]:
    values = [_column(name) if typed or type_.is_text else _read_as(name, type_) for name, type_ in columns]
    asked: list[exp.Expr] = []
    for (name, type_), value in zip(columns, values, strict=True):
        finite = _call("isfinite", value) if type_.is_float else None
        ends = (_of(end(this=value.copy()), finite) for end in (exp.Min, exp.Max))
        asked += [
            _count_if(exp.Is(this=value.copy(), expression=exp.Null())),
            _count_if(exp.false() if typed else _is_missing(name)),
            exp.Count(this=exp.Distinct(expressions=[value.copy()])),
            *(ends if _is_ranged(type_) else (exp.Null(), exp.Null())),
        ]
    rows, *found = look(backend, exp.select(exp.Count(this=exp.Star()), *asked).from_(_table(table)))
    facts = [found[5 * i : 5 * i + 5] for i in range(len(columns))]
    few = [
        not type_.is_float and 0 < distinct <= MOST_VALUES
        for (_, type_), (_, _, distinct, *_) in zip(columns, facts, strict=True)
    ]
    listed = iter(_values(backend, table, [value for value, is_few in zip(values, few, strict=True) if is_few]))
    for (name, type_), (nulls, missing, distinct, low, high), is_few in zip(columns, facts, few, strict=True):
        narrowed = _integer(low, high) if type_.is_integer and not typed else type_
        all_values = next(listed) if is_few else None
        unique = rows > 0 and distinct == rows
        yield ColumnSeen(name, narrowed, nulls, missing, distinct, low, high, all_values, unique)


def _is_ranged(type_: Type) -> bool:
    return type_.is_numeric or type_.is_date or type_.is_timestamp


def _values(backend: Backend, table: Table, values: Sequence[exp.Expr]) -> Iterator[tuple[Any, ...]]:
    """All values of each column, in their order."""
    lists = (exp.ArrayAgg(this=exp.Distinct(expressions=[value.copy()])) for value in values)
    asked = [_of(every, _not_null(value.copy())) for every, value in zip(lists, values, strict=True)]
    if asked:
        yield from (tuple(sorted(found or ())) for found in look(backend, exp.select(*asked).from_(_table(table))))


def nulls_and_values(
    backend: Backend, table: Table, columns: Sequence[tuple[str, Type]]
) -> tuple[int, dict[str, int], dict[str, int]]:
    """How many rows a table has, and for each column how many NULLs and about how many different values."""
    asked: list[exp.Expr] = [exp.Count(this=exp.Star())]
    asked += [_count_if(exp.Is(this=_column(name), expression=exp.Null())) for name, _ in columns]
    asked += [_call("approx_count_distinct", _column(name)) for name, _ in columns]
    rows, *found = look(backend, exp.select(*asked).from_(_table(table)))
    names = [name for name, _ in columns]
    nulls, distinct = found[: len(names)], found[len(names) :]
    return rows, dict(zip(names, nulls, strict=True)), dict(zip(names, distinct, strict=True))


def unit_rows(backend: Backend, policy: Policy, table: Table) -> UnitRows | None:
    """How many rows units have in a table, by the very scan that queries read; None where each row is a unit."""
    if table.unit is None or isinstance(table.unit, RowUnit):
        return None
    quantiles = [_call("quantile_disc", _column("n"), exp.Literal.number(p)) for p in ("0.5", "0.9", "0.99")]
    asked = [exp.Count(this=exp.Star()), exp.Sum(this=_column("n")), *quantiles, exp.Max(this=_column("n"))]
    found = look(backend, exp.select(*asked).from_(_counts(backend, policy, table)))
    units, *rest = [int(number or 0) for number in found]
    return UnitRows(units, *rest) if units else None


def rows_beyond(backend: Backend, policy: Policy, table: Table, limits: Sequence[int]) -> list[int]:
    """For each limit, how many rows of units lie beyond it."""
    over = [
        exp.Sum(
            this=_call(
                "greatest", exp.Sub(this=_column("n"), expression=exp.Literal.number(limit)), exp.Literal.number(0)
            )
        )
        for limit in limits
    ]
    return [int(n or 0) for n in look(backend, exp.select(*over).from_(_counts(backend, policy, table)))]


def _counts(backend: Backend, policy: Policy, table: Table) -> exp.Subquery:
    columns = tuple((name.lower(), name) for name, _ in backend.schema[table.name.lower()])
    scan = scan_of(policy, table, columns)
    assert scan.unit is not None
    rows = backend.rows(scan).subquery("owned")
    counts = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(rows).group_by(_column(scan.unit))
    return counts.subquery("units")


def look(backend: Backend, query: exp.Select) -> tuple[Any, ...]:
    """One row; the steward may see the engine's own words."""
    try:
        return backend.look(query)
    except EngineError as error:
        raise DataError(
            f"the data can't be read: {error}", code="engine", hint="see the sources of the policy"
        ) from None


def _integer(low: Any, high: Any) -> Type:
    fits = low is not None and low >= -(2**31) and high < 2**31
    return Type.parse("INTEGER" if fits else "BIGINT")


# ---------------------------------------------------------------- trees


def _read_as(name: str, type_: Type) -> exp.Expr:
    """A text as a column of this type reads it."""
    text = _call("nullif", _column(name), exp.Literal.string(""))
    return exp.TryCast(this=text, to=data_type(type_.sql))


def _is_missing(name: str) -> exp.Expr:
    listed = [exp.Literal.string(text) for text in MISSING]
    return exp.In(this=_call("upper", _call("trim", _column(name))), expressions=listed)


def _not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def _count_if(condition: exp.Expr) -> exp.Expr:
    return _of(exp.Count(this=exp.Star()), condition)


def _of(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """An aggregate of the rows that meet a condition."""
    return aggregate if condition is None else exp.Filter(this=aggregate, expression=exp.Where(this=condition))


def _table(table: Table) -> exp.Table:
    return exp.Table(this=exp.to_identifier(table.name.lower(), quoted=True))


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])
