"""Stand-ins: tables like those that a quote's stages will leave, which nobody measured, for rehearsals (rehearse.py).

They are made of the quote alone: public keys, types, grids and the sizes of noise. No private row has a part in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from dpsql.accounting.account import Receipt
from dpsql.aggregates.noisy import Noisy, Randomized, Responded
from dpsql.analyze.domains import PublicEngine
from dpsql.core.arrays import Integers, plus
from dpsql.core.types import Type
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.quote.model import Known, Measurement, Quote, Released, ResponseStep, Stage, Step
from dpsql.sql.dialect import data_type
from dpsql.statistics.base import Statistic
from dpsql.statistics.deviation import Deviation
from dpsql.statistics.ranks import Extreme, Quantiles
from dpsql.statistics.top import Top

FAR = 60  # scales of noise: farther than any draw gets, with a chance of less than 10^-26
SOME, NOTHING, FAR_OFF = range(3)  # how a row of a stand-in looks: like many rows of data, like none, or like far noise
LOOKS = 3
ROWS = 2**20  # more than any threshold asks for, unless the noise is enormous: then they are looked at where it is far

Arrow = Any


def stand_ins(quote: Quote, public: PublicEngine) -> Iterator[Known]:
    """What the stages of a quote might release: some of everything, then nothing, then noise that is far off.

    Where each table has enough rows for all looks, the first turn has far noise, too, and the last is left out.
    """
    receipt = Receipt("", "", quote.price, "released")
    counts = [step.count if step.checked.keys else 1 for stage in quote.stages for step in stage.releases]
    enough = all(count is not None and count >= LOOKS for count in counts)
    for turn in (SOME, NOTHING) if enough else (SOME, NOTHING, FAR_OFF):
        yield {
            stage: Released(_settled(stage, turn), tuple(_table(s, turn, public) for s in stage.steps), receipt)
            for stage in quote.stages
        }


def _settled(stage: Stage, turn: int) -> Stage:
    """The stage with some range in the place of each that is to be released first."""
    known = (
        replace(one.seeded, found=turn != NOTHING, receipt="rehearsed") if one.range is None else one
        for one in stage.automatic
    )
    return replace(stage, automatic=tuple(known))


def _table(step: Step | ResponseStep, turn: int, public: PublicEngine) -> Noisy | Responded:
    """What one step might leave: rows of all looks, but that there is nothing at all in the turn of nothing."""
    if isinstance(step, ResponseStep):
        columns = zip(step.checked.columns, step.mechanisms, strict=True)
        rows = np.zeros(0 if turn == NOTHING else 1, dtype=np.uint32)
        return Responded(step.name, tuple(Randomized(c.values, c.type, m, rows) for c, m in columns))
    cells = _cells(step, turn, public)
    count = 1 if cells is None else int(cells.num_rows)
    looks = [NOTHING if turn == NOTHING else (turn + i) % LOOKS for i in range(count)]
    return Noisy(step, cells, tuple(tuple(_columns(m, step.bits, looks)) for m in step.measurements))


def _cells(step: Step, turn: int, public: PublicEngine) -> Arrow:
    """Some of the public keys, the first and the last among them; of private ones a value and NULL, or none."""
    import pyarrow as pa

    if not step.checked.private_keys:
        cells = step.cells
        if cells is None or cells.num_rows <= LOOKS:
            return cells
        return cells.take(pa.array([0, cells.num_rows // 2, cells.num_rows - 1]))
    keys = _made_up(tuple(key.type.sql for key in step.checked.keys), public)
    return keys.slice(0, 0) if turn == NOTHING else keys


def _made_up(types: tuple[str, ...], public: PublicEngine) -> Arrow:
    """A row of values of these types, and one of NULLs."""
    remembered = ("keys of", types)
    if remembered not in public.memo:
        rows = [
            exp.select(
                *(
                    exp.alias_(exp.TryCast(this=value(Type.parse(t)), to=data_type(t)), f"k{i}")
                    for i, t in enumerate(types)
                )
            )
            for value in (_value, lambda _: exp.Null())
        ]
        public.memo[remembered] = public.table(exp.union(*rows, distinct=False), {})
    return public.memo[remembered]


def _value(type_: Type) -> exp.Expr:
    if type_.is_date or type_.is_timestamp:
        return exp.Literal.string("2020-02-29")
    return exp.Literal.number(1) if type_.is_numeric or type_.is_boolean else exp.Literal.string("x")


def _columns(measurement: Measurement, bits: int, looks: list[int]) -> Iterator[Integers]:
    """The noisy integers of one measurement, cell by cell."""
    statistic, noise = measurement.statistic, measurement.noise
    if isinstance(statistic, Top):
        yield np.arange(len(looks), 0, -1, dtype=np.int64)
    elif isinstance(noise, NoisyMax):
        low, high = _chosen(statistic)
        for _ in range(statistic.width):
            yield np.array([high if look == FAR_OFF else low for look in looks], dtype=np.int64)
    else:
        row = np.array([ROWS << bits if look == SOME else 0 for look in looks], dtype=np.int64 if bits < 40 else object)
        far, sign = max(1, int(FAR * noise.width)), -1
        for column in statistic.columns([row for _ in statistic.tallies]):
            sign = -sign  # that of a sum is another than that of the count beside it
            noises = np.array([sign * far * (look == FAR_OFF) for look in looks], dtype=object)
            yield plus(column, noises)


def _chosen(statistic: Statistic) -> tuple[int, int]:
    """The least and the greatest integer that a choice may give."""
    match statistic:
        case Deviation():
            return 0, statistic.points - 1
        case Extreme() | Quantiles():
            return statistic.value.grid.low, statistic.value.grid.high
        case _:
            raise AssertionError("a choice of another kind")
