"""Which error each output column has: that of an aggregate, one that is propagated, a simulated one, or none and why.

Theorem INTERVAL-1: all of it looks at noisy and public tables alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpsql.aggregates import RECIPES
from dpsql.aggregates.noisy import Noisy
from dpsql.aggregates.present import COLUMN as PRESENT
from dpsql.analyze.domains import PublicEngine
from dpsql.answer.alone import never_below_0
from dpsql.answer.gradient import Gradient, Moves
from dpsql.answer.intervals import Error, Floats, Origin, Simulated, Slopes, cut_of, moved, open_ended, summary, widened
from dpsql.answer.model import Answer
from dpsql.answer.simulate import AT_ONCE, ON_REQUEST, Effort, NotSimulated, aligned, floats, simulated
from dpsql.answer.thread import Numeric, Thread, threaded
from dpsql.core.errors import EngineError
from dpsql.core.frozen import dataclass
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.plan.google import interval_of
from dpsql.quote.goal import CONFIDENCE
from dpsql.quote.lineage import Lineage, lineage
from dpsql.quote.model import Part
from dpsql.sql.nodes import holds_aggregate

DOUBT = 0.25  # where what is divided by may be off by more than this share of itself, first order isn't enough

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip

Arrow = Any


def with_errors(
    answer: Answer,
    part: Part,
    whole: exp.Query,
    thread: Thread | None,
    result: Arrow,
    public: PublicEngine,
    *,
    simulable: bool,
) -> Answer:
    """The answer with the error of each column. whole: the query over the noisy tables; result: what it gave."""
    columns = _Columns(answer.noisy, lineage(whole, {n.step.name for n in answer.noisy}), part)
    errors: list[Error | None] = [None] * len(part.result)
    few: dict[int, tuple[int, ...]] = {}
    if thread is not None:
        for i, output in enumerate(thread.outputs):
            if output.origin is not None:
                errors[i] = output.origin
            elif output.moves is not None and output.moves.slopes and columns.is_number(i):
                errors[i], alone = _slopes(answer, thread, output.moves, result, i)
                few |= {i: tuple(np.flatnonzero(alone).tolist())} if alone.any() else {}
    answer = replace(answer, origins=tuple(errors), few=few, table=_without(answer.table, few))
    wanted = [i for i, error in enumerate(errors) if _in_doubt(error) and columns.may_have_noise(i)]
    whys = {i: why for i in wanted if (why := columns.why_not(i)) is not None}
    wanted = [i for i in wanted if i not in whys]
    answer = replace(answer, missing={part.result[i][0]: why for i, why in whys.items() if why})
    if not simulable or not wanted or not answer.noisy:
        return answer
    work = _Simulation(answer, whole, thread is not None, columns, tuple(wanted), public)
    return work.done(AT_ONCE, otherwise=work.later())


def numbers_of(noisy: Sequence[Noisy]) -> Numeric:
    """Is an aggregate a number to which noise was added? Not where it was chosen, and TRUE and FALSE aren't."""
    steps = {n.step.name: n.step for n in noisy}

    def numeric(release: str, aggregate: int) -> bool:
        step = steps[release]
        call = step.calls[aggregate]
        recipe = RECIPES[call.function]
        places = [place for need in recipe.needs(call) for place, _ in step.estimates[need].terms]
        chosen = any(isinstance(step.measurements[place[0]].noise, NoisyMax) for place in places)
        return not chosen and recipe.decides(call) is None

    return numeric


# ---------------------------------------------------------------- propagated


def _in_doubt(error: Error | None) -> bool:
    """Is there something to simulate?"""
    return error is None or (isinstance(error, Slopes) and any(np.isnan(s).any() for s in error.slopes.values()))


def _slopes(
    answer: Answer, thread: Thread, found: Moves, result: Arrow, place: int
) -> tuple[Slopes, NDArray[np.bool_]]:
    """The slopes that came with the answer: NaN where first order isn't enough, infinite where nothing would be.

    And the rows in which something is divided by what may as well be 0: there is too little for a value, as for an
    average of next to nothing. NULL has no interval.
    """
    assert answer.cells is not None
    doubt = np.zeros(result.num_rows)

    def read(gradient: Gradient) -> dict[int, Floats]:
        return {aggregate: floats(result.column(slope.name)) for aggregate, slope in gradient.items()}

    for divisor in found.doubts:
        slopes = read(divisor)
        relative = moved(thread.releases, slopes, answer.noisy, answer.cells, CONFIDENCE)
        doubt = np.maximum(doubt, np.where(np.isfinite(relative), relative, 0.0))
        if all(never_below_0(n.step.calls[a]) for n in answer.noisy if n.step.name in thread.releases for a in slopes):
            below = np.any([slope < 0 for slope in slopes.values()], axis=0)  # relative to itself: it is below 0
            doubt = np.where(below & (len(slopes) == 1), 1.0, doubt)
        zero = np.any([np.isnan(slope) for slope in slopes.values()], axis=0)  # rounded, what is divided by is 0
        doubt = np.where(zero, 1.0, doubt)
    missing = np.isnan(floats(result.column(place)))
    alone = doubt >= 1
    doubt = np.where(missing, 1.0, doubt)
    instead = np.where(doubt >= 1, np.inf, np.nan)
    slopes = {aggregate: np.where(doubt > DOUBT, instead, slope) for aggregate, slope in read(found.slopes).items()}
    return Slopes(thread.releases, slopes, found.unit), alone


