"""Why an aggregate is NULL: too few rows, or noise that hides how the values vary (Theorem INTERVAL-1, c)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsql.aggregates import RECIPES
from dpsql.aggregates.derived import Derived
from dpsql.answer.intervals import SET_SIZE, NoisyQuantities, Origin, too_few
from dpsql.answer.model import Answer

FEW = "too few"  # the number of rows may be noise alone
NOISY = "too noisy"  # there are enough rows, but what they are divided by, a noisy variance, isn't positive


def with_hidden(answer: Answer) -> Answer:
    """The answer with what helps where noise hides a variance, and not the number of rows."""
    names = [
        name
        for i, name in enumerate(answer.columns)
        if isinstance(answer.origins[i], Origin) and answer.table.column(i).null_count
        if NOISY in _of_nulls(answer, i)
    ]
    if not names:
        return answer
    hint = f"{', '.join(names)}: NULL where noise hides how values vary; narrower ranges or a larger ε help"
    return replace(answer, advice=(*answer.advice, hint))


def nulls(answer: Answer, column: int) -> list[str] | None:
    """What stands for a NULL in each row of a column; None where it shows no aggregate unchanged."""
    origin = answer.origins[column]
    if not isinstance(origin, Origin) or answer.cells is None:
        return None
    few = _too_few(answer, origin)
    return [FEW if one else NOISY for one in few]


def _of_nulls(answer: Answer, column: int) -> set[str]:
    known = nulls(answer, column) or []
    return {
        word for word, there in zip(known, answer.table.column(column).is_valid().to_pylist(), strict=True) if not there
    }


def _too_few(answer: Answer, origin: Origin) -> NDArray[np.bool_]:
    """The cells whose number of rows may be noise alone; all of them, where no variance decides about NULL."""
    assert answer.cells is not None
    places, found = np.asarray(answer.cells, dtype=np.int64), np.ones(len(answer.cells), dtype=np.bool_)
    for i, release in enumerate(origin.releases):
        noisy = next(n for n in answer.noisy if n.step.name == release)
        call = noisy.step.calls[origin.aggregate]
        recipe = RECIPES[call.function]
        if not isinstance(recipe, Derived):
            continue
        rows = np.flatnonzero(places // SET_SIZE == i)
        quantities = NoisyQuantities(noisy)
        small = too_few(noisy, call, quantities) | (quantities[recipe.rows(call)].floats < recipe.least)
        found[rows] = small[places[rows] % SET_SIZE]
    return found
