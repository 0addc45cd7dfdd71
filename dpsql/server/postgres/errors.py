"""Refusals as Postgres says them: a code of five characters, the text, a hint, and the place for psql's caret."""

from __future__ import annotations

from contextlib import suppress

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
from dpsql.server.core import Core
from dpsql.server.failures import for_the_log, new_incident, outward
from dpsql.server.postgres.messages import Said

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
