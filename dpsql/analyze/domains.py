"""Public values: which values a column can have, as far as that is known without any private row.

They come from the policy (values, references), from its type (booleans) or from its range (integers, dates). Those of
expressions and of several keys together are made of them in cells.py.
Theorem KEYS-1: cells fixed without looking at private rows reveal nothing; rows outside of them are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Protocol

from sqlglot import exp

from dpsql.analyze.variables import Arrow, KeyColumn
from dpsql.core.errors import PolicyError
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.policy.model import Column
from dpsql.sql.dialect import data_type
from dpsql.sql.scalar import Scalar

MAX_IMPLIED = 10_000
MAX_CELLS = 1_000_000

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
class Domain:
    """The public values of one key, distinct and in order, NULL last if it is one of them."""

    values: Arrow  # a pyarrow array
    why: str


def declared(column: KeyColumn, public: PublicEngine) -> Domain | None:
    """The values that the policy lists for a column, itself or by a public table; else what type and range leave."""
    import pyarrow as pa

    known, said = column.scalar, column.policy
    nulls = [None] if known.range.nullable else []
    if said is not None and said.values is not None:
        remembered = (column.table, said.name, known.type, known.range.nullable)
        if remembered not in public.memo:
            public.memo[remembered] = _cast(pa.array([*_plain(said.values), *nulls]), known, said, public)
        return Domain(public.memo[remembered], f"values of {column.table}.{said.name}")
    if said is not None and said.references is not None and not known.type.is_null:
        ref = said.references
        # A value that the column can't have is no key of it.
        value = exp.TryCast(this=identifier(ref.column), to=data_type(known.type.sql))
        query = exp.select(exp.alias_(value, "k", copy=False), copy=False)
        query = query.from_(exp.Table(this=quoted(ref.table.lower())), copy=False)
        return Domain(distinct(query, {}, known.type, nulls, public), f"{ref.table}.{ref.column}")
    return implied(known, nulls)


def implied(known: Scalar, nulls: Sequence[None]) -> Domain | None:
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
        days = (day(high) - day(low)).days
        if 0 <= days < MAX_IMPLIED:
            listed = [day(low) + timedelta(days=d) for d in range(days + 1)]
            return Domain(pa.array([*listed, *nulls], pa.date32()), f"days {day(low)} to {day(high)}")
    return None


def together(parts: Sequence[Domain], known: Scalar, nulls: Sequence[None], public: PublicEngine) -> Arrow:
    """The values of several domains, in one type."""
    import pyarrow as pa

    tables = {f"d{i}": pa.table({"k": d.values}) for i, d in enumerate(parts)}
    sides = [exp.select(exp.alias_(typed(identifier("k"), known.type), "k")).from_(name) for name in tables]
    whole: exp.Query = sides[0] if len(sides) == 1 else exp.union(*sides, distinct=True)
    return distinct(whole, tables, known.type, nulls, public)


def distinct(
    query: exp.Query, tables: Mapping[str, Arrow], kind: Type, nulls: Sequence[None], public: PublicEngine
) -> Arrow:
    """The different values of a query's column k, in order; then these NULLs, and no others."""
    import pyarrow as pa

    text = exp.cast(identifier("k"), "VARCHAR") if kind.is_text else identifier("k")
    listed = (
        exp.select(exp.alias_(text, "k", copy=False), copy=False)
        .distinct(copy=False)
        .from_(exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("q"))), copy=False)
        .where(exp.Not(this=exp.Is(this=identifier("k"), expression=exp.Null())), copy=False)
        .order_by(identifier("k"), copy=False)
    )
    values = public.table(listed, tables).column("k").combine_chunks()
    return pa.concat_arrays([values, pa.array(nulls, values.type)]) if nulls else values


def typed(value: exp.Expr, kind: Type) -> exp.Expr:
    """A value that comes through Arrow in the type that it stands for."""
    return exp.TryCast(this=value, to=data_type("VARCHAR" if kind.is_text and kind.name != "ENUM" else kind.sql))


def _cast(values: Arrow, known: Scalar, said: Column, public: PublicEngine) -> Arrow:
    """Listed values as the column's own type; one that doesn't fit is the policy's mistake."""
    import pyarrow as pa

    table = pa.table({"k": values})
    kind = "VARCHAR" if known.type.is_text else known.type.sql
    target = data_type(kind)
    query = exp.select(exp.alias_(exp.TryCast(this=identifier("k"), to=target), "k"))
    query = query.from_("listed").distinct().order_by(exp.Ordered(this=identifier("k"), nulls_first=False))
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


def day(value: date) -> date:
    """The day that a date or a timestamp is in."""
    return value.date() if isinstance(value, datetime) else value


def quoted(name: str) -> exp.Identifier:
    """A name as it stands."""
    return exp.to_identifier(name, quoted=True)


def identifier(name: str) -> exp.Column:
    """A column by its name as it stands."""
    return exp.column(quoted(name), copy=False)
