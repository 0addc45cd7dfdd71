"""What is answered: one file per SQL aggregate, a recipe over measured statistics. Post-processing: it cannot leak."""

from __future__ import annotations

from sqlglot import exp

from dpsql.aggregates import (
    any_value,
    average,
    bool_and_or,
    count,
    covariance,
    entropy,
    geomean,
    mad,
    mode,
    present,
    quantile,
    regression,
    results_only,
    shape,
    total,
    variance,
)
from dpsql.aggregates.base import Recipe
from dpsql.aggregates.form import Form

_FILES = (
    count, total, average, geomean, variance, shape, covariance, regression, bool_and_or, quantile, mad, entropy,
    any_value, mode, present, results_only,
)  # fmt: skip
FORMS: dict[str, Form] = {form.name: form for file in _FILES for form in file.AGGREGATES}
"""Every aggregate function that SQL may call, by DuckDB's name, in the order of `dpsql functions`; and presence."""

RECIPES: dict[str, Recipe] = {name: form for name, form in FORMS.items() if isinstance(form, Recipe)}
"""Those that are answered from measured statistics."""

COUNT = count.Count.name

_BY_NODE: dict[type, Form] = {node: form for form in FORMS.values() for node in form.nodes}
_BY_WORD = {word: form for form in FORMS.values() for word in form.words}


def form_of(node: object) -> Form | None:
    """The aggregate function that a node of a parsed tree calls; None where it calls none."""
    if isinstance(node, exp.Anonymous):
        return _BY_WORD.get(node.name.upper())
    return _BY_NODE.get(type(node))
