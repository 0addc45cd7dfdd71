"""What the HTTP API says, as JSON, in the command line's own shapes; and what of an error leaves the server.

Refusals leave as they are: they follow from the SQL, the policy and the ledger. Whatever else happens (also what a
ledger or a source says, which names files) is a constant text with the id of an incident, and the steward finds the
rest in the audit log.
"""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsql.accounting.account import Entry
from dpsql.answer.model import Answer
from dpsql.answer.render import as_json, encode
from dpsql.core.cost import Cost
from dpsql.core.errors import BudgetError, DataError, Error, LedgerError, PrivacyError, ServerError, SQLError
from dpsql.explain.explanation import Explanation
from dpsql.policy import model as policy

if TYPE_CHECKING:
    from dpsql.server.core import Budget, Outlook


Json = dict[str, Any]

_STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "bad-request": 422,
    "request-size": 413,
    "too-slow": 408,
    "too-many": 429,
    "busy": 503,
    "unavailable": 503,
    "release-busy": 503,
    "receipt-unknown": 404,
    "no-answer": 404,
    "engine": 503,
}


def status_of(error: Error) -> int:
    """The status of a reply with this error."""
    if isinstance(error, BudgetError):
        return 402
    if isinstance(error, SQLError | PrivacyError):
        return 422
    return _STATUS.get(error.code, 500)


def error_reply(error: Error) -> Json:
    span = error.span
    told: Json = {
        "kind": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "span": None if span is None else {"line": span.line, "column": span.column, "length": span.length},
    }
    if isinstance(error, ServerError) and error.incident:
        told["incident"] = error.incident
    return told


def cost_reply(cost: Cost) -> Json:
    rho = None if cost.rho is None else float(cost.rho)
    return {"epsilon": float(cost.epsilon), "delta": float(cost.delta), "rho": rho}


def explain_reply(explained: Explanation, outlook: Outlook) -> Json:
    """What `dpsql explain --json` says, what it says to people, and what it would leave of the budget."""
    from dpsql.explain.facts import as_dict
    from dpsql.explain.text import expected

    after = outlook.left_after
    return {
        **as_dict(explained),
        "text": str(explained),
        "expected": [{"name": e.name, "error": e.error, "text": e.text, "rows": e.rows} for e in expected(explained)],
        "stored": outlook.stored,
        "left": cost_reply(outlook.left),
        "left_after": None if after is None else cost_reply(after),
    }


def prices_reply(quotes: Sequence[Explanation]) -> list[Json]:
    from dpsql.explain.text import price_line

    return [price_line(quote) for quote in quotes]


def budget_reply(budget: Budget) -> Json:
    return {
        "total": cost_reply(budget.total),
        "spent": cost_reply(budget.spent),
        "remaining": cost_reply(budget.remaining),
        "quota": None if budget.quota is None else float(budget.quota),
        "period": budget.period or None,
        "warning": budget.warning,
    }


def usual_reply(budget: policy.Budget) -> Json:
    """What a query spends when it names nothing, and the most that one may spend; null where the policy is silent."""
    shown = {"query_epsilon": budget.query_epsilon, "max_query_epsilon": budget.max_query_epsilon}
    return {name: None if value is None else float(value) for name, value in shown.items()}


def history_reply(entries: Sequence[Entry], *, names: bool) -> list[Json]:
    """Spends, as `dpsql budget --history --json` lists them; names: with who spent."""
    return [
        {"id": e.id, "time": e.time, **({"analyst": e.analyst or None} if names else {}), "state": e.state}
        | {"cost": cost_reply(e.cost)}
        | dict(e.note)
        for e in entries
    ]


def answer_reply(answer: Answer) -> Json:
    """What `dpsql query --format json` says."""
    return as_json(answer)


def receipt_reply(answer: Answer, file: str) -> bytes:
    """The signed receipt of an answer, bound to the CSV file of this name that holds it."""
    from dpsql.answer.receipts import signed_receipt

    assert answer.signer is not None, "a server has a ledger"
    return signed_receipt(answer.about, file, encode(answer, "csv"), answer.signer)


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
