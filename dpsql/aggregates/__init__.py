"""What is answered: one file per SQL aggregate, a recipe over measured statistics. Post-processing: it cannot leak."""

from __future__ import annotations

from dpsql.aggregates import quantile, variance
from dpsql.aggregates.average import Average
from dpsql.aggregates.base import Recipe
from dpsql.aggregates.count import Count
from dpsql.aggregates.total import Total

_RECIPES: tuple[Recipe, ...] = (Count(), Total(), Average(), *variance.RECIPES, *quantile.RECIPES)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _RECIPES}
