"""Plan nodes -> sqlglot trees in DuckDB's dialect. Analyst text never gets here, only our own nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from dpsql.backends.duckdb.divide import divided
from dpsql.draft import UNIT
from dpsql.plan.nodes import (
    Again,
    CapGroups,
    Filter,
    Given,
    Gridded,
    Group,
    GroupUnits,
    Histogram,
    Join,
    Mark,
    OnCells,
    OnDomain,
    PerUnit,
    Project,
    PublicTable,
    Relation,
    Scan,
    Statement,
    ToGrid,
    Union,
    Weight,
    WeightRows,
    WeightUnits,
    Windows,
    columns_of,
)
from dpsql.plan.rows import conjuncts
from dpsql.sql.gridded import cast, gridded, number, present
from dpsql.sql.trees import explicit
from dpsql.statistics.tally import Tally

CELLS = "dpsql_cells"  # the Arrow table of public cells: its columns are cell, k0, k1, …
CELL = "cell"
OWNED, MANY, WEIGHED, HEAVY, ROWS_READ = "dpsql_owned", "dpsql_many", "dpsql_weighed", "dpsql_heavy", "dpsql_rows"
WEIGHT = "w"
ROWS = "m"  # a unit's number of rows


def render(statement: Statement) -> exp.Select:
    """The statement that returns exact integers: for each cell, for each key that occurs, or one row without keys."""
    match statement:
        case Group():
            query = _group(statement)
            order = [exp.Ordered(this=_column(k), nulls_first=False) for k in statement.keys]
            return explicit(query.order_by(*order, copy=False) if order else query, copy=False)
        case OnCells():
            return explicit(_on_cells(statement), copy=False)
        case _:
            assert_never(statement)


def _on_cells(node: OnCells) -> exp.Select:
    group = node.input
    tallies = [_alias(_or_zero(_column(name, "g")), name) for name, _ in group.tallies]
    return (
        exp.select(_column(CELL, CELLS), *tallies)
        .from_(public_cells(group.keys, node.types), copy=False)
        .join(_subquery(_group(group), "g"), on=_same(group.keys, CELLS, "g"), join_type="LEFT", copy=False)
    )


def public_cells(keys: tuple[str, ...], types: tuple[str, ...]) -> exp.Subquery:
    """The public cells, their keys in the very types that the rows' keys have."""
    typed = [_alias(cast(_column(k), t), k) for k, t in zip(keys, types, strict=True)]
    return _subquery(exp.select(_column(CELL), *typed).from_(exp.to_table(CELLS), copy=False), CELLS)


# ---------------------------------------------------------------- values


def render_histogram(node: Histogram) -> exp.Select:
    """The number of rows (in integer weights) by cell and value, in their order."""
    weighted = not isinstance(node.input, ToGrid | OnDomain | Again)
    count = _weighted_tally("", Tally("rows")) if weighted else _row_tally("", Tally("rows"))
    outputs = {"x": node.spectrum.value, **({WEIGHT: WEIGHT} if weighted else {})}
    rows = rows_in_cells(node.input, node.keys, node.types, outputs, node.spectrum.where)
    listed = [_column(CELL), _alias(cast(_column("x"), "BIGINT"), "x"), _alias(count, "n")]
    return exp.select(*listed).from_(_subquery(rows, "y"), copy=False).group_by(_column(CELL), _column("x"), copy=False)


def rows_in_cells(
    node: Gridded | Weight | WeightRows,
    keys: tuple[str, ...],
    types: tuple[str, ...],
    outputs: Mapping[str, str],
    where: str | None,
) -> exp.Select:
    """The cell of each row where x is present and `where` TRUE, with these columns, by their new names."""
    match node:
        case ToGrid() | OnDomain() | Again():
            source = _gridded_rows(node)
        case Weight():
            source = _weight(node)
        case WeightRows():
            source = _weight_rows(node)
        case _:
            assert_never(node)
    cell = _column(CELL, CELLS) if keys else cast(number(0), "BIGINT")
    listed = [_alias(_column(column, "v"), name) for name, column in outputs.items()]
    query = exp.select(_alias(cell, CELL), *listed).from_(_subquery(source, "v"), copy=False)
    if keys:
        query = query.join(public_cells(keys, types), on=_same(keys, CELLS, "v"), join_type="INNER", copy=False)
    there = present(_column(outputs["x"], "v"))
    return query.where(there if where is None else exp.and_(there, _column(where, "v")), copy=False)


