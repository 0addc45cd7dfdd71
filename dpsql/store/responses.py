"""Randomised rows that left once may leave again (Theorem FREE-1): how they are stored, and found.

A stored table answers a query if it has every column that the query asks for, each randomised with at least its ε.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from hashlib import blake2b

import numpy as np

from dpsql.accounting.stored import Kept
from dpsql.accounting.view import Releases
from dpsql.aggregates.noisy import Randomized, Responded
from dpsql.mechanisms.response import Codes, RandomizedResponse
from dpsql.quote.model import ResponseStep
from dpsql.store.archive import RESPONSES, Arrow, from_bytes, to_bytes

FORMAT = "1"  # part of every key: stored rows of another format are not found


def rows_key(step: ResponseStep, versions: Mapping[str, str]) -> bytes:
    """The rows that are randomised: all of a table, in this version of the data."""
    table = step.checked.responses.input.table
    whole = json.dumps([FORMAT, table, versions[table]])
    return blake2b(whole.encode(), digest_size=32, person=b"dpsql.responses").digest()


def pack_rows(step: ResponseStep, versions: Mapping[str, str], rows: Responded) -> Kept:
    """Randomised rows for the ledger."""
    import pyarrow as pa

    columns = list(zip(step.checked.columns, rows.columns, strict=True))
    facts = {RESPONSES: [[asked.identity, str(column.mechanism.epsilon)] for asked, column in columns]}
    width = np.uint8 if all(c.mechanism.size <= 2**8 for c in rows.columns) else np.uint32
    codes = {f"c{i}": pa.array(column.codes.astype(width)) for i, column in enumerate(rows.columns)}
    return Kept("release", rows_key(step, versions), json.dumps(facts), to_bytes(pa.table(codes)))


def find_rows(step: ResponseStep, versions: Mapping[str, str], ledger: Releases) -> tuple[str, Responded] | None:
    """Stored rows that answer a step, and the receipt's id of the spend that they left under."""
    for id, kept in ledger.stored(rows_key(step, versions)):
        if (found := _answers(step, kept)) is not None:
            return id, found
    return None


def _answers(step: ResponseStep, kept: Kept) -> Responded | None:
    stored = [(identity, Fraction(epsilon)) for identity, epsilon in json.loads(kept.facts)[RESPONSES]]
    places = []
    for column, mechanism in zip(step.checked.columns, step.mechanisms, strict=True):
        fits = (i for i, (identity, e) in enumerate(stored) if identity == column.identity and e >= mechanism.epsilon)
        place = next(fits, None)
        if place is None:
            return None
        places.append(place)
    table = from_bytes(kept.data)
    columns = []
    for column, place in zip(step.checked.columns, places, strict=True):
        codes = _codes(table.column(f"c{place}"))
        drawn = RandomizedResponse(stored[place][1], len(column.values))
        columns.append(Randomized(column.values, column.type, drawn, codes))
    return Responded(step.name, tuple(columns))


def _codes(column: Arrow) -> Codes:
    """A stored column of codes, of one byte or of four."""
    width = column.type.bit_width // 8
    parts = [
        np.frombuffer(c.buffers()[1], dtype=f"u{width}")[c.offset :][: len(c)] for c in column.chunks if len(c)
    ] or [np.zeros(0)]
    return np.concatenate(parts).astype(np.uint32)
