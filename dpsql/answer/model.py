"""Answer: what a query returns. Values, error bars, what it cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import ceil
from typing import Any

from dpsql.accounting.account import Receipt
from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.intervals import Error, Interval, Origin, row_intervals
from dpsql.core.cost import Cost
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.statistics.choices import CHOSEN

Arrow = Any


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A private answer. Everything in it is safe to show and to keep."""

    table: Arrow
    noisy: tuple[Noisy, ...]
    origins: tuple[Error | None, ...]
    """Where each column's error comes from; None: it has none, or it isn't known."""
    cells: Sequence[int] | None
    cost: Cost
    receipt: Receipt
    ranges: tuple[Mapping[str, Any], ...] = ()
    """The automatic bounds that it rests on: column, low, high, found (else a fixed fallback), release."""
    limits: tuple[str, ...] = ()
    """The limits and ranges that may have cut something, which no interval speaks of."""
    clipping: tuple[Mapping[str, Any], ...] | None = None
    """About which share of units limits and ranges cut: what, limit or of, share, suggestion; None: not asked for."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Noisy columns whose error isn't known, and why."""
    ranks: Mapping[str, float] = field(default_factory=dict)
    """Columns of values that were chosen: at most so many rows lie between each and the exact one, with 95%."""
    later: Callable[[], Answer] | None = None
    """The answer with intervals that take long; not stored."""

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
        found += [
            f"{name}: at most {show_rows(off)} from the exact one, in each row with 95%"
            for name, off in self.ranks.items()
        ]
        found += [f"{name} has no interval: {why}" for name, why in self.missing.items()]
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

    def intervals(self, confidence: float = 0.95, *, simulate: bool = False) -> dict[str, list[Interval] | None]:
        """For each column the interval in which the exact value lies with this confidence, row by row.

        It speaks of the noise alone: values that were clipped, or units beyond a limit, are not part of it. None for
        a column without noise (a key), and for one whose error isn't known: `missing` says why. simulate: also where
        that takes long, up to a minute, and while the session is open.
        """
        if not 0 < confidence < 1:
            raise ValueError("confidence lies between 0 and 1")
        if simulate:
            return self.simulated().intervals(confidence)
        found: dict[str, list[Interval] | None] = {}
        for i, (name, error) in enumerate(zip(self.columns, self.origins, strict=True)):
            shown = [] if isinstance(error, Origin) or error is None else values(self.table.column(i))
            found[name] = None if error is None else row_intervals(error, shown, self.noisy, self.cells, confidence)
            if isinstance(error, Origin) and self._is_chosen(error):
                found[name] = None
        return found

    def simulated(self) -> Answer:
        """The same answer with the intervals that take long."""
        return self if self.later is None else self.later()

    def _is_chosen(self, origin: Origin) -> bool:
        """Is it a value that was chosen? How far off it is depends on the data."""
        step = next(n.step for n in self.noisy if n.step.name == origin.releases[0])
        call = step.calls[origin.aggregate]
        return any(need.kind in CHOSEN for need in RECIPES[call.function].needs(call))

    def __str__(self) -> str:
        from dpsql.answer.render import plain_table

        return plain_table(self)

    def _repr_html_(self) -> str:
        from dpsql.answer.render import html_table

        return html_table(self)


def show_rows(off: float) -> str:
    """A number of rows, in words."""
    return f"{ceil(off):,} rows" if ceil(off) != 1 else "1 row"


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
