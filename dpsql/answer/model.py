"""Answer: what a query returns. Values, error bars, what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from dpsql.accounting.account import Receipt
from dpsql.accounting.signing import Signer
from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.answer.about import About
from dpsql.answer.intervals import Error, Interval, Origin, row_intervals
from dpsql.core.arrays import to_python
from dpsql.core.cost import Cost
from dpsql.core.errors import removed
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass
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
    """The limits and ranges that may have cut something."""
    cut: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Columns that limits or ranges cut: low_by (about, relative; below 0: high), exceeds_noise. It is in intervals."""
    cut_notes: tuple[str, ...] = ()
    """What is known of what each limit and range cuts, in words."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Noisy columns whose error isn't known, and why."""
    ranks: Mapping[str, float] = field(default_factory=dict)
    """Columns of values that were chosen: at most so many rows lie between each and the exact one, with 95%."""
    advice: tuple[str, ...] = ()
    """What to ask for instead where a column says little: for extreme values, and where noise hides a variance."""
    lists: tuple[str, ...] = ()
    """Where it asks which groups there are: how small a group may be missed, in words."""
    left_out: tuple[str, ...] = ()
    """What isn't in it, in words: small groups, rows of nobody, and why there may be nothing at all."""
    few: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Of columns, by their places, the rows without a value because they divide by what may be noise alone."""
    later: Callable[[], Answer] | None = None
    """The answer with intervals that take long; not stored."""
    about: About = field(default_factory=dict)
    """What files say of it: the SQL, cost, releases, mechanisms, policy, versions."""
    signer: Signer | None = None
    """What signs its receipts; not stored."""

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
        """What a reader should know besides the values, a line each: what the command line prints under an answer."""
        from dpsql.answer.notes import notes_of

        return notes_of(self)

    def to_arrow(self, *, intervals: bool = False, confidence: float = 0.95) -> Arrow:
        """A pyarrow.Table. What it cost, its SQL, policy and the rest are in the schema's metadata, as JSON.

        intervals: each column that has intervals is followed by their ends, as name_low and name_high; NULL is an end
        that isn't known.
        """
        from dpsql.answer.outgoing import outgoing

        return outgoing(self, confidence if intervals else None)

    def to_pandas(self, *, intervals: bool = False, confidence: float = 0.95) -> Any:
        """A pandas.DataFrame (extra: pandas). intervals: as for to_arrow."""
        extra("pandas", "pandas", "a DataFrame of pandas")
        return self.to_arrow(intervals=intervals, confidence=confidence).to_pandas()

    def to_polars(self, *, intervals: bool = False, confidence: float = 0.95) -> Any:
        """A polars.DataFrame (extra: polars). intervals: as for to_arrow."""
        polars = extra("polars", "polars", "a DataFrame of polars")
        return polars.from_arrow(self.to_arrow(intervals=intervals, confidence=confidence))

    def write(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        intervals: bool = False,
        confidence: float = 0.95,
        receipt: bool = False,
    ) -> None:
        """Write the answer to a file, whole or not at all.

        format: "csv", "json", "parquet", "arrow", "table", or a chart: "png", "svg", "html"; by default what the name
            ends in.
        intervals: CSV, parquet and Arrow get the ends of intervals as columns name_low and name_high.
        receipt: also write a signed `.receipt.json` beside it, which `dpsql verify` checks (extra: sign).
        """
        from dpsql.answer.files import ENDINGS, write_whole
        from dpsql.answer.receipts import receipt_path, signed_receipt
        from dpsql.answer.render import encode

        file = Path(path)
        chosen = format or ENDINGS.get(file.suffix.lower())
        if chosen is None:
            raise ValueError(f"{file}: the name must end in {', '.join(ENDINGS)}, or give a format")
        content = encode(self, chosen, confidence if intervals else None)
        contents = [(file, content)]
        if receipt:
            if self.signer is None:
                raise ValueError("this answer belongs to no ledger that could sign its receipt")
            contents.append((receipt_path(file), signed_receipt(self.about, file.name, content, self.signer)))
        write_whole(contents)

    def intervals(self, confidence: float = 0.95, *, simulate: bool = False) -> dict[str, list[Interval] | None]:
        """For each column the interval in which the query's true answer lies with this confidence, row by row.

        It holds the noise, and what limits and ranges cut as far as that is known (`cut_notes`; Theorem CUT-1 says what
        is assumed). None for a column without noise (a key), and for one whose error isn't known: `missing` says why.
        An infinite end isn't known: (19600.0, inf) is "at least 19,600", and there is no 95% interval upwards.
        simulate: also where that takes long, up to a minute, and while the session is open.
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

    @property
    def clipping(self) -> None:
        """Gone: what is cut is part of every answer."""
        raise removed("answer.clipping", "answer.cut has what is cut of each column, and answer.cut_notes says it")

    def simulated(self) -> Answer:
        """The same answer with the intervals that take long."""
        if self.later is None:
            return self
        found = self.later()
        return replace(self, origins=found.origins, missing=found.missing, later=None)

    def _is_chosen(self, origin: Origin) -> bool:
        """Is it a value that was chosen? How far off it is depends on the data."""
        step = next(n.step for n in self.noisy if n.step.name == origin.releases[0])
        call = step.calls[origin.aggregate]
        return any(need.kind in CHOSEN for need in RECIPES[call.function].needs(call))

    def arrow(self) -> Arrow:
        """As to_arrow()."""
        return self.to_arrow()

    def df(self) -> Any:
        """As to_pandas()."""
        return self.to_pandas()

    def pl(self) -> Any:
        """As to_polars()."""
        return self.to_polars()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For whatever reads Arrow streams: polars.DataFrame(answer), pyarrow.table(answer), duckdb."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Its rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many rows it has."""
        return int(self.table.num_rows)

    def __bool__(self) -> bool:
        """True: also an answer without rows is one."""
        return True

    def plot(self, *, x: str | None = None, y: str | None = None, by: str | None = None) -> Any:
        """A chart with error bars, of altair's (extra: plot): lines over dates and numbers, bars over other keys.

        y: the column that is drawn, by default each with noise, one below the other. x: the key below it, by default
        the first. by: a second key, one colour for each of its values. `answer.plot().save("x.png")` writes it, and so
        does `answer.write("x.svg")`.
        """
        from dpsql.answer.plot import charts_of, drawn_all

        return drawn_all(charts_of(self, x, y, by))

    def __repr__(self) -> str:
        from dpsql.answer.text_table import short_text

        return short_text(self)

    def __str__(self) -> str:
        from dpsql.answer.text_table import plain_table

        return plain_table(self)

    def _repr_html_(self) -> str:
        from dpsql.answer.notebook import html_table

        return html_table(self)


def values(column: Arrow) -> list[Any]:
    """A column's Python values; what none can hold (an infinite date, or the year 20000) as DuckDB writes it."""
    import pyarrow as pa

    try:
        return to_python(column)
    except (OverflowError, ValueError):
        from dpsql.backends.choose import as_texts

        plain = column.cast(pa.timestamp(column.type.unit)) if pa.types.is_timestamp(column.type) else column
        return [_value(column.slice(i, 1), text) for i, text in enumerate(as_texts(plain))]


def _value(one: Arrow, text: str | None) -> Any:
    try:
        return to_python(one)[0]
    except (OverflowError, ValueError):
        return text
