"""What one unit may add, enforced in the statement: weights, and caps on groups -> sqlglot trees."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from dpsql.backends.duckdb.pieces import (
    alias,
    column,
    conjunction,
    count,
    equal,
    every,
    grouped,
    joined,
    same,
    select,
    subquery,
    table,
)
from dpsql.backends.duckdb.rows import ROWS_READ, gridded_rows
from dpsql.backends.duckdb.tallies import WEIGHT, own_tally
from dpsql.plan.nodes import Again, CapGroups, OnDomain, PerUnit, Weight, WeightRows, WeightUnits
from dpsql.quote.candidates import UNIT
from dpsql.sql.gridded import cast, number

OWNED, MANY, WEIGHED, HEAVY = "dpsql_owned", "dpsql_many", "dpsql_weighed", "dpsql_heavy"
ROWS = "m"  # a unit's number of rows


def weight(node: Weight) -> exp.Select:
    """Theorem WEIGHT-1. Only units above the limit need a weight: a left join to those few."""
    outputs = [column(UNIT), alias(_heavy_weight(node.mass, node.bits, count()), WEIGHT)]
    heavy = grouped(
        select(outputs, subquery(gridded_rows(node.input), "c")),
        [column(UNIT)],
        exp.GT(this=count(), expression=number(node.mass)),
    )
    whole = exp.Coalesce(this=column(WEIGHT, "h"), expressions=[_whole(node.bits)])
    # Rows outside of the public cells don't count for m; here they may stay, OnCells drops them.
    rows = node.input.input if isinstance(node.input, OnDomain) else node.input
    query = select([every("r"), alias(whole, WEIGHT)], subquery(gridded_rows(rows), "r"))
    return joined(query, subquery(heavy, "h"), equal(UNIT, "r", "h"), "LEFT")


def _heavy_weight(mass: int, bits: int, rows: exp.Expr) -> exp.Expr:
    """⌊mass · 2^bits / rows⌋ by integer division: CAST and / would round."""
    return exp.IntDiv(this=cast(number(mass * 2**bits), "BIGINT"), expression=rows)


def units(node: PerUnit | CapGroups | WeightUnits) -> exp.Select:
    """What each unit has in each group."""
    match node:
        case PerUnit():
            return _per_unit(node)
        case CapGroups():
            return _cap(node)
        case WeightUnits():
            return _weight_units(node)
        case _:
            assert_never(node)


def _per_unit(node: PerUnit) -> exp.Select:
    keys = [column(name) for name in (UNIT, *node.keys)]
    tallies = [alias(own_tally(t), name) for name, t in node.tallies]
    rows = subquery(gridded_rows(node.input), "o")
    return grouped(select([*keys, alias(count(), ROWS), *tallies], rows), [k.copy() for k in keys])


def _cap(node: CapGroups) -> exp.Select:
    """Theorem CAP-1. Units with more keys keep those with the smallest hash, ties broken by the keys themselves."""
    inner = node.input
    above = exp.GT(this=count(), expression=number(node.limit))
    many = grouped(select([column(UNIT)], table(OWNED)), [column(UNIT)], above)
    secret = keyed_hash(UNIT if node.by_unit else None, inner.keys, node.secret)
    ranked = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=e) for e in (secret, *map(column, inner.keys))]),
    )
    light = joined(_owned(), table(MANY), equal(UNIT, OWNED, MANY), "ANTI")
    heavy = joined(_owned(), table(MANY), equal(UNIT, OWNED, MANY), "SEMI")
    cut = select([exp.Star()], subquery(heavy, "x"))
    cut.set("qualify", exp.Qualify(this=exp.LTE(this=ranked, expression=number(node.limit))))
    both = subquery(exp.union(light, cut, distinct=False, copy=False), "b")
    return (
        select([exp.Star()], both)
        .with_(OWNED, as_=_per_unit(inner), materialized=True, copy=False)
        .with_(MANY, as_=many, materialized=True, copy=False)
    )


def _owned() -> exp.Select:
    return select([every(OWNED)], table(OWNED))


def keyed_hash(unit: str | None, keys: tuple[str, ...], secret: int) -> exp.Expr:
    """A hash of unit and keys under a secret, which is mixed in before the last round of hashing.

    Of the keys alone where rows are only numbered: another row would change everybody's number.
    """
    inner = exp.Anonymous(this="hash", expressions=[column(c) for c in (*((unit,) if unit else ()), *keys)])
    mixed = exp.Anonymous(this="xor", expressions=[inner, cast(number(secret), "UBIGINT")])
    return exp.Anonymous(this="hash", expressions=[mixed])


def _weight_units(node: WeightUnits) -> exp.Select:
    """A unit's tallies in each group times its weight there."""
    per_unit = node.input.input if isinstance(node.input, CapGroups) else node.input
    keys = [column(k) for k in per_unit.keys]
    return select([*keys, *_weighted(per_unit, column(WEIGHT))], subquery(_unit_weights(node), "n"))