# ---------------------------------------------------------------- sums


def _group(node: Group) -> exp.Select:
    keys: list[exp.Expr] = [_column(k) for k in node.keys]
    match node.input:
        case ToGrid() | OnDomain() | Again():
            source, tally = _gridded_rows(node.input), _row_tally
        case Weight():
            source, tally = _weight(node.input), _weighted_tally
        case PerUnit() | CapGroups() | WeightUnits():
            source, tally = _units(node.input), _unit_tally
        case _:
            assert_never(node.input)
    outputs = [*keys, *(_alias(tally(name, t), name) for name, t in node.tallies)]
    # Keys alone, all of them public: nothing to read.
    query = exp.select(*(outputs or [exp.Literal.number(1)])).from_(_subquery(source, "v"), copy=False)
    return query.group_by(*(k.copy() for k in keys), copy=False) if keys else query


def _row_tally(name: str, tally: Tally) -> exp.Expr:
    if tally.clip is not None:  # each row is a unit
        return _or_zero(_filtered(exp.Sum(this=_clipped(_one_row(tally), tally.clip)), tally))
    match tally.kind:
        case "rows":
            count: exp.Expr = exp.Count(this=exp.Star())
        case "present":
            assert tally.value is not None
            count = exp.Count(this=_column(tally.value))
        case "units":
            count = exp.Count(this=exp.Distinct(expressions=[_column(UNIT)]))
        case "distinct":
            assert tally.value is not None
            count = exp.Count(this=exp.Distinct(expressions=[_column(tally.value)]))
        case "total":
            assert tally.value is not None
            count = exp.Sum(this=_column(tally.value))
        case _:
            assert_never(tally.kind)
    counted = _filtered(count, tally)
    return _or_zero(counted) if tally.kind == "total" else counted  # the sum of no rows is 0, not NULL


def _weighted_tally(name: str, tally: Tally) -> exp.Expr:
    """The same with each row counted as its integer weight; units are never weighted."""
    assert tally.clip is None, "a unit is clipped as a whole"
    match tally.kind:
        case "units":
            return _row_tally(name, tally)
        case "rows":
            weighted: exp.Expr = exp.Sum(this=_column(WEIGHT))
        case "present":
            assert tally.value is not None
            there = exp.If(this=present(_column(tally.value)), true=_column(WEIGHT))
            weighted = exp.Sum(this=exp.Case(ifs=[there]))
        case "total":
            assert tally.value is not None
            weighted = exp.Sum(this=exp.Mul(this=_column(tally.value), expression=_column(WEIGHT)))
        case "distinct":
            raise AssertionError("values have no weights")
        case _:
            assert_never(tally.kind)
    return _or_zero(_filtered(weighted, tally))


def _unit_tally(name: str, tally: Tally) -> exp.Expr:
    """Tallies per unit and key, added up over units."""
    return _or_zero(exp.Sum(this=_column(name)))


def _filtered(count: exp.Expr, tally: Tally) -> exp.Expr:
    if tally.where is None:
        return count
    return exp.Filter(this=count, expression=exp.Where(this=_column(tally.where)))


# ---------------------------------------------------------------- bounding


def _weight(node: Weight) -> exp.Select:
    """Theorem WEIGHT-1. Only units above the limit need a weight: a left join to those few."""
    heavy = (
        exp.select(_column(UNIT), _alias(_heavy_weight(node.mass, node.bits, exp.Count(this=exp.Star())), WEIGHT))
        .from_(_subquery(_gridded_rows(node.input), "c"), copy=False)
        .group_by(_column(UNIT), copy=False)
        .having(exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(node.mass)), copy=False)
    )
    whole = exp.func("coalesce", _column(WEIGHT, "h"), _whole(node.bits))
    # Rows outside of the public cells don't count for m; here they may stay, OnCells drops them.
    rows = node.input.input if isinstance(node.input, OnDomain) else node.input
    return (
        exp.select("r.*", _alias(whole, WEIGHT))
        .from_(_subquery(_gridded_rows(rows), "r"), copy=False)
        .join(_subquery(heavy, "h"), on=_equal(UNIT, "r", "h"), join_type="LEFT", copy=False)
    )


def _heavy_weight(mass: int, bits: int, rows: exp.Expr) -> exp.Expr:
    """⌊mass · 2^bits / rows⌋ by integer division: CAST and / would round."""
    return exp.IntDiv(this=cast(exp.Literal.number(mass * 2**bits), "BIGINT"), expression=rows)


