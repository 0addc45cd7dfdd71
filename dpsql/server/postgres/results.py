"""Results of statements: columns with their types on the wire, rows, and what is said beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from dpsql.answer.model import Answer
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.server.postgres.messages import Column, Said
from dpsql.server.postgres.types import Wire, wire_of

Arrow = Any


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result: its name, and its type on the wire."""

    name: str
    wire: Wire

    @property
    def column(self) -> Column:
        """As it is announced."""
        return Column(self.name, self.wire.oid, self.wire.size, self.wire.modifier)


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gives: rows, if it has columns; the word for the end; and what is said beside it."""

    tag: str
    fields: tuple[Field, ...] | None = None
    table: Arrow = None
    notices: tuple[Said, ...] = ()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, as the fields' wires take them."""
        assert self.fields is not None
        columns = [f.wire.read(self.table.column(i)) for i, f in enumerate(self.fields)]
        return zip(*columns, strict=True) if columns else iter([()] * self.table.num_rows)


def answered(answer: Answer, warning: str | None = None) -> Result:
    """warning: that little of the budget is left."""
    table, said = answer.table, list(_price(answer))
    if warning is not None:
        said.append(Said(severity="WARNING", code="01000", message=warning))
    return Result(f"SELECT {table.num_rows}", fields_of(table), table, tuple(said))


def _price(answer: Answer) -> Iterator[Said]:
    """What it cost, and what a reader should know of it."""
    if answer.receipt.id:
        cost = answer.cost
        paid = f"this cost ε = {float(cost.epsilon):g}" if cost.epsilon else "this cost nothing"
        paid += f", δ = {float(cost.delta):g}" if cost.delta else ""
        yield Said(severity="NOTICE", code="00000", message=paid, detail=f"receipt {answer.receipt.id}")
    for note in answer.notes:
        yield Said(severity="NOTICE", code="00000", message=note)


def fields_of(table: Arrow, *, oids: bool = False) -> tuple[Field, ...]:
    return tuple(Field(field.name, wire_of(field.type, oids=oids)) for field in table.schema)


def texts(name: str, lines: Sequence[str]) -> Arrow:
    return pa.table({name: pa.array(lines, pa.string())})


def wire_of_type(text: str) -> Wire:
    """The type on the wire of a column that is announced by its SQL type."""
    known = Type.parse(text)
    if known.is_decimal:
        return wire_of(pa.decimal128(known.width, known.scale))
    if known.is_timestamp:
        return wire_of(pa.timestamp("us", "UTC" if known.has_zone else None))
    if text.endswith("[]"):
        return wire_of(pa.list_(_ARROW.get(Type.parse(text[:-2]).name, pa.string)()))
    return wire_of(_ARROW.get(known.name, pa.string)())


_ARROW: dict[str, Callable[[], Arrow]] = {
    "BOOLEAN": pa.bool_, "TINYINT": pa.int8, "UTINYINT": pa.uint8, "SMALLINT": pa.int16, "USMALLINT": pa.uint16,
    "INTEGER": pa.int32, "UINTEGER": pa.uint32, "BIGINT": pa.int64, "UBIGINT": pa.uint64,
    "HUGEINT": lambda: pa.decimal128(38, 0), "FLOAT": pa.float32, "DOUBLE": pa.float64, "DATE": pa.date32,
    "TIME": lambda: pa.time64("us"), "INTERVAL": pa.month_day_nano_interval, "BLOB": pa.binary,
}  # fmt: skip