def _unit_weights(node: WeightUnits) -> exp.Select:
    """Theorem WEIGHT-2. Peak first: p = min(2^bits, ⌊peak·2^bits/m⌋) in each group; then mass over what is left."""
    peaked: exp.Expr = _whole(node.bits)
    if node.peak is not None:
        peaked = exp.Least(
            this=_whole(node.bits), expressions=[_heavy_weight(node.peak, node.bits, column(ROWS))], ignore_nulls=True
        )
    if node.mass is None:
        return select([exp.Star(), alias(peaked, WEIGHT)], subquery(units(node.input), "q"))
    rows = select([exp.Star(), alias(peaked, "p")], subquery(units(node.input), "q"))
    limit = number(node.mass * 2**node.bits)
    whole = exp.Sum(this=exp.Mul(this=column("p"), expression=column(ROWS)))
    heavy = grouped(
        select([column(UNIT), alias(whole, "s")], table(WEIGHED)),
        [column(UNIT)],
        exp.GT(this=whole.copy(), expression=limit),
    )
    # ⌊p · mass · 2^bits / s⌋, in 128 bits, for the few units above the limit.
    scaled = exp.IntDiv(
        this=exp.Paren(this=exp.Mul(this=cast(column("p"), "HUGEINT"), expression=cast(limit.copy(), "HUGEINT"))),
        expression=column("s"),
    )
    weighed = exp.Coalesce(this=cast(scaled, "BIGINT"), expressions=[column("p")])
    query = select([every(WEIGHED), alias(weighed, WEIGHT)], table(WEIGHED))
    return (
        joined(query, table(HEAVY), equal(UNIT, WEIGHED, HEAVY), "LEFT")
        .with_(WEIGHED, as_=rows, materialized=True, copy=False)
        .with_(HEAVY, as_=heavy, materialized=True, copy=False)
    )


def _weighted(node: PerUnit, by: exp.Expr) -> list[exp.Expr]:
    """A unit's tallies times its weight; sums in 128 bits. As a unit, and where it is clipped, it counts as one."""
    found: list[exp.Expr] = []
    for name, tally in node.tallies:
        value: exp.Expr = column(name)
        if tally.kind == "units" or tally.clip is not None:
            found.append(value)
            continue
        if tally.kind == "total":
            value = cast(value, "HUGEINT")
        found.append(alias(exp.Mul(this=value, expression=by.copy()), name))
    return found


def weight_rows(node: WeightRows) -> exp.Select:
    """Rows are read once: where they are only numbered as they are read, a second look could number them anew."""
    per_unit = node.units
    while not isinstance(per_unit, PerUnit):
        per_unit = per_unit.input
    weighed = _unit_weights(node.units) if isinstance(node.units, WeightUnits) else units(node.units)
    by: exp.Expr = column(WEIGHT, "h") if isinstance(node.units, WeightUnits) else cast(number(1), "BIGINT")
    equals = [equal(UNIT, "r", "h"), *([same(per_unit.keys, "r", "h")] if per_unit.keys else [])]
    rows = select([every("r"), alias(by, WEIGHT)], subquery(gridded_rows(Again()), "r"))
    query = joined(rows, subquery(weighed, "h"), conjunction(equals))
    return query.with_(ROWS_READ, as_=gridded_rows(node.input), materialized=True, copy=False)


def _whole(bits: int) -> exp.Expr:
    return cast(number(2**bits), "BIGINT")