def _units(node: PerUnit | CapGroups | WeightUnits) -> exp.Select:
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
    keys = [_column(k) for k in node.keys]
    tallies = [_alias(_own_tally(t), name) for name, t in node.tallies]
    rows = _alias(exp.Count(this=exp.Star()), ROWS)
    return (
        exp.select(_column(UNIT), *keys, rows, *tallies)
        .from_(_subquery(_gridded_rows(node.input), "o"), copy=False)
        .group_by(_column(UNIT), *(k.copy() for k in keys), copy=False)
    )


def _own_tally(tally: Tally) -> exp.Expr:
    """A unit's own tally in one group; as a unit it counts once, if any row passes the FILTER."""
    if tally.clip is not None:
        return _own_clipped(tally, tally.clip)
    assert tally.kind != "distinct", "units may have values in common"
    if tally.kind != "units":
        return _row_tally("", tally)
    if tally.where is None:
        return exp.Literal.number(1)
    passing = exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=_column(tally.where)))
    return cast(exp.GT(this=passing, expression=exp.Literal.number(0)), "INTEGER")


def _own_clipped(tally: Tally, clip: tuple[int, int]) -> exp.Expr:
    """Theorem CLIP-1: what the unit's own rows add up to, moved into the clip; 0 if none of them counts."""
    exact = _row_tally("", replace(tally, clip=None))
    counted = _filtered(exp.Count(this=exp.Star() if tally.value is None else _column(tally.value)), tally)
    there = exp.If(this=exp.GT(this=counted, expression=number(0)), true=_clipped(exact, clip))
    return exp.Case(ifs=[there], default=number(0))


def _one_row(tally: Tally) -> exp.Expr:
    """What a row adds to a tally; NULL if it doesn't count."""
    if tally.value is None:
        return number(1)
    value = _column(tally.value)
    one = value if tally.kind == "total" else number(1)
    return exp.Case(ifs=[exp.If(this=present(value), true=one.copy())])


def _clipped(value: exp.Expr, clip: tuple[int, int]) -> exp.Expr:
    """Moved into the clip, in 128 bits; NULL stays NULL, which least and greatest would pass over."""
    wide = cast(value, "HUGEINT")
    low, high = (cast(number(end), "HUGEINT") for end in clip)
    above, below = exp.GT(this=wide, expression=high), exp.LT(this=wide.copy(), expression=low)
    ends = [exp.If(this=above, true=high.copy()), exp.If(this=below, true=low.copy())]
    return exp.Case(ifs=ends, default=wide.copy())


def _cap(node: CapGroups) -> exp.Select:
    """Theorem CAP-1. Units with more keys keep those with the smallest hash, ties broken by the keys themselves."""
    inner, limit = node.input, exp.Literal.number(node.limit)
    count = exp.Count(this=exp.Star())
    many = (
        exp.select(_column(UNIT))
        .from_(exp.to_table(OWNED), copy=False)
        .group_by(_column(UNIT), copy=False)
        .having(exp.GT(this=count, expression=limit), copy=False)
    )
    secret = keyed_hash(UNIT if node.by_unit else None, inner.keys, node.secret)
    ranked = exp.Window(
        this=exp.RowNumber(),
        partition_by=[_column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=e) for e in (secret, *map(_column, inner.keys))]),
    )
    light = _owned().join(MANY, on=_equal(UNIT, OWNED, MANY), join_type="ANTI", copy=False)
    heavy = _owned().join(MANY, on=_equal(UNIT, OWNED, MANY), join_type="SEMI", copy=False)
    cut = (
        exp.select("*")
        .from_(_subquery(heavy, "x"), copy=False)
        .qualify(exp.LTE(this=ranked, expression=limit.copy()), copy=False)
    )
    both = exp.Subquery(this=exp.union(light, cut, distinct=False, copy=False), alias=_table_alias("b"))
    return (
        exp.select("*")
        .from_(both, copy=False)
        .with_(OWNED, as_=_per_unit(inner), materialized=True, copy=False)
        .with_(MANY, as_=many, materialized=True, copy=False)
    )


def _owned() -> exp.Select:
    return exp.select(f"{OWNED}.*").from_(OWNED, copy=False)


