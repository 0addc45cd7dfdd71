"""Parameters of a query: ?, $1 and $name. Their values become literals of the tree, and never text that is parsed.

A value takes its place among the tokens, as the token that the same literal would have been: the parser makes of it
what it makes of that literal, so that a bound query is the query that is written with literals (and costs as much, or
as little). Nothing in a value can end it or begin anything else. Where a literal may be a name, as in FROM 'people', a
parameter is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.core.errors import Span, SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.core.parameters import Bound, Constant, Parameters
from dpsql.sql.dialect import DIALECT

_DIALECT = Dialect.get_or_raise(DIALECT)
_MARKS = (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.SESSION_PARAMETER)
_TYPES = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ", "time": "TIME"}
_TIGHTER = (
    TokenType.DCOLON, TokenType.DOT, TokenType.L_BRACKET, TokenType.CARET, TokenType.DSTAR, TokenType.COLLATE,
)  # fmt: skip
"""What binds tighter than a sign: (-3) ** 2 is not -3 ** 2."""
_TIGHTER_TEXT = re.compile(r"\s*(?:::|\*\*|[.\[^])")
_IN_WORDS = re.compile(r"[\w$'\".][-\w$'\".]")
"""Two characters that are read as one thing where nothing is between them."""
_WORD = re.compile(r"[A-Za-z]{1,30}")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a parameter stands, from start to end, and its value."""

    start: int
    end: int
    value: Bound


Spots = Mapping[int, Spot]
"""The parameters of a text, by where they start."""


def spots(text: str, values: Parameters | None) -> dict[int, Spot]:
    """Which value stands where in a text of one or several statements: each parameter has one, each value a use."""
    if values is None:
        return {}
    try:
        marks = list(_marks(text, separated(_DIALECT.tokenize(text))))
    except TokenError:
        return {}  # parse says what is wrong
    _one_style(text, marks)
    by_name = any(name and not name.isdigit() for _, _, name in marks) or (values.by_name and not marks)
    if by_name != values.by_name:
        first = marks[0] if marks else None
        wanted = 'a mapping: params={"name": value}' if by_name else "a list: params=[value, …]"
        kind = "names" if by_name else "numbers or question marks"
        raise _refused(text, first, f"the query's parameters are {kind}", f"give {wanted}")
    found = dict(_by_name(text, marks, dict(values.named)) if by_name else _by_place(text, marks, values.placed))
    return {start: Spot(start, end, found[start]) for start, end, _ in marks}


def names(text: str) -> frozenset[str]:
    """The names of the parameters of a text: those like $name."""
    return frozenset(name for _, _, name in _marks(text, separated(_DIALECT.tokenize(text))) if name)


def separated(tokens: Sequence[Token]) -> list[Token]:
    """The tokens, with ?:: as what it is here: a parameter that is cast."""
    found: list[Token] = []
    for t in tokens:
        if t.token_type is TokenType.QDCOLON:
            found.append(Token(TokenType.PLACEHOLDER, "?", t.line, t.col, t.start, t.start, []))
            found.append(Token(TokenType.DCOLON, "::", t.line, t.col, t.start + 1, t.end, t.comments))
        else:
            found.append(t)
    return found


_Mark = tuple[int, int, str]  # start, end, name: "" for ?


def _marks(text: str, tokens: Sequence[Token]) -> Iterator[_Mark]:
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.PLACEHOLDER and token.text == "?":
            yield token.start, token.end, ""
        elif token.token_type in _MARKS:
            after = tokens[i + 1] if i + 1 < len(tokens) else None
            adjacent = after is not None and after.start == token.end + 1
            if token.text != "$" or after is None or not adjacent or not _is_name(after.text):
                raise refused_mark(text, token.start, after.end if adjacent and after is not None else token.end)
            yield token.start, after.end, after.text


def _is_name(text: str) -> bool:
    return text.isidentifier() or (text.isascii() and text.isdigit() and int(text) >= 1 and text[0] != "0")