def _without(table: Arrow, few: Mapping[int, Sequence[int]]) -> Arrow:
    """The table with NULL in these rows of these columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, rows in few.items():
        there = np.zeros(table.num_rows, dtype=np.bool_)
        there[list(rows)] = True
        field = table.schema.field(place)
        column = pc.if_else(pa.array(there.tolist()), pa.scalar(None, field.type), table.column(place))
        table = table.set_column(place, field, column)
    return table


# ---------------------------------------------------------------- what is cut


def with_cut(answer: Answer) -> Answer:
    """The answer with what limits and ranges cut of each column, about (Theorem CUT-1)."""
    if answer.cells is None or all(n.bias is None for n in answer.noisy):
        return answer
    found = {}
    for i, (name, error) in enumerate(zip(answer.columns, answer.origins, strict=True)):
        slopes: Mapping[int, Floats] | None = None
        if isinstance(error, Origin) and all(numbers_of(answer.noisy)(r, error.aggregate) for r in error.releases):
            slopes = {error.aggregate: np.ones(len(answer.cells))}
        elif isinstance(error, Slopes):
            slopes = error.slopes
        if slopes is not None and isinstance(error, Origin | Slopes):
            values = floats(answer.table.column(i))
            about = cut_of(error.releases, slopes, values, answer.noisy, answer.cells).about
            wide = moved(error.releases, slopes, answer.noisy, answer.cells, CONFIDENCE)
            found[name] = _cut_facts(about, wide, values)
    return replace(answer, cut={**answer.cut, **found})


def _means(draws: Floats) -> Floats:
    """The mean of each line's draws; NaN where there is none."""
    there = np.isfinite(draws)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(there, draws, 0.0).sum(axis=1) / there.sum(axis=1))


def _cut_facts(about: Floats, wide: Floats, values: Floats) -> dict[str, Any]:
    """By which share of the truth a column is low, and whether that exceeds its noise: all of its rows together."""
    known = np.isfinite(about) & np.isfinite(wide) & np.isfinite(values)
    shift = float(about[known].sum())
    whole = float(np.abs(values[known] + about[known]).sum())
    return {
        "low_by": shift / whole if whole else 0.0,
        "exceeds_noise": bool(np.abs(about[known].sum()) > wide[known].sum()),
    }


# ---------------------------------------------------------------- simulated


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """What is known of the outputs of a query."""

    noisy: tuple[Noisy, ...]
    lineages: list[Lineage]
    part: Part

    def is_number(self, i: int) -> bool:
        return self.part.result[i][1].partition("(")[0] in _NUMBERS and not self.part.result[i][1].endswith("]")

    def is_noisy(self, i: int) -> bool:
        """Is an aggregate in it? Which groups are there is none: mostly that is the same whatever the noise."""
        return any(not column.startswith("k") and column != PRESENT for _, column in self.lineages[i][0])

    def may_have_noise(self, i: int) -> bool:
        """It may also come from which rows there are, or in which order."""
        return self.is_number(i) and not self.is_key(i)

    def is_key(self, i: int) -> bool:
        """Is it made of keys and constants alone?"""
        places, _ = self.lineages[i]
        output = self.part.plan.post.selects[i].unalias()
        if holds_aggregate(output) or any(isinstance(n, exp.Window | exp.Query) for n in output.walk()):
            return False
        if places:
            return not self.is_noisy(i)
        return not self.is_number(i) or output.find(exp.Column) is None

    def why_not(self, i: int) -> str | None:
        """Why a column can't be simulated, in words, or "" where that goes without saying; None where it can."""
        steps = {n.step.name: n.step for n in self.noisy}
        numeric = numbers_of(self.noisy)
        for release, column in sorted(self.lineages[i][0]):
            if interval_of(column) is not None:
                return ""  # an end of an interval has none, and nobody expects one
            if column.startswith("a") and release in steps:
                call = steps[release].calls[int(column[1:])]
                recipe = RECIPES[call.function]
                if not numeric(release, int(column[1:])) and recipe.decides(call) is None:
                    return f"{call.function} was chosen, and how far off a choice is depends on the data"
                if not recipe.simulates:
                    return ""  # its note says why it is off
        return None

    @property
    def keys(self) -> list[int]:
        return [i for i in range(len(self.part.result)) if self.is_key(i)]


