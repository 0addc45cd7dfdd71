"""Letters: codes, accents, graphemes, padding. Lengths are literals, so that no row can grow a text (attack 11)."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.core.ranges import Range
from dpsql.core.types import INTEGER, VARCHAR
from dpsql.sql.dialect import constants
from dpsql.sql.functions.base import Function, Scalar, Scope, arguments, call, number, only
from dpsql.sql.functions.casts import as_text
from dpsql.sql.functions.constants import constant_integer, constant_text
from dpsql.sql.functions.lengths import LONGEST, grown
from dpsql.sql.functions.text import bad_regex, length, pattern_of, place, plain, short_text, text_of
from dpsql.sql.refuse import refuse

_LAST_CODE = Fraction(0x10FFFF)
_LONGEST_PAD = 1_000


def code(name: str, empty: int) -> Callable[[exp.Expr, Scope], Scalar]:
    """The number of the first character, and what an empty text gives."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        (argument,) = arguments(node, 1)
        s = as_text(scope(argument), argument)
        codes = Range(Fraction(empty), _LAST_CODE, s.nullable)
        return Scalar(call(name, s.sql), INTEGER, codes, codes.with_nullable(True))

    return rule


def translate(node: exp.Expr, scope: Scope) -> Scalar:
    """TRANSLATE(x, 'abc', 'xy'): character by character; those without a partner are left out."""
    only(node, "this", "from_", "to")
    s = as_text(scope(node.this), node.this)
    pairs = [short_text(node.args[key], "the characters of TRANSLATE") for key in ("from_", "to")]
    return text_of(call("translate", s.sql, *(exp.Literal.string(p) for p in pairs)), s)


def pad(node: exp.Expr, scope: Scope) -> Scalar:
    """LPAD and RPAD to a literal length with a literal text."""
    s = as_text(scope(node.this), node.this)
    size, text = padding(node)
    name = "lpad" if node.args.get("is_left") else "rpad"
    made = call(name, s.sql, number(size), exp.Literal.string(text))
    return Scalar(made, VARCHAR, Range(nullable=s.nullable), longest=size)


def padding(node: exp.Expr) -> tuple[int, str]:
    """The literal length and text of a padding."""
    only(node, "this", "expression", "fill_pattern", "is_left")
    size = constant_integer(node.expression, "the length", 0, _LONGEST_PAD)
    fill = node.args.get("fill_pattern")
    text = short_text(fill, "the padding") if fill is not None else ""
    if not text:
        what = "LPAD and RPAD need a text to fill up with"
        raise refuse(SQLError, what, fill or node, code="wrong-arguments", hint="write LPAD(x, 5, '0')")
    return size, text


def grapheme_edge(name: str) -> Callable[[exp.Expr, Scope], Scalar]:
    """LEFT_GRAPHEME and RIGHT_GRAPHEME."""

    def rule(node: exp.Expr, scope: Scope) -> Scalar:
        x, count = arguments(node, 2)
        s, n = as_text(scope(x), x), place(count, scope)
        return text_of(call(name, s.sql, n.sql), s, n)

    return rule


def grapheme_piece(node: exp.Expr, scope: Scope) -> Scalar:
    x, *rest = arguments(node, 2, 3)
    s, places = as_text(scope(x), x), [place(n, scope) for n in rest]
    return text_of(call("substring_grapheme", s.sql, *(p.sql for p in places)), s, *places)


def regexp_replace(node: exp.Expr, scope: Scope) -> Scalar:
    """REGEXP_REPLACE(x, 'pattern', 'new'[, 'g']): where the result could grow, it is cut."""
    s = as_text(scope(node.this), node.this)
    tail = replacement(node)

    def made(source: exp.Expr) -> exp.Expr:
        return call("regexp_replace", source, *(exp.Literal.string(t) for t in tail))

    # Each character, and the end, may be replaced; and each \1 in what is put in holds no more than the text has.
    return text_of(grown(s.sql, len(tail[1]) + 1, made) if tail[1] else made(s.sql), s)


def replacement(node: exp.Expr) -> list[str]:
    """The literal pattern, replacement and options, checked together."""
    only(node, "this", "expression", "replacement", "modifiers", "single_replace")
    pattern, options = pattern_of(node.expression), node.args.get("modifiers")
    new = short_text(node.args["replacement"], "what REGEXP_REPLACE puts in") if node.args.get("replacement") else ""
    tail = [pattern, new] if options is None else [pattern, new, constant_text(options, "regex options")]
    _check_backslashes(new, node)
    if not constants().accepts("regexp_matches", pattern):
        raise bad_regex(pattern, node.expression)
    if not constants().accepts("regexp_replace", pattern, new):
        what = f"'{new}' names a group that the pattern doesn't have"
        raise refuse(SQLError, what, node.args["replacement"], code="bad-pattern", hint="put (…) around it there")
    if not constants().accepts("regexp_replace", *tail):
        raise refuse(
            SQLError, f"unknown options '{tail[-1]}'", options, code="bad-pattern", hint="write 'g', 'i' or 'gi'"
        )
    return tail


def _check_backslashes(new: str, node: exp.Expr) -> None:
    r"""In a replacement, \1 to \9 are groups, \\ is a backslash, and nothing else may follow one."""
    if re.sub(r"\\[0-9\\]", "", new).count("\\"):
        what = f"'{new}': a backslash is followed by a digit or a backslash"
        raise refuse(SQLError, what, node.args["replacement"], code="bad-pattern", hint=r"write '\1' or '\\'")


_AS_IS = "total in DuckDB"
_NONE = "none"
_MOVED = "places beyond ±2^31 are moved there"
_CUT = f"cut to {LONGEST:,} characters"

FUNCTIONS: tuple[Function, ...] = (
    Function(("ASCII",), "text", "number of the first character, 0 if empty", _AS_IS, "0 to 1,114,111",
             code("ascii", 0), (exp.Ascii,)),
    Function(("UNICODE", "ORD"), "text", "number of the first character, -1 if empty", _AS_IS, "-1 to 1,114,111",
             code("unicode", -1), (exp.Unicode,)),
    Function(("BIT_LENGTH",), "text", "number of bits", _AS_IS, "from 0", length("bit_length"), (exp.BitLength,)),
    Function(("LENGTH_GRAPHEME",), "text", "number of characters as one sees them", _AS_IS, "from 0",
             length("length_grapheme")),
    Function(("LEFT_GRAPHEME",), "text", "the first characters as one sees them", _MOVED, _NONE,
             grapheme_edge("left_grapheme")),
    Function(("RIGHT_GRAPHEME",), "text", "the last characters as one sees them", _MOVED, _NONE,
             grapheme_edge("right_grapheme")),
    Function(("SUBSTRING_GRAPHEME",), "text", "a piece, in characters as one sees them", _MOVED, _NONE,
             grapheme_piece),
    Function(("STRIP_ACCENTS",), "text", "without accents", _AS_IS, _NONE, plain("strip_accents")),
    Function(("TRANSLATE",), "text", "literal characters by others", _AS_IS, _NONE, translate, (exp.Translate,)),
    Function(("LPAD", "RPAD"), "text", "filled up to a literal length", "the length is at most 1,000", _NONE, pad,
             (exp.Pad,), padding),
    Function(("REGEXP_REPLACE",), "text", "what matches a literal RE2 pattern by a literal",
             f"pattern and replacement are checked first; where it grows, {_CUT}", _NONE, regexp_replace,
             (exp.RegexpReplace,), replacement),
)  # fmt: skip
