"""What one unit may add, enforced in the statement: weights, and caps on groups -> sqlglot trees."""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from sqlglot import exp

from dpsql.backends.base import SECRET
from dpsql.backends.statements.pieces import (
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
from dpsql.backends.statements.rows import CELLS, ROWS_READ, gridded_rows, public_cells
from dpsql.backends.statements.tallies import WEIGHT, own_tally, size_of
from dpsql.core.frozen import dataclass
from dpsql.plan.nodes import (
    Again,
    CapGroups,
    OnDomain,
    PerUnit,
    SpreadVotes,
    Weight,
    WeightRows,
    WeightUnits,
)
from dpsql.quote.candidates import UNIT
from dpsql.quote.refined import LISTED
from dpsql.sql.gridded import cast, number
from dpsql.statistics.base import Tally

FIRST_WEIGHT, SUMMED = "p_w", "s_w"  # of a unit: its weight by the peak alone, and what that leaves in all groups
OWNED, MANY, WEIGHED, HEAVY = "dpsql_owned", "dpsql_many", "dpsql_weighed", "dpsql_heavy"
LEFT, VOTERS = "dpsql_left", "dpsql_voters"
ROWS = "m"  # a unit's number of rows
SIZE = "dpsql_size"  # what they add up to


class Form(Enum):
    """How a unit is held to limits over all of its groups. All say the same of the same rows (Theorem FORM-1).

    JOINS: what units have is computed once, and only the few above a limit are looked at again. WINDOWS: nothing is
    named twice, for engines that would compute it for each time that it is named, and rows are moved to their unit's
    others once. FEW: windows, where there are few units; rows are grouped before they are moved, and where weights are
    of rows, these are read again, with the units above the limit at every place.
    """

    JOINS = "joins to heavy units"
    WINDOWS = "windows over units"
    FEW = "windows over units, of which there are few"


def weight(node: Weight, form: Form = Form.JOINS) -> exp.Select:
    """Theorems WEIGHT-1 and SIZE-1. Only units above the limit need a weight: a left join to those few."""
    above, lighter = heavy_units(node)
    counted = node.among or node.input  # Theorem INDEX-1: nobody else is above the limit
    heavy = grouped(
        select([column(UNIT), alias(lighter, WEIGHT)], subquery(gridded_rows(counted), "c")), [column(UNIT)], above
    )
    whole = exp.Coalesce(this=column(WEIGHT, "h"), expressions=[whole_weight(node.bits)])
    # Rows outside of the public cells don't count for a unit; here they may stay, OnCells drops them.
    rows = node.input.input if isinstance(node.input, OnDomain) else node.input
    query = select([every("r"), alias(whole, WEIGHT)], subquery(gridded_rows(rows), "r"))
    if form is Form.FEW:
        query.set("hint", _broadcast("h"))
    return joined(query, subquery(heavy, "h"), equal(UNIT, "r", "h"), "LEFT")


def heavy_units(node: Weight) -> tuple[exp.Expr, exp.Expr]:
    """Of one unit's rows: are they above the limit, and what does each of them then weigh?"""
    if node.size is not None:
        size = size_of(node.size)
        above: exp.Expr = exp.GT(this=size, expression=_wide(node.size.most))
        share = exp.IntDiv(this=_wide(node.size.most * 2**node.bits), expression=size.copy())
        return above, _where(above, cast(share, "BIGINT"), whole_weight(node.bits))  # nothing is divided by 0
    assert node.mass is not None, "rows are weighed by a limit"
    above = exp.GT(this=count(), expression=number(node.mass))
    return above, _where(above, heavy_weight(node.mass, node.bits, count()), whole_weight(node.bits))


def weights_of_groups(node: Weight, keys: tuple[str, ...], tallies: tuple[tuple[str, Tally], ...]) -> WeightUnits:
    """The same weights, of what units have in each group (Theorem FORM-1)."""
    return WeightUnits(PerUnit(node.input, keys, tallies, size=node.size), node.mass, None, node.bits)


def _where(above: exp.Expr, heavy: exp.Expr, light: exp.Expr) -> exp.Expr:
    """One weight for units above a limit, and another for all others."""
    return exp.Case(ifs=[exp.If(this=above.copy(), true=heavy)], default=light)


def _wide(value: int) -> exp.Expr:
    """A whole number in 128 bits."""
    return _typed(value, "HUGEINT")


def _typed(value: int, kind: str) -> exp.Expr:
    """A whole number in as many bits as this type has."""
    assert abs(value) < 2 ** (126 if kind == "HUGEINT" else 62), "more than the engine's integers hold"
    return cast(number(value), kind)


def heavy_weight(mass: int, bits: int, rows: exp.Expr) -> exp.Expr:
    """⌊mass · 2^bits / rows⌋ by integer division: CAST and / would round."""
    return exp.IntDiv(this=cast(number(mass * 2**bits), "BIGINT"), expression=rows)


def units(node: PerUnit | CapGroups | SpreadVotes | WeightUnits, form: Form = Form.JOINS) -> exp.Select:
    """What each unit has in each group."""
    match node:
        case PerUnit():
            return _per_unit(node, form)
        case CapGroups():
            return _cap(node, form)
        case SpreadVotes():
            return _votes(node, form)
        case WeightUnits():
            return weighted_units(node, form)
        case _:
            assert_never(node)


def by_unit(rows: exp.Select) -> exp.Select:
    """The rows, each of them where its unit's others are: grouped there, they needn't move again for windows."""
    whole = select([exp.Star()], subquery(rows, "b"))
    whole.set("distribute", exp.Distribute(expressions=[column(UNIT)]))
    return whole


def _per_unit(node: PerUnit, form: Form = Form.JOINS) -> exp.Select:
    if node.listed:
        return _listed_apart(node)
    keys = [column(name) for name in (UNIT, *node.keys)]
    tallies = [alias(own_tally(t), name) for name, t in node.tallies]
    tallies += [] if node.size is None else [alias(size_of(node.size), SIZE)]
    input_ = gridded_rows(node.input)
    rows = subquery(by_unit(input_) if form is Form.WINDOWS and node.keys else input_, "o")
    return grouped(select([*keys, alias(count(), ROWS), *tallies], rows), [k.copy() for k in keys])


def _listed_apart(node: PerUnit) -> exp.Select:
    """Theorem INDEX-1, *In one look*. What each listed unit has, and all others together, whose unit is NULL.

    The list is at every place. Rows outside of the public cells are left out when they are grouped: they are so by
    these very keys, so that all rows of a group are outside or none is.
    """
    cells = node.input if isinstance(node.input, OnDomain) and node.input.keys == node.keys else None
    rows = gridded_rows(node.input if cells is None else cells.input)
    keys = [column(UNIT, LISTED), *(column(name, "o") for name in node.keys)]
    tallies = [alias(own_tally(t), name) for name, t in node.tallies]
    query = select([*keys, alias(count(), ROWS), *tallies], subquery(rows, "o"))
    query.set("hint", _broadcast(LISTED))
    joined(query, table(LISTED, LISTED), equal(UNIT, "o", LISTED), "LEFT")
    grouped(query, [key.copy() for key in keys])
    if cells is None:
        return query
    whole = select([every("d")], subquery(query, "d"))
    return joined(whole, public_cells(cells.keys, cells.types), same(cells.keys, CELLS, "d"), "SEMI")


def _broadcast(name: str) -> exp.Hint:
    """That every task gets all of this table."""
    return exp.Hint(expressions=[exp.Anonymous(this="BROADCAST", expressions=[column(name)])])


def _cap(node: CapGroups, form: Form) -> exp.Select:
    """Theorem CAP-1. Units with more keys keep those with the smallest hash, ties broken by the keys themselves."""
    inner = node.input
    hashed = keyed_hash(UNIT if node.by_unit else None, inner.keys)
    ranked = exp.Window(
        this=exp.RowNumber(),
        partition_by=[column(UNIT)],
        order=exp.Order(expressions=[exp.Ordered(this=e) for e in (hashed, *map(column, inner.keys))]),
    )
    first = exp.Qualify(this=exp.LTE(this=ranked, expression=number(node.limit)))
    if form is not Form.JOINS:
        owned = select([exp.Star()], subquery(_per_unit(inner, form), "x"))
        owned.set("qualify", first)
        return owned
    above = exp.GT(this=count(), expression=number(node.limit))
    many = grouped(select([column(UNIT)], table(OWNED)), [column(UNIT)], above)
    light = joined(_owned(), table(MANY), equal(UNIT, OWNED, MANY), "ANTI")
    heavy = joined(_owned(), table(MANY), equal(UNIT, OWNED, MANY), "SEMI")
    cut = select([exp.Star()], subquery(heavy, "x"))
    cut.set("qualify", first)
    both = subquery(exp.union(light, cut, distinct=False, copy=False), "b")
    return (
        select([exp.Star()], both)
        .with_(OWNED, as_=_per_unit(inner), materialized=True, copy=False)
        .with_(MANY, as_=many, materialized=True, copy=False)
    )


def _votes(node: SpreadVotes, form: Form) -> exp.Select:
    """Theorem KEYW-1. t counts the groups that are left to a unit; its vote in each has t·w² ≤ 4^bits."""
    groups = column("t", VOTERS if form is Form.JOINS else LEFT)
    voters = grouped(select([column(UNIT), alias(count(), "t")], table(LEFT)), [column(UNIT)])
    per_unit = _per_unit_of(node)
    held = [column(name, LEFT) for name in (UNIT, *per_unit.keys, ROWS, *([] if per_unit.size is None else [SIZE]))]
    bits = sorted({t.bits for _, t in per_unit.tallies if t.bits is not None}) if form is not Form.JOINS else []
    roots: dict[int, exp.Expr] = {one: column(f"f{one}", LEFT) for one in bits}
    tallies = [
        column(name, LEFT) if tally.bits is None else alias(vote(tally.bits, groups, roots.get(tally.bits)), name)
        for name, tally in per_unit.tallies
    ]
    if form is not Form.JOINS:
        counted = select([exp.Star(), alias(_of_unit(count()), "t")], subquery(units(node.input, form), "x"))
        rooted = [alias(_root(one, column("t")), f"f{one}") for one in bits]  # looked at more than once
        return select([*held, *tallies], subquery(select([exp.Star(), *rooted], subquery(counted, "y")), LEFT))
    query = joined(select([*held, *tallies], table(LEFT)), table(VOTERS), equal(UNIT, LEFT, VOTERS))
    return query.with_(LEFT, as_=units(node.input), materialized=True, copy=False).with_(
        VOTERS, as_=voters, materialized=True, copy=False
    )


def _of_unit(aggregate: exp.Expr) -> exp.Expr:
    """An aggregate of all groups of a unit, beside each of them."""
    return exp.Window(this=aggregate, partition_by=[column(UNIT)])


def _root(bits: int, groups: exp.Expr) -> exp.Expr:
    """⌊2^bits/√groups⌋ by doubles."""
    root = exp.Div(this=cast(number(2**bits), "DOUBLE"), expression=exp.Sqrt(this=cast(groups.copy(), "DOUBLE")))
    return cast(exp.Floor(this=root), "BIGINT")


def vote(bits: int, groups: exp.Expr, root: exp.Expr | None = None) -> exp.Expr:
    """⌊2^bits/√groups⌋: a root of doubles may be one too large, so what it gives is checked in integers.

    root: a column that has it by doubles already.
    """
    first = root or _root(bits, groups)
    less = exp.Paren(this=exp.Sub(this=first, expression=number(1)))

    def fits(vote: exp.Expr) -> exp.Expr:
        square = exp.Mul(this=exp.Mul(this=groups.copy(), expression=vote.copy()), expression=vote.copy())
        return exp.LTE(this=square, expression=number(4**bits))

    ifs = [exp.If(this=fits(first), true=first.copy()), exp.If(this=fits(less), true=less.copy())]
    return exp.Case(ifs=ifs, default=cast(number(0), "BIGINT"))


def _per_unit_of(node: PerUnit | CapGroups | SpreadVotes) -> PerUnit:
    """What a unit has in each group, below all that bounds it."""
    return node if isinstance(node, PerUnit) else _per_unit_of(node.input)


def _owned() -> exp.Select:
    return select([every(OWNED)], table(OWNED))


def keyed_hash(unit: str | None, keys: tuple[str, ...]) -> exp.Expr:
    """A hash of unit and keys under a secret, which is mixed in before the last round of hashing.

    Theorem CAP-1: the secret is a parameter of the statement, drawn anew for each step that is run.

    Of the keys alone where rows are only numbered: another row would change everybody's number.
    """
    inner = exp.Anonymous(this="hash", expressions=[column(c) for c in (*((unit,) if unit else ()), *keys)])
    mixed = exp.Anonymous(this="xor", expressions=[inner, cast(exp.Parameter(this=exp.Var(this=SECRET)), "UBIGINT")])
    return exp.Anonymous(this="hash", expressions=[mixed])


def weighted_units(node: WeightUnits, form: Form = Form.JOINS, by: exp.Expr | None = None) -> exp.Select:
    """A unit's tallies in each group times its weight there; by: times this instead."""
    per_unit = _per_unit_of(node.input)
    keys = [column(k) for k in per_unit.keys]
    return select([*keys, *_weighted(per_unit, by or column(WEIGHT))], subquery(_unit_weights(node, form), "n"))


def _unit_weights(node: WeightUnits, form: Form) -> exp.Select:
    """Theorem WEIGHT-2: the peak first, then the mass over what is left. Theorem SIZE-1: a size, in all groups."""
    per_unit = _per_unit_of(node.input)
    scale = _Scale(column(ROWS), node.mass, node.peak, "BIGINT")
    if per_unit.size is not None:
        assert node.mass is None and node.peak is None, "a size is bounded in the place of rows"
        scale = _Scale(column(SIZE), per_unit.size.most, None, "HUGEINT")

    def only_listed(weight: exp.Expr) -> exp.Expr:
        # Theorem INDEX-1: whoever isn't listed has the full weight.
        others = exp.Is(this=column(UNIT), expression=exp.Null())
        return _where(others, whole_weight(node.bits), weight) if per_unit.listed else weight

    first = alias(only_listed(scale.first(node.bits)), FIRST_WEIGHT)
    rows = select([exp.Star(), first], subquery(units(node.input, form), "q"))
    if scale.most is None:
        return select([exp.Star(), alias(column(FIRST_WEIGHT), WEIGHT)], subquery(rows, "y"))
    weights = alias(only_listed(scale.then(node.bits)), WEIGHT)
    if form is not Form.JOINS:
        # Without keys a unit has one row: what is there is the sum.
        sums = alias(_of_unit(scale.whole) if per_unit.keys else scale.part, SUMMED)
        summed = select([exp.Star(), sums], subquery(rows, "y"))
        return select([exp.Star(), weights], subquery(summed, HEAVY))
    sums = alias(scale.whole, SUMMED)
    heavy = grouped(select([column(UNIT), sums], table(WEIGHED)), [column(UNIT)], scale.above(node.bits))
    query = select([every(WEIGHED), weights], table(WEIGHED))
    return (
        joined(query, table(HEAVY), equal(UNIT, WEIGHED, HEAVY), "LEFT")
        .with_(WEIGHED, as_=rows, materialized=True, copy=False)
        .with_(HEAVY, as_=heavy, materialized=True, copy=False)
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """The weight of each unit in each group that keeps what it has there within a peak, and in all within a sum."""

    size: exp.Expr  # what the unit has in the group, 0 or more
    most: int | None
    peak: int | None
    kind: str  # holds the size, and the size times a weight (Theorem GRID-4)

    def first(self, bits: int) -> exp.Expr:
        """min(2^bits, ⌊peak · 2^bits / size⌋): what is 0 needs no weight, and nothing is divided by it."""
        if self.peak is None:
            return whole_weight(bits)
        above = exp.GT(this=self.size.copy(), expression=_typed(self.peak, self.kind))
        share = exp.IntDiv(this=_typed(self.peak * 2**bits, self.kind), expression=self.size.copy())
        return _where(above, cast(share, "BIGINT"), whole_weight(bits))

    @property
    def part(self) -> exp.Expr:
        """What is left of it in this group, in integer weights."""
        return exp.Mul(this=cast(column(FIRST_WEIGHT), self.kind), expression=self.size.copy())

    @property
    def whole(self) -> exp.Expr:
        """What is left of it in all groups; a sum has 128 bits."""
        return exp.Sum(this=self.part)

    def above(self, bits: int) -> exp.Expr:
        assert self.most is not None
        return exp.GT(this=self.whole, expression=_wide(self.most * 2**bits))

    def then(self, bits: int) -> exp.Expr:
        """⌊p · most · 2^bits / s⌋ for the few units above the limit; p for all others."""
        first = column(FIRST_WEIGHT)
        assert self.most is not None
        limit, whole = _wide(self.most * 2**bits), column(SUMMED, HEAVY)
        scaled = exp.IntDiv(
            this=exp.Paren(this=exp.Mul(this=cast(first.copy(), "HUGEINT"), expression=limit)), expression=whole
        )
        return _where(exp.GT(this=whole.copy(), expression=limit.copy()), cast(scaled, "BIGINT"), first)


def _weighted(node: PerUnit, by: exp.Expr) -> list[exp.Expr]:
    """A unit's tallies times its weight; sums in 128 bits. As a unit, and where it is clipped, it counts as one.

    Votes have weights of their own.
    """
    found: list[exp.Expr] = []
    for name, tally in node.tallies:
        value: exp.Expr = column(name)
        if tally.kind in ("units", "votes") or tally.clip is not None:
            found.append(value)
            continue
        if tally.kind == "total":
            value = cast(value, "HUGEINT")
        found.append(alias(exp.Mul(this=value, expression=by.copy()), name))
    return found


def weight_rows(node: WeightRows, form: Form) -> exp.Select:
    """Rows are read once: where they are only numbered as they are read, a second look could number them anew."""
    per_unit = node.units
    while not isinstance(per_unit, PerUnit):
        per_unit = per_unit.input
    weighed = _unit_weights(node.units, form) if isinstance(node.units, WeightUnits) else units(node.units, form)
    by: exp.Expr = column(WEIGHT, "h") if isinstance(node.units, WeightUnits) else cast(number(1), "BIGINT")
    equals = [equal(UNIT, "r", "h"), *([same(per_unit.keys, "r", "h")] if per_unit.keys else [])]
    rows = select([every("r"), alias(by, WEIGHT)], subquery(gridded_rows(Again()), "r"))
    query = joined(rows, subquery(weighed, "h"), conjunction(equals))
    return query.with_(ROWS_READ, as_=gridded_rows(node.input), materialized=True, copy=False)


def whole_weight(bits: int) -> exp.Expr:
    """The weight of a row that counts as one."""
    return cast(number(2**bits), "BIGINT")
