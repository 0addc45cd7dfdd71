"""Answer: what a query returns. Values, error bars, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsql.accounting.account import Receipt
from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.error import half_width
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.choices import CHOSEN

Arrow = Any
Interval = tuple[float, float] | None


SET_SIZE = 2**40  # cell c of the release of grouping set i is numbered i · SET_SIZE + c


@dataclass(frozen=True, slots=True)
class Origin:
    """An output column that shows one aggregate unchanged: of one release, or of the release of each grouping set."""

    releases: tuple[str, ...]
    aggregate: int


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A private answer. Everything in it is safe to show and to keep."""

    table: Arrow
    noisy: tuple[Noisy, ...]
    origins: tuple[Origin | None, ...]
    cells: Sequence[int] | None
    cost: Cost
    receipt: Receipt
    ranges: tuple[Mapping[str, Any], ...] = ()
    """The automatic bounds that it rests on: column, low, high, found (else a fixed fallback), release."""
    limits: tuple[str, ...] = ()
    """The limits and ranges that may have cut something, which no interval speaks of."""
    clipping: tuple[Mapping[str, Any], ...] | None = None
    """About which share of units limits and ranges cut: what, limit or of, share, suggestion; None: not asked for."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.table.column_names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, as tuples of Python values; a date that Python has no place for as its text."""
        columns = [values(self.table.column(i)) for i in range(self.table.num_columns)]
        return list(zip(*columns, strict=True))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of how values were chosen, in words."""
        found: list[str] = []
        for step in (one.step for one in self.noisy):
            said = {call.function: note for call in step.calls if (note := RECIPES[call.function].note) is not None}
            for note in dict.fromkeys(said.values()):
                found.append(f"{' and '.join(sorted(name for name in said if said[name] == note))}: {note}")
            noises = [m.noise for m in step.measurements]
            scores = [place for q, e in step.estimates.items() if q.kind not in CHOSEN for place, _ in e.terms]
            if any(isinstance(noises[place[0]], NoisyMax) for place in scores):
                found.append("the winners were chosen: the counts or sums behind them were not released")
        return tuple(dict.fromkeys(found))

    def to_arrow(self) -> Arrow:
        """A pyarrow.Table."""
        return self.table

    def to_pandas(self) -> Any:
        """A pandas.DataFrame (extra: pandas)."""
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        """A polars.DataFrame (extra: polars)."""
        import polars

        return polars.from_arrow(self.table)

    def intervals(self, confidence: float = 0.95) -> dict[str, list[Interval] | None]:
        """For each column the interval in which the exact value lies with this confidence, row by row.

        It speaks of the noise alone: values that were clipped, or units beyond a limit, are not part of it. None for
        a column without noise of its own (a key, or an expression over several aggregates), and for quantiles.
        """
        if not 0 < confidence < 1:
            raise ValueError("confidence lies between 0 and 1")
        found: dict[str, list[Interval] | None] = {}
        for name, origin in zip(self.columns, self.origins, strict=True):
            rows = None if origin is None or self.cells is None else self._column(origin, confidence)
            found[name] = None if origin is not None and self._is_chosen(origin) else rows
        return found

    def _is_chosen(self, origin: Origin) -> bool:
        """Is it a value that was chosen? How far off it is depends on the data."""
        step = next(n.step for n in self.noisy if n.step.name == origin.releases[0])
        call = step.calls[origin.aggregate]
        return any(need.kind in CHOSEN for need in RECIPES[call.function].needs(call))

    def _column(self, origin: Origin, confidence: float) -> list[Interval]:
        """Each row's interval: that of the cell that it shows."""
        assert self.cells is not None
        rows: list[Interval] = [None] * len(self.cells)
        for i, release in enumerate(origin.releases):
            noisy = next(n for n in self.noisy if n.step.name == release)
            found = intervals(noisy, origin.aggregate, confidence)
            for row, cell in enumerate(self.cells):
                if cell // SET_SIZE == i:
                    rows[row] = found[cell % SET_SIZE]
        return rows

    def __str__(self) -> str:
        from dpsql.answer.render import plain_table

        return plain_table(self)

    def _repr_html_(self) -> str:
        from dpsql.answer.render import html_table

        return html_table(self)


def values(column: Arrow) -> list[Any]:
    """A column's Python values; what none can hold (an infinite date, or the year 20000) as DuckDB writes it."""
    import pyarrow as pa

    try:
        found: list[Any] = column.to_pylist()
        return found
    except (OverflowError, ValueError):
        from dpsql.backends.choose import as_texts

        plain = column.cast(pa.timestamp(column.type.unit)) if pa.types.is_timestamp(column.type) else column
        return [_value(one, text) for one, text in zip(column, as_texts(plain), strict=True)]


def _value(one: Arrow, text: str | None) -> Any:
    try:
        return one.as_py()
    except (OverflowError, ValueError):
        return text


def intervals(noisy: Noisy, aggregate: int, confidence: float) -> list[Interval]:
    """For each cell of a release the interval of one of its aggregates; None where it has none."""
    import numpy as np

    step = noisy.step
    call = step.calls[aggregate]
    recipe = RECIPES[call.function]
    quantities = {q: noisy.estimate(linear) for q, linear in step.estimates.items()}
    spread = recipe.spread(call, quantities)
    weights: dict[tuple[int, int], Any] = {}
    for quantity, slope in spread.slopes:
        for place, weight in step.estimates[quantity].terms:
            weights[place] = weights.get(place, 0.0) + slope * float(weight)
    drawn = [(w, step.measurements[place[0]].noise) for place, w in weights.items()]
    if any(isinstance(noise, NoisyMax) for _, noise in drawn):  # how far off a choice is depends on the data
        return [None] * noisy.count
    terms = [(w, noise) for w, noise in drawn if not isinstance(noise, NoisyMax)]
    if not terms:  # a sum of what is always 0 is 0, and nothing was measured for it
        return [_around(float(c), 0.0, recipe.bounds(call)) for c in spread.centre]
    wide = np.full(noisy.count, np.inf)
    finite = np.all([np.isfinite(w) for w, _ in terms], axis=0)
    if finite.any():
        wide[finite] = half_width([(w[finite], n) for w, n in terms], confidence)
    bounds = recipe.bounds(call)
    return [_around(float(c), float(w), bounds) for c, w in zip(spread.centre, wide, strict=True)]


def _around(centre: float, width: float, bounds: tuple[float, float] | None) -> Interval:
    if width == float("inf"):
        return bounds
    low, high = centre - width, centre + width
    return (max(low, bounds[0]), min(high, bounds[1])) if bounds is not None else (low, high)
