"""Rows divided over the cells of joint statistics, as expressions: integers that add up exactly (Theorem MOMENTS-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from dpsql.backends.statements.pieces import alias, column, select, subquery
from dpsql.sql.gridded import cast, number, present
from dpsql.statistics.base import Value
from dpsql.statistics.moments import Axis, Moments, Part, Pattern

_INTEGER = "INTEGER"  # holds the resolution: at most 2³⁰
Layer = list[exp.Expr]  # columns that are computed from those of the layers before


def divided(rows: exp.Select, statistics: Sequence[Moments]) -> exp.Select:
    """The rows with the cells of these statistics as further columns; NULL where a row has no share in a cell."""
    values = {axis for s in statistics for axis in s.axes if isinstance(axis, Value) and s.degree(axis)}
    if not statistics:
        return rows
    layers: list[Layer] = [[alias(_relative(v), _place(v)) for v in sorted(values, key=lambda v: v.column)]]
    for statistic in statistics:
        start = 0
        for i, part in enumerate(statistic.parts):
            names = [f"{statistic.name}_{start + j}" for j in range(sum(p == part for p, _ in statistic.cells))]
            start += len(names)
            for depth, layer in enumerate(_layers(statistic, part, f"{statistic.name}p{i}", names)):
                if depth == len(layers):
                    layers.append([])
                layers[depth] += layer
    for depth, layer in enumerate(layers):
        rows = select([exp.Star(), *layer], subquery(rows, f"e{depth}"))
    return rows


def _layers(statistic: Moments, part: Part, name: str, cells: Sequence[str]) -> Iterator[Layer]:
    """The mass of a part, then for each degree of each axis what goes up, and what is where after that."""
    steps = [axis for axis, degree in zip(statistic.axes, part.degrees, strict=True) for _ in range(degree)]
    whole = cast(number(statistic.resolution), _INTEGER)
    there = exp.or_(*(_pattern(statistic.axes, pattern) for pattern in part.patterns), copy=False)
    masses: dict[tuple[int, ...], str] = {(): cells[0] if not steps else f"{name}s"}
    yield [alias(exp.Case(ifs=[exp.If(this=there, true=whole)]), masses[()])]
    before: Axis | None = None
    for depth, axis in enumerate(steps):
        assert isinstance(axis, Value)
        if axis != before:  # the next axis: nothing of it is high yet
            masses = {(*index, 0): mass for index, mass in masses.items()}
        before = axis
        ups = {index: f"{name}u{depth}_{i}" for i, index in enumerate(masses)}
        yield [alias(_share(masses[index], axis), up) for index, up in ups.items()]
        after: dict[tuple[int, ...], exp.Expr] = {}
        for index, mass in masses.items():
            higher = (*index[:-1], index[-1] + 1)
            stays = exp.Sub(this=column(mass), expression=column(ups[index]))
            after[index] = exp.Add(this=after[index], expression=stays) if index in after else stays
            after[higher] = column(ups[index])
        last = depth == len(steps) - 1
        order = sorted(after)
        masses = {index: cells[i] if last else f"{name}m{depth}_{i}" for i, index in enumerate(order)}
        yield [alias(after[index], mass) for index, mass in masses.items()]


def _relative(value: Value) -> exp.Expr:
    """u = (x − low)/span, a double in [0, 1]: division is monotone, and 0 and 1 are doubles."""
    distance = exp.Paren(this=exp.Sub(this=cast(column(value.column), "BIGINT"), expression=number(value.grid.low)))
    return exp.Div(this=cast(distance, "DOUBLE"), expression=cast(number(value.grid.span), "DOUBLE"))


def _place(value: Value) -> str:
    return f"{value.column}r"


def _share(mass: str, axis: Value) -> exp.Expr:
    """The nearest integer to mass · u, which is neither negative nor more than mass: both are integers, u in [0, 1]."""
    return cast(exp.Mul(this=cast(column(mass), "DOUBLE"), expression=column(_place(axis))), _INTEGER)


def _pattern(axes: Sequence[Axis], pattern: Pattern) -> exp.Expr:
    """Exactly these axes are there."""
    tests: list[exp.Expr] = []
    for i, axis in enumerate(axes):
        if isinstance(axis, Value):
            test: exp.Expr = present(column(axis.column))
        else:  # NULL is not TRUE
            test = exp.func("coalesce", column(axis), exp.false())
        tests.append(test if i in pattern else exp.Not(this=test))
    return exp.and_(*tests, copy=False) if tests else exp.true()
