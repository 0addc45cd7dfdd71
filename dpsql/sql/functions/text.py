"""Text: patterns are literals, checked before any row is read; nothing can grow a string without limit (attack 11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range
from dpsql.core.types import BIGINT, VARCHAR
from dpsql.sql.dialect import constants
from dpsql.sql.functions.base import (
    Function,
    Scalar,
    Scope,
    arguments,
    boolean,
    call,
    cast_node,
    ends,
    mismatch,
    needs,
    number,
    only,
    wrap,
)
from dpsql.sql.functions.casts import as_text, convert
from dpsql.sql.functions.constants import constant_integer, constant_text
from dpsql.sql.functions.lengths import LONGEST, LONGEST_LITERAL, PIECES, cut, grown, joined, known_length
from dpsql.sql.refuse import refuse, shown

_OFFSETS = 2**31  # DuckDB raises beyond ±2^32


def text_of(sql: exp.Expr, *parts: Scalar, nullable: bool | None = None) -> Scalar:
    if nullable is None:
        nullable = any(p.nullable for p in parts)
    return Scalar(sql, VARCHAR, Range(nullable=nullable))


def plain(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """A text made of one text, no more than a few times as long."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (argument,) = arguments(node, 1)
        s = as_text(scope(argument), argument)
        return text_of(call(name, s.sql), s)

    return rule


def length(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (argument,) = arguments(node, 1)
        s = as_text(scope(argument), argument)
        return Scalar(call(name, s.sql), BIGINT, Range(Fraction(0), None, s.nullable))

    return rule


def trim(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "expression", "position")
    s = as_text(scope(node.this), node.this)
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "trim")
    characters = node.args.get("expression")
    if characters is None:
        return text_of(call(name, s.sql), s)
    return text_of(call(name, s.sql, exp.Literal.string(short_text(characters, "the characters to trim"))), s)


def short_text(node: exp.Expr, what: str) -> str:
    text = constant_text(node, what)
    if len(text) > LONGEST_LITERAL:
        raise refuse(
            SQLError,
            f"{what}: more than {LONGEST_LITERAL} characters",
            node,
            code="literal-too-long",
            hint="shorten it",
        )
    return text


def place(node: exp.Expr, scope: Scope) -> Scalar:
    """A whole number that DuckDB takes as a place in a text; one that is out of all proportion is moved to ±2^31."""
    s = scope(node)
    if not s.type.is_integer:
        raise mismatch(node, f"{shown(node)} is {s.type}, not a whole number", f"write CAST({shown(node)} AS INTEGER)")
    whole = convert(s, BIGINT)
    if all(v is not None and -_OFFSETS <= v <= _OFFSETS for v in ends(s.hard)):
        return whole
    inside = call("least", call("greatest", s.sql, number(-_OFFSETS)), number(_OFFSETS))
    present = exp.Not(this=exp.Is(this=wrap(s.sql), expression=exp.Null()))
    moved = exp.Case(ifs=[exp.If(this=present, true=inside)])
    return Scalar(cast_node(moved, BIGINT, True), BIGINT, s.range)


def substring(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "start", "length")
    s = as_text(scope(node.this), node.this)
    places = [place(node.args[key], scope) for key in ("start", "length") if node.args.get(key) is not None]
    if not places:
        raise refuse(SQLError, "SUBSTRING needs a start", node, code="wrong-arguments", hint="write SUBSTRING(x, 1, 3)")
    return text_of(call("substring", s.sql, *(p.sql for p in places)), s, *places)


