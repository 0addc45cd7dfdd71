"""REGR_SLOPE, REGR_INTERCEPT, REGR_COUNT, REGR_AVGX, REGR_AVGY, REGR_SXX, REGR_SYY, REGR_SXY: of y on x."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dpsql.aggregates.base import Arrow, Call, Floats, Rational, Recipe, Spread
from dpsql.aggregates.derived import Derived, Numbers, Of, positive
from dpsql.statistics.base import Quantity

# The first argument is y (u), the second x (v).
_LINE = ((1, 0), (0, 1), (1, 1), (0, 2))


def _slope(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers, vv: Numbers) -> Numbers:
    return (uv - u * v) / positive(vv - v * v) * of.span / of.second_span


def _intercept(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers, vv: Numbers) -> Numbers:
    slope = _slope(of, n, u, v, uv, vv)
    return of.low + of.span * u - slope * (of.second_low + of.second_span * v)


def _average_x(of: Of, n: Numbers, v: Numbers) -> Numbers:
    return of.second_low + of.second_span * v


def _average_y(of: Of, n: Numbers, u: Numbers) -> Numbers:
    return of.low + of.span * u


def _squares_x(of: Of, n: Numbers, v: Numbers, vv: Numbers) -> Numbers:
    return n * (vv - v * v) * of.second_span**2


def _squares_y(of: Of, n: Numbers, u: Numbers, uu: Numbers) -> Numbers:
    return n * (uu - u * u) * of.span**2


def _products(of: Of, n: Numbers, u: Numbers, v: Numbers, uv: Numbers) -> Numbers:
    return n * (uv - u * v) * of.span * of.second_span


def _not_negative(of: Of, n: Floats) -> tuple[float, float]:
    return 0.0, np.inf


class Pairs(Recipe):
    """How many rows have both values: an integer, as DuckDB's type for it has none below 0."""

    name = "REGR_COUNT"
    description = "REGR_COUNT(y, x): the number of rows with both, not below 0"
    nodes = (exp.RegrCount,)
    pair = True
    takes = "anything"
    zero_where_empty = True
    one_number = True

    def needs(self, call: Call) -> tuple[Quantity, ...]:
        return (call.powers(0, 0),)

    def contrasts(self, call: Call) -> list[dict[Quantity, Fraction]]:
        return [{call.powers(0, 0): Fraction(1)}]

    def answer(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Arrow:
        import pyarrow as pa

        numbers = noisy[call.powers(0, 0)].rounded()
        return pa.array([min(max(int(n), 0), 2**32 - 1) for n in numbers], pa.int64())

    def spread(self, call: Call, noisy: Mapping[Quantity, Rational]) -> Spread:
        centre = noisy[call.powers(0, 0)].floats
        return Spread(centre, [(call.powers(0, 0), np.ones_like(centre))])


_TOO_SMALL = "NULL where the noisy count of pairs may be noise alone"
_FLAT = "NULL where the noisy variance of x isn't positive"
AGGREGATES = (
    Derived(
        "REGR_SLOPE", f"of y on x; {_FLAT}", _LINE, _slope, lambda of: of.span / of.second_span,
        pair=True, least=1.5, nodes=(exp.RegrSlope,),
    ),
    Derived(
        "REGR_INTERCEPT", f"of y on x; {_FLAT}", _LINE, _intercept,
        lambda of: of.span * (1 + abs(of.second_low / of.second_span)), pair=True, least=1.5,
        nodes=(exp.RegrIntercept,),
    ),
    Pairs(),
    Derived(
        "REGR_AVGX", f"AVG(x) over rows with both; {_TOO_SMALL}", ((0, 1),), _average_x, lambda of: of.second_span / 2,
        pair=True, limits=lambda of, n: (of.second_low, of.second_low + of.second_span), nodes=(exp.RegrAvgx,),
    ),
    Derived(
        "REGR_AVGY", f"AVG(y) over rows with both; {_TOO_SMALL}", ((1, 0),), _average_y, lambda of: of.span / 2,
        pair=True, limits=lambda of, n: (of.low, of.low + of.span), nodes=(exp.RegrAvgy,),
    ),
    Derived(
        "REGR_SXX", f"n · VAR_POP(x) over rows with both; {_TOO_SMALL}", ((0, 1), (0, 2)), _squares_x,
        lambda of: 250_000 * of.second_span**2, pair=True, limits=_not_negative, fixed=False, shrinks=False,
        nodes=(exp.RegrSxx,),
    ),
    Derived(
        "REGR_SYY", f"n · VAR_POP(y) over rows with both; {_TOO_SMALL}", ((1, 0), (2, 0)), _squares_y,
        lambda of: 250_000 * of.span**2, pair=True, limits=_not_negative, fixed=False, shrinks=False,
        nodes=(exp.RegrSyy,),
    ),
    Derived(
        "REGR_SXY", f"n · COVAR_POP(y, x); {_TOO_SMALL}", ((1, 0), (0, 1), (1, 1)), _products,
        lambda of: 250_000 * of.span * of.second_span, pair=True, shrinks=False, nodes=(exp.RegrSxy,),
    ),
)  # fmt: skip
