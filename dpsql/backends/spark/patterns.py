"""LIKE and regular expressions: literal patterns, rewritten so that both engines mean the same by them.

DuckDB's expressions are RE2's, which take time in proportion to the text; Spark's are Java's, which go back and forth.
What both mean alike is a small language: characters, classes, anchors, groups, alternatives, and repetitions of a
single character or class. Repeated groups are refused, because Java climbs one level of its stack for each repetition,
so that a long text of one row could fail the statement; and so is what could take more time than the text is long, for
a time that depends on a row tells of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from dpsql.backends.spark.letters import LOWER
from dpsql.backends.spark.values import Value, lacks, value
from dpsql.core.types import BOOLEAN

if TYPE_CHECKING:
    from dpsql.backends.spark.expressions import Expressions


def like(write: Expressions, node: exp.Expr) -> Value:
    """x LIKE 'pattern', with the escape that was written, or none: the backslash is a character like others."""
    escape = ""
    if isinstance(node, exp.Escape):
        escape, node = str(node.expression.this), node.this
    text, pattern = write(node.this), str(node.expression.this)
    if isinstance(node, exp.ILike):  # DuckDB's: both sides in small letters
        if escape.isalpha():
            raise lacks("ILIKE with a letter for ESCAPE", "use a sign: ESCAPE '!'")
        text, pattern = write.call("lower", [text]), pattern.translate(str.maketrans(*LOWER))
    pieces, any_one = _pieces(pattern, escape)
    if not any_one:
        return value(_in_order(write, text.text, pieces), BOOLEAN)
    if len(pieces) - (not pieces[-1]) > 2:  # Java would try each place of one % with each of another
        raise lacks(f"LIKE '{pattern}'", "use _ with at most one %, and one more at the end")
    plain = "%".join(pieces)
    return value(f"({text.text} LIKE {write.text(plain).text})", BOOLEAN)


def _pieces(pattern: str, escape: str) -> tuple[list[str], bool]:
    """What stands between percent signs; with a _ somewhere, each as Spark's LIKE has it, whose escape is \\."""
    pieces, any_one = [""], False
    quoted = [""]
    characters = iter(pattern)
    for one in characters:
        if one == escape:
            one = next(characters)
        elif one == "%":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
                quoted.append("")
            continue
        elif one == "_":
            any_one = True
            quoted[-1] += one
            pieces[-1] += one
            continue
        pieces[-1] += one
        quoted[-1] += f"\\{one}" if one in "%_\\" else one
    return (quoted, True) if any_one else (pieces, False)


def _in_order(write: Expressions, x: str, pieces: list[str]) -> str:
    """Pieces one after the other, each where it first is: if they fit at all, they fit there."""
    if len(pieces) == 1:
        return f"({x} = {write.text(pieces[0]).text})"
    first, *middle, last = pieces
    rest = f"SUBSTRING({x}, {len(first) + 1})"
    for piece in middle:
        rest = f"GET(SPLIT({rest}, {write.text(_quoted(piece)).text}, 2), 1)"
    begins = f"STARTSWITH({x}, {write.text(first).text}) AND " if first else ""
    found = f"{begins}ENDSWITH({rest}, {write.text(last).text})"
    return f"CASE WHEN {x} IS NOT NULL THEN COALESCE({found}, FALSE) END"


def _quoted(text: str) -> str:
    """A text as a regular expression."""
    return "".join(f"\\x{{{ord(c):x}}}" for c in text)


MOST_TRIES = 1000  # of bounded repetitions, for each place of a text

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


def java(pattern: str, *, whole: bool = False) -> str:
    """An RE2 pattern as one that means the same in Java; refused where that isn't known. whole: of a whole text."""
    written, place, repeatable = [], 0, False
    endless, tries = [], 1
    while place < len(pattern):
        found = _TOKENS.match(pattern, place)
        if found is None:
            raise _unknown(pattern)
        kind, token = found.lastgroup or "", found[0]
        if kind == "times":
            if not repeatable:
                raise _unknown(pattern)
            bound = re.fullmatch(r"\{(?:\d+,)?(\d+)\}\??", token)
            if token[0] in "*+" or token.rstrip("?").endswith(",}"):
                endless.append(found.end())
            elif bound:
                tries *= int(bound[1] or 1) or 1
        repeatable = kind in ("class", "escape", "dot", "plain")
        written.append(_written(kind, token))
        place = found.end()
    anchored = whole or (pattern.startswith("^") and "|" not in pattern)
    if (
        [end for end in endless if pattern[end:].strip(")")] and (not anchored or len(endless) > 1)
    ) or tries > MOST_TRIES:
        raise _unknown(pattern)
    return "".join(written)


def groups(pattern: str) -> int:
    """How many groups a pattern of Java's has."""
    return re.compile(pattern.replace(r"\z", r"\Z")).groups


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
        "write characters, classes like [a-z] and \\d, groups and alternatives; repeat single ones: {1,3} anywhere, "
        "* and + at the end, or once behind ^",
    )
