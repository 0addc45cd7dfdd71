"""Several stored releases of the same rows and cells as one: a sum from one of them and a count from another.

Only quantities that mean the same whatever grid they were measured on are taken over, each from the release in which it
has the least noise. All of it has left already (Theorem FREE-1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.archive import Archived, Drawn, Left
from dpsql.release import Noisy
from dpsql.statistics.base import Quantity, Value
from dpsql.statistics.strategy import Linear

KINDS = ("rows", "present", "total", "units", "distinct")


def pool(found: Sequence[Archived]) -> Archived:
    """One table with the columns of all of them. Their cells must be the same: public keys, none withheld."""
    values: dict[str, Value] = {}
    wheres: dict[str, str] = {}
    for one in found:
        for text, value in one.values.items():
            if text not in values or values[text].grid.span == 0:  # rather one that was summed than one only counted
                values[text] = value
        for text in one.wheres:
            wheres.setdefault(text, f"w{len(wheres)}")
    drawn = tuple(Drawn(m.noise) for one in found for m in one.noisy.step.measurements)
    variances = [Fraction(d.noise.variance) for d in drawn]
    estimates: dict[Quantity, Linear] = {}
    start = 0
    for one in found:
        step = one.noisy.step
        for quantity, linear in step.estimates.items():
            common = _common(quantity, one, values, wheres)
            if common is None:
                continue
            moved = Linear(tuple(((place + start, column), w) for (place, column), w in linear.terms))
            known = estimates.get(common)
            if known is None or moved.variance(variances) < known.variance(variances):
                estimates[common] = moved
        start += len(step.measurements)
    left = Left("", (), drawn, estimates)
    columns = tuple(group for one in found for group in one.noisy.columns)
    return Archived(Noisy(left, found[0].noisy.cells, columns), values, wheres, {}, None)


def _common(quantity: Quantity, one: Archived, values: dict[str, Value], wheres: dict[str, str]) -> Quantity | None:
    """A quantity in the names that all releases share; None where it has no meaning outside of its own."""
    if quantity.kind not in KINDS:
        return None
    value, where = quantity.value, quantity.where
    if value is not None:
        text = next((t for t, v in one.values.items() if v == value), None)
        if text is None:
            return None
        value = values[text]
    if where is not None:
        text = next((t for t, name in one.wheres.items() if name == where), None)
        if text is None:
            return None
        where = wheres[text]
    return replace(quantity, value=value, where=where)