def _one_style(text: str, marks: Sequence[_Mark]) -> None:
    styles = {"?" if not name else "$1" if name.isdigit() else "$name": mark for mark in marks for name in (mark[2],)}
    if len(styles) > 1:
        one, other = list(styles)[:2]
        raise _refused(text, styles[other], f"the query has parameters like {one} and like {other}", "use one kind")


def _by_place(text: str, marks: Sequence[_Mark], given: Sequence[Bound]) -> Iterator[tuple[int, Bound]]:
    places = {start: int(name) if name else i for i, (start, _, name) in enumerate(marks, 1)}
    most = max(places.values(), default=0)
    unused = set(range(1, len(given) + 1)) - set(places.values())
    if most > len(given) or unused:
        wanted = "no parameters" if not most else "one parameter" if most == 1 else f"{most} parameters"
        missing = next((mark for mark in marks if places[mark[0]] > len(given)), None)
        values = "no value was" if not given else "one value was" if len(given) == 1 else f"{len(given)} values were"
        said = f"the query has {wanted}, and {values} given"
        if unused and most >= len(given):
            said = f"the query never uses ${min(unused)}"
        raise _refused(text, missing, said, "give as many values as the query has parameters")
    return ((start, given[place - 1]) for start, place in places.items())


def _by_name(text: str, marks: Sequence[_Mark], given: Mapping[str, Bound]) -> Iterator[tuple[int, Bound]]:
    names = {name for _, _, name in marks}
    for mark in marks:
        if mark[2] not in given:
            near = nearest(mark[2], tuple(given))
            hint = f"you gave {near}: names must be the same" if near else f"add it: params={{{mark[2]!r}: …}}"
            raise _refused(text, mark, f"no value was given for ${mark[2]}", hint)
    for name in given:
        if name not in names:
            near = nearest(name, tuple(names))
            hint = f"did you mean {near}?" if near else f"write ${name} in it, or leave the value out"
            raise _refused(text, None, f"the query has no parameter ${name}", hint)
    return ((start, given[name]) for start, _, name in marks)


# ---------------------------------------------------------------- into the tokens


def bound(text: str, tokens: Sequence[Token], known: Spots) -> list[Token]:
    """The tokens with a literal's in the place of each parameter."""
    if not known:
        return list(tokens)
    kept: list[Token] = []
    end = -1
    for i, token in enumerate(tokens):
        spot = known.get(token.start)
        if spot is not None:
            end = spot.end
            after = next((t for t in tokens[i + 1 :] if t.start > end), None)
            kept += _tokens(text, spot, token, kept, after)
        elif token.start > end:
            kept.append(token)
    return kept


def _tokens(text: str, spot: Spot, at: Token, before: Sequence[Token], after: Token | None) -> Iterator[Token]:
    def made(kind: TokenType, written: str) -> Token:
        return Token(kind, written, at.line, at.col, spot.start, spot.end, [])

    last = before[-1].token_type if before else None
    if last is TokenType.DOT:
        raise _not_a_name(text, spot)
    if isinstance(spot.value, Constant):
        signed = spot.value.kind == "number" and spot.value.text.startswith("-")
        typed = spot.value.kind in _TYPES
        wrapped = (signed or typed) and after is not None and after.token_type in _TIGHTER
    else:
        wrapped = last is TokenType.IN
        inside = last is TokenType.L_PAREN and len(before) > 1 and before[-2].token_type is TokenType.IN
        if not wrapped and not inside:
            mark = (spot.start, spot.end, "")
            raise _refused(text, mark, "a list stands for what follows IN", "write x IN ?, or x IN (?)")
    if wrapped:
        yield made(TokenType.L_PAREN, "(")
    for i, constant in enumerate(spot.value if isinstance(spot.value, tuple) else (spot.value,)):
        if i:
            yield made(TokenType.COMMA, ",")
        yield from _literal(constant, made)
    if wrapped:
        yield made(TokenType.R_PAREN, ")")


