"""What of an error leaves the server.

Refusals leave as they are: they follow from the SQL, the policy and the ledger. Whatever else happens (also what a
ledger or a source says, which names files) is a constant text with the id of an incident, and the steward finds the
rest in the audit log.
"""

from __future__ import annotations

import secrets
import traceback

from dpsql.core.errors import BudgetError, DataError, Error, LedgerError, PrivacyError, ServerError, SQLError

AS_THEY_ARE = frozenset({"release-busy", "receipt-unknown", "no-answer", "engine"})
"""Codes of ledger and data whose texts name nothing but the query's own releases."""
UNAVAILABLE = {
    "data-changed": "the data changed, and the steward hasn't accepted that yet",
    "unverified-promise": "the data changed, and the steward hasn't verified what is promised of them yet",
    "source-missing": "a source of the data isn't there",
    "policy-changed": "the policy changed, and the steward hasn't accepted that yet",
    "account-closed": "the account is closed: what was released can still be shown",
    "ledger-busy": "the ledger is busy",
    "ledger-disk": "the ledger can't be written now",
    "engine-failed": "the engine failed earlier, and there is no other one; nothing was charged",
}
"""What is said in the place of texts that may name files."""


def outward(error: BaseException, incident: str) -> Error:
    """The error that the analyst sees."""
    if isinstance(error, SQLError | PrivacyError | BudgetError | ServerError):
        return error
    if isinstance(error, LedgerError | DataError) and error.code in AS_THEY_ARE:
        return error
    if isinstance(error, Error) and error.code in UNAVAILABLE:
        told = ServerError(UNAVAILABLE[error.code], code="unavailable", hint="ask the steward, with the incident's id")
    else:
        told = ServerError(
            "the server failed; a query that was paid for stays charged",
            code="incident",
            hint="tell the steward the incident's id",
        )
    told.incident = incident
    return told


def new_incident() -> str:
    """An id that says nothing."""
    return secrets.token_hex(8)


def for_the_log(error: BaseException) -> dict[str, object]:
    """What the steward is told: of foreign errors the kind and the places in the code alone, since a text may quote a
    row."""
    if isinstance(error, Error):
        told: dict[str, object] = {"kind": type(error).__name__, "code": error.code, "message": error.message}
        return {**told, "reason": error.aside} if error.aside else told
    places = [f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)]
    return {"kind": type(error).__name__, "places": places[-12:]}
