"""Values on their grids: one comparison of doubles decides what two would (GRID-2), decimals in few bits (GRID-4)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Literal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import examples

from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.sources import CONFIG
from dpsql.backends.statements.pieces import alias, column, select, table
from dpsql.core.grid import Grid, choose_grid, coarsened
from dpsql.core.ranges import Range
from dpsql.core.types import Type
from dpsql.sql.gridded import gridded

DOUBLE = Type.parse("DOUBLE")
HOSTILE = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e17, -1e17, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan]


def on_grid(values: list[float | None], grid: Grid) -> list[int | None]:
    """What DuckDB makes of them, with the very optimizers that run."""
    connection = duckdb.connect(config=CONFIG)
    connection.register("t", pa.table({"x": pa.array(values, pa.float64())}))
    text = text_of(select([alias(gridded(column("x"), grid), "v")], table("t")))
    return [v for (v,) in connection.execute(text).fetchall()]


def clipped(value: float | None, grid: Grid) -> int | None:
    """clip(x, l·s, h·s)/s rounded, in exact arithmetic; None where several roundings are allowed."""
    if value is None or not math.isfinite(value):
        return None
    exact = min(max(Fraction(value) / grid.step, Fraction(grid.low)), Fraction(grid.high))
    return round(exact)


def near(grid: Grid) -> list[float]:
    """The doubles next to both ends of the grid and to its middle."""
    found: list[float] = []
    for end in (grid.low, grid.high, (grid.low + grid.high) // 2):
        x = float(end * grid.step)
        for direction in (-math.inf, math.inf):
            y = x
            for _ in range(4):
                y = float(np.nextafter(y, direction))
                found.append(y)
        found += [x, x - float(grid.step) / 4, x + float(grid.step) / 4, x - float(grid.step), x + float(grid.step)]
    return found


ENDS = st.fractions(min_value=-(10**9), max_value=10**9) | st.sampled_from(
    [Fraction(0), Fraction(1, 10**200), Fraction(10) ** 200, Fraction(-500), Fraction(500), Fraction(1, 3)]
)


@settings(max_examples=examples(40), deadline=None)
@given(ends=st.tuples(ENDS, ENDS), noise=st.sampled_from([Fraction(1, 10**12), Fraction(1), Fraction(10**6)]))
def test_doubles_land_where_an_exact_clip_puts_them(ends: tuple[Fraction, Fraction], noise: Fraction) -> None:
    grid = choose_grid(DOUBLE, Range(min(ends), max(ends)), noise)
    values: list[float | None] = [*near(grid), *HOSTILE, None]
    for value, found in zip(values, on_grid(values, grid), strict=True):
        wanted = clipped(value, grid)
        assert (found is None) == (wanted is None), value
        if found is not None and wanted is not None and value is not None:
            assert grid.low <= found <= grid.high, value
            half = abs(Fraction(value) / grid.step - found) == Fraction(1, 2)  # either neighbour is as near
            assert found == wanted or half, value


@pytest.mark.parametrize("x", [500.0000001, 501.0, -0.0000001, -1.0])
def test_just_outside_of_a_coarse_grid_is_the_end(x: float) -> None:
    grid = Grid(Fraction(1, 2), 0, 1000, "float")
    assert on_grid([x], grid) == [1000 if x > 0 else 0]


@pytest.mark.parametrize("high", [2**15 - 1, 2**15, 2**31 - 1, 2**31])
@pytest.mark.parametrize("source", ["integer", "float"])
def test_both_ends_of_a_grid_fit_the_integers_it_is_kept_in(high: int, source: Literal["integer", "float"]) -> None:
    grid = Grid(Fraction(1), -high, high, source)
    values = [sign * (high + more) for sign in (-1.0, 1.0) for more in (-1, 0, 1, 2**40)]
    wanted = [min(max(int(v), -high), high) for v in values]
    assert on_grid(list(values), grid) == wanted


@pytest.mark.parametrize("ends", [(-(2**62), 1024), (-(2**62), 2**62 - 512), (-4 * 10**18 + 1, 10**18 + 3), (0, 2**62)])
def test_a_coarser_grid_has_ends_that_doubles_hold(ends: tuple[int, int]) -> None:
    range_ = Range(Fraction(ends[0]), Fraction(ends[1]))
    grid = coarsened(Grid(Fraction(1), *ends, "integer"), range_, 2**61)
    assert grid.magnitude <= 2**50 + 1
    values: list[float | None] = [*near(grid), *HOSTILE, 1279.0, None]
    for value, found in zip(values, on_grid(values, grid), strict=True):
        assert found is None or grid.low <= found <= grid.high, value
        assert found == clipped(value, grid) or (
            value is not None and (Fraction(value) / grid.step * 2).denominator == 1
        )


@pytest.mark.parametrize("width, scale", [(4, 2), (9, 0), (9, 9), (15, 2), (18, 4), (18, 9), (25, 2), (28, 9)])
def test_decimals_land_where_an_exact_clip_puts_them_and_none_raises(width: int, scale: int) -> None:
    """Around the place from which on 64 bits don't hold the product, with values at the very ends of their type."""
    largest, edge = 10**width - 1, 10 ** (18 - scale)
    connection = duckdb.connect(config=CONFIG)
    for high in {min(h, largest, 2**62) for h in (0, 7, edge - 1, edge, 10 * edge, largest)}:
        for low in {-high, 0, high // 2}:
            grid = Grid(Fraction(1, 10**scale), low, high, "decimal")
            ends = {e + d for e in (low, high, -largest, largest, 0) for d in (-1, 0, 1)}
            whole: list[int | None] = [*sorted(e for e in ends if abs(e) <= largest), None]
            with localcontext() as context:
                context.prec = 60
                values = [None if n is None else Decimal(n).scaleb(-scale) for n in whole]
            connection.register("t", pa.table({"x": pa.array(values, pa.decimal128(width, scale))}))
            text = text_of(select([alias(gridded(column("x"), grid), "v")], table("t")))
            found = [v for (v,) in connection.execute(text).fetchall()]
            assert found == [None if n is None else min(max(n, low), high) for n in whole]
            assert ("DECIMAL(38" in text) == (high * 10**scale >= 10**18)
