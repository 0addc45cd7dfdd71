"""A session on a server: the same methods and exceptions as one on files, over HTTP."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, NoReturn

from dpsql.accounting.account import Balance, Receipt
from dpsql.answer.model import Answer
from dpsql.core import errors
from dpsql.core.cost import Cost
from dpsql.core.errors import Error, ServerError, Span
from dpsql.core.extras import extra
from dpsql.core.frozen import dataclass
from dpsql.options import Request, asks
from dpsql.policy.model import Policy
from dpsql.remote.wire import MEDIA, sent_parameters, unpack
from dpsql.session import Session

KINDS = {one.__name__: one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Error)}
CONNECT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Explained:
    """What a server says of a query before it is paid for; print it to read it."""

    facts: Mapping[str, Any]
    """Everything that `dpsql explain --json` says."""

    @property
    def epsilon(self) -> Fraction:
        return Fraction(str(self.facts["price"]["epsilon"]))

    @property
    def price(self) -> Cost:
        return _cost({"rho": None, **self.facts["price"]})

    @property
    def stored(self) -> bool:
        """Is it free, because a stored release answers it?"""
        return bool(self.facts["stored"])

    def __str__(self) -> str:
        return str(self.facts["text"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class RemoteSession(Session):
    """A session on a server. What only somebody with the files can do is refused."""

    def __init__(self, url: str, token: str | None) -> None:
        if not token:
            raise ServerError(
                "a server wants to know who asks", code="unauthorized", hint='dpsql.connect("https://…", token="…")'
            )
        httpx = extra("httpx", "server", "a session on a server")
        self._url = url.rstrip("/")
        self._closed = False
        self._charged: Receipt | None = None
        headers = {"Authorization": f"Bearer {token}"}
        times = httpx.Timeout(None, connect=CONNECT_SECONDS)  # the server says when an answer is due
        self._client = httpx.Client(base_url=self._url, headers=headers, timeout=times)

    @asks
    def query(self, sql: str, request: Request) -> Answer:
        """Answer a query, as `Session.query` does."""
        (answer,) = self._answered("query", sql, request)
        return answer

    @asks
    def batch(self, sql: str, request: Request) -> list[Answer]:
        """Answer several statements, as `Session.batch` does."""
        return self._answered("batch", sql, request)

    @asks
    def free(self, sql: str, request: Request) -> Answer | None:
        """The answer where it costs nothing; None where it would cost."""
        found = self._sent("POST", "/v1/free", _body(sql, request), {"Accept": MEDIA})
        return None if found.status_code == 204 else unpack(found.content)[0]

    @asks
    def explain(self, sql: str, request: Request) -> Any:
        """Everything about a query's noise and price; spends nothing."""
        return Explained(self._told("POST", "/v1/explain", _body(sql, request)))

    @asks
    def prices(self, sql: str, request: Request) -> Any:
        """Quotes for a query at several ε, the smallest first: ε, errors, cost and how often it fits."""
        return self._told("POST", "/v1/prices", _body(sql, request))

    @asks
    def explain_batch(self, sql: str, request: Request) -> Any:
        """Not through a server."""
        self._not_here("explain_batch")

    def replays(self, id: str) -> list[Answer]:
        """All answers of an earlier release of one's own once more, by its receipt's whole id; they are free."""
        from urllib.parse import quote

        return unpack(self._sent("GET", f"/v1/answers/{quote(id, safe='')}", None, {"Accept": MEDIA}).content)

    def is_stored(self, quote: Any) -> bool:
        """Whether a stored release answers this query, as its explanation says."""
        return bool(quote.stored)

    @property
    def budget(self) -> Balance:
        """What may be spent: .total, .spent by oneself, .remaining."""
        found = self._told("GET", "/v1/budget")
        total, spent, remaining = (_cost(found[name]) for name in ("total", "spent", "remaining"))
        return Balance(total, spent, remaining, {}, found["period"] or "")

    @property
    def account(self) -> Any:
        """One's own spends, the oldest first."""
        return self._told("GET", "/v1/history")["history"]

    def can_pay(self, price: Cost) -> bool:
        """Whether what is left would pay this price now."""
        more = self.pays(price)
        return more is None or more >= 1

    def pays(self, price: Cost) -> int | None:
        """How often what is left would pay this price now; None: as often as you like, because it costs nothing."""
        left = self.budget.remaining
        every = [(left.epsilon, price.epsilon), (left.delta, price.delta)]
        paid = every if left.rho is None else [(left.rho, price.rho or Fraction(0))]
        return min((int(most // each) for most, each in paid if each), default=None)

    def knows(self, release: str) -> bool:
        """Whether the ledger has a release of one's own with this id."""
        return any(one["id"] == release for one in self.account)

    @property
    def unverified(self) -> tuple[str, ...]:
        """Nothing is told of that through a server."""
        return ()

    @property
    def charged(self) -> Receipt | None:
        """The receipt of the last answer that was paid for."""
        return self._charged

    @property
    def paying(self) -> bool:
        """Only the server knows."""
        return False

    @property
    def ledger_path(self) -> Path | None:
        """It is the server's."""
        return None

    @property
    def policy(self) -> Policy:
        """It is the server's."""
        self._not_here("policy")

    @property
    def backend(self) -> Any:
        """It is the server's."""
        self._not_here("backend")

    @property
    def versions(self) -> dict[str, str]:
        """They are the server's."""
        self._not_here("versions")

    @property
    def signer(self) -> Any:
        """It is the server's: `answer.receipt.id` names a signed receipt, at /v1/answers/ID/receipt."""
        self._not_here("signer")

    def close(self) -> None:
        """End the session."""
        if not self._closed:
            self._closed = True
            self._client.close()

    def __repr__(self) -> str:
        return "<RemoteSession: closed>" if self._closed else f"<RemoteSession: {self._url}>"

    # ---------------------------------------------------------------- requests

    def _answered(self, what: str, sql: str, request: Request) -> list[Answer]:
        """Ask for what may be paid for. A reply that is lost on its way is fetched once more, by its key."""
        headers = {"Accept": MEDIA, "Idempotency-Key": secrets.token_hex(16)}
        answers = unpack(self._sent("POST", f"/v1/{what}", _body(sql, request), headers, again=True).content)
        if answers[0].cost.epsilon:
            self._charged = answers[0].receipt
        return answers

    def _told(self, method: str, path: str, body: object = None) -> Any:
        return self._sent(method, path, body, {}).json()

    def _sent(self, method: str, path: str, body: object, headers: Mapping[str, str], *, again: bool = False) -> Any:
        """The reply to a request, or the error that it holds. again: a lost reply may be asked for once more."""
        import httpx

        self._check_open()
        try:
            reply = self._client.request(method, path, json=body, headers=dict(headers))
        except httpx.TransportError:
            if again:
                return self._sent(method, path, body, headers)
            raise ServerError(
                "the server can't be reached",
                code="unreachable",
                hint="a query that it got may have been paid for: session.account shows it",
            ) from None
        if reply.status_code >= 400:
            raise _error(reply, body)
        return reply

    def _not_here(self, what: str) -> NoReturn:
        raise ServerError(f"{what} is not for sessions on a server", code="not-remote", hint="ask the steward")


def _body(sql: str, request: Request) -> dict[str, Any]:
    said = {f.name: getattr(request, f.name) for f in fields(Request) if f.name != "params"}
    body = {name: _plain(value) for name, value in said.items() if value is not None and value is not False}
    if request.params is not None:
        body["params"] = sent_parameters(request.params)
    return {"sql": sql, **body}


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value


def _error(reply: Any, body: object) -> Error:
    """The error of a reply, of the class that a session on files would have raised."""
    try:
        told = json.loads(reply.content)
        kind = KINDS[told["kind"]]
        span = None if told["span"] is None else Span(**told["span"])
        message, which = told["message"], told["code"]
        found = kind(message, code=which, hint=told["hint"], span=span)
        if isinstance(found, ServerError):
            found.incident = told.get("incident")
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered {reply.status_code}", code="unreachable", hint="is it a dpsql server?")
    if isinstance(body, dict) and "sql" in body:
        found.source = body["sql"]
    return found


def _cost(found: Mapping[str, Any]) -> Cost:
    rho = found["rho"]
    epsilon, delta = (Fraction(str(found[name])) for name in ("epsilon", "delta"))
    return Cost(epsilon, delta, None if rho is None else Fraction(str(rho)))
