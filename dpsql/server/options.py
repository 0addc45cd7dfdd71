"""What a request may ask for besides its SQL: each option of its kind, and never who asks; and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from dpsql.core import VERSION
from dpsql.core.errors import ServerError
from dpsql.options import REMOVED, Request
from dpsql.remote.wire import read_parameters

Options = Mapping[str, Any]

Json = dict[str, Any]
Kind = tuple[tuple[type, ...], Json]
"""The Python types that a value may have, and its JSON Schema."""

_NUMBER: Kind = (
    (str, int, float, Fraction),
    {"anyOf": [{"type": "number"}, {"type": "string", "maxLength": 100}]},
)
_LIMIT: Kind = (
    (int, str),
    {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "const": "auto"}]},
)
_KINDS: Mapping[str, Kind] = {
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "max_rows": _LIMIT,
    "max_rows_per_group": _LIMIT,
    "max_groups": _LIMIT,
    "mechanism": ((str,), {"type": "string"}),
    "fresh": ((bool,), {"type": "boolean"}),
    "accuracy": _NUMBER,
    "confidence": ((int, float), {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
    "params": ((list, tuple, dict), {"anyOf": [{"type": "array"}, {"type": "object"}]}),
}
assert _KINDS.keys() == {f.name for f in fields(Request)}


def checked_options(options: Options) -> dict[str, Any]:
    """The options of a request that were said, each of its kind; who asks is never one of them."""
    for name, value in options.items():
        if name in REMOVED:
            continue
        if name not in _KINDS:
            hint = "who asks is known by the token" if name in ("analyst", "name", "user", "role") else None
            raise _bad(f"{name!r} isn't an option of a query", hint or f"known are {', '.join(_KINDS)}")
        types, _ = _KINDS[name]
        wrong = isinstance(value, bool) and bool not in types
        if value is not None and (wrong or not isinstance(value, types)):
            raise _bad(f"the option {name} can't be {type(value).__name__}", "see /openapi.json for what it may be")
    said = {name: value for name, value in options.items() if value is not None}
    if "params" in said:
        try:
            said["params"] = read_parameters(said["params"])
        except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError):
            raise _bad("a parameter isn't a value", 'write a date as {"date": "2024-01-31"}') from None
    return said


def _bad(message: str, hint: str) -> ServerError:
    return ServerError(message, code="bad-request", hint=hint)


_STATUSES = {
    "401": "the server doesn't know who asks",
    "402": "the budget can't pay for it",
    "403": "it is for stewards, or comes from another site",
    "404": "there is no such release of yours",
    "405": "another method is asked for",
    "408": "the request came too slowly",
    "413": "the request is too long",
    "422": "refused: the SQL, an option, or privacy",
    "429": "too much at once",
    "500": "the server failed: an incident",
    "503": "the server, the data or the ledger aren't ready; or the query took too long and stays charged",
}


_INSIDE: Json = {
    "name": "errors",
    "in": "query",
    "description": "inside: an error comes with status 200, as {error: {…, status}}; a browser's console logs others",
    "schema": {"type": "string", "enum": ["inside"]},
}


def document() -> Json:
    """The whole document."""
    ask: Json = {"sql": {"type": "string"}}
    ask |= {f.name: {**_KINDS[f.name][1], "description": f.metadata["help"]} for f in fields(Request)}
    query: Json = {"type": "object", "required": ["sql"], "properties": ask, "additionalProperties": False}
    asked = {"requestBody": {"required": True, "content": {"application/json": {"schema": query}}}}
    formats = {
        "name": "format",
        "in": "query",
        "schema": {"type": "string", "enum": ["json", "csv", "parquet", "arrow", "dpsql", "receipt"]},
    }
    key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"}}
    id_ = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"}}
    token: Json = {"type": "object", "required": ["token"], "properties": {"token": {"type": "string"}}}
    paths: Json = {
        "/v1/query": {"post": _operation("Answer a query", asked, [formats, key])},
        "/v1/batch": {"post": _operation("Answer several statements for one price", asked, [formats, key])},
        "/v1/free": {"post": _operation("Answer a query where it costs nothing", asked, [formats], also=("204",))},
        "/v1/explain": {"post": _operation("Price, noise and expected error; spends nothing", asked)},
        "/v1/prices": {"post": _operation("The same query at several ε; spends nothing", asked)},
        "/v1/answers/{id}": {"get": _operation("An answer of yours once more", {}, [id_, formats])},
        "/v1/answers/{id}/receipt": {"get": _operation("The signed receipt of its file", {}, [id_, formats])},
        "/v1/login": {
            "post": _operation(
                "A cookie for a token",
                {"requestBody": {"required": True, "content": {"application/json": {"schema": token}}}},
            )
        },
        "/v1/logout": {"post": _operation("Forget the cookie", {}, also=("204",))},
    }
    told = {
        "schema": "Tables and columns",
        "functions": "Functions that are understood",
        "budget": "What you spent and may still spend",
        "history": "Your releases",
        "me": "Who you are",
        "spending": "For stewards: by analyst and day",
        "policy": "For stewards: the policy",
    }
    paths |= {f"/v1/{path}": {"get": _operation(what, {})} for path, what in told.items()}
    error: Json = {
        "type": "object",
        "required": ["kind", "code", "message", "hint", "span"],
        "properties": {
            "kind": {"type": "string"},
            "code": {"type": "string"},
            "message": {"type": "string"},
            "hint": {"type": ["string", "null"]},
            "span": {"type": ["object", "null"]},
            "incident": {"type": "string"},
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "dpsql", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(summary: str, body: Json, parameters: list[Json] | None = None, *, also: tuple[str, ...] = ()) -> Json:
    fails = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    replies: Json = {"200": {"description": "done; or an error, where errors=inside was asked for"}}
    replies |= {one: {"description": "nothing"} for one in also}
    replies |= {status: {"description": what, "content": fails} for status, what in _STATUSES.items()}
    return {"summary": summary, "responses": replies, **body, "parameters": [*(parameters or ()), _INSIDE]}
