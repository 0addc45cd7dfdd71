"""What is answered: one file per SQL aggregate, a recipe over measured statistics. Post-processing: it cannot leak."""

from __future__ import annotations

from dpsql.aggregates import bool_and_or, covariance, quantile, regression, shape, variance
from dpsql.aggregates.average import Average
from dpsql.aggregates.base import Recipe
from dpsql.aggregates.count import Count
from dpsql.aggregates.derived import Derived
from dpsql.aggregates.geomean import GeometricMean
from dpsql.aggregates.regression import Pairs
from dpsql.aggregates.total import Total

_RECIPES: tuple[Recipe, ...] = (
    Count(), Total(), Average(), GeometricMean(), *variance.RECIPES, *shape.RECIPES, *covariance.RECIPES,
    *regression.RECIPES, *bool_and_or.RECIPES, *quantile.RECIPES,
)  # fmt: skip
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}
PAIRS = frozenset(r.name for r in _RECIPES if isinstance(r, Pairs) or (isinstance(r, Derived) and r.pair))
"""The aggregates of two values."""

COUNTED = frozenset({"COUNT", "REGR_COUNT"})
"""The aggregates whose values are only counted: they need no range."""


def is_moments(function: str) -> bool:
    """Is it made of powers of values relative to their range?"""
    return isinstance(RECIPES[function], Derived | variance.Variance)
