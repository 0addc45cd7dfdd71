"""Several stored releases of the same rows and cells as one: a sum from one of them and a count from another.

Only quantities that mean the same whatever grid they were measured on are taken over, each from the release in which it
has the least noise. All of it has left already (Theorem FREE-1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.aggregates.noisy import Noisy, StoredFacts, StoredNoise
from dpsql.statistics.base import Quantity, Value
from dpsql.statistics.strategy import Linear
from dpsql.store.archive import Archived

KINDS = ("rows", "present", "total", "units", "distinct")


def combined(found: Sequence[Archived]) -> Archived:
    """One table with the columns of all of them. Their cells must be the same: public keys, none withheld."""
    values: dict[str, Value] = {}
    wheres: dict[str, str] = {}
    for one in found:
        for text, value in one.values.items():
            if text not in values or values[text].grid.span == 0:  # rather one that was summed than one only counted
                # By a name of its own: v0 of one release is another column than v0 of the next.
                values[text] = replace(value, column=values[text].column if text in values else f"p{len(values)}")
        for text in one.wheres:
            wheres.setdefault(text, f"w{len(wheres)}")
    drawn = tuple(StoredNoise(m.noise) for one in found for m in one.noisy.step.measurements)
    variances = [Fraction(d.noise.variance) for d in drawn]
    estimates: dict[Quantity, Linear] = {}
    start = 0
    for one in found:
        step = one.noisy.step
        for quantity, linear in step.estimates.items():
            moved = Linear(tuple(((place + start, column), w) for (place, column), w in linear.terms))
            for common in _common(quantity, one, values, wheres):
                known = estimates.get(common)
                if known is None or moved.variance(variances) < known.variance(variances):
                    estimates[common] = moved
        start += len(step.measurements)
    left = StoredFacts("", (), drawn, estimates)
    columns = tuple(group for one in found for group in one.noisy.columns)
    return Archived(Noisy(left, found[0].noisy.cells, columns), values, wheres, {}, None)


def _common(
    quantity: Quantity, one: Archived, values: Mapping[str, Value], wheres: Mapping[str, str]
) -> Iterator[Quantity]:
    """A quantity in the names that all releases share; none where it has no meaning outside of its own.

    A value that is only counted is the same whatever range it was found to have: it may have several names.
    """
    if quantity.kind not in KINDS:
        return
    where = quantity.where
    if where is not None:
        text = next((t for t, name in one.wheres.items() if name == where), None)
        if text is None:
            return
        where = wheres[text]
    if quantity.value is None:
        yield replace(quantity, where=where)
    for text, value in one.values.items():
        if value == quantity.value:
            yield replace(quantity, value=values[text], where=where)
