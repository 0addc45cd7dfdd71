"""The HTTP API: routes over the core, and the page's files. Whatever isn't about HTTP is in core.py."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from dpsql.answer.model import Answer
from dpsql.answer.receipts import signed_receipt
from dpsql.answer.render import encode_all
from dpsql.core.errors import Error, ServerError
from dpsql.remote.wire import MEDIA, pack
from dpsql.server.core import Core
from dpsql.server.guard import Guard
from dpsql.server.login import COOKIE, HOURS, Issuer, Logins
from dpsql.server.options import document
from dpsql.server.page import NOT_BUILT, PAGE
from dpsql.server.replies import (
    answer_reply,
    budget_reply,
    cost_reply,
    error_reply,
    explain_reply,
    history_reply,
    new_incident,
    outward,
    prices_reply,
    receipt_reply,
    status_of,
    usual_reply,
)
from dpsql.server.tokens import Everybody, Tokens, Who, unknown
from dpsql.sql.statements import statements

T = TypeVar("T")
Handler = Callable[["Http", Request], Awaitable[Response]]

FORMATS = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
    "dpsql": MEDIA,
    "receipt": "application/json",
}
"""What answers come as. A receipt is signed, and for the CSV file with the same answer."""
OF_ONE = ("parquet", "arrow", "receipt")
"""Formats that hold one answer."""


class Http:
    """The API in front of one core."""

    def __init__(self, core: Core, tokens: Tokens | None = None) -> None:
        self.core = core
        self.tokens = tokens or Tokens(core.settings.tokens)
        self.logins = Logins(self.tokens)
        oidc = core.settings.oidc
        self.everybody = Everybody(self.tokens, None if oidc is None else Issuer(oidc))
        most = core.settings.max_running + 32  # explanations and the like beside queries that wait for their time
        self._threads = anyio.CapacityLimiter(most)

    def metrics_app(self) -> Any:
        """The ASGI application of the steward's monitoring, for a port of its own."""
        routes = [Route("/metrics", partial(self._answered, Http.metrics), methods=["GET"])]
        return Guard(Starlette(routes=routes), self.core.settings)

    def app(self) -> Any:
        """The ASGI application."""
        routes: list[Route | Mount] = [
            Route(path, partial(self._answered, handler), methods=[method]) for method, path, handler in ROUTES
        ]
        if (PAGE / "assets").is_dir():
            routes.append(Mount("/assets", StaticFiles(directory=PAGE / "assets")))
        handlers = {404: _no_such, 405: _no_such}
        return Guard(Starlette(routes=routes, exception_handlers=handlers), self.core.settings)

    async def _answered(self, handler: Handler, request: Request) -> Response:
        """What a handler replies, or its error: nothing else leaves."""
        try:
            return await handler(self, request)
        except Exception as error:
            told = outward(error, new_incident())
            if request.query_params.get("errors") == "inside":  # a browser's console logs every other status
                return JSONResponse({"error": {**error_reply(told), "status": status_of(told)}})
            return error_response(told)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run something that blocks in a thread. Whoever goes away meanwhile has paid all the same."""
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._threads)

    async def who(self, request: Request) -> Who:
        """Who asks, by the token or the cookie; both are never looked at together."""
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                raise unknown()
            return await self.run(self.everybody.who, token.strip())
        cookie = request.cookies.get(COOKIE)
        if cookie is None:
            raise unknown()
        return await self.run(self.logins.who, cookie)

    # ---------------------------------------------------------------- queries

    async def query(self, request: Request) -> Response:
        who, format_ = await self.who(request), format_of(request)  # what is refused isn't paid for
        sql, options = await asked(request)
        answer = await self.run(self.core.query, who, sql, options, request.headers.get("idempotency-key"))
        return await self._sent(format_, who, [answer])

    async def batch(self, request: Request) -> Response:
        who, format_ = await self.who(request), format_of(request)
        sql, options = await asked(request)
        if format_ in OF_ONE and len(await self.run(statements, sql)) > 1:
            raise ServerError(f"{format_} holds one answer", code="bad-request", hint="ask for json or csv")
        answers = await self.run(self.core.batch, who, sql, options, request.headers.get("idempotency-key"))
        return await self._sent(format_, who, answers, listed=True)

    async def free(self, request: Request) -> Response:
        who, format_ = await self.who(request), format_of(request)
        sql, options = await asked(request)
        answer = await self.run(self.core.free, who, sql, options)
        return Response(status_code=204) if answer is None else await self._sent(format_, who, [answer])

    async def explain(self, request: Request) -> Response:
        who = await self.who(request)
        sql, options = await asked(request)

        def work() -> Any:
            found = self.core.explain(who, sql, options)
            return explain_reply(found, self.core.outlook(who, found, fresh=bool(options.get("fresh"))))

        return JSONResponse(await self.run(work))

    async def prices(self, request: Request) -> Response:
        who = await self.who(request)
        sql, options = await asked(request)
        return JSONResponse(await self.run(lambda: prices_reply(self.core.prices(who, sql, options))))

    async def answer(self, request: Request) -> Response:
        who = await self.who(request)
        id = request.path_params["id"]
        answers = await self.run(self.core.replay, who, id)
        return await self._sent(format_of(request), who, answers)

    async def receipt(self, request: Request) -> Response:
        """The signed receipt of the very file that `answers/{id}` gives in this format."""
        who = await self.who(request)
        id, format_ = request.path_params["id"], format_of(request)

        def signed() -> bytes:
            answers = self.core.replay(who, id)
            if format_ not in ("csv", "parquet", "arrow") or len(answers) > 1:
                raise ServerError("this has no receipt", code="bad-request", hint="one answer: csv, parquet or arrow")
            signer = answers[0].signer
            assert signer is not None, "what was released belongs to a ledger"
            return signed_receipt(answers[0].about, f"{id[:8]}.{format_}", encode_all(answers, format_), signer)

        return Response(await self.run(signed), media_type="application/json")

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(document())

    async def metrics(self, request: Request) -> Response:
        who = await self.who(request)
        return PlainTextResponse(await self.run(self.core.metrics_text, who))

    async def _sent(self, format_: str, who: Who, answers: Sequence[Answer], *, listed: bool = False) -> Response:
        """Answers in the format that was asked for."""

        def encoded() -> bytes:
            if format_ == "json":
                shown = [answer_reply(one) for one in answers]
                return json.dumps(shown if listed or len(shown) > 1 else shown[0], allow_nan=False).encode()
            if format_ == "dpsql":
                return pack(answers)
            if len(answers) > 1 and format_ in OF_ONE:  # a batch that is shown again
                raise ServerError(f"{format_} holds one answer", code="bad-request", hint="ask for json or csv")
            if format_ == "receipt":
                return receipt_reply(answers[0], f"{name}.csv")
            return encode_all(answers, format_)

        receipt = answers[0].receipt.id
        name = receipt[:8] or "answer"
        headers = {"X-Dpsql-Receipt": receipt} if receipt else {}
        if (warning := await self.run(self.core.warning, who)) is not None:
            headers["X-Dpsql-Warning"] = warning
        if format_ != "json":
            ending = "csv.receipt.json" if format_ == "receipt" else format_
            headers["Content-Disposition"] = f'attachment; filename="{name}.{ending}"'
        return Response(await self.run(encoded), media_type=FORMATS[format_], headers=headers)

    # ---------------------------------------------------------------- what there is

    async def schema(self, request: Request) -> Response:
        who = await self.who(request)
        return JSONResponse({"tables": await self.run(self.core.schema, who)})

    async def functions(self, request: Request) -> Response:
        await self.who(request)
        return JSONResponse({"functions": await self.run(self.core.functions)})

    async def budget(self, request: Request) -> Response:
        who = await self.who(request)
        return JSONResponse(budget_reply(await self.run(self.core.budget, who)))

    async def history(self, request: Request) -> Response:
        who = await self.who(request)
        entries = await self.run(self.core.history, who)
        return JSONResponse({"history": history_reply(entries, names=who.role == "steward")})

    async def spending(self, request: Request) -> Response:
        who = await self.who(request)
        found = await self.run(self.core.spending, who)
        shown = [{"time": t, "analyst": a or None, "cost": cost_reply(c), "releases": n} for t, a, c, n in found]
        return JSONResponse({"spending": shown})

    async def policy(self, request: Request) -> Response:
        who = await self.who(request)
        return JSONResponse({"policy": await self.run(self.core.policy_text, who)})

    # ---------------------------------------------------------------- who

    async def me(self, request: Request) -> Response:
        who = await self.who(request)
        budget = await self.run(self.core.budget, who)
        told = {"name": who.name, "role": who.role, "remaining": cost_reply(budget.remaining)}
        return JSONResponse({**told, "warning": budget.warning, **usual_reply(self.core.engine.policy.budget)})

    async def login(self, request: Request) -> Response:
        body = await body_of(request, ("token",))
        token = body.get("token")
        if not isinstance(token, str):
            raise unknown()
        cookie, who = await self.run(self.logins.enter, token)
        reply = JSONResponse({"name": who.name, "role": who.role})
        settings = self.core.settings
        reply.set_cookie(
            COOKIE,
            cookie,
            max_age=HOURS * 3600,
            httponly=True,
            samesite="strict",
            secure=settings.has_tls or settings.behind_proxy,
        )
        return reply

    async def logout(self, request: Request) -> Response:
        if (cookie := request.cookies.get(COOKIE)) is not None:
            self.logins.leave(cookie)
        reply = Response(status_code=204)
        reply.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return reply

    # ---------------------------------------------------------------- the process and the page

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        ready = await self.run(self.core.is_ready)
        return PlainTextResponse("ready\n" if ready else "not ready\n", status_code=200 if ready else 503)

    async def page(self, request: Request) -> Response:
        index = PAGE / "index.html"
        return FileResponse(index) if index.is_file() else PlainTextResponse(f"{NOT_BUILT}\n")

    async def favicon(self, request: Request) -> Response:
        icon = PAGE / "favicon.svg"
        return FileResponse(icon, media_type="image/svg+xml") if icon.is_file() else Response(status_code=204)


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/v1/query", Http.query),
    ("POST", "/v1/batch", Http.batch),
    ("POST", "/v1/free", Http.free),
    ("POST", "/v1/explain", Http.explain),
    ("POST", "/v1/prices", Http.prices),
    ("GET", "/v1/schema", Http.schema),
    ("GET", "/v1/functions", Http.functions),
    ("GET", "/v1/budget", Http.budget),
    ("GET", "/v1/history", Http.history),
    ("GET", "/v1/answers/{id}", Http.answer),
    ("GET", "/v1/answers/{id}/receipt", Http.receipt),
    ("GET", "/v1/spending", Http.spending),
    ("GET", "/v1/policy", Http.policy),
    ("GET", "/v1/me", Http.me),
    ("POST", "/v1/login", Http.login),
    ("POST", "/v1/logout", Http.logout),
    ("GET", "/openapi.json", Http.openapi),
    ("GET", "/healthz", Http.healthz),
    ("GET", "/readyz", Http.readyz),
    ("GET", "/favicon.ico", Http.favicon),
    ("GET", "/favicon.svg", Http.favicon),
    ("GET", "/", Http.page),
)


async def _no_such(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    told = ServerError("there is no such address, or not with this method", code="not-found", hint="see /openapi.json")
    return JSONResponse(error_reply(told), status_code=status)


def error_response(error: Error) -> Response:
    return JSONResponse(error_reply(error), status_code=status_of(error))


async def asked(request: Request) -> tuple[str, Mapping[str, Any]]:
    """The SQL and the options of a request; `parameters` is another name of `params`."""
    body = await body_of(request)
    sql = body.pop("sql", None)
    if not isinstance(sql, str):
        raise ServerError('"sql" must be a text', code="bad-request", hint='send {"sql": "SELECT …", "epsilon": 0.5}')
    if "parameters" in body:
        body["params"] = body.pop("parameters")
    return sql, body


async def body_of(request: Request, known: Sequence[str] | None = None) -> dict[str, Any]:
    """The JSON object that a request holds. Only what says that it is JSON is read: no form of another site is."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        body = json.loads(await request.body()) if kind == "application/json" else None
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict) or (known is not None and not body.keys() <= set(known)):
        raise ServerError(
            "the request isn't a JSON object",
            code="bad-request",
            hint='send Content-Type: application/json and an object like {"sql": "SELECT …"}',
        )
    return body


def format_of(request: Request) -> str:
    """The format that ?format= names, or the first that Accept names; else JSON."""
    named = request.query_params.get("format")
    if named is not None:
        if named not in FORMATS:
            raise ServerError(f"unknown format {named!r}", code="bad-request", hint=f"known are {', '.join(FORMATS)}")
        return named
    kinds = {media.partition(";")[0]: name for name, media in FORMATS.items() if name != "receipt"}
    kinds["application/vnd.apache.arrow.stream"] = "arrow"
    for one in request.headers.get("accept", "").split(","):
        if (kind := one.partition(";")[0].strip().lower()) in kinds:
            return kinds[kind]
    return "json"
