"""Public keys: which values a GROUP BY expression can have, as far as that is known without any private row.

A key column's public values come from the policy (values, references), from its type (booleans) or from its range
(integers, dates). An expression over such columns has the image of their values, computed on public data alone.
Theorem KEYS-1: cells fixed without looking at private rows reveal nothing; rows outside of them are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, prod
from typing import Any, Protocol

from sqlglot import exp

from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.policy.model import Column
from dpsql.sql.dialect import DIALECT, data_type
from dpsql.sql.scalar import Scalar, scalar

MAX_IMPLIED = 10_000
MAX_CELLS = 1_000_000

Arrow = Any  # pyarrow has no types of its own

SUBQUERY = "a subquery"  # stands for the table of values that are answered first


class PublicEngine(Protocol):
    """An engine that holds public tables only. What it can't run is an EngineError, in its own words."""

    def table(self, query: exp.Query, tables: Mapping[str, Arrow]) -> Arrow:
        """Run a query over public tables and these Arrow tables."""

    def run(self, query: exp.Query, tables: Mapping[str, Arrow]) -> tuple[Arrow, list[str]]:
        """The answer as an Arrow table, and its columns' types as the engine writes them."""

    def apart(self, query: exp.Query, tables: Mapping[str, Arrow], seconds: float) -> Arrow:
        """Run a query over these Arrow tables alone, where no failure harms anybody; DataError when time is up."""

    @property
    def memo(self) -> dict[object, Arrow]:
        """What was computed from the policy alone, and need not be again."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A plan column that a key may use: what the policy says of it, and what is known of its values."""

    table: str
    policy: Column | None
    scalar: Scalar
    values: exp.Query | None = None  # of a public column: the query that gives its values
    rows: Mapping[str, Arrow] = field(default_factory=dict, compare=False)  # what that query reads besides tables
    parts: tuple[KeyColumn, ...] = ()  # of a union: the columns of its sides
    closed: frozenset[str] = frozenset()  # columns that may not be keys, and that it is made of

    @property
    def never_keys(self) -> frozenset[str]:
        """The columns that the policy keeps out of keys and that this one tells about."""
        own = {self.policy.name} if self.policy is not None and self.policy.private else set()
        return self.closed | own


@dataclass(frozen=True, slots=True)
class Domain:
    """The public values of one key, distinct and in order, NULL last if it is one of them."""

    values: Arrow  # a pyarrow array
    why: str


def key_domain(
    key: exp.Expr,
    columns: Mapping[str, KeyColumn],
    conditions: Sequence[exp.Expr],
    public: PublicEngine,
) -> Domain | None:
    """The public domain of a key, or None when only private selection could find its values."""
    known = {name: c.scalar for name, c in columns.items()}
    total = scalar(key, known)
    leaves = sorted({c.name for c in key.find_all(exp.Column)})
    domains = {leaf: leaf_domain(columns[leaf], public) for leaf in leaves}
    finite = {leaf: d for leaf, d in domains.items() if d is not None}
    alone = len(leaves) == 1 and isinstance(key, exp.Column)
    combinations = prod(len(d.values) for d in finite.values())
    if (
        alone
        and leaves[0] in finite
        and not any(c.name == leaves[0] for e in conditions for c in e.find_all(exp.Column))
    ):
        return finite[leaves[0]]
    if len(finite) == len(leaves) and combinations <= (MAX_CELLS if alone else MAX_IMPLIED):
        return _image(total, finite, conditions, public)
    return _structural(key, known, total, public)


def leaf_domain(column: KeyColumn, public: PublicEngine) -> Domain | None:
    """The values of one plan column."""
    import pyarrow as pa

    known, said = column.scalar, column.policy
    nulls = [None] if known.range.nullable else []
    if column.parts:
        sides = [leaf_domain(part, public) for part in column.parts]
        parts = [d for d in sides if d is not None]
        return _together(parts, known, nulls, public) if len(parts) == len(sides) else _implied(known, nulls)
    if column.values is not None:
        return _of_public(column, column.values, nulls, public)
    if said is not None and said.values is not None:
        remembered = (column.table, said.name, known.type, known.range.nullable)
        if remembered not in public.memo:
            public.memo[remembered] = _cast(pa.array([*_plain(said.values), *nulls]), known, said, public)
        return Domain(public.memo[remembered], f"values of {column.table}.{said.name}")
    if said is not None and said.references is not None and not known.type.is_null:
        ref = said.references
        # A value that the column can't have is no key of it.
        kind = data_type(known.type.sql)
        value = exp.TryCast(this=_identifier(ref.column), to=kind)
        query = (
            exp.select(exp.alias_(value, "k"))
            .distinct()
            .from_(exp.Table(this=_quoted(ref.table.lower())))
            .where(value.is_(exp.Null()).not_())
        )
        query = query.order_by(exp.Ordered(this=_identifier("k"), nulls_first=False))
        found = public.table(query, {}).column("k").combine_chunks()
        values = pa.concat_arrays([found, pa.array(nulls, found.type)])
        return Domain(values, f"{ref.table}.{ref.column}")
    return _implied(known, nulls)


