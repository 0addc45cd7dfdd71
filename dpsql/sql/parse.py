"""parse: text -> Tree. sqlglot, DuckDB dialect plus Google's clause, exactly one query statement."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpsql.aggregates import FORMS
from dpsql.core.errors import Span, SQLError, nearest
from dpsql.core.frozen import dataclass
from dpsql.sql.as_sql import quiet
from dpsql.sql.dialect import DIALECT
from dpsql.sql.google import Option, attach, lift
from dpsql.sql.parameters import Spots, bound, check_names, refused_mark, separated, written
from dpsql.sql.pivot import statement
from dpsql.sql.refuse import RESERVED
from dpsql.sql.trees import nodes, nodes_of

MAX_LENGTH = 100_000

_DUCKDB = Dialect.get_or_raise(DIALECT)
_NOW = {"now", "get_current_timestamp", "transaction_timestamp", "current_localtimestamp", "localtimestamp"}
QUERIES = (
    "SELECT",
    "WITH",
    "FROM",
    "TABLE",
    "PIVOT",
    "PIVOT_WIDER",
    "UNPIVOT",
    "PIVOT_LONGER",
)  # the words that a query can start with
_INSTEAD = {
    "EXPLAIN": "`dpsql explain` and session.explain() say what a query would do and cost, and spend nothing",
    "VALUES": "write SELECT * FROM (VALUES (1, 2))",
    "SUMMARIZE": "DESCRIBE t says what may be asked of a table's columns, for nothing",
}
_FREE = ("DESCRIBE", "DESC", "SHOW")  # sql/inspection.py knows them; here they come where a price was asked for


_THIRD_LOST = frozenset(word for form in FORMS.values() for word in form.third_lost)
_FRACTIONS = ("SECOND", "MILLISECOND")
"""Units of which DuckDB takes a part, too."""
_PAIRS = {node.__name__: form.name for form in FORMS.values() if form.pair for node in form.nodes}
_MISSING = re.compile(rf"\.({'|'.join(_PAIRS)})'")  # in what sqlglot says of a pair of which one is missing
_OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


@dataclass(frozen=True, slots=True)
class Tree:
    """One parsed query and the text it came from. The root is never changed: stages copy what they rewrite."""

    text: str
    root: exp.Query
    shown: str  # the text with the values of its parameters
    options: Mapping[str, Option] = field(default_factory=dict)  # what Google's clause says, by our own names
    timed: bool = False  # it asks for the time, so it is another query each time


def parse(text: str, values: Spots | None = None) -> Tree:
    """Parse exactly one query; everything else (DDL, PRAGMA, COPY, two statements …) is refused here.

    values: of its parameters, by where these stand; one without a value is refused.
    """
    if (place := next((i for i, c in enumerate(text) if "\ud800" <= c <= "\udfff"), None)) is not None:
        raise SQLError(
            "the query isn't text: there are bytes in it that aren't UTF-8",
            code="not-text",
            hint="write it in UTF-8",
            span=Span.of(text, place, place + 1),
        )
    here = {start: spot for start, spot in (values or {}).items() if text[start : start + 1] in ("?", "$")}
    shown = written(text, here)  # the values of other statements of a batch stand where this one is blank
    if max(len(text), len(shown)) > MAX_LENGTH:
        raise SQLError(
            f"the query is longer than {MAX_LENGTH:,} characters", code="too-long", hint="shorten it, or split it"
        )
    with quiet():
        return _parsed(text, shown, here)


def _parsed(text: str, shown: str, values: Spots) -> Tree:
    try:
        tokens = separated(_DUCKDB.tokenize(text))
    except TokenError:
        raise _unclosed(text) from None
    tokens = bound(text, tokens, values)
    _check_tokens(text, tokens)
    lifted = lift(text, tokens)
    try:
        statements = _DUCKDB.parser().parse(lifted.tokens, text)
    except ParseError as error:
        raise _keyword(text, lifted.tokens) or _syntax_error(text, error) from None
    root = next(s for s in statements if s is not None)
    if any(map(_lacks_operands, root.walk())) and (keyword := _keyword(text, lifted.tokens)) is not None:
        raise keyword
    if isinstance(root, exp.Pivot):
        root = statement(root)
    if not isinstance(root, exp.Query):
        raise _not_a_query(text, tokens[0], type(root).__name__.upper())
    if named := root.find(exp.Placeholder):
        colon, name = next((c, t) for c, t in pairwise(tokens) if c.text == ":" and t.text == named.name)
        raise refused_mark(text, colon.start, name.end)
    check_names(text, root, values)
    _check_calls(text, root, tokens)
    _check_intervals(text, root, tokens)
    now = datetime.now(UTC).replace(tzinfo=None)
    timed = any(_clock(node, now) is not node for node in nodes(root))
    frozen = _freeze(root, now) if timed else root
    _place_calls(text, frozen, lifted.tokens)
    attach(text, frozen, lifted)
    return Tree(text, frozen, shown, lifted.options, timed)


def _freeze(root: exp.Query, now: datetime) -> exp.Query:
    """Replace the clock by a constant, so that one query sees one time and the engine no clock at all.

    No pass of rewrite: the types that DuckDB gives a query must be those of the constant.
    """
    frozen = root.transform(_clock, now)
    assert isinstance(frozen, exp.Query)
    return frozen


def _clock(node: exp.Expr, now: datetime) -> exp.Expr:
    name = node.name.lower() if isinstance(node, exp.Anonymous) and not node.expressions else ""
    if isinstance(node, exp.CurrentDate) or name == "today":
        return exp.cast(exp.Literal.string(now.date().isoformat()), "DATE")
    if isinstance(node, exp.CurrentTimestamp | exp.Localtimestamp) or name in _NOW:
        return exp.cast(exp.Literal.string(now.isoformat(sep=" ")), "TIMESTAMP")
    return node


# ---------------------------------------------------------------- what the words alone decide


def _check_tokens(text: str, tokens: Sequence[Token]) -> None:
    """One statement that starts like a query; no parameter is left without a value."""
    words = [t for t in tokens if t.token_type is not TokenType.SEMICOLON]
    if not words:
        raise SQLError("there is no query in the text", code="empty", hint='write a query: "SELECT COUNT(*) FROM t"')
    semicolon = next((t for t in tokens if t.token_type is TokenType.SEMICOLON and t.start > words[0].start), None)
    second = next((t for t in words if semicolon is not None and t.start > semicolon.start), None)
    if second is not None:
        raise _at(text, second, "a second statement, where one is allowed", "one-statement", "send one query at a time")
    if words[0].token_type is not TokenType.L_PAREN and words[0].text.upper() not in QUERIES:
        raise _not_a_query(text, words[0], words[0].text.upper())
    for i, token in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else None
        if token.token_type in (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.SESSION_PARAMETER):
            adjacent = token.text != "?" and after is not None and after.start == token.end + 1
            raise refused_mark(text, token.start, after.end if adjacent and after is not None else token.end)


def _not_a_query(text: str, first: Token, what: str) -> SQLError:
    if what in _FREE:
        hint = "it costs nothing: ask it with `dpsql query`, session.query() or in the shell"
        return _at(text, first, f"{what} is no query, and has no price", "not-a-query", hint)
    close = nearest(first.text, QUERIES, cutoff=0.75) if first.text.upper() not in QUERIES else None
    hint = _INSTEAD.get(what, "write a SELECT with an aggregate: SELECT COUNT(*) FROM …")
    return _at(
        text,
        first,
        f"only queries are answered, not {what}",
        "not-a-query",
        f"did you mean {close}?" if close else hint,
    )


def _at(text: str, token: Token, message: str, code: str, hint: str) -> SQLError:
    return SQLError(message, code=code, hint=hint, span=Span.of(text, token.start, token.end + 1))


def _check_calls(text: str, root: exp.Query, tokens: Sequence[Token]) -> None:
    """The parser lets CEIL() pass, whose argument nobody would find, and forgets a third one of QUANTILE_CONT."""
    for i, (token, after) in enumerate(pairwise(tokens)):
        if token.text.upper() in _THIRD_LOST and after.token_type is TokenType.L_PAREN and _commas(tokens[i + 2 :]) > 1:
            name = token.text.upper()
            raise _at(text, token, f"{name} takes two arguments", "arity", f"write {name}(x, 0.5)")
    for node in nodes_of(root, exp.Ceil, exp.Floor, exp.Date):
        if node.args.get("this") is None:
            name = node.sql_name()
            token = next((t for t in tokens if t.text.upper() in node.sql_names()), tokens[0])
            hint = f"write {name}(x)"
            raise _at(text, token, f"{name} takes an argument", "wrong-arguments", hint)


def _check_intervals(text: str, root: exp.Query, tokens: Sequence[Token]) -> None:
    """Of INTERVAL 1.5 MONTH DuckDB takes the whole months, of '1.5 months' 15 days besides: so it is written whole."""
    for node in root.find_all(exp.Interval):
        value, unit = node.this, node.args.get("unit")
        while isinstance(value, exp.Paren | exp.Neg):
            value = value.this
        if not isinstance(value, exp.Literal) or not isinstance(unit, exp.Var) or node.args.get("fraction_in_string"):
            continue
        name = unit.name.upper().removesuffix("S")
        if name not in _FRACTIONS and re.fullmatch(r"-?\d*\.\d*[1-9]\d*", value.name):
            token = next((t for t in tokens if t.text == value.name.removeprefix("-")), tokens[0])
            what = f"INTERVAL {value.name} {name} has a part that DuckDB drops"
            hint = (
                f"write a whole number (INTERVAL 1 {name}), or INTERVAL '{value.name} {name.lower()}s' to keep the part"
            )
            raise _at(text, token, what, "bad-literal", hint)


def _commas(tokens: Sequence[Token]) -> int:
    """How many there are before the bracket that is open closes, not counting those inside other brackets."""
    depth = found = 0
    for token in tokens:
        if token.token_type in _OPENS:
            depth += 1
        elif token.token_type in _CLOSES:
            depth -= 1
            if depth < 0:
                break
        found += depth == 0 and token.token_type is TokenType.COMMA
    return found


# ---------------------------------------------------------------- what can't be parsed

_QUOTED = re.compile(
    r"""
      --[^\n]* | /\*.*?\*/ | (\$\w*\$).*?\1 | [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
    | (?P<open>/\*|\$\w*\$|['"])
    """,
    re.VERBOSE | re.DOTALL,
)


def _unclosed(text: str) -> SQLError:
    """The tokenizer gave up: something that opens a quote or a comment is never closed."""
    found = next((m for m in _QUOTED.finditer(text) if m["open"]), None)
    what = "comment" if found is not None and found["open"] == "/*" else "quote"
    return SQLError(
        f"a {what} is never closed",
        code="syntax",
        hint=f"close it with {'*/' if what == 'comment' else found['open'] if found is not None else 'a quote'}"
        + ("" if what == "comment" else "; a quote inside a text is written twice"),
        span=None if found is None else Span.of(text, found.start(), found.end()),
    )


_T = TokenType
_OPERATORS = {
    _T.EQ, _T.NEQ, _T.LT, _T.LTE, _T.GT, _T.GTE, _T.PLUS, _T.DASH, _T.STAR, _T.SLASH, _T.DIV, _T.MOD, _T.DPIPE, _T.AND,
    _T.OR, _T.BETWEEN, _T.LIKE, _T.ILIKE, _T.COMMA, _T.ALIAS, _T.DOT,
}  # fmt: skip
_BEFORE_NAMES = _OPERATORS | {
    _T.SELECT, _T.DISTINCT, _T.FROM, _T.JOIN, _T.ON, _T.WHERE, _T.HAVING, _T.QUALIFY, _T.GROUP_BY, _T.ORDER_BY,
    _T.PARTITION_BY, _T.NOT, _T.WHEN, _T.THEN, _T.ELSE, _T.L_PAREN, _T.L_BRACKET,
}  # fmt: skip
_AFTER_NAMES = _OPERATORS | {
    _T.FROM, _T.JOIN, _T.ON, _T.WHERE, _T.HAVING, _T.QUALIFY, _T.GROUP_BY, _T.ORDER_BY, _T.LIMIT, _T.ASC, _T.DESC,
    _T.IS, _T.IN, _T.WHEN, _T.THEN, _T.ELSE, _T.END, _T.R_PAREN, _T.R_BRACKET, _T.SEMICOLON,
}  # fmt: skip
"""What stands around the name of a column or a table."""

_NAMES_NOTHING = RESERVED - {"null", "true", "false", "default", "all", "end"}  # these stand there by themselves, too


def _keyword(text: str, tokens: Sequence[Token]) -> SQLError | None:
    """Of a text that can't be understood: the first keyword where only a name makes sense; None if there is none."""
    for i, token in enumerate(tokens):
        if token.text.lower() not in _NAMES_NOTHING or token.token_type in (_T.IDENTIFIER, _T.STRING):
            continue
        before = tokens[i - 1].token_type if i else None
        after = tokens[i + 1].token_type if i + 1 < len(tokens) else _T.SEMICOLON
        if before in _BEFORE_NAMES and after in _AFTER_NAMES and (token.token_type, after) != (_T.CASE, _T.WHEN):
            message = f"{token.text} is a keyword of SQL, and stands where a name should"
            return _at(
                text, token, message, "syntax", f'quote it, if it is the name of a column or table: "{token.text}"'
            )
    return None


def _lacks_operands(node: exp.Expr) -> bool:
    """Does a SELECT, or a DISTINCT of an aggregate, have nothing behind it? The parser lets that pass."""
    if isinstance(node, exp.Select):
        return not node.expressions
    return isinstance(node, exp.Distinct) and not node.expressions and not isinstance(node.parent, exp.Select)


def _syntax_error(text: str, error: ParseError) -> SQLError:
    detail = error.errors[0] if error.errors else {}
    line, column = detail.get("line"), detail.get("col")
    word = str(detail.get("highlight") or "").strip()
    span = None
    if isinstance(line, int) and isinstance(column, int):
        span = Span(line, max(1, column - len(word) + 1), max(1, len(word)))
    said = str(detail.get("description") or "").rstrip(".")
    at = f" at {word}" if word else ""
    if said.startswith("Expecting"):
        message = said.replace("Expecting", "expected", 1) + at
    elif (pair := _MISSING.search(said)) is not None:
        name = _PAIRS[pair[1]]
        hint = f"write {name}(y, x)"
        return SQLError(f"{name} takes two arguments, and no DISTINCT", code="arity", hint=hint, span=span)
    elif said.startswith("Required keyword"):
        message = f"something is missing{at}"
    elif "number of provided arguments" in said:
        message = f"too many arguments{at}"
    else:
        message = f"unexpected {word}" if word else "it ends too early"
    return SQLError(f"the SQL can't be parsed: {message}", code="syntax", hint="check it near the mark", span=span)


# ---------------------------------------------------------------- where calls stand


def _place_calls(text: str, root: exp.Query, tokens: Sequence[Token]) -> None:
    """Tell calls and CASEs that don't know it where they stand, so that an error can point at them."""
    starts = {token.start: i for i, token in reversed(list(enumerate(tokens)))}  # a value may be several tokens
    ends = {token.end: i for i, token in enumerate(tokens)}
    places: dict[int, tuple[int, int]] = {}  # of nodes, by id
    for node in reversed(list(root.dfs())):  # children before their parents
        if isinstance(node, exp.Star) and not text.startswith("*", node.meta.get("start", 0)):
            node.meta.clear()  # FROM t without SELECT: nobody wrote it
        known = [places[id(child)] for child in node.iter_expressions() if id(child) in places]
        if "start" in node.meta and "end" in node.meta:
            known.append((node.meta["start"], node.meta["end"]))
        elif known and isinstance(node, exp.Func):
            first, last = min(start for start, _ in known), max(end for _, end in known)
            opener = _opener(node, starts.get(first, 0) - 1, tokens)
            if opener is not None:
                closer = ends.get(last, len(tokens)) + 1
                closed = isinstance(node, exp.Case) and closer < len(tokens)
                node.meta.update(start=opener.start, end=tokens[closer].end if closed else opener.end)
                known.append((node.meta["start"], node.meta["end"]))
        if known:
            places[id(node)] = min(start for start, _ in known), max(end for _, end in known)


def _opener(node: exp.Func, index: int, tokens: Sequence[Token]) -> Token | None:
    """The token that names a call, given the index of the one before its first argument."""
    if index < 0:
        return None
    if isinstance(node, exp.Case):
        index -= tokens[index].token_type is TokenType.WHEN
        return tokens[index] if index >= 0 and tokens[index].token_type is TokenType.CASE else None
    index -= tokens[index].token_type is TokenType.DISTINCT
    if isinstance(node, exp.Extract) and tokens[index].token_type is TokenType.FROM:
        index -= 2  # EXTRACT(part FROM x)
    if index < 1 or tokens[index].token_type is not TokenType.L_PAREN:
        return None
    name = tokens[index - 1]
    if isinstance(node, exp.Cast):
        return name if name.text.upper() in ("CAST", "TRY_CAST") else None
    if name.text.upper() in node.sql_names():
        return name
    return name if name.token_type is TokenType.VAR and not isinstance(node, exp.Binary | exp.Connector) else None
