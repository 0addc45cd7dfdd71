"""Tallies -> aggregate calls: over rows, over weighted rows, over what each unit has, and a unit's own."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from dpsql.backends.statements.pieces import column, count, or_zero
from dpsql.quote.candidates import UNIT
from dpsql.sql.gridded import cast, number, present
from dpsql.statistics.base import Size, SizePart, Tally

WEIGHT = "w"


def size_of(size: Size) -> exp.Expr:
    """Theorem SIZE-1: what rows add up to in absolute values, each part times its factor, in 128 bits."""
    parts: list[exp.Expr] = [
        exp.Mul(this=cast(number(part.factor), "HUGEINT"), expression=cast(_magnitude(part), "HUGEINT"))
        for part in size.parts
    ]
    whole, *others = parts
    for part in others:
        whole = exp.Add(this=whole, expression=part)
    return exp.Paren(this=whole)


def _magnitude(part: SizePart) -> exp.Expr:
    """How many rows a tally counts; of a sum Σ|x| of the rows that it adds up, after its FILTER, without NULLs."""
    tally = part.tally
    if tally.kind != "total":
        return row_tally("", tally)
    assert tally.value is not None
    value: exp.Expr = column(tally.value)
    if part.signed:  # in 64 bits: |x| is at most 2^62 (GRID-1), and the least INTEGER has no magnitude in its own
        value = exp.Abs(this=cast(value, "BIGINT"))
        return or_zero(_filtered(exp.Sum(this=value), tally))
    return exp.Abs(this=or_zero(_filtered(exp.Sum(this=value), tally)))  # of one sign: |Σx| = Σ|x|


def row_tally(name: str, tally: Tally) -> exp.Expr:
    """The tally of rows that have no weights."""
    if tally.clip is not None:  # each row is a unit
        return or_zero(_filtered(exp.Sum(this=_clipped(_one_row(tally), tally.clip)), tally))
    match tally.kind:
        case "rows":
            counted: exp.Expr = count()
        case "present":
            assert tally.value is not None
            counted = exp.Count(this=column(tally.value))
        case "units":
            counted = exp.Count(this=exp.Distinct(expressions=[column(UNIT)]))
        case "distinct":
            assert tally.value is not None
            counted = exp.Count(this=exp.Distinct(expressions=[column(tally.value)]))
        case "total":
            assert tally.value is not None
            counted = exp.Sum(this=column(tally.value))
        case "votes":
            raise AssertionError("votes are spread over all groups of a unit")
        case _:
            assert_never(tally.kind)
    found = _filtered(counted, tally)
    return or_zero(found) if tally.kind == "total" else found  # the sum of no rows is 0, not NULL


def weighted_tally(name: str, tally: Tally) -> exp.Expr:
    """A tally as an aggregate in which each row counts as its integer weight; units are never weighted."""
    assert tally.clip is None, "a unit is clipped as a whole"
    match tally.kind:
        case "units":
            return row_tally(name, tally)
        case "rows":
            weighted: exp.Expr = exp.Sum(this=column(WEIGHT))
        case "present":
            assert tally.value is not None
            there = exp.If(this=present(column(tally.value)), true=column(WEIGHT))
            weighted = exp.Sum(this=exp.Case(ifs=[there]))
        case "total":
            assert tally.value is not None
            weighted = exp.Sum(this=exp.Mul(this=column(tally.value), expression=column(WEIGHT)))
        case "distinct" | "votes":
            raise AssertionError("values and votes have no weights")
        case _:
            assert_never(tally.kind)
    return or_zero(_filtered(weighted, tally))


def unit_tally(name: str, tally: Tally) -> exp.Expr:
    """Tallies per unit and key, added up over units."""
    return or_zero(exp.Sum(this=column(name)))


def own_tally(tally: Tally) -> exp.Expr:
    """A unit's own tally in one group; as a unit it counts once, if any row passes the FILTER.

    So it does where votes are counted, which are made of that.
    """
    if tally.clip is not None:
        return _own_clipped(tally, tally.clip)
    assert tally.kind != "distinct", "units may have values in common"
    if tally.kind not in ("units", "votes"):
        return row_tally("", tally)
    if tally.where is None:
        return number(1)
    return cast(exp.GT(this=_filtered(count(), tally), expression=number(0)), "INTEGER")


def _own_clipped(tally: Tally, clip: tuple[int, int]) -> exp.Expr:
    """Theorem CLIP-1: what the unit's own rows add up to, moved into the clip; 0 if none of them counts."""
    exact = row_tally("", replace(tally, clip=None))
    counted = _filtered(count() if tally.value is None else exp.Count(this=column(tally.value)), tally)
    there = exp.If(this=exp.GT(this=counted, expression=number(0)), true=_clipped(exact, clip))
    return exp.Case(ifs=[there], default=number(0))


def _one_row(tally: Tally) -> exp.Expr:
    """What a row adds to a tally; NULL if it doesn't count."""
    if tally.value is None:
        return number(1)
    value = column(tally.value)
    one = value if tally.kind == "total" else number(1)
    return exp.Case(ifs=[exp.If(this=present(value), true=one.copy())])


def _clipped(value: exp.Expr, clip: tuple[int, int]) -> exp.Expr:
    """Moved into the clip, in 128 bits; NULL stays NULL, which least and greatest would pass over."""
    wide = cast(value, "HUGEINT")
    low, high = (cast(number(end), "HUGEINT") for end in clip)
    above, below = exp.GT(this=wide, expression=high), exp.LT(this=wide.copy(), expression=low)
    ends = [exp.If(this=above, true=high.copy()), exp.If(this=below, true=low.copy())]
    return exp.Case(ifs=ends, default=wide.copy())


def _filtered(counted: exp.Expr, tally: Tally) -> exp.Expr:
    if tally.where is None:
        return counted
    return exp.Filter(this=counted, expression=exp.Where(this=column(tally.where)))
