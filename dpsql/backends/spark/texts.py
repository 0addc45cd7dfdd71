"""Functions of texts in Spark's words. Whoever isn't listed is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.backends.spark.expressions import Expressions, Spelling
from dpsql.backends.spark.letters import LOWER, UPPER
from dpsql.backends.spark.patterns import groups, java
from dpsql.backends.spark.values import Value, lacks, value
from dpsql.core.types import BIGINT, BOOLEAN, INTEGER, VARCHAR

BLANKS = "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
"""What DuckDB takes for blanks: Unicode's separators of words. Spark's own TRIM knows the first alone."""
_LONGEST = 2**31


def _text(name: str) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        return Value(f"{name}({', '.join(a.text for a in arguments)})", VARCHAR)

    return spelling


def _test(name: str) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        a, b = arguments
        return value(f"{name}({a.text}, {b.text})", BOOLEAN)

    return spelling


def _cased(table: tuple[str, str]) -> Spelling:
    """Character by character: Java's own cases depend on what stands around a letter, and on its Unicode."""

    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        return Value(f"TRANSLATE({x.text}, {write.text(table[0]).text}, {write.text(table[1]).text})", VARCHAR)

    return spelling


def _length(name: str, factor: int = 4) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        return Value(f"CAST({name}({x.text}) AS BIGINT)", BIGINT, 0, _LONGEST * factor)

    return spelling


def _trimmed(side: str) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        x, *characters = arguments
        which = characters[0] if characters else write.text(BLANKS)
        return Value(f"TRIM({side} {which.text} FROM {x.text})", VARCHAR)

    return spelling


def _place(v: Value) -> str:
    return v.text if v.low is not None and v.high is not None and v.high < 2**31 and v.type == INTEGER else _int(v.text)


def _int(text: str) -> str:
    """Of a number that isn't negative; NULL of NULL, which LEAST would pass over."""
    return f"CASE WHEN {text} >= 2147483647 THEN 2147483647 ELSE CAST({text} AS INT) END"


