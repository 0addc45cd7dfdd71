"""Rows as codes, run: for each row the places of its values in public lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsql.backends.base import Codes
from dpsql.backends.duckdb.cursor import Cursor, one_message
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.statements.codes import LISTED, render_codes

if TYPE_CHECKING:
    from dpsql.quote.model import ResponseStep


def encode(step: ResponseStep, cursor: Cursor) -> Codes:
    """Run a step's statement. Whatever fails, fails with one and the same message (ATTACKS 9)."""
    import pyarrow as pa

    lists = {
        f"{LISTED}{i}": pa.table({"v": c.values, "p": pa.array(np.arange(len(c.values), dtype=np.uint32))})
        for i, c in enumerate(step.checked.columns)
    }
    with one_message():
        try:
            for name, values in lists.items():
                cursor.register(name, values)
            result = cursor.arrow(text_of(render_codes(step.statement)))
        finally:
            for name in lists:
                cursor.unregister(name)
    return Codes(tuple(_codes(result.column(name)) for name, _, _ in step.statement.columns))


def _codes(found: Any) -> NDArray[np.uint32]:
    """An Arrow column of codes without NULLs."""
    parts = [np.frombuffer(c.buffers()[1], dtype=np.uint32)[c.offset :][: len(c)] for c in found.chunks if len(c)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint32)
