"""Errors by simulation: fresh noise on the noisy tables, through the same query, again and again.

The noise of each draw is distributed as that of the measurements themselves, and hangs on what has left alone, so that
a stored answer shows the same intervals again (imitate.py). It is added to numbers that have left: it costs nothing and
tells nothing (Theorems POST-1 and INTERVAL-1). All draws are one query, a lateral join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.aggregates.noisy import Noisy
from dpsql.analyze.domains import PublicEngine
from dpsql.answer.cut import with_what_is_cut
from dpsql.answer.imitate import generator_of, imitated
from dpsql.answer.intervals import Floats, NoisyQuantities
from dpsql.answer.model import values as python_values
from dpsql.answer.tables import CELL, noisy_table
from dpsql.core.arrays import Integers, column, plus
from dpsql.core.errors import DataError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.sql.scalar import post

PAIRS = 200  # of a draw and its mirror image: noise is symmetric, and what is linear has a symmetric error
DRAWS = 2 * PAIRS
MAX_PUBLIC = 100_000  # rows of a public table that a simulated query may read
DRAW = "dpsql hidden draw"
DRAWN = "dpsql draws"

Arrow = Any


@dataclass(frozen=True, slots=True)
class Effort:
    """What a simulation may take: noisy numbers to draw, and seconds."""

    numbers: int
    seconds: float


AT_ONCE = Effort(1_000_000, 1.0)  # with every answer
ON_REQUEST = Effort(50_000_000, 60.0)


class NotSimulated(Exception):
    """Why a query has no simulated errors, in words; slow: it could have, if there were more time."""

    def __init__(self, why: str, *, slow: bool = False) -> None:
        super().__init__(why)
        self.slow = slow


def simulated(
    query: exp.Query, noisy: Sequence[Noisy], public: PublicEngine, effort: Effort, *, cut: bool = False
) -> Arrow:
    """The rows of a query for every draw: which draw in the first column, then the query's own.

    cut: the tables of each draw have what may be cut of them, too (Theorem CUT-1).
    Raises NotSimulated; whatever fails here fails in an engine of its own.
    """
    names = {n.step.name for n in noisy}
    if sum(n.count * sum(map(len, n.columns)) for n in noisy) * DRAWS > effort.numbers:
        raise NotSimulated(_SLOW, slow=True)
    root = post(query.copy())
    public_ones = {
        t.name for t in root.find_all(exp.Table) if isinstance(t.this, exp.Identifier) and t.name not in names
    } - {cte.alias for cte in root.find_all(exp.CTE)}
    tables = {name: _public_rows(name, public) for name in sorted(public_ones)}
    noisy = sorted(noisy, key=lambda one: one.step.name)
    generator = generator_of(noisy)
    fresh = _Fresh(generator)
    for one in noisy:
        many = fresh.of(one)
        own, drawn = NoisyQuantities(one), NoisyQuantities(many)
        others = with_what_is_cut(one, own, drawn, DRAWS, generator) if cut else None
        tables[_drawn(one.step.name)] = _with_draws(noisy_table(many, query, others), one.count)
    tables[DRAWN] = _plain({DRAW: np.arange(DRAWS)})
    for table in list(root.find_all(exp.Table)):
        if table.name in names:
            table.replace(_of_this_draw(table))
    whole = exp.select(_column(DRAW, DRAWN), exp.Column(this=exp.Star(), table=exp.to_identifier("q")))
    whole = whole.from_(exp.Table(this=exp.to_identifier(DRAWN, quoted=True)))
    lateral = exp.Lateral(this=exp.Subquery(this=root), alias=exp.TableAlias(this=exp.to_identifier("q")))
    whole.append("joins", exp.Join(this=lateral))
    try:
        return public.apart(whole, tables, effort.seconds)
    except DataError:  # time is up
        raise NotSimulated(_SLOW, slow=True) from None


_SLOW = "it takes long to simulate; intervals(simulate=True), or --intervals, does it"


class _Fresh:
    """Noisy tables with fresh noise, draw after draw. What two of them share gets the same noise in both."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._known: dict[int, Integers] = {}

    def of(self, noisy: Noisy) -> Noisy:
        """One table with the cells of all draws."""
        import pyarrow as pa

        columns = []
        for measurement, group in zip(noisy.step.measurements, noisy.columns, strict=True):
            columns.append(tuple(self._column(measurement.noise, numbers) for numbers in group))
        if noisy.cells is None:
            cells = pa.table({DRAW: np.arange(DRAWS)})
        else:
            cells = noisy.cells.take(pa.array(np.tile(np.arange(noisy.count), DRAWS)))
        return replace(noisy, cells=cells, columns=tuple(columns))

    def _column(self, noise: Any, numbers: Integers) -> Integers:
        if id(numbers) not in self._known:
            many: Integers = np.concatenate([numbers] * DRAWS)
            # Theorem POST-1: noise on what has left. A value that was chosen stays as it is.
            if not isinstance(noise, NoisyMax):
                half = imitated(noise, PAIRS * len(numbers), self._generator)
                many = plus(many, np.concatenate([half, -half]))
            self._known[id(numbers)] = many
        return self._known[id(numbers)]