def keyed_hash(unit: str | None, keys: tuple[str, ...], secret: int) -> exp.Expr:
    """A hash of unit and keys under a secret, which is mixed in before the last round of hashing.

    Of the keys alone where rows are only numbered: another row would change everybody's number.
    """
    inner = exp.Anonymous(this="hash", expressions=[_column(c) for c in (*((unit,) if unit else ()), *keys)])
    mixed = exp.Anonymous(this="xor", expressions=[inner, cast(exp.Literal.number(secret), "UBIGINT")])
    return exp.Anonymous(this="hash", expressions=[mixed])


def _weight_units(node: WeightUnits) -> exp.Select:
    """A unit's tallies in each group times its weight there."""
    per_unit = node.input.input if isinstance(node.input, CapGroups) else node.input
    keys = [_column(k) for k in per_unit.keys]
    weighed = _subquery(_unit_weights(node), "n")
    return exp.select(*keys, *_weighted(per_unit, _column(WEIGHT))).from_(weighed, copy=False)


def _unit_weights(node: WeightUnits) -> exp.Select:
    """Theorem WEIGHT-2. Peak first: p = min(2^bits, ⌊peak·2^bits/m⌋) in each group; then mass over what is left."""
    peaked: exp.Expr = _whole(node.bits)
    if node.peak is not None:
        peaked = exp.func("least", _whole(node.bits), _heavy_weight(node.peak, node.bits, _column(ROWS)))
    if node.mass is None:
        return exp.select("*", _alias(peaked, WEIGHT)).from_(_subquery(_units(node.input), "q"), copy=False)
    rows = exp.select("*", _alias(peaked, "p")).from_(_subquery(_units(node.input), "q"), copy=False)
    limit = exp.Literal.number(node.mass * 2**node.bits)
    whole = exp.Sum(this=exp.Mul(this=_column("p"), expression=_column(ROWS)))
    heavy = (
        exp.select(_column(UNIT), _alias(whole, "s"))
        .from_(WEIGHED, copy=False)
        .group_by(_column(UNIT), copy=False)
        .having(exp.GT(this=whole.copy(), expression=limit), copy=False)
    )
    # ⌊p · mass · 2^bits / s⌋, in 128 bits, for the few units above the limit.
    scaled = exp.IntDiv(
        this=exp.Paren(this=exp.Mul(this=cast(_column("p"), "HUGEINT"), expression=cast(limit.copy(), "HUGEINT"))),
        expression=_column("s"),
    )
    weight = exp.func("coalesce", cast(scaled, "BIGINT"), _column("p"))
    return (
        exp.select(f"{WEIGHED}.*", _alias(weight, WEIGHT))
        .from_(WEIGHED, copy=False)
        .join(HEAVY, on=_equal(UNIT, WEIGHED, HEAVY), join_type="LEFT", copy=False)
        .with_(WEIGHED, as_=rows, materialized=True, copy=False)
        .with_(HEAVY, as_=heavy, materialized=True, copy=False)
    )


def _weighted(node: PerUnit, weight: exp.Expr) -> list[exp.Expr]:
    """A unit's tallies times its weight; sums in 128 bits. As a unit, and where it is clipped, it counts as one."""
    found: list[exp.Expr] = []
    for name, tally in node.tallies:
        value: exp.Expr = _column(name)
        if tally.kind == "units" or tally.clip is not None:
            found.append(value)
            continue
        if tally.kind == "total":
            value = cast(value, "HUGEINT")
        found.append(_alias(exp.Mul(this=value, expression=weight.copy()), name))
    return found


def _weight_rows(node: WeightRows) -> exp.Select:
    """Rows are read once: where they are only numbered as they are read, a second look could number them anew."""
    units, per_unit = node.units, node.units
    while not isinstance(per_unit, PerUnit):
        per_unit = per_unit.input
    weighed = _unit_weights(units) if isinstance(units, WeightUnits) else _units(units)
    weight: exp.Expr = _column(WEIGHT, "h") if isinstance(units, WeightUnits) else cast(number(1), "BIGINT")
    same = [_equal(UNIT, "r", "h"), *([_same(per_unit.keys, "r", "h")] if per_unit.keys else [])]
    return (
        exp.select("r.*", _alias(weight, WEIGHT))
        .from_(_subquery(_gridded_rows(Again()), "r"), copy=False)
        .join(_subquery(weighed, "h"), on=exp.and_(*same), join_type="INNER", copy=False)
        .with_(ROWS_READ, as_=_gridded_rows(node.input), materialized=True, copy=False)
    )


