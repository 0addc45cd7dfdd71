"""What a connection asks for with every query: its keywords, and SET and RESET of the same names.

SET dpsql.epsilon = 0.5; RESET dpsql.epsilon; RESET ALL
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.errors import Error, Span, SQLError, nearest
from dpsql.core.limit import AUTO
from dpsql.core.parameters import Parameters
from dpsql.mechanisms.registry import ASKED_FOR
from dpsql.options import Request
from dpsql.policy.reader import parse_delta, parse_epsilon
from dpsql.sql.dialect import DIALECT
from dpsql.sql.parameters import spots
from dpsql.sql.parse import parse

PREFIX = "dpsql"
OPTIONS = {field.name: field for field in fields(Request) if field.name != "params"}

_DIALECT = Dialect.get_or_raise(DIALECT)
_TRUE, _FALSE = ("true", "on", "1", "yes"), ("false", "off", "0", "no")
_EITHER = {"epsilon": ("accuracy", "confidence"), "accuracy": ("epsilon",)}  # who says one of them takes the other back


def with_options(request: Request, options: Mapping[str, Any]) -> Request:
    """What a connection asks for, with these options, which may be texts."""
    for name, value in options.items():
        if value is not None:
            request = _set(request, name, value)
    return request


def _set(request: Request, name: str, value: Any) -> Request:
    if name not in OPTIONS:
        near = nearest(name, tuple(OPTIONS))
        hint = f"did you mean {near}?" if near else f"options are {', '.join(OPTIONS)}"
        raise SQLError(f"there is no option {name}", code="unknown-option", hint=hint)
    gone: dict[str, Any] = {other: OPTIONS[other].default for other in _EITHER.get(name, ())}
    return replace(request, **gone, **{name: _read(name, value)})


def _read(name: str, value: Any) -> Any:
    """The value of an option, from a text or as it is; what it may be is checked here where that needs no query."""
    match name:
        case "epsilon":
            parse_epsilon(value, where=name, error=SQLError)
        case "delta":
            parse_delta(value, where=name, error=SQLError)
        case "max_rows" | "max_rows_per_group" | "max_groups" if isinstance(value, str) and value != AUTO:
            return int(value) if value.isascii() and value.isdigit() else _wrong(name, value, "20")
        case "mechanism" if value not in ASKED_FOR:
            return _wrong(name, value, " or ".join(ASKED_FOR))
        case "fresh" if not isinstance(value, bool):
            text = str(value).lower()
            return text in _TRUE if text in (*_TRUE, *_FALSE) else _wrong(name, value, "true or false")
        case "confidence":
            try:
                return float(value)
            except (TypeError, ValueError):
                return _wrong(name, value, "0.95")
    return value


def _wrong(name: str, value: Any, example: str) -> Any:
    raise SQLError(f"{name} can't be {value!r}", code="option-value", hint=f"for instance {name} = {example}")


# ---------------------------------------------------------------- SET and RESET


def changed(text: str, request: Request, start: Request) -> Request | None:
    """What a connection asks for after this statement, if it is SET or RESET; None if it is anything else.

    start: what it asked for at first, to which RESET goes back.
    """
    try:
        tokens = [t for t in _DIALECT.tokenize(text) if t.token_type is not TokenType.SEMICOLON]
    except TokenError:
        return None  # parse says what is wrong
    verb = tokens[0].text.upper() if tokens else ""
    if verb not in ("SET", "RESET"):
        return None
    try:
        return _back(text, tokens, request, start) if verb == "RESET" else _given(text, tokens, request, start)
    except SQLError as error:
        error.offsets = tokens[0].start, tokens[-1].end + 1
        raise


def _given(text: str, tokens: list[Token], request: Request, start: Request) -> Request:
    words = [t.text.lower() for t in tokens[1:]]
    if len(words) < 5 or words[:2] != [PREFIX, "."] or words[3] not in ("=", "to"):
        raise _at(text, tokens, "SET is for dpsql's own options", "write SET dpsql.epsilon = 0.5")
    value = _value(tokens[5:])
    if value is None:
        raise _at(text, tokens[5:], "an option takes one constant", "write SET dpsql.epsilon = 0.5")
    return _reset(request, words[2], start) if value.upper() == "DEFAULT" else _set(request, words[2], value)


def _back(text: str, tokens: list[Token], request: Request, start: Request) -> Request:
    """The tokenizer takes what follows RESET for one text."""
    what = "".join(t.text for t in tokens[1:]).strip().lower()
    if what == "all":
        return start
    if not what.startswith(f"{PREFIX}."):
        raise _at(text, tokens, "RESET is for dpsql's own options", "write RESET dpsql.epsilon, or RESET ALL")
    return _reset(request, what.removeprefix(f"{PREFIX}."), start)


def _value(tokens: list[Token]) -> str | None:
    """One word, text or number, as a text; None for anything else."""
    if len(tokens) != 1 or tokens[0].token_type in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
        return None
    return tokens[0].text


def _reset(request: Request, name: str, start: Request) -> Request:
    if name not in OPTIONS:
        return _set(request, name, "")  # which refuses it
    names = (name, *_EITHER.get(name, ()))
    return replace(request, **{one: getattr(start, one) for one in names})


def _at(text: str, tokens: list[Token], message: str, hint: str) -> SQLError:
    return SQLError(message, code="setting", hint=hint, span=Span.of(text, tokens[0].start, tokens[-1].end + 1))


# ---------------------------------------------------------------- what counts for one query


def said_in(text: str, values: Parameters | None) -> frozenset[str]:
    """Which options a query names itself; none where it can't be parsed, and the session says why."""
    try:
        return frozenset(parse(text, spots(text, values)).options)
    except (Error, RecursionError):
        return frozenset()


def keywords(request: Request, said: frozenset[str]) -> dict[str, Any]:
    """What a connection asks for, as keywords, but for what the query says itself: its word counts."""
    said |= {"params", *(("accuracy", "confidence") if "epsilon" in said else ())}
    every = {field.name: getattr(request, field.name) for field in fields(Request) if field.name not in said}
    return {name: value for name, value in every.items() if value is not None and value is not False}