def _of_public(column: KeyColumn, values: exp.Query, nulls: list[None], public: PublicEngine) -> Domain | None:
    """The values that a column of public rows has."""
    import pyarrow as pa

    query = (
        exp.select(_identifier("k"))
        .distinct()
        .from_(exp.Subquery(this=values.copy(), alias=exp.TableAlias(this=exp.to_identifier("q"))))
        .where(exp.Not(this=exp.Is(this=_identifier("k"), expression=exp.Null())))
        .order_by(_identifier("k"))
        .limit(MAX_CELLS + 1)
    )
    found = public.table(query, column.rows).column("k").combine_chunks()
    if len(found) > MAX_CELLS or not column.scalar.type.is_key:
        return None
    if pa.types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    return Domain(pa.concat_arrays([found, pa.array(nulls, found.type)]), "a public column")


def _together(parts: Sequence[Domain], known: Scalar, nulls: list[None], public: PublicEngine) -> Domain:
    """The values of several domains, in one type."""
    import pyarrow as pa

    kind = data_type("VARCHAR" if known.type.is_text else known.type.sql)
    tables = {f"d{i}": pa.table({"k": d.values}) for i, d in enumerate(parts)}
    sides = [exp.select(exp.alias_(exp.cast(_identifier("k"), kind), "k")).from_(name) for name in tables]
    whole: exp.Query = sides[0] if len(sides) == 1 else exp.union(*sides, distinct=True)
    query = (
        exp.select(_identifier("k"))
        .distinct()
        .from_(exp.Subquery(this=whole, alias=exp.TableAlias(this=exp.to_identifier("q"))))
        .where(exp.Not(this=exp.Is(this=_identifier("k"), expression=exp.Null())))
        .order_by(_identifier("k"))
    )
    values = public.table(query, tables).column("k").combine_chunks()
    return Domain(pa.concat_arrays([values, pa.array(nulls, values.type)]), " and ".join(d.why for d in parts))


def _implied(known: Scalar, nulls: list[None]) -> Domain | None:
    """The values that a type and a range leave open: booleans, integers, dates."""
    import pyarrow as pa

    low, high = known.range.low, known.range.high
    if known.type.is_boolean:
        return Domain(pa.array([False, True, *nulls]), "booleans")
    if known.type.is_integer and isinstance(low, Fraction) and isinstance(high, Fraction):
        least, most = known.type.limits or (low, high)
        first, last = ceil(max(low, least)), floor(min(high, most))  # what the type can't hold can't occur
        if 0 <= last - first < MAX_IMPLIED and first >= -(2**63) and last < 2**63:
            return Domain(pa.array([*range(first, last + 1), *nulls], pa.int64()), f"integers {first} to {last}")
    if known.type.is_date and isinstance(low, date) and isinstance(high, date):
        days = (_day(high) - _day(low)).days
        if 0 <= days < MAX_IMPLIED:
            listed = [_day(low) + timedelta(days=d) for d in range(days + 1)]
            return Domain(pa.array([*listed, *nulls], pa.date32()), f"days {_day(low)} to {_day(high)}")
    return None


def _structural(key: exp.Expr, known: Mapping[str, Scalar], total: Scalar, public: PublicEngine) -> Domain | None:
    """The values of an expression whose columns aren't finite: constants, CASE arms, integer ranges, date parts."""
    import pyarrow as pa

    nulls = [None] if total.range.nullable else []
    arms = _arms(key)
    if arms is not None and total.type.is_key:
        parts = []
        for arm in arms:
            part = _image(scalar(arm, known), {}, (), public) if not list(arm.find_all(exp.Column)) else None
            part = part or _structural(arm, known, scalar(arm, known), public)
            if part is None:
                return None
            parts.append(part.values)
        # Each arm in the type of the whole: a number may stand beside a decimal, a text beside NULL.
        kind = data_type(total.type.sql)
        typed = exp.select(exp.alias_(exp.cast(_identifier("k"), kind), "k")).from_("arm")
        cast = [public.table(typed, {"arm": pa.table({"k": p})}).column("k").combine_chunks() for p in parts]
        query = exp.select(_identifier("k")).distinct().from_("arms")
        query = query.order_by(exp.Ordered(this=_identifier("k"), nulls_first=False))
        values = public.table(query, {"arms": pa.table({"k": pa.concat_arrays(cast)})}).column("k").combine_chunks()
        if not total.range.nullable:
            values = values.filter(values.is_valid())
        return Domain(values, "the values that CASE can give")
    implied = _implied(total, nulls)
    if implied is not None:
        return implied
    return _truncated(key, known, total, nulls, public)


def _arms(key: exp.Expr) -> list[exp.Expr] | None:
    match key:
        case exp.Paren():
            return [key.this]
        case exp.Case():
            arms = [i.args["true"] for i in key.args["ifs"]]
            return [*arms, key.args.get("default") or exp.Null()]
        case exp.If():
            return [key.args["true"], key.args.get("false") or exp.Null()]
        case exp.Coalesce():
            return [key.this, *key.expressions]
        case _:
            return None


