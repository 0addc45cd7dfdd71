"""Results of statements: columns with their types on the wire, rows, and what is said beside them.

Refusals as Postgres says them: a code of five characters, the text, a hint, and the place for psql's caret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from dpsql.answer.model import Answer
from dpsql.core.errors import (
    BudgetError,
    DataError,
    Error,
    LedgerError,
    PolicyError,
    PrivacyError,
    ServerError,
    Span,
    SQLError,
)
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.server.core import Core
from dpsql.server.postgres.messages import Column, Said
from dpsql.server.postgres.types import Wire, wire_of
from dpsql.server.replies import for_the_log, new_incident, outward

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


_CODES = {
    "unknown-table": "42P01",
    "unknown-column": "42703",
    "unknown-function": "42883",
    "syntax": "42601",
    "parameter": "42P02",
    "setting": "42704",
    "unknown-option": "42704",
    "option-value": "22023",
    "no-epsilon": "55000",
    "catalog": "0A000",
    "unauthorized": "28P01",
    "too-many": "53300",
    "busy": "53300",
    "rate": "53300",
    "engine": "57014",
    "incident": "XX000",
    "unavailable": "57P03",
}
_KINDS: tuple[tuple[type[Error], str], ...] = (
    (SQLError, "42601"),
    (PrivacyError, "0A000"),
    (BudgetError, "53400"),
    (PolicyError, "F0000"),
    (LedgerError, "58000"),
    (DataError, "58000"),
    (ServerError, "58000"),
)
"""The code of a refusal that has none of its own."""


class Refused(Exception):
    """What this port itself refuses. fatal: the connection ends."""

    def __init__(self, code: str, message: str, hint: str | None = None, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.said = Said(severity="FATAL" if fatal else "ERROR", code=code, message=message, hint=hint)
        self.fatal = fatal

    @classmethod
    def saying(cls, said: Said) -> Refused:
        """What says exactly this."""
        found = cls(said.code, said.message, said.hint, fatal=said.severity == "FATAL")
        found.said = said
        return found


def incident_of(error: Exception, core: Core, severity: str) -> Said:
    """What is told of a failure: a constant text with an id. The rest is in the audit log (attack 57)."""
    incident = new_incident()
    with suppress(OSError):  # a full disk keeps nobody from being told
        core.audit.write("postgres", {"incident": incident, "outcome": "incident", "error": for_the_log(error)})
    told = said_of(outward(error, incident), "")
    return Said(severity=severity, code=told.code, message=told.message, detail=told.detail, hint=told.hint)


def said_of(error: Error, text: str) -> Said:
    """A refusal of dpsql's as an error of Postgres'. text: the SQL as the client sent it."""
    code = _CODES.get(error.code) or next((c for kind, c in _KINDS if isinstance(error, kind)), "XX000")
    incident = getattr(error, "incident", None)
    detail = f"incident {incident}" if incident else None
    place = None if error.span is None else position(text, error.span)
    return Said(severity="ERROR", code=code, message=error.message, detail=detail, hint=error.hint, position=place)


def position(text: str, span: Span) -> int | None:
    """Where a span begins, as the number of its character in the text, from 1; None where the text has no such line."""
    lines = text.split("\n")
    if span.line > len(lines):
        return None
    return sum(len(line) + 1 for line in lines[: span.line - 1]) + span.column