def _left(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, n = arguments
    first = f"LEFT({x.text}, {_place(n)})"
    if n.low is None or n.low < 0:
        left = f"CAST(GREATEST(LENGTH({x.text}) + CAST({n.text} AS BIGINT), 0) AS INT)"  # LEFT takes no other
        first = f"CASE WHEN {n.text} >= 0 THEN {first} WHEN {n.text} < 0 THEN LEFT({x.text}, {left}) END"
    return Value(first, VARCHAR)


def _right(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, n = arguments
    last = f"RIGHT({x.text}, {_place(n)})"
    if n.low is None or n.low < 0:
        start = f"CAST(1 - GREATEST(CAST({n.text} AS BIGINT), -2147483646) AS INT)"
        last = f"CASE WHEN {n.text} >= 0 THEN {last} WHEN {n.text} < 0 THEN SUBSTRING({x.text}, {start}) END"
    return Value(last, VARCHAR)


def _substring(write: Expressions, arguments: Sequence[Value]) -> Value:
    """Between two places: a start below 1 counts from the end, 0 is before the first, and a length below 0 goes back.

    Spark takes other places for these.
    """
    x, start, *length = arguments
    if start.low is not None and start.low >= 1 and all(n.low is not None and n.low >= 0 for n in length):
        return Value(f"SUBSTRING({', '.join([x.text, *map(_place, (start, *length))])})", VARCHAR)
    if any(n.size is None or n.size > _LONGEST for n in (start, *length)):
        raise lacks("SUBSTRING from any place", "write a constant place: SUBSTRING(x, 1, 3)")
    size = f"CAST(LENGTH({x.text}) AS BIGINT)"
    begin = f"({start.text} + CASE WHEN {start.text} < 0 THEN {size} ELSE CAST(-1 AS BIGINT) END)"
    ends = [begin, f"({begin} + {length[0].text})" if length else size]
    first, last = (f"LEAST(GREATEST({name}({', '.join(ends)}), 0), {size})" for name in ("LEAST", "GREATEST"))
    found = f"SUBSTRING({x.text}, CAST({first} + 1 AS INT), CAST({last} - {first} AS INT))"
    known = " AND ".join(f"{v.text} IS NOT NULL" for v in arguments)  # LEAST passes over NULL
    return Value(f"CASE WHEN {known} THEN {found} END", VARCHAR)


def _joined(write: Expressions, arguments: Sequence[Value]) -> Value:
    """NULLs are passed over."""
    return Value(f"CONCAT({', '.join(_or_empty(a) for a in arguments)})", VARCHAR)


def _or_empty(v: Value) -> str:
    return f"COALESCE({v.text}, '')"


def _split(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, mark, part = arguments
    if not mark.constant or not part.low:
        raise lacks("SPLIT_PART by '' or of part 0", "name a delimiter, and a part from 1 on")
    return Value(f"SPLIT_PART({x.text}, {mark.text}, {part.text})", VARCHAR)


def _position(write: Expressions, arguments: Sequence[Value]) -> Value:
    a, b = arguments
    return Value(f"CAST(INSTR({a.text}, {b.text}) AS BIGINT)", BIGINT, 0, _LONGEST)


def _code(empty: int) -> Spelling:
    def spelling(write: Expressions, arguments: Sequence[Value]) -> Value:
        (x,) = arguments
        return Value(f"CASE WHEN {x.text} = '' THEN {empty} ELSE ASCII({x.text}) END", INTEGER, empty, 0x10FFFF)

    return spelling


def _pattern(v: Value, rest: Sequence[Value], *, whole: bool = False) -> str:
    if rest:
        raise lacks("a regular expression with options", "write both cases: [aA]")
    assert v.constant is not None
    return java(v.constant, whole=whole)


def _matches(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, pattern, *rest = arguments
    return value(f"({x.text} RLIKE {write.text(_pattern(pattern, rest)).text})", BOOLEAN)


def _matches_whole(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, pattern, *rest = arguments
    whole = write.text(r"\A(?:" + _pattern(pattern, rest, whole=True) + r")\z")
    return value(f"({x.text} RLIKE {whole.text})", BOOLEAN)


def _extracted(write: Expressions, arguments: Sequence[Value]) -> Value:
    x, pattern, group = arguments
    written = _pattern(pattern, ())
    if group.high is None or group.high > groups(written):  # Spark would fail on the first row that matches
        raise lacks("REGEXP_EXTRACT of a group that its pattern doesn't have", "count groups from 1; 0 is all of it")
    return Value(f"REGEXP_EXTRACT({x.text}, {write.text(written).text}, {group.text})", VARCHAR)


TEXTS: Mapping[str, Spelling] = {
    "lower": _cased(LOWER),
    "upper": _cased(UPPER),
    "trim": _trimmed("BOTH"),
    "ltrim": _trimmed("LEADING"),
    "rtrim": _trimmed("TRAILING"),
    "length": _length("LENGTH"),
    "strlen": _length("OCTET_LENGTH"),
    "bit_length": _length("BIT_LENGTH", 32),
    "left": _left,
    "right": _right,
    "substring": _substring,
    "replace": _text("REPLACE"),
    "translate": _text("TRANSLATE"),
    "lpad": _text("LPAD"),
    "rpad": _text("RPAD"),
    "concat": _joined,
    "concat_ws": _text("CONCAT_WS"),
    "split_part": _split,
    "starts_with": _test("STARTSWITH"),
    "suffix": _test("ENDSWITH"),
    "contains": _test("CONTAINS"),
    "strpos": _position,
    "ascii": _code(0),
    "unicode": _code(-1),
    "regexp_matches": _matches,
    "regexp_full_match": _matches_whole,
    "regexp_extract": _extracted,
}
