"""An answer as an Arrow table for others, with what it says of itself and, on request, the ends of its intervals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.answer.intervals import Interval
    from dpsql.answer.model import Answer

Arrow = Any
KEY = b"dpsql"  # of the schema's metadata: JSON


def outgoing(answer: Answer, confidence: float | None = None) -> Arrow:
    """The table, with its cost, SQL, policy and the rest in the schema's metadata.

    confidence: each column that has intervals is followed by their low and high ends, NULL where an end isn't known;
    None: without them.
    """
    import pyarrow as pa

    columns, said = list(zip(answer.columns, answer.table.columns, strict=True)), dict(answer.about)
    if confidence is not None:
        ends = dict(_ends(answer, confidence))
        taken = {name.lower() for name in answer.columns}
        names = {name: (_free(f"{name}_low", taken), _free(f"{name}_high", taken)) for name in ends}
        columns = [one for column in columns for one in _followed(column, names, ends)]
        told = {name: list(pair) for name, pair in names.items()}
        said["intervals"] = {"confidence": str(confidence), "columns": told}
    table = pa.Table.from_arrays([values for _, values in columns], names=[name for name, _ in columns])
    return table.replace_schema_metadata({KEY: json.dumps(said, ensure_ascii=True)} if said else None)


def _followed(
    column: tuple[str, Arrow], names: Mapping[str, tuple[str, str]], ends: Mapping[str, Any]
) -> Iterator[Any]:
    """A column, and behind it the ends of its intervals."""
    yield column
    if column[0] in ends:
        yield from zip(names[column[0]], ends[column[0]], strict=True)


def _ends(answer: Answer, confidence: float) -> Iterator[tuple[str, list[Arrow]]]:
    """The two ends of the intervals of each column that has some; of two columns with one name, neither has."""
    import pyarrow as pa

    counts = Counter(answer.columns)
    for name, cells in answer.intervals(confidence).items():
        if cells is not None and counts[name] == 1:
            kind = answer.table.column(name).type
            own = pa.types.is_date(kind) or pa.types.is_timestamp(kind)  # ends of those are of the same type
            for_side = [
                [None if c is None else c[side] for c in cells] if own else finite_ends(cells, side) for side in (0, 1)
            ]
            yield name, [pa.array(one, kind if own else pa.float64()) for one in for_side]


def finite_ends(cells: Sequence[Interval], side: int) -> list[float | None]:
    """The low (0) or the high (1) ends of intervals; None where there is none: a bound has one end."""
    return [None if cell is None or not isfinite(cell[side]) else float(cell[side]) for cell in cells]


def _free(name: str, taken: set[str]) -> str:
    """This name, with as many underscores as it takes to be no other column's."""
    while name.lower() in taken:
        name += "_"
    taken.add(name.lower())
    return name
