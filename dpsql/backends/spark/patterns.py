"""LIKE and regular expressions: literal patterns, rewritten so that both engines mean the same by them.

DuckDB's expressions are RE2's, Spark's are Java's. What both mean alike is a small language: characters, classes,
anchors, groups, alternatives, and repetitions of a single character or class. Repeated groups are refused: Java climbs
one level of its stack for each repetition, so that a long text of one row could fail the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.backends.spark.values import Value, lacks, value
from dpsql.core.types import BOOLEAN

if TYPE_CHECKING:
    from dpsql.backends.spark.expressions import Expressions


def like(write: Expressions, node: exp.Expr) -> Value:
    """x LIKE 'pattern', with the escape that was written, or none: the backslash is a character like others."""
    escape = ""
    if isinstance(node, exp.Escape):
        escape, node = str(node.expression.this), node.this
    if isinstance(node, exp.ILike):
        raise lacks("ILIKE", "write LOWER(x) LIKE 'pattern in lower case'")
    text, pattern = write(node.this), str(node.expression.this)
    plain = "".join(_like_pieces(pattern, escape))
    return value(f"({text.text} LIKE {write.text(plain).text})", BOOLEAN)


def _like_pieces(pattern: str, escape: str) -> Iterator[str]:
    """The same pattern for Spark, whose escape is the backslash."""
    characters = iter(pattern)
    for one in characters:
        if one == escape:
            following = next(characters)
            yield f"\\{following}" if following in "%_\\" else following
        else:
            yield "\\\\" if one == "\\" else one


_TOKENS = re.compile(
    r"""(?P<class>\[\^?(?:[^\]\[\\&^~-]|\\[dws.\]\[\\/()*+?|{}^$-]|[A-Za-z0-9]-[A-Za-z0-9])+\])
      | (?P<escape>\\[dDwWs.\]\[\\/()*+?|{}^$-])
      | (?P<dot>\.) | (?P<begin>\^) | (?P<end>\$)
      | (?P<open>\((?:\?:)?) | (?P<close>\)) | (?P<or>\|)
      | (?P<times>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)
      | (?P<plain>[^\\\[\](){}.^$|*+?])""",
    re.VERBOSE,
)
_SPACE = r"\t\n\f\r "
_ESCAPES = {r"\s": f"[{_SPACE}]", r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]"}
_INSIDE = {r"\s": _SPACE, r"\d": "0-9", r"\w": "0-9A-Za-z_"}


def java(pattern: str) -> str:
    """An RE2 pattern as one that means the same in Java; refused where that isn't known."""
    written, place, repeatable = [], 0, False
    while place < len(pattern):
        found = _TOKENS.match(pattern, place)
        if found is None:
            raise _unknown(pattern)
        kind, token = found.lastgroup, found[0]
        if kind == "times" and not repeatable:
            raise _unknown(pattern)
        repeatable = kind in ("class", "escape", "dot", "plain")
        written.append(_written(kind or "", token))
        place = found.end()
    return "".join(written)


def _written(kind: str, token: str) -> str:
    match kind:
        case "class":
            return re.sub(r"\\[dws]", lambda m: _INSIDE[m[0]], token)
        case "escape":
            return _ESCAPES.get(token, token)
        case "dot":  # Java's has more ends of lines
            return r"[^\n]"
        case "begin":
            return r"\A"
        case "end":  # Java's also stands before a final line break
            return r"\z"
        case "plain":
            return token if token.isalnum() or token.isspace() or token == "_" else f"\\x{{{ord(token):x}}}"
    return token


def _unknown(pattern: str) -> Exception:
    return lacks(
        f"the regular expression '{pattern}'",
        "write characters, classes like [a-z] and \\d, groups, alternatives; * + ? {n} after one of the former",
    )