def edge(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """LEFT and RIGHT."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this", "expression")
        s, n = as_text(scope(node.this), node.this), place(node.expression, scope)
        return text_of(call(name, s.sql, n.sql), s, n)

    return rule


def replace(node: exp.Expr, scope: Scope) -> Scalar:
    """REPLACE(x, 'from', 'to') with literals; where the result could grow, it is cut."""
    only(node, "this", "expression", "replacement")
    s = as_text(scope(node.this), node.this)
    old = short_text(node.expression, "what REPLACE looks for")
    new = (
        short_text(node.args["replacement"], "what REPLACE puts in") if node.args.get("replacement") is not None else ""
    )

    def made(source: exp.Expr) -> exp.Expr:
        return call("replace", source, exp.Literal.string(old), exp.Literal.string(new))

    if len(new) > len(old) > 0:
        return text_of(grown(s.sql, -(-len(new) // len(old)), made), s)
    return text_of(made(s.sql), s)


def _as_piece(node: exp.Expr, scope: Scope) -> Scalar:
    """|| and CONCAT take every scalar type, as text."""
    s = scope(node)
    if not (
        s.type.is_text or s.type.is_numeric or s.type.is_boolean or s.type.is_date or s.type.is_timestamp or s.is_null
    ):
        raise mismatch(node, f"{shown(node)} is {s.type}, not text", "put text, numbers or dates together")
    return convert(s, VARCHAR)


def pipes(node: exp.Expr, scope: Scope) -> Scalar:
    """a || b: NULL if either is."""
    only(node, "this", "expression", "safe", "coalesce")
    parts = [_as_piece(n, scope) for n in _chain(node)]
    return joined(parts, _piped, any(p.nullable for p in parts))


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a || b || …, however it is put in parentheses."""
    operands: list[exp.Expr] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        current = waiting.pop()
        inner = current.unnest()
        if isinstance(inner, exp.DPipe):
            only(inner, "this", "expression", "safe", "coalesce")
            waiting.extend((inner.expression, inner.this))
        else:
            operands.append(current)
    return operands


def _piped(parts: Sequence[exp.Expr]) -> exp.Expr:
    tree = wrap(parts[0])
    for part in parts[1:]:
        tree = exp.DPipe(this=tree, expression=wrap(part), safe=True)
    return tree


def concat(node: exp.Expr, scope: Scope) -> Scalar:
    """CONCAT(a, b, …): NULLs are skipped."""
    only(node, "expressions", "safe", "coalesce")
    parts = [_as_piece(n, scope) for n in node.expressions]
    return joined(parts, lambda pieces: call("concat", *pieces), nullable=False)


def concat_ws(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "expressions", "safe", "coalesce")
    separator, *rest = node.expressions
    between = short_text(separator, "the separator")
    parts = [_as_piece(n, scope) for n in rest]
    if not parts:
        raise refuse(
            SQLError,
            "CONCAT_WS needs a separator and values",
            node,
            code="wrong-arguments",
            hint="write CONCAT_WS('-', x, y)",
        )
    total = known_length(parts, len(between))
    # It skips NULLs, so it can't be made of its own pieces: of many texts each has its share of the bound.
    share = None if len(parts) <= PIECES else LONGEST // len(parts)
    pieces = [p.sql if total is not None or share is None else cut(p.sql, share) for p in parts]
    made = call("concat_ws", exp.Literal.string(between), *pieces)
    return Scalar(made if total is not None else cut(made), VARCHAR, Range(nullable=False), longest=total or LONGEST)


def test(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """STARTS_WITH, ENDS_WITH, CONTAINS."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        first, second = arguments(node, 2)
        a, b = as_text(scope(first), first), as_text(scope(second), second)
        return boolean(call(name, a.sql, b.sql), a, b)

    return rule


def position(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "substr")
    a, b = as_text(scope(node.this), node.this), as_text(scope(node.args["substr"]), node.args["substr"])
    return Scalar(call("strpos", a.sql, b.sql), BIGINT, Range(Fraction(0), None, a.nullable or b.nullable))


def like(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "expression", "negate")
    return _like(node, scope, None)


def escaped_like(node: exp.Expr, scope: Scope) -> Scalar:
    """x LIKE 'pattern' ESCAPE '!'."""
    only(node, "this", "expression")
    inner = node.this
    if not isinstance(inner, exp.Like | exp.ILike):
        raise refuse(
            SQLError,
            f"{shown(node)}: ESCAPE belongs to LIKE",
            node,
            code="unsupported-expression",
            hint="write x LIKE '10!%' ESCAPE '!'",
        )
    return _like(inner, scope, constant_text(node.expression, "the escape character"))


def _like(node: exp.Expr, scope: Scope, escape: str | None) -> Scalar:
    s = as_text(scope(node.this), node.this)
    pattern = short_text(node.expression, "a LIKE pattern")
    if escape is not None and len(escape) > 1:
        raise refuse(SQLError, "an escape is one character or none", node, code="bad-pattern", hint="write ESCAPE '!'")
    if escape and _ends_in_escape(pattern, escape):
        raise refuse(
            SQLError,
            f"the LIKE pattern '{pattern}' ends in its escape character",
            node.expression,
            code="bad-pattern",
            hint=f"double it: '{pattern}{escape}'",
        )
    kind = exp.ILike if isinstance(node, exp.ILike) else exp.Like
    tree: exp.Expr = kind(this=wrap(s.sql), expression=exp.Literal.string(pattern))
    if escape is not None:
        tree = exp.Escape(this=tree, expression=exp.Literal.string(escape))
    return boolean(exp.Not(this=exp.Paren(this=tree)) if node.args.get("negate") else tree, s)


def _ends_in_escape(pattern: str, escape: str) -> bool:
    place = 0
    while place < len(pattern):
        if pattern[place] == escape:
            place += 1
            if place == len(pattern):
                return True
        place += 1
    return False


def regex(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """A regular expression in RE2's syntax: linear in the text, whatever the pattern."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        only(node, "this", "expression", "flag", "options")
        s = as_text(scope(node.this), node.this)
        pattern, options = pattern_of(node.expression), node.args.get("flag") or node.args.get("options")
        tail: list[exp.Expr] = [exp.Literal.string(pattern)]
        checked: tuple[str, ...] = (pattern,)
        if options is not None:
            checked = (pattern, constant_text(options, "regex options"))
            tail.append(exp.Literal.string(checked[1]))
        if not constants().accepts(name, *checked):
            raise bad_regex(pattern, node.expression)
        return boolean(call(name, s.sql, *tail), s)

    return rule


def extract(node: exp.Expr, scope: Scope) -> Scalar:
    """REGEXP_EXTRACT(x, 'pattern'[, group]): '' where nothing matches."""
    only(node, "this", "expression", "group", "null_if_pos_overflow")
    s = as_text(scope(node.this), node.this)
    pattern = pattern_of(node.expression)
    group = constant_integer(node.args["group"], "the group", 0, 9) if node.args.get("group") is not None else 0
    if not constants().accepts("regexp_extract", pattern, group):
        raise bad_regex(pattern, node.expression)
    return text_of(call("regexp_extract", s.sql, exp.Literal.string(pattern), number(group)), s)


def pattern_of(node: exp.Expr) -> str:
    return short_text(node, "a regular expression")


def bad_regex(pattern: str, node: exp.Expr) -> SQLError:
    return refuse(
        SQLError,
        f"'{pattern}' isn't a regular expression that DuckDB understands",
        node,
        code="bad-pattern",
        hint="the syntax is RE2's: no back-references, no look-around",
    )


def split_part(node: exp.Expr, scope: Scope) -> Scalar:
    only(node, "this", "delimiter", "part_index")
    needs(node, "this", "delimiter", "part_index")
    s = as_text(scope(node.this), node.this)
    mark = short_text(node.args["delimiter"], "the delimiter")
    index = constant_integer(node.args["part_index"], "the part", -1000, 1000)
    return text_of(call("split_part", s.sql, exp.Literal.string(mark), number(index)), s)


_AS_IS = "total in DuckDB"
_NONE = "none"
_LITERAL = "the pattern is a literal, checked first"
_CUT = f"cut to {LONGEST:,} characters"

FUNCTIONS: tuple[Function, ...] = (
    Function(("LOWER", "LCASE"), "text", "in lower case", _AS_IS, _NONE, plain("lower"), (exp.Lower,)),
    Function(("UPPER", "UCASE"), "text", "in upper case", _AS_IS, _NONE, plain("upper"), (exp.Upper,)),
    Function(("REVERSE",), "text", "backwards", _AS_IS, _NONE, plain("reverse"), (exp.Reverse,)),
    Function(("LENGTH", "LEN", "CHAR_LENGTH"), "text", "number of characters", _AS_IS, "from 0", length("length"),
             (exp.Length,)),
    Function(("STRLEN",), "text", "number of bytes", _AS_IS, "from 0", length("strlen")),
    Function(("TRIM", "LTRIM", "RTRIM"), "text", "without blanks or literal characters at the ends", _AS_IS, _NONE,
             trim, (exp.Trim,)),
    Function(("SUBSTRING", "SUBSTR"), "text", "a piece", "places beyond ±2^31 are moved there", _NONE, substring,
             (exp.Substring,)),
    Function(("LEFT",), "text", "the first characters", "places beyond ±2^31 are moved there", _NONE, edge("left"),
             (exp.Left,)),
    Function(("RIGHT",), "text", "the last characters", "places beyond ±2^31 are moved there", _NONE, edge("right"),
             (exp.Right,)),
    Function(("REPLACE",), "text", "literal by literal", f"where it grows, {_CUT}", _NONE, replace, (exp.Replace,)),
    Function(("||",), "operator", "one text after the other", _CUT, _NONE, pipes, (exp.DPipe,)),
    Function(("CONCAT",), "text", "all texts; NULLs are skipped", _CUT, _NONE, concat, (exp.Concat,)),
    Function(("CONCAT_WS",), "text", "all texts with a literal between them", _CUT, _NONE, concat_ws, (exp.ConcatWs,)),
    Function(("SPLIT_PART",), "text", "one part, by a literal delimiter", _AS_IS, _NONE, split_part, (exp.SplitPart,)),
    Function(("STARTS_WITH", "PREFIX", "^@"), "text", "begins with", _AS_IS, "0 or 1", test("starts_with"),
             (exp.StartsWith,)),
    Function(("ENDS_WITH", "SUFFIX"), "text", "ends with", _AS_IS, "0 or 1", test("suffix"), (exp.EndsWith,)),
    Function(("CONTAINS",), "text", "has inside", _AS_IS, "0 or 1", test("contains"), (exp.Contains,)),
    Function(("POSITION", "STRPOS", "INSTR"), "text", "where it is, 0 if nowhere", _AS_IS, "from 0", position,
             (exp.StrPosition,)),
    Function(("LIKE", "ILIKE"), "text", "literal pattern with % and _", _LITERAL, "0 or 1", like, (exp.Like,
             exp.ILike)),
    Function(("LIKE … ESCAPE",), "text", "literal pattern with its escape", _LITERAL, "0 or 1", escaped_like,
             (exp.Escape,)),
    Function(("REGEXP_MATCHES",), "text", "literal RE2 pattern, anywhere", _LITERAL, "0 or 1",
             regex("regexp_matches"), (exp.RegexpLike,)),
    Function(("REGEXP_FULL_MATCH", "SIMILAR TO"), "text", "literal RE2 pattern, the whole text", _LITERAL, "0 or 1",
             regex("regexp_full_match"), (exp.RegexpFullMatch, exp.SimilarTo)),
    Function(("REGEXP_EXTRACT",), "text", "the part that matches", _LITERAL, _NONE, extract, (exp.RegexpExtract,)),
)  # fmt: skip