def _with_draws(table: Arrow, count: int) -> Arrow:
    """A noisy table of all draws, with the cell and the draw of each row."""
    place = table.column_names.index(CELL)
    table = table.set_column(place, CELL, column(np.tile(np.arange(count), DRAWS)))
    if DRAW in table.column_names:
        table = table.drop_columns([DRAW])
    return table.append_column(DRAW, column(np.repeat(np.arange(DRAWS), count)))


def _plain(columns: Mapping[str, NDArray[np.int64]]) -> Arrow:
    import pyarrow as pa

    return pa.table({name: column(numbers) for name, numbers in columns.items()})


def _public_rows(name: str, public: PublicEngine) -> Arrow:
    """A public table that the query reads, too."""
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    found = public.table(exp.select("*").from_(table).limit(MAX_PUBLIC + 1), {})
    if found.num_rows > MAX_PUBLIC:
        raise NotSimulated(f"{name} has too many rows to be read once for each draw")
    return found


def _of_this_draw(table: exp.Table) -> exp.Subquery:
    """The cells of one draw, in the place of a noisy table."""
    name = _drawn(table.name)
    rows = exp.select("*").from_(exp.Table(this=exp.to_identifier(name, quoted=True)))
    rows = rows.where(exp.EQ(this=_column(DRAW, name), expression=_column(DRAW, DRAWN)))
    alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
    return exp.Subquery(this=rows, alias=alias)


def _drawn(name: str) -> str:
    return f"{name} draws"


def _column(name: str, table: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


# ---------------------------------------------------------------- which row of a draw is which row of the answer


def aligned(shown: Arrow, drawn: Arrow, keys: Sequence[int], wanted: Sequence[int]) -> dict[int, Floats]:
    """For each wanted column of the answer its values in the draws, a line a row; NaN where a draw has no such row.

    A row of a draw is the row of the answer with the same keys. Without keys, both must have one row.
    """
    lines = _lines(shown, drawn, keys)
    draws = np.asarray(drawn.column(0))
    there = np.flatnonzero(lines >= 0)
    found = {}
    for index in wanted:
        values = np.full((shown.num_rows, DRAWS), np.nan)
        values[lines[there], draws[there]] = floats(drawn.column(index + 1))[there]
        found[index] = values
    return found


def _lines(shown: Arrow, drawn: Arrow, keys: Sequence[int]) -> NDArray[np.int64]:
    """The line of the answer that each drawn row belongs to; −1 where it has none."""
    if not keys:
        if shown.num_rows != 1 or drawn.num_rows != DRAWS or len(set(drawn.column(0).to_pylist())) != DRAWS:
            raise NotSimulated("its rows have no key by which draws could be compared")
        return np.zeros(DRAWS, dtype=np.int64)
    mine = list(zip(*(_hashable(shown.column(k)) for k in keys), strict=True))
    theirs = list(zip(*(_hashable(drawn.column(k + 1)) for k in keys), strict=True))
    places = {key: i for i, key in enumerate(mine)}
    if len(places) < len(mine):
        raise NotSimulated("several of its rows have the same key")
    twice = Counter(zip(drawn.column(0).to_pylist(), theirs, strict=True))
    if any(n > 1 and key in places for (_, key), n in twice.items()):
        raise NotSimulated("several rows of a draw have the same key")
    return np.array([places.get(key, -1) for key in theirs], dtype=np.int64)


def _hashable(values: Arrow) -> list[Any]:
    import pyarrow as pa

    listed = python_values(values)
    return [repr(v) for v in listed] if pa.types.is_nested(values.type) else listed


def floats(values: Arrow) -> Floats:
    """A numeric column as doubles, NaN for NULL."""
    import pyarrow as pa

    if pa.types.is_decimal(values.type):
        return np.array([np.nan if v is None else float(v) for v in values.to_pylist()], dtype=np.float64)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
