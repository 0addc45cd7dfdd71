"""The parts of nested types: fields of structs, elements of lists, keys and values of maps."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ParseError

from dpsql.core.types import Type
from dpsql.sql.as_sql import as_sql, quiet
from dpsql.sql.dialect import data_type

MOST = 200  # parts of one column that are listed

_LISTS = (exp.DType.ARRAY, exp.DType.LIST)


def parts(name: str, text: str) -> list[tuple[str, str]]:
    """The parts of a column, each as a path and its type, in order and with parts of parts; none of a plain type."""
    if Type.parse(text).is_written:
        return []
    try:
        with quiet():
            found = _parts(name, data_type(text))
    except (ParseError, ValueError, RecursionError):  # a type that only its engine can read
        return []
    return [(path, Type.parse(as_sql(kind)).sql) for path, kind in found[:MOST]]


def _parts(path: str, kind: exp.DataType) -> list[tuple[str, exp.DataType]]:
    inner = [one for one in kind.expressions if isinstance(one, exp.DataType)]
    if kind.this in _LISTS and inner:
        steps = [("[]", inner[0])]
    elif kind.this is exp.DType.MAP and len(inner) == 2:
        steps = [("[key]", inner[0]), ("[value]", inner[1])]
    else:
        fields = [one for one in kind.expressions if isinstance(one, exp.ColumnDef)]
        steps = [(f".{field.name}", field.kind) for field in fields if isinstance(field.kind, exp.DataType)]
    return [one for step, below in steps for one in [(path + step, below), *_parts(path + step, below)]]