def _whole(bits: int) -> exp.Expr:
    return cast(exp.Literal.number(2**bits), "BIGINT")


# ---------------------------------------------------------------- rows


def _gridded_rows(node: Gridded) -> exp.Select:
    match node:
        case ToGrid():
            return _to_grid(node)
        case OnDomain():
            return (
                exp.select("d.*")
                .from_(_subquery(_to_grid(node.input), "d"), copy=False)
                .join(
                    public_cells(node.keys, node.types), on=_same(node.keys, CELLS, "d"), join_type="SEMI", copy=False
                )
            )
        case Again():
            return exp.select("*").from_(ROWS_READ, copy=False)
        case _:
            assert_never(node)


def _to_grid(node: ToGrid) -> exp.Select:
    needed = {value for _, value, _ in node.values}
    kept: list[exp.Expr] = [_column(name) for name, _ in node.input.columns if name not in needed]
    made = [_alias(gridded(_column(value), grid), name) for name, value, grid in node.values]
    rows = exp.select(*([*kept, *made] or [exp.Literal.number(1)])).from_(
        _subquery(_project(node.input), "p"), copy=False
    )
    return divided(rows, node.together)


def _project(node: Project) -> exp.Select:
    outputs = [_alias(e.copy(), name) for name, e in node.columns] or [exp.Literal.number(1)]
    return exp.select(*outputs).from_(_subquery(relation(node.input), "s"), copy=False)


def relation(node: Relation | PublicTable | Given) -> exp.Select:
    """The rows of a relation, each with its unit."""
    match node:
        case Scan():
            return _scan(node)
        case PublicTable():
            return _renamed_columns(node.columns, node.table)
        case Given():
            typed = [
                _alias(exp.TryCast(this=_column(source), to=exp.DataType.build(kind, dialect="duckdb")), name)
                for (name, source), kind in zip(node.columns, node.types, strict=True)
            ]
            return exp.select(*(typed or [exp.Literal.number(1)])).from_(exp.Table(this=_quoted(node.name)), copy=False)
        case Filter():
            return _filter(node)
        case Project():
            return _project(node)
        case Join():
            return _join(node)
        case Mark():
            return _mark(node)
        case Union():
            sides = [relation(one) for one in node.inputs]
            whole = sides[0] if len(sides) == 1 else exp.union(*sides, distinct=False, copy=False)
            return exp.select("*").from_(exp.Subquery(this=whole, alias=_table_alias("u")), copy=False)
        case GroupUnits():
            keys = [_alias(e.copy(), name) for name, e in node.keys]
            values = [_alias(e.copy(), name) for name, e in node.columns]
            # A constant is no key, and a number would be a position.
            grouped = [_column(node.unit), *(e.copy() for _, e in node.keys if e.find(exp.Column))]
            rows = _subquery(relation(node.input), "g")
            return exp.select(_column(node.unit), *keys, *values).from_(rows, copy=False).group_by(*grouped, copy=False)
        case Windows():
            rows = _subquery(relation(node.input), "w")
            return exp.select("w.*", _alias(node.window.copy(), node.column)).from_(rows, copy=False)
        case _:
            assert_never(node)


def _filter(node: Filter) -> exp.Select:
    """A filter by a mark asks for it where it stands: a semi- or anti-join instead of a column."""
    conditions, below = conjuncts(node.condition), node.input
    if isinstance(below, Mark):
        mark = _column(below.column)
        asked = [c for c in conditions if (c.this.unnest() if isinstance(c, exp.Not) else c) == mark]
        rest = [c for c in conditions if c not in asked]
        if len(asked) == 1 and not any(c.name == below.column for r in rest for c in r.find_all(exp.Column)):
            kept = exp.Not(this=_test(below)) if isinstance(asked[0], exp.Not) else _test(below)
            inner: Relation = below.input if not rest else Filter(below.input, exp.and_(*(r.copy() for r in rest)))
            constant = exp.Boolean(this=not isinstance(asked[0], exp.Not))
            rows = exp.select("a.*", _alias(constant, below.column))
            return rows.from_(_subquery(relation(inner), "a"), copy=False).where(kept, copy=False)
    rows = exp.select("*").from_(_subquery(relation(below), "f"), copy=False)
    return rows.where(node.condition.copy(), copy=False)


def _renamed_columns(columns: tuple[tuple[str, str], ...], table: str) -> exp.Select:
    listed = [_alias(_column(source), name) for name, source in columns]
    return exp.select(*listed).from_(exp.Table(this=_quoted(table)), copy=False)


