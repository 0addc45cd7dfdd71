"""Indexes of heavy units, and what several of them say together of the units that a statement must look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsql.core.frozen import dataclass
from dpsql.quote.candidates import UNIT
from dpsql.quote.indexed import UnitsTable

if TYPE_CHECKING:
    from dpsql.plan.nodes import Expr
    from dpsql.quote.indexed import Need, Owned, RowSizes, Use

ROWS, MOST = "rows", "most"
FEW = 0.3
"""Which part of the rows those of listed units may be: a guess, and nothing but time hangs on it."""
SLACK = 1e-6
"""By which part sums in doubles are taken to be larger: they are off by less than 1e-12 (Theorem INDEX-5)."""


@dataclass(frozen=True, slots=True, eq=False)
class HeavyUnits:
    """Every unit with more than `above` of these rows, once, and how many it has: an index (Theorem INDEX-1).

    by: with more than that in one group, whose rows have the same values of these expressions (Theorem INDEX-4).
    units: an Arrow table of private values, `unit`, `rows` and, where it is by groups, `most` in one of them, those
    with the most first; nothing but statements over private rows reads it.
    complete: every row of the table has an owner. total: how many rows the table has, where a unit is listed.
    totals: aggregates of each unit's own rows, where all units are listed (above is 0); they are `units`' columns c0,
    c1, … of these types of the engine's.
    """

    of: Owned
    above: int
    units: Any
    complete: bool
    total: int
    by: tuple[Expr, ...] = ()
    totals: tuple[Expr, ...] = ()
    types: tuple[str, ...] = ()

    def serves(self, need: Need) -> bool:
        """Is every unit listed that must be?"""
        if need.sizes is not None:
            return self.holds(UnitsTable(need.of, need.sizes.columns))
        return (self.of, self.by) == need.counted and self.above <= need.limit  # Theorems INDEX-1, INDEX-4: N >= t

    def holds(self, table: UnitsTable) -> bool:
        """Are all units listed, with these aggregates?"""
        return self.of == table.of and not self.by and self.above == 0 and set(table.columns) <= set(self.totals)

    def listed(self, need: Need) -> Any:
        """The units that must be listed, with their rows, and no others.

        Theorems INDEX-1 and INDEX-4, with N for t: all others have at most N rows in any part of the table.
        """
        if need.sizes is not None:
            return self.units.filter(self._may_exceed(need.sizes, need.limit))
        above = np.flatnonzero(self.units.column(MOST if self.by else ROWS).to_numpy() > need.limit)
        return self.units.slice(0, int(above[-1]) + 1 if len(above) else 0)

    def _may_exceed(self, sizes: RowSizes, limit: int) -> Any:
        """Which units' rows may add up to more than the limit: all others don't (Theorem INDEX-5)."""
        import pyarrow as pa

        most = self.units.column(ROWS).to_numpy() * float(sizes.row)
        for total, weight in sizes.totals:
            amounts = self.units.column(total_name(self.totals.index(total))).cast(pa.float64())
            most += amounts.fill_null(0).to_numpy() * float(weight)  # NULL: no row has a value
        return pa.array(~(most * (1 + SLACK) <= float(limit)))


def total_name(place: int) -> str:
    """The name of an aggregate's column."""
    return f"c{place}"


@dataclass(frozen=True, slots=True, eq=False)
class Listed:
    """The units that one statement must look at apart, each once."""

    units: Any  # an Arrow table, `unit` and `rows`
    complete: bool  # every row of the statement's table has an owner
    total: int

    @property
    def helps(self) -> bool:
        """Are the rows of those units so few that looking at them apart takes less time than looking at all units?"""
        return int(self.units.column(ROWS).to_numpy().sum()) <= self.total * FEW


def listed_for(use: Use, heavy: Sequence[HeavyUnits]) -> Listed | None:
    """What indexes say together of what a statement needs; None where one of its needs isn't served."""
    served = [next((one for one in heavy if one.serves(need)), None) for need in use.needs]
    found = [(one, one.listed(need)) for one, need in zip(served, use.needs, strict=True) if one is not None]
    if len(found) < len(use.needs):
        return None
    units = _each_once([part for _, part in found])
    return None if units is None else Listed(units, found[0][0].complete, found[0][0].total)


def _each_once(parts: Sequence[Any]) -> Any:
    """All listed units, each once, in the type that the first table's have; None where another's don't fit into it."""
    import pyarrow as pa

    first, *others = (part.select([UNIT, ROWS]) for part in parts)
    if not any(other.num_rows for other in others):
        return first
    try:
        whole = pa.concat_tables([first, *(other.cast(first.schema) for other in others)])
    except pa.ArrowInvalid:
        return None
    return whole.group_by(UNIT).aggregate([(ROWS, "max")]).rename_columns([UNIT, ROWS])