@dataclass(frozen=True, slots=True, eq=False)
class _Simulation:
    """What is to be simulated, at once or on request."""

    answer: Answer
    whole: exp.Query
    cells: bool  # is each row one cell?
    columns: _Columns
    wanted: tuple[int, ...]
    public: PublicEngine

    def later(self) -> Callable[[], Answer]:
        """The answer with errors that take longer; simulated once."""
        return cache(lambda: self.done(ON_REQUEST, otherwise=None))

    def done(self, effort: Effort, otherwise: Callable[[], Answer] | None) -> Answer:
        """The answer with simulated errors; where that takes more, with why it has none, and `otherwise` for later."""
        try:
            return self._simulated(effort)
        except (NotSimulated, EngineError) as error:
            why, later = "it can't be simulated", None
            if isinstance(error, NotSimulated):
                why, later = str(error), otherwise if error.slow else None
            unknown = [i for i in self.wanted if self.answer.origins[i] is None and self.columns.is_noisy(i)]
            named = {self.answer.columns[i]: why for i in unknown}
            return replace(self.answer, missing={**self.answer.missing, **named}, later=later)

    def _simulated(self, effort: Effort) -> Answer:
        answer, columns = self.answer, self.columns
        releases = frozenset(n.step.name for n in answer.noisy)
        query = _unlimited(self.whole.copy(), filtered=not self.cells)
        shown, keys = answer.table, columns.keys
        tables = [t for t in query.find_all(exp.Table) if t.name in releases]
        by_row = self.cells and query.find(exp.Window) is None and len(tables) == len({t.name for t in tables})
        if self.cells:
            query, _ = threaded(query, releases, numbers_of(answer.noisy), slopes=False)
            shown = shown.append_column("cell", [list(answer.cells or ())])
            keys = [shown.num_columns - 1]
        # Others may have the values of a unit that its limit leaves out: about how many are lost, nobody knows.
        shared = any(n.bias is not None and n.bias.values is not None for n in answer.noisy)
        drawn = aligned(shown, simulated(query, answer.noisy, self.public, effort), keys, self.wanted)
        lifted: Mapping[int, Floats] = {}
        if any(n.bias is not None for n in answer.noisy):
            more = simulated(query, answer.noisy, self.public, effort, cut=True)
            lifted = aligned(shown, more, keys, self.wanted)
        errors, missing, cut = list(answer.origins), dict(answer.missing), dict(answer.cut)
        for i, draws in drawn.items():
            values = floats(shown.column(i))
            still = bool(np.all((draws == values[:, None]) | np.isnan(draws)))
            if still and not columns.is_noisy(i):
                continue  # rows and their order are the same whatever the noise
            found, known = summary(draws, values, by_row=by_row), errors[i]
            if i in lifted:
                about = np.zeros(len(draws)) if shared else _means(lifted[i]) - _means(draws)
                cut[answer.columns[i]] = _cut_facts(about, (found.high[-1] - found.low[-1]) / 2, values)
                found = widened(found, summary(lifted[i], values, by_row=True))
                if any(n.bias is not None and not n.bias.known for n in answer.noisy):
                    found = open_ended(found)
            if isinstance(known, Slopes):
                anything = np.any([np.isinf(s) for s in known.slopes.values()], axis=0)
                low, high = (np.where(anything, np.nan, ends) for ends in (found.low, found.high))
                errors[i] = replace(known, instead=Simulated(low, high))
            elif np.isfinite(found.low[-1]).any() or not shown.num_rows:
                errors[i] = found
            else:
                missing[answer.columns[i]] = "with other noise there may be other rows"
        return replace(answer, origins=tuple(errors), missing=missing, cut=cut, later=None)


def _unlimited(query: exp.Query, *, filtered: bool) -> exp.Query:
    """Without what decides at last which rows are shown: a row that is there has its error whether others are.

    filtered: leave its WHERE, in which a join may be.
    """
    for part in ("order", "limit", "offset"):
        query.set(part, None)
    if isinstance(query, exp.Select):
        query.set("qualify", None)
        if not filtered and not any(isinstance(n, exp.Window) for o in query.selects for n in o.walk()):
            query.set("where", None)
    return query