def _join(node: Join) -> exp.Select:
    """Theorem OWN-3. Rows of two private sides match only where their units are the same."""
    conditions = _conditions(node.units, node.condition, columns_of(node.left), columns_of(node.right))
    left, right = _subquery(relation(node.left), "a"), _subquery(relation(node.right), "b")
    rows = exp.select("a.*", "b.*").from_(left, copy=False)
    if not conditions:
        if node.kind == "inner":
            return rows.join(right, join_type="CROSS", copy=False)
        conditions.append(exp.true())
    return rows.join(right, on=exp.and_(*conditions), join_type="LEFT" if node.kind == "left" else "INNER", copy=False)


def _conditions(
    units: tuple[str, str] | None, condition: exp.Expr | None, left: tuple[str, ...], right: tuple[str, ...]
) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    if units is not None:
        found.append(exp.EQ(this=_column(units[0], "a"), expression=_column(units[1], "b")))
    if condition is not None:
        found.append(_sided(condition, left, right))
    return found


def _sided(e: exp.Expr, left: tuple[str, ...], right: tuple[str, ...]) -> exp.Expr:
    """Each column with its side: a bare name that is one of the sides' would mean all of it."""
    copy = e.copy()
    for column in list(copy.find_all(exp.Column)):
        side = "a" if column.name in left else "b"
        assert side == "a" or column.name in right, column.name
        column.set("table", exp.to_identifier(side))
    return copy


def _mark(node: Mark) -> exp.Select:
    rows = _subquery(relation(node.input), "a")
    return exp.select("a.*", _alias(_test(node), node.column)).from_(rows, copy=False)


def _test(node: Mark) -> exp.Expr:
    """Theorem OWN-4. EXISTS never is NULL; IN over public values is as SQL has it."""
    other = _subquery(relation(node.other), "b")
    left, right = columns_of(node.input), columns_of(node.other)
    if node.member is not None:
        value, theirs = (_sided(e, left, right) for e in node.member)
        return exp.In(this=value, query=exp.Subquery(this=exp.select(theirs).from_(other, copy=False)))
    conditions = _conditions(node.units, node.condition, left, right)
    found = exp.select(exp.Literal.number(1)).from_(other, copy=False)
    return exp.Exists(this=found.where(exp.and_(*conditions), copy=False) if conditions else found)


def _scan(node: Scan) -> exp.Select:
    """Theorem OWN-1. Inner joins along the links drop rows that point to nothing; NULL units are dropped."""
    columns = [_alias(_column(source, "t0"), name) for name, source in node.columns]
    last = f"t{len(node.links)}"
    if node.links:
        assert node.unit is not None and node.owner is not None
        columns.append(_alias(_column(node.owner, last), node.unit))
    elif node.unit is not None and node.owner is None:
        columns.append(_alias(exp.Window(this=exp.RowNumber()), node.unit))
    rows = exp.select(*columns).from_(exp.alias_(exp.Table(this=_quoted(node.table)), "t0", table=True), copy=False)
    for i, link in enumerate(node.links):
        there = exp.alias_(exp.Table(this=_quoted(link.table)), f"t{i + 1}", table=True)
        equal = [exp.EQ(this=_column(a, f"t{i}"), expression=_column(b, f"t{i + 1}")) for a, b in link.on]
        rows = rows.join(there, on=exp.and_(*equal), copy=False)
    if node.owner is not None:
        rows = rows.where(present(_column(node.owner, last)), copy=False)
    return rows


# ---------------------------------------------------------------- small pieces


def _same(keys: tuple[str, ...], left: str, right: str) -> exp.Expr:
    return exp.and_(*(exp.NullSafeEQ(this=_column(k, left), expression=_column(k, right)) for k in keys))


def _equal(name: str, left: str, right: str) -> exp.Expr:
    return exp.EQ(this=_column(name, left), expression=_column(name, right))


def _or_zero(e: exp.Expr) -> exp.Expr:
    return exp.func("coalesce", e, exp.Literal.number(0))


def _alias(e: exp.Expr, name: str) -> exp.Expr:
    return exp.Alias(this=e, alias=_quoted(name))


def _subquery(query: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=_table_alias(alias))


def _table_alias(alias: str) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(alias))


def _quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.Column(this=_quoted(name), table=exp.to_identifier(table) if table else None)
