"""Objects passed from Python as Arrow tables: of no column do its rows decide the type.

Theorem SCAN-1: what types there are is public, so no row may decide it. Arrow, polars and nearly all dtypes of pandas
say what a column holds. Of a column of Python objects (dtype object) pandas says nothing, and whoever converts it looks
at the values: one date among NULLs makes dates of them all, one dict a struct with its keys. Such a column is text,
unless the policy pins its type: then each value is written as text, and cast by itself (sources.hold).

Numpy's numbers and booleans have no missing value: where one is missing, pandas made floats of whole numbers, and
objects of booleans. So numbers are DOUBLE either way, or of the type that the policy pins, and booleans are columns of
objects. Pandas' own dtypes (Int64, boolean) and Arrow's know missing values, and stay what they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from dpsql.core.errors import DataError, PolicyError
from dpsql.core.types import Type

Arrow = Any

_SCALARS = (str, bool, int, float, Decimal, date, time, timedelta)


INEXACT = 2**53
"""From here on two whole numbers may be one float."""
NOTHING_PINNED: Mapping[str, str] = MappingProxyType({})


def to_arrow(name: str, value: Any, pinned: Mapping[str, str] = NOTHING_PINNED, *, public: bool = False) -> Arrow:
    """A pyarrow, pandas or polars object as an Arrow table whose values are what their types say.

    pinned: the types that the policy names, by columns in lower case. public: its rows may decide what numbers are.
    """
    import pyarrow as pa

    try:
        table = _converted(name, value, pinned, public)
        table.validate(full=True)  # invalid text would make functions fail on single rows
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # their texts quote values
        raise DataError(
            f"sources[{name!r}] holds values that aren't of their columns' types",
            code="unreadable",
            hint="pyarrow.Table.from_pandas(…) or to_arrow(), then validate(full=True), say more",
        ) from None
    return table


def _converted(name: str, value: Any, pinned: Mapping[str, str], public: bool) -> Arrow:
    import pyarrow as pa

    if isinstance(value, pa.Table):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    module = type(value).__module__.split(".")[0]
    if module == "pandas" and hasattr(value, "dtypes") and hasattr(value, "columns"):
        return _from_pandas(name, value, pinned, public)
    if module == "polars" and hasattr(value, "lazy"):
        return value.to_arrow() if hasattr(value, "to_arrow") else value.collect().to_arrow()
    raise PolicyError(
        f"sources[{name!r}] is a {type(value).__name__}",
        code="bad-source",
        hint="pass a pyarrow.Table, a pandas.DataFrame or a polars.DataFrame",
    )


def _from_pandas(name: str, frame: Any, pinned: Mapping[str, str], public: bool) -> Arrow:
    """A frame's columns, without its index."""
    import pyarrow as pa

    names = [str(column) for column in frame.columns]
    if twice := sorted({column for column in names if names.count(column) > 1}):
        raise DataError(
            f"sources[{name!r}]: two columns are called {twice[0]}", code="duplicate-column", hint="rename one of them"
        )
    open_ = {place for place, dtype in enumerate(frame.dtypes) if _is_open(dtype, public)}
    typed = pa.Table.from_pandas(frame.iloc[:, [i for i in range(len(names)) if i not in open_]], preserve_index=False)
    told = iter(typed.columns)
    columns = []
    for place, column in enumerate(names):
        if place not in open_:
            whole = next(told)
            said = pinned.get(column.lower())
            columns.append(whole if public else _as_number(name, column, whole, frame.dtypes.iloc[place], said))
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


def _as_number(name: str, title: str, column: Arrow, dtype: Any, pinned: str | None) -> Arrow:
    """Numbers of numpy as they would be if one of them were missing; whole ones stay where the policy's type has them.

    A type that is neither whole nor decimal is cast from DOUBLE: 7 and 7.0 are two texts. Whole numbers that a float
    doesn't tell apart are refused: one missing value would change those of everybody (Theorem SCAN-1).
    """
    import pyarrow as pa

    inside = _inside(dtype)
    if not type(inside).__module__.startswith("numpy") or inside.kind not in "iuf":
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    wanted = None if pinned is None else Type.parse(pinned)
    if wanted is not None and (wanted.is_integer or wanted.is_decimal):
        if not _is_told_apart(column):
            raise _too_large(name, title)
        return column
    return column.cast(pa.float64(), safe=False)


def _is_told_apart(column: Arrow) -> bool:
    """Are all numbers small enough to be themselves as floats? It says the same of a column and of its floats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    finite = column.filter(pc.is_finite(column)) if pa.types.is_floating(column.type) else column
    ends = pc.min_max(finite)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return low is None or (low > -INEXACT and high < INEXACT)


def _is_open(dtype: Any, public: bool) -> bool:
    """Does the dtype say nothing of its values, or hang on whether one is missing?"""
    return str(_inside(dtype)) in (("object",) if public else ("object", "bool"))


def _inside(dtype: Any) -> Any:
    """The dtype of a column's values; of categories, that of these."""
    return getattr(getattr(dtype, "categories", None), "dtype", dtype)


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


def _too_large(name: str, column: str) -> DataError:
    return DataError(
        f"sources[{name!r}]: {column} holds numbers of 2⁵³ or more; where one is missing pandas makes floats of them, "
        "which can't tell them apart",
        code="bad-source",
        hint=f'read them with a dtype that knows missing values: df["{column}"].astype("Int64"), before any value is '
        "missing; or pass a pyarrow.Table with a schema",
    )


def _untyped(name: str, columns: list[str]) -> PolicyError:
    shown = ", ".join(columns[:12]) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
    return PolicyError(
        f"sources[{name!r}]: columns of Python objects (dtype object or bool) are read as text, and one of these holds "
        f"something else: {shown}",
        code="bad-source",
        hint=f'name their types in the policy: [tables.{name}.columns] {columns[0]} = {{ type = "DATE" }} (or BIGINT, '
        f'DOUBLE, BOOLEAN, VARCHAR, …), or in the frame: df["{columns[0]}"].astype("boolean") or "Int64"; or pass a '
        "pyarrow.Table with a schema",
    )
