"""Noisy tables and answers as bytes, and back: what the ledger keeps of a release that has left.

Everything in here has left dpsql already, or was public before (Theorem FREE-1). Plain JSON and Arrow: reading a ledger
runs no code that is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite
from typing import Any

import numpy as np

from dpsql.accounting.account import Entry, Receipt, untested_of
from dpsql.accounting.ledger import Ledger
from dpsql.accounting.stored import Kept
from dpsql.accounting.view import Releases
from dpsql.aggregates.base import Call
from dpsql.aggregates.clipping_bias import Clipping, ClippingBias
from dpsql.aggregates.noisy import Noisy, StoredFacts, StoredNoise
from dpsql.answer.about import about_earlier
from dpsql.answer.intervals import Error
from dpsql.answer.model import Answer
from dpsql.core.arrays import Integers, column
from dpsql.core.errors import LedgerError
from dpsql.core.frozen import dataclass
from dpsql.core.grid import Grid
from dpsql.core.types import Type
from dpsql.mechanisms.base import Noise
from dpsql.mechanisms.noisy_max import NoisyMax
from dpsql.mechanisms.registry import read, written
from dpsql.statistics.base import Clip, Quantity, Value
from dpsql.statistics.strategy import Linear
from dpsql.store.plain import Json, from_json, pack_error, to_json, unpack_error, with_numbers

Arrow = Any

RESPONSES = "responses"  # a fact of randomised rows (responses.py), which answer queries and have no intervals
LIMITS = "limits"  # a fact of limits that were chosen (choices.py), which answer nothing


@dataclass(frozen=True, slots=True, eq=False)
class Archived:
    """A stored noisy table, with the names under which its values and filters can be asked for again."""

    noisy: Noisy
    values: Mapping[str, Value]  # by canonical text
    wheres: Mapping[str, str]
    clips: Mapping[str, Clip]
    threshold: int | None


# ---------------------------------------------------------------- releases


def pack_release(
    key: bytes,
    noisy: Noisy,
    noises: Sequence[Noise | NoisyMax],
    estimates: Mapping[Quantity, Linear],
    values: Mapping[str, Value],
    wheres: Mapping[str, str],
    clips: Mapping[str, Clip],
    threshold: int | None,
) -> Kept:
    """A noisy table for the ledger."""
    import pyarrow as pa

    facts = {
        "name": noisy.step.name,
        "calls": [_call(c) for c in noisy.step.calls],
        "noises": [written(noise) for noise in noises],
        "widths": [len(group) for group in noisy.columns],
        "estimates": [[_quantity(q), _linear(e)] for q, e in estimates.items()],
        "values": {text: _value(v) for text, v in values.items()},
        "wheres": dict(wheres),
        "clips": {text: _clip(c) for text, c in clips.items()},
        "threshold": threshold,
        "keys": None if noisy.cells is None else list(noisy.cells.column_names),
    }
    columns = {} if noisy.cells is None else {n: noisy.cells.column(n) for n in noisy.cells.column_names}
    for i, group in enumerate(noisy.columns):
        columns |= {f"m{i}_{j}": _integers(numbers) for j, numbers in enumerate(group)}
    return Kept("release", key, to_json(facts), to_bytes(pa.table(columns)))


def unpack_release(kept: Kept) -> Archived:
    """The noisy table of a stored release."""
    facts = from_json(kept.facts)
    table = from_bytes(kept.data)
    columns = tuple(
        tuple(_numbers(table.column(f"m{i}_{j}")) for j in range(width)) for i, width in enumerate(facts["widths"])
    )
    left = StoredFacts(
        facts["name"],
        tuple(map(_to_call, facts["calls"])),
        tuple(StoredNoise(read(n)) for n in facts["noises"]),
        {_to_quantity(q): _to_linear(e) for q, e in facts["estimates"]},
    )
    cells = None if facts["keys"] is None else table.select(facts["keys"])
    values = {text: _to_value(v) for text, v in facts["values"].items()}
    clips = {text: Clip(*c) for text, c in facts["clips"].items()}
    return Archived(Noisy(left, cells, columns), values, facts["wheres"], clips, facts["threshold"])


# ---------------------------------------------------------------- answers


def pack_answer(answer: Answer, noisy: Sequence[Noisy]) -> Kept:
    """A finished answer for the ledger. Its tables are views of the stored ones: each with its place among them."""
    places = [next(i for i, one in enumerate(noisy) if one.columns is view.columns) for view in answer.noisy]
    errors = [pack_error(error) for error in answer.origins]
    facts = {
        "views": [
            [place, view.step.name, [_call(c) for c in view.step.calls], _bias(view.bias)]
            for place, view in zip(places, answer.noisy, strict=True)
        ],
        "origins": [told for told, _ in errors],
        "cells": None if answer.cells is None else [None if c is None else int(c) for c in answer.cells],
        "ranges": list(map(dict, answer.ranges)),
        "limits": list(answer.limits),
        "cut": {name: dict(facts) for name, facts in answer.cut.items()},
        "cut_notes": list(answer.cut_notes),
        "missing": dict(answer.missing),
        "ranks": dict(answer.ranks),
        "advice": list(answer.advice),
        "lists": list(answer.lists),
        "left_out": list(answer.left_out),
        "few": [[place, list(rows)] for place, rows in answer.few.items()],
        "about": dict(answer.about),
    }
    table = with_numbers(answer.table, [one for _, numbers in errors for one in numbers])
    return Kept("answer", b"", to_json(facts), to_bytes(table))


def replays(ledger: Ledger, id: str) -> list[Answer]:
    """The very answer that left under this receipt (of a batch: answers), once more and for free (Theorem FREE-1)."""
    entry, kept = ledger.kept(id)
    answers = [k for k in kept if k.kind == "answer"]
    if not answers:
        raise _no_answer(entry, kept)
    releases = [k for k in kept if k.kind == "release" and not {RESPONSES, LIMITS} & json.loads(k.facts).keys()]
    noisy = tuple(unpack_release(k).noisy for k in releases)
    return [_unpack_answer(k, noisy, entry, ledger) for k in answers]


def earlier_spend(ledger: Releases, id: str) -> Receipt:
    """The receipt of a spend whose stored release answers once more, for nothing."""
    return _free(ledger, ledger.entry(id))


def _free(ledger: Releases, entry: Entry) -> Receipt:
    untested = untested_of(entry.note)
    return Receipt(entry.id, entry.time, ledger.account.filter.nothing, "released", True, untested, entry.cost)


def _no_answer(entry: Entry, kept: Sequence[Kept]) -> LedgerError:
    """The error for a release of which no answer was stored: why, and what to do."""
    again = "nothing is refunded once rows may have been read; ask again"
    if entry.state == "reserved":
        why = "was paid for and not answered"
    elif not kept:
        why = "was too large to keep"
    else:
        why = "was measured, and no answer was stored with it"
        if all(k.key for k in kept):  # else it can't be found by what it measured
            again = "its noisy tables are stored: the query that it was measured for can be asked again, which is free"
    return LedgerError(f"there is no answer to show again: release {entry.id[:8]} {why}", code="no-answer", hint=again)


def _unpack_answer(kept: Kept, noisy: tuple[Noisy, ...], entry: Entry, ledger: Ledger) -> Answer:
    facts = from_json(kept.facts)
    receipt = _free(ledger, entry)
    views = tuple(
        replace(noisy[place].renamed(name, tuple(map(_to_call, calls))), bias=_to_bias(*bias))
        for place, name, calls, *bias in facts["views"]
    )
    whole = from_bytes(kept.data)
    visible = len(facts["origins"])
    origins: list[Error | None] = []
    place = visible
    for found in facts["origins"]:
        error, place = unpack_error(found, whole, place)
        origins.append(error)
    ranges, limits = tuple(facts.get("ranges", ())), tuple(facts.get("limits", ()))
    return Answer(
        whole.select(range(visible)),
        views,
        tuple(origins),
        facts["cells"],
        receipt.cost,
        receipt,
        ranges,
        limits,
        facts.get("cut", {}),
        tuple(facts.get("cut_notes", ())),
        facts.get("missing", {}),
        facts.get("ranks", {}),
        tuple(facts.get("advice", ())),
        lists=tuple(facts.get("lists", ())),
        left_out=tuple(facts.get("left_out", ())),
        few={place: tuple(rows) for place, rows in facts.get("few", ())},
        about=facts.get("about") or about_earlier(receipt, str(entry.note.get("sql", ""))),
    )


def _bias(bias: ClippingBias | None) -> Any:
    """What was cut, as JSON has it: without infinite numbers."""
    if bias is None:
        return None
    sizes = None if bias.sizes is None else [[aggregate, scale] for aggregate, scale in bias.sizes.items()]
    return {
        "cut": [_clipping(one) for one in bias.rows],
        "cut_units": None if bias.units is None else _clipping(bias.units),
        "sizes": sizes,
        "counted": bias.counted,
        "cut_values": None if bias.values is None else _clipping(bias.values),
        "values_left_out": None if bias.left_out is None else _clipping(bias.left_out),
    }


def _clipping(one: Clipping) -> Any:
    times = one.times if isfinite(one.times) else None
    return {"about": one.about, "kept": one.kept, "times": times, "points": [list(point) for point in one.points]}


def _to_bias(facts: Any = None) -> ClippingBias | None:
    """What was cut; the first answers say nothing of it, and those of 0.1 in shares of what was kept."""
    if facts is None:
        return None
    if "cut" not in facts:
        rows, units = (_of_share(facts.get(name)) for name in ("rows", "units"))
        return ClippingBias(() if rows is None else (rows,), units)
    units = None if facts["cut_units"] is None else _to_clipping(facts["cut_units"])
    sizes = None if facts["sizes"] is None else {int(aggregate): scale for aggregate, scale in facts["sizes"]}
    values, left_out = (
        None if facts.get(name) is None else _to_clipping(facts[name]) for name in ("cut_values", "values_left_out")
    )
    return ClippingBias(tuple(map(_to_clipping, facts["cut"])), units, sizes, facts["counted"], values, left_out)


def _to_clipping(one: Any) -> Clipping:
    points = tuple((float(weight), float(amount)) for weight, amount in one["points"])
    return Clipping(one["about"], one["kept"], inf if one["times"] is None else one["times"], points)


def _of_share(share: Any) -> Clipping | None:
    if share is None:
        return None
    kept = share["kept"]
    return Clipping(share["about"] * kept, kept, inf, ((1.0, share["most"] * kept),))


# ---------------------------------------------------------------- bytes


def to_bytes(table: Arrow) -> bytes:
    """An Arrow table as an IPC stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> Arrow:
    """An Arrow table from an IPC stream."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all()


def _integers(numbers: Integers) -> Arrow:
    """int64, or text where that would overflow."""
    import pyarrow as pa

    if numbers.dtype == object:
        return pa.array([str(n) for n in numbers], pa.string())
    return column(numbers.astype(np.int64, copy=False))


def _numbers(column: Arrow) -> Integers:
    import pyarrow as pa

    if pa.types.is_string(column.type):
        return np.array([int(n) for n in column.to_pylist()], dtype=object)
    return np.array(column.to_pylist(), dtype=np.int64)


# ---------------------------------------------------------------- small values


def _value(value: Value | None) -> Json:
    if value is None:
        return None
    grid = value.grid
    return [value.column, value.nullable, value.text, str(grid.step), grid.low, grid.high, grid.source]


def _to_value(found: Json) -> Value:
    column, nullable, text, step, low, high, source = found[:7]
    return Value(column, Grid(Fraction(step), low, high, source), nullable, text)


def _clip(clip: Clip | None) -> Json:
    return None if clip is None else [clip.kind, clip.low, clip.high]


def _quantity(quantity: Quantity) -> Json:
    at = None if quantity.at is None else str(quantity.at)
    found = [quantity.kind, _value(quantity.value), quantity.where, _clip(quantity.clip), at]
    return [*found, _value(quantity.second), list(quantity.powers)]


def _to_quantity(found: Json) -> Quantity:
    kind, value, where, clip, at, second, powers = found
    held, other = (None if v is None else _to_value(v) for v in (value, second))
    return Quantity(
        kind,
        held,
        where,
        None if clip is None else Clip(*clip),
        at=None if at is None else Fraction(at),
        second=other,
        powers=(powers[0], powers[1]),
    )


def _linear(linear: Linear) -> Json:
    return [[statistic, column, str(weight)] for (statistic, column), weight in linear.terms]


def _to_linear(found: Json) -> Linear:
    return Linear(tuple(((statistic, column), Fraction(weight)) for statistic, column, weight in found))


def _call(call: Call) -> Json:
    kind = None if call.type is None else call.type.sql
    found = [call.function, _value(call.value), kind, call.where, call.units, _clip(call.clip)]
    return [*found, [str(q) for q in call.at], call.listed, call.distinct, _value(call.second)]


def _to_call(found: Json) -> Call:
    function, value, type_, where, units, clip, at, listed, distinct, second = found
    kind = None if type_ is None else Type.parse(type_)
    held, other = (None if v is None else _to_value(v) for v in (value, second))
    return Call(
        function,
        held,
        kind,
        where,
        units,
        None if clip is None else Clip(*clip),
        at=tuple(map(Fraction, at)),
        listed=listed,
        distinct=distinct,
        second=other,
    )