def _truncated(
    key: exp.Expr, known: Mapping[str, Scalar], total: Scalar, nulls: list[None], public: PublicEngine
) -> Domain | None:
    """DATE_TRUNC of a date or timestamp with a finite range: every step of the range, truncated."""
    if not isinstance(key, exp.TimestampTrunc | exp.DateTrunc) or not total.range.is_finite:
        return None
    unit = key.args["unit"].name.upper()
    inner = scalar(key.this, known)
    low, high = inner.range.low, inner.range.high
    if not isinstance(low, date) or not isinstance(high, date):
        return None
    step = unit if unit in ("HOUR", "MINUTE", "SECOND") else "DAY"
    seconds = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}[step]
    start, end = _moment(low), _moment(high)
    steps = (end - start).total_seconds() / seconds
    if steps > 5_000_000 or (step != "DAY" and steps >= MAX_IMPLIED):
        return None
    begin = start.replace(microsecond=0)  # at the start of a step, so that the last step of the range is met, too
    if step != "SECOND":
        begin = begin.replace(second=0)
    if step in ("DAY", "HOUR"):
        begin = begin.replace(minute=0)
    if step == "DAY":
        begin = begin.replace(hour=0)
    name = "moment"
    column = exp.column(_quoted(name))
    moments = exp.func(
        "generate_series",
        exp.cast(exp.Literal.string(begin.isoformat(sep=" ")), "TIMESTAMP"),
        exp.cast(exp.Literal.string(end.isoformat(sep=" ")), "TIMESTAMP"),
        exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this=step)),
        dialect=DIALECT,
    )
    truncated = type(key)(**{**key.args, "this": exp.cast(column, data_type(inner.type.sql))})
    source = exp.Subquery(
        this=exp.select(exp.alias_(exp.func("unnest", moments, dialect=DIALECT), name)),
        alias=exp.TableAlias(this=exp.to_identifier("s")),
    )
    query = exp.select(exp.alias_(truncated, "k")).distinct().from_(source)
    query = query.order_by(exp.Ordered(this=_identifier("k"), nulls_first=False))
    import pyarrow as pa

    values = public.table(query, {}).column("k").combine_chunks()
    if len(values) > MAX_IMPLIED:
        return None
    return Domain(pa.concat_arrays([values, pa.array(nulls, values.type)]), f"each {unit.lower()} of the range")


def _image(total: Scalar, leaves: Mapping[str, Domain], conditions: Sequence[exp.Expr], public: PublicEngine) -> Domain:
    """The distinct values of an expression over all combinations of its columns' values that WHERE lets through."""
    import pyarrow as pa

    tables = {f"d{i}": pa.table({leaf: d.values}) for i, (leaf, d) in enumerate(leaves.items())}
    query = exp.select(exp.alias_(total.sql.copy(), "k")).distinct()
    for i in range(len(tables)):
        table = exp.to_table(f"d{i}")
        query = query.from_(table) if i == 0 else query.join(table, join_type="CROSS")
    for condition in conditions:
        if leaves and {c.name for c in condition.find_all(exp.Column)} <= set(leaves):
            query = query.where(condition.copy())
    query = query.order_by(exp.Ordered(this=_identifier("k"), nulls_first=False))
    values = public.table(query, tables).column("k").combine_chunks()
    if not total.range.nullable:
        values = values.filter(values.is_valid())
    why = " × ".join(d.why for d in leaves.values()) or "a constant"
    return Domain(values, why)


def _cast(values: Arrow, known: Scalar, said: Column, public: PublicEngine) -> Arrow:
    """Listed values as the column's own type; one that doesn't fit is the policy's mistake."""
    import pyarrow as pa

    table = pa.table({"k": values})
    kind = "VARCHAR" if known.type.is_text else known.type.sql
    target = data_type(kind)
    query = exp.select(exp.alias_(exp.TryCast(this=_identifier("k"), to=target), "k"))
    query = query.from_("listed").distinct().order_by(exp.Ordered(this=_identifier("k"), nulls_first=False))
    cast = public.table(query, {"listed": table}).column("k").combine_chunks()
    if cast.null_count > 1 or cast.null_count != values.null_count:
        raise PolicyError(
            f"a value listed for {said.name} is no {known.type.sql}",
            code="values",
            hint=f"list values of type {known.type.sql}",
        )
    return cast


def _plain(values: Sequence[object]) -> list[object]:
    """Values that Arrow makes an array of; integers as decimals where one needs more than 64 bits."""
    wide = any(isinstance(v, int) and not -(2**63) <= v < 2**63 for v in values)
    return [
        Decimal(v) if wide and isinstance(v, int) else v if isinstance(v, bool | int | date | datetime) else str(v)
        for v in values
    ]


def _day(value: date) -> date:
    return value.date() if isinstance(value, datetime) else value


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _identifier(name: str) -> exp.Column:
    return exp.column(_quoted(name))