def _literal(constant: Constant, made: Callable[[TokenType, str], Token]) -> Iterator[Token]:
    """The tokens of one literal: one, but for a sign before a number and the name of a type before a text."""
    match constant.kind:
        case "number":
            if constant.text.startswith("-"):
                yield made(TokenType.DASH, "-")
            yield made(TokenType.NUMBER, constant.text.removeprefix("-"))
        case "text":
            yield made(TokenType.STRING, constant.text)
        case "boolean" | "null":
            yield made(TokenType.NULL if constant.kind == "null" else TokenType[constant.text], constant.text)
        case kind:
            (name,) = _DIALECT.tokenize(_TYPES[kind])
            yield made(name.token_type, name.text)
            yield made(TokenType.STRING, constant.text)


def check_names(text: str, root: exp.Expr, known: Spots) -> None:
    """Refuse a value that the parser took for a name: it stands for itself, and for nothing that is looked up."""
    if not known:
        return
    texts = {
        c.text.lower(): spot
        for spot in known.values()
        for c in (spot.value if isinstance(spot.value, tuple) else (spot.value,))
        if c.kind == "text" and not _WORD.fullmatch(c.text)
    }
    for node in root.find_all(exp.Identifier, exp.Var, exp.Literal):
        spot = known.get(node.meta.get("start", -1))
        if isinstance(node, exp.Literal) and not isinstance(node.parent, exp.Star | exp.Join):
            continue  # EXCLUDE ('x') and USING ('x') are names
        if spot is None and "start" not in node.meta:  # a unit may be a word (DATE_TRUNC), and nothing else
            spot = texts.get(node.name.lower())
        if spot is not None:
            raise _not_a_name(text, spot)


def _not_a_name(text: str, spot: Spot) -> SQLError:
    mark = (spot.start, spot.end, "")
    return _refused(text, mark, "a parameter stands for a value, not for a name", "write the name itself")


# ---------------------------------------------------------------- for people


def written(text: str, known: Spots) -> str:
    """The text with values in the places of parameters: what the ledger notes and explain shows. Nobody parses it."""
    pieces, end = [], 0
    for start in sorted(known):
        value = known[start].value
        shown = _shown(value) if isinstance(value, Constant) else f"({', '.join(map(_shown, value))})"
        if isinstance(value, tuple) and text[:start].rstrip().endswith("("):
            shown = shown[1:-1]
        before, end = text[end:start], known[start].end + 1
        shown = f"({shown})" if shown.startswith("-") and _TIGHTER_TEXT.match(text, end) else shown
        # 3-? with -5 is no comment, and 'a'? no text with a quote in it: what was apart stays apart.
        joined = text[start - 1 : start] == shown[0] or _IN_WORDS.fullmatch(text[max(0, start - 1) : start] + shown[0])
        follows = text[end : end + 1] != "-" and _IN_WORDS.fullmatch(shown[-1] + text[end : end + 1])
        pieces += [before, " " if joined else "", shown, " " if follows else ""]
    return "".join([*pieces, text[end:]])


def _shown(constant: Constant) -> str:
    if constant.kind in ("number", "boolean", "null"):
        return constant.text
    quoted = "'" + constant.text.replace("'", "''") + "'"
    return quoted if constant.kind == "text" else f"{_TYPES[constant.kind]} {quoted}"


def refused_mark(text: str, start: int, end: int) -> SQLError:
    """A parameter without a value, or in a way that isn't understood."""
    mark = text[start : end + 1]
    if mark == "?" or re.fullmatch(r"\$[1-9]\d*", mark):
        said, hint = f"no value was given for {mark}", "give one: params=[…], or --param 1=… for each"
    elif re.fullmatch(r"\$[^\W\d]\w*", mark):
        said = f"no value was given for {mark}"
        hint = f"give one: params={{{mark[1:]!r}: …}}, or --param {mark[1:]}=…"
    else:
        said, hint = f"{mark} is no parameter", "write ?, $1 or $name"
    return _refused(text, (start, end, ""), said, hint)


def _refused(text: str, mark: _Mark | None, message: str, hint: str) -> SQLError:
    span = None if mark is None else Span.of(text, mark[0], mark[1] + 1)
    return SQLError(message, code="parameter", hint=hint, span=span)
