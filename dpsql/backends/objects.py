"""Objects passed from Python as Arrow tables: of no column do its rows decide the type.

Theorem SCAN-1: what types there are is public, so no row may decide it. Arrow, polars and nearly all dtypes of pandas
say what a column holds. Of a column of Python objects (dtype object) pandas says nothing, and whoever converts it looks
at the values: one date among NULLs makes dates of them all, one dict a struct with its keys. Such a column is text,
unless the policy pins its type: then each value is written as text, and cast by itself (sources.hold).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from dpsql.core.errors import DataError, PolicyError

Arrow = Any

_SCALARS = (str, bool, int, float, Decimal, date, time, timedelta)


def to_arrow(name: str, value: Any, pinned: Collection[str] = ()) -> Arrow:
    """A pyarrow, pandas or polars object as an Arrow table whose values are what their types say.

    pinned: the columns whose type the policy names, in lower case.
    """
    import pyarrow as pa

    try:
        table = _converted(name, value, pinned)
        table.validate(full=True)  # invalid text would make functions fail on single rows
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # their texts quote values
        raise DataError(
            f"sources[{name!r}] holds values that aren't of their columns' types",
            code="unreadable",
            hint="pyarrow.Table.from_pandas(…) or to_arrow(), then validate(full=True), say more",
        ) from None
    return table


def _converted(name: str, value: Any, pinned: Collection[str]) -> Arrow:
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    module = type(value).__module__.split(".")[0]
    if module == "pandas" and hasattr(value, "dtypes") and hasattr(value, "columns"):
        return _from_pandas(name, value, pinned)
    if module == "polars" and hasattr(value, "lazy"):
        return value.to_arrow() if hasattr(value, "to_arrow") else value.collect().to_arrow()
    raise PolicyError(
        f"sources[{name!r}] is a {type(value).__name__}",
        code="bad-source",
        hint="pass a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame",
    )


def _from_pandas(name: str, frame: Any, pinned: Collection[str]) -> Arrow:
    """A frame's columns, without its index."""
    import pyarrow as pa

    names = [str(column) for column in frame.columns]
    if twice := sorted({column for column in names if names.count(column) > 1}):
        raise DataError(
            f"sources[{name!r}]: two columns are called {twice[0]}", code="duplicate-column", hint="rename one of them"
        )
    open_ = {place for place, dtype in enumerate(frame.dtypes) if _is_open(dtype)}
    typed = pa.Table.from_pandas(frame.iloc[:, [i for i in range(len(names)) if i not in open_]], preserve_index=False)
    told = iter(typed.columns)
    columns = []
    for place, column in enumerate(names):
        if place not in open_:
            columns.append(next(told))
            continue
        values = frame.iloc[:, place].astype(object)
        if column.lower() in pinned:
            columns.append(pa.array([_text(value) for value in values], type=pa.string()))
            continue
        try:
            columns.append(pa.array(values, type=pa.string(), from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError):
            # Which of them holds something else is its rows' to say, so all that might are named.
            unknown = [names[i] for i in sorted(open_) if names[i].lower() not in pinned]
            raise _untyped(name, unknown) from None
    return pa.table(columns, names=names)


def _is_open(dtype: Any) -> bool:
    """Does the dtype say nothing of its values?"""
    categories = getattr(dtype, "categories", None)
    return str(dtype) == "object" or str(getattr(categories, "dtype", "")) == "object"


def _text(value: Any) -> str | None:
    """One value as text, whatever the others are. What isn't a plain value is NULL."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    plain = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
    if isinstance(plain, Decimal) and not plain.is_finite():  # one of its kinds of NaN can't even be compared
        return None
    if isinstance(plain, int) and plain.bit_length() > 1000:  # which Python wouldn't write out
        return None
    if not isinstance(plain, _SCALARS) or plain != plain:  # NaN and NaT are equal to nothing
        return None
    return str(plain).encode("utf-8", "replace").decode()


def _untyped(name: str, columns: list[str]) -> PolicyError:
    shown = ", ".join(columns[:12]) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
    return PolicyError(
        f"sources[{name!r}]: columns of Python objects (dtype object) are read as text, and one of these holds "
        f"something else: {shown}",
        code="bad-source",
        hint=f'name their types in the policy: [tables.{name}.columns] {columns[0]} = {{ type = "DATE" }} (or BIGINT, '
        f'DOUBLE, BOOLEAN, VARCHAR, …), or in the frame: df["{columns[0]}"].astype("Int64"); or pass a pyarrow.Table '
        "with a schema",
    )
