"""Rows divided over cells: exactly, for every small case; and each quantity from them, against brute force."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product
from math import comb, prod
from typing import Any

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from dpsql.backends.statements.divide import divided as divided_sql
from dpsql.core.grid import Grid
from dpsql.core.sensitivity import Contribution
from dpsql.statistics.base import Quantity, Value, power_sum
from dpsql.statistics.counts import Count
from dpsql.statistics.moments import Ask, Moments, asked, moments
from dpsql.statistics.strategy import Fine, Linear, Strategy, _reconciled, strategies
from dpsql.statistics.sums import Joint

TEXTS: dict[str | None, str] = {None: "", "f": " where f", "g": " where g"}


def value(name: str, span: int, *, low: int = 0, nullable: bool = True) -> Value:
    return Value(name, Grid(Fraction(1), low, low + span, "integer"), nullable, name)


def cells(statistic: Moments, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """What the engine adds to each cell for each of these rows."""
    shown = ", ".join(f"{name}::{'BOOLEAN' if name in ('f', 'g') else 'INTEGER'} AS {name}" for name in names)
    listed = ", ".join(str(row).replace(",)", ")").replace("None", "NULL") for row in rows)
    source = exp.maybe_parse(
        f"SELECT {shown}, r FROM (VALUES {listed}) AS t({', '.join(names)}, r)", dialect="duckdb", into=exp.Select
    )
    columns = ", ".join(f'COALESCE("{t.value}", 0)' for t in statistic.tallies)
    sql = divided_sql(source, [statistic]).sql(dialect="duckdb")
    with duckdb.connect() as db:
        return [list(row) for row in db.execute(f"SELECT {columns} FROM ({sql}) ORDER BY r").fetchall()]


def divided(resolution: int, steps: Iterable[tuple[int, int, int]]) -> dict[tuple[int, ...], int]:
    """What a row with these (x − L, U − L, degree) adds to each cell, computed apart from the engine.

    Theorem MOMENTS-1: each split takes the nearest integer to its share, and leaves the rest.
    """
    cells: dict[tuple[int, ...], int] = {(): resolution}
    for distance, span, degree in steps:
        cells = {(*index, 0): mass for index, mass in cells.items()}
        for _ in range(degree):
            after: dict[tuple[int, ...], int] = {}
            for (*before, high), mass in cells.items():
                up = round(mass * (float(distance) / float(span)))
                after[*before, high] = after.get((*before, high), 0) + mass - up
                after[*before, high + 1] = after.get((*before, high + 1), 0) + up
            cells = after
    return cells


@pytest.mark.sample(9)
@pytest.mark.parametrize("degrees", [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (2, 2), (1, 1, 1)])
@pytest.mark.parametrize("resolution", [1, 2, 5, 16])
def test_every_row_adds_integers_that_are_not_negative_and_sum_to_the_resolution(
    degrees: tuple[int, ...], resolution: int
) -> None:
    for spans in [(2, 4, 3)[: len(degrees)], (3, 6, 2)[: len(degrees)], (1, 1, 1)[: len(degrees)]]:
        axes = [value(f"v{i}", span, low=-1) for i, span in enumerate(spans)]
        ask = Ask(frozenset(axes), dict(zip(axes, degrees, strict=True)))
        statistic = moments("c", [ask], resolution, TEXTS)
        points = list(product(*(range(span + 1) for span in spans)))
        rows = [(*(q - 1 for q in point), n) for n, point in enumerate(points)]
        splits = sum(degrees) * prod(d + 1 for d in degrees)
        for point, found in zip(points, cells(statistic, [a.column for a in axes], rows), strict=True):
            steps = list(zip(point, spans, degrees, strict=True))
            assert found == list(dict(sorted(divided(resolution, steps).items())).values())
            assert min(found) >= 0 and sum(found) == resolution
            for (_, index), mass in zip(statistic.cells, found, strict=True):
                share = Fraction(1) * prod(
                    comb(d, i) * Fraction(q, s) ** i * (1 - Fraction(q, s)) ** (d - i)
                    for i, (q, s, d) in zip(index, steps, strict=True)
                )
                assert abs(mass - share * resolution) <= splits


def test_the_sensitivity_is_the_resolution_times_the_mass() -> None:
    x, y = value("v0", 3), value("v1", 4)
    statistic = moments("c", [Ask(frozenset({x, y}), {x: 1, y: 1})], 8, TEXTS)
    unit = Contribution(Fraction(3), Fraction(2), Fraction(2))
    assert statistic.sensitivity(unit).l1 == 24 and statistic.sensitivity(unit).l2_squared == 3 * 2 * 64


X, Y, Z = value("v0", 2), value("v1", 3), value("v2", 2, nullable=False)
NEEDS = {
    "a pair": [power_sum(X, None, i, Y, j) for i in range(3) for j in range(3)],
    "a pair and each of it": [power_sum(X, None, 1, Y, 1), Quantity("total", X), Quantity("present", Y)],
    "a pair and all rows": [power_sum(X, None, 1, Y, 2), Quantity("rows")],
    "never NULL": [power_sum(X, None, 1, Z, 1), Quantity("total", Z), Quantity("present", X), Quantity("rows")],
    "filters": [Quantity("rows", None, "f"), Quantity("rows", None, "g"), Quantity("rows")],
    "filtered values": [Quantity("total", X, "f"), Quantity("total", X), Quantity("present", X, "g"), Quantity("rows")],
    "four powers": [power_sum(X, "f", i) for i in range(5)],
    "counts": [Quantity("present", X), Quantity("present", Y), Quantity("rows")],
}  # fmt: skip


def brute(quantity: Quantity, row: dict[str, Any]) -> Fraction:
    """What one row adds to a quantity, by its definition."""
    if quantity.where is not None and not row[quantity.where]:
        return Fraction(0)
    values = [v for v in (quantity.value, quantity.second) if v is not None]
    if any(row[v.column] is None for v in values):
        return Fraction(0)
    if quantity.kind == "total":
        assert quantity.value is not None
        return Fraction(row[quantity.value.column])
    powers = {"first": (1, 0), "second": (2, 0)}.get(quantity.kind, quantity.powers)
    shares = [Fraction(row[v.column] - v.grid.low, v.grid.span) for v in values]
    return prod((u**p for u, p in zip(shares, powers, strict=False)), start=Fraction(1))


@pytest.mark.parametrize("name", NEEDS)
def test_each_quantity_is_what_its_definition_says(name: str) -> None:
    needs = NEEDS[name]
    asks = [ask for q in needs if (ask := asked(q)) is not None]
    statistic = moments("c", asks, 6**4, TEXTS)  # so fine that no split is rounded
    names = [axis.column if isinstance(axis, Value) else axis for axis in statistic.axes]
    choices = [
        (False, True, None)
        if isinstance(axis, str)
        else [*range(axis.grid.span + 1), *([None] if axis.nullable else [])]
        for axis in statistic.axes
    ]
    points = list(product(*choices))
    made = cells(statistic, names, [(*point, n) for n, point in enumerate(points)])
    for quantity in [*needs, *statistic.quantities()]:
        weights = statistic.weights(quantity)
        assert weights is not None, quantity
        for point, row in zip(points, made, strict=True):
            assert sum(w * m for w, m in zip(weights, row, strict=True)) == brute(
                quantity, dict(zip(names, point, strict=True))
            )


def test_a_value_that_is_never_null_under_a_filter_says_nothing_of_other_rows() -> None:
    firm = value("v0", 2, nullable=False)
    needs = [Quantity("total", firm, "f"), Quantity("rows"), Quantity("rows", None, "f")]
    statistic = moments("c", [ask for q in needs if (ask := asked(q)) is not None], 4, TEXTS)
    assert statistic.weights(Quantity("total", firm)) is None
    rows = [(True, 1, 0), (False, None, 1), (None, 2, 2)]
    made = cells(statistic, ["f", "v0"], rows)
    weights = [statistic.weights(q) for q in needs]
    sums = [sum(w * sum(row[i] for row in made) for i, w in enumerate(one or ())) for one in weights]
    assert sums == [1, 3, 1]


def test_what_is_the_same_number_is_the_same_quantity() -> None:
    assert power_sum(X, None, 1, Y, 2) == power_sum(Y, None, 2, X, 1)
    assert power_sum(X, None, 1, X, 1) == power_sum(X, None, 2)
    assert power_sum(X, None, 2, Z, 0) == power_sum(X, None, 2)
    assert power_sum(Z, None, 0) == Quantity("rows")
    assert power_sum(X, None, 1, Y, 0) != power_sum(X, None, 1)


# ---------------------------------------------------------------- which of them is measured


def candidates(needs: list[Quantity]) -> list[Strategy]:
    unit = Contribution(Fraction(1), Fraction(1), Fraction(1))
    fine = Fine(2**20, True)
    return strategies(needs, TEXTS, unit, weight=1, rows_are_units=False, fine=fine, candidates=1)


def variance(strategy: Strategy, contrast: dict[Quantity, Fraction]) -> Fraction:
    """Of a contrast, in units of 2/ε² · mass²: each statistic gets a share of ε."""
    count = len(strategy.statistics)
    unit = Contribution(Fraction(1), Fraction(1), Fraction(1))
    total = Fraction(0)
    terms: dict[tuple[int, int], Fraction] = {}
    for quantity, weight in contrast.items():
        for place, w in strategy.estimates[quantity].terms:
            terms[place] = terms.get(place, Fraction(0)) + w * weight
    for (statistic, _), w in terms.items():
        total += (w * strategy.statistics[statistic].sensitivity(unit).l1 * count) ** 2
    return total


@pytest.mark.parametrize(
    ("values", "together", "alone"), [(2, 1, Fraction(2)), (3, 2, Fraction(4)), (4, 4, Fraction(25, 4))]
)
def test_averages_at_once_have_the_errors_that_the_theory_says(values: int, together: int, alone: Fraction) -> None:
    # Theorem MOMENTS-2: Σ(u − 1/2) has variance 2^d/4 in one block of d values, d²/2 or (d+1)²/4 apart.
    axes = [value(f"v{i}", 2, nullable=False) for i in range(values)]
    needs = [q for axis in axes for q in (Quantity("total", axis), Quantity("rows"))]
    contrast = {Quantity("total", axes[0]): Fraction(1, 2), Quantity("rows"): Fraction(-1, 2)}  # Σ(u − 1/2)
    found = candidates(needs)
    whole = [s for s in found if len(s.statistics) == 1]
    split = [s for s in found if not any(isinstance(one, Moments) for one in s.statistics)]
    assert min(variance(s, contrast) for s in whole) == together
    assert min(variance(s, contrast) for s in split) == alone


def test_a_pair_costs_no_more_than_its_count() -> None:
    needs = [power_sum(X, None, i, Y, j) for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))]
    (first, *_) = candidates(needs)
    assert [len(s.tallies) for s in first.statistics] == [4]
    product_of_distances = dict(
        zip(needs, (Fraction(1, 4), Fraction(-1, 2), Fraction(-1, 2), Fraction(1)), strict=True)
    )
    assert variance(first, product_of_distances) == Fraction(1, 4)


def test_estimates_that_several_statistics_share_are_the_best_linear_unbiased_ones() -> None:
    # Theorem GLS-1, against the normal equations: unknowns are the four columns' means, tied by equal counts.
    x, y = value("x", 3, nullable=False), value("y", 3, nullable=False)
    statistics: list[Joint | Count] = [Joint(x, None, False, ""), Joint(y, None, False, ""), Count(None, None, "")]
    rows = Quantity("rows")
    wanted = [Quantity("total", x), Quantity("total", y), rows]
    variances = [Fraction(1), Fraction(4), Fraction(9)]
    offers: dict[Quantity, list[Linear]] = {}
    for i, statistic in enumerate(statistics):
        for quantity, weights in statistic.quantities().items():
            offers.setdefault(quantity, []).append(Linear.of({(i, c): w for c, w in enumerate(weights)}))
    found = _reconciled(offers, variances)
    places = [(i, c) for i, s in enumerate(statistics) for c in range(s.width)]
    noise = np.diag([float(variances[i]) for i, _ in places])

    def row(linear: Linear) -> list[float]:
        return [float(dict(linear.terms).get(place, 0)) for place in places]

    ties = np.array([np.subtract(row(o), row(offers[rows][0])) for o in offers[rows][1:]])
    for quantity in wanted:
        first, best = np.array(row(offers[quantity][0])), np.array(row(found[quantity]))
        shift = np.linalg.lstsq(ties.T, best - first, rcond=None)
        assert np.allclose(ties.T @ shift[0], best - first)  # what was taken off is noise alone: unbiased
        assert np.allclose(ties @ noise @ best, 0, atol=1e-4)  # and nothing more could be taken off
    assert found[rows].variance(variances) < min(o.variance(variances) for o in offers[rows])
    alone = offers[Quantity("total", x)][0].variance(variances)
    assert found[Quantity("total", x)].variance(variances) < alone
