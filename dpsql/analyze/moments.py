"""Moments: on which part of a date or timestamp an expression rests.

DAYNAME(t) is a function of t's day, and STRFTIME(t, '%Y-%m') of its month. Where a range holds too many moments to list
them, the days or months in it may be few (Theorem KEYS-2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce

from sqlglot import exp

from dpsql.analyze.facts import truncated
from dpsql.core.errors import Error
from dpsql.core.types import DATE, Type
from dpsql.plan.nodes import Expr
from dpsql.sql.dialect import data_type
from dpsql.sql.functions import lookup
from dpsql.sql.functions.base import arguments
from dpsql.sql.functions.constants import constant_integer, constant_text
from dpsql.sql.functions.dates import part_of
from dpsql.sql.trees import holds, rebuilt

Looks = tuple[tuple[Expr, str], ...]  # the moments that an expression looks at, each with the unit that it rests on

_CHAIN = ("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "QUARTER", "YEAR")  # each is made of whole ones before it
_OF_PART: Mapping[str, str] = {
    **dict.fromkeys(("YEAR", "DECADE", "CENTURY", "MILLENNIUM", "ERA"), "YEAR"),
    **dict.fromkeys(("ISOYEAR", "YEARWEEK", "WEEK"), "WEEK"),
    **dict.fromkeys(("MONTH", "MONTHNAME", "LAST_DAY"), "MONTH"),
    **dict.fromkeys(("DAY", "DAYOFYEAR", "DOY", "DAYOFWEEK", "DOW", "WEEKDAY", "ISODOW", "DAYNAME"), "DAY"),
    **{name: name for name in ("QUARTER", "HOUR", "MINUTE", "SECOND")},
}
_OF_LETTER: Mapping[str, str] = {
    **dict.fromkeys("yY", "YEAR"),
    **dict.fromkeys("GV", "WEEK"),
    **dict.fromkeys("bBhm", "MONTH"),
    **dict.fromkeys("aAdjuwxUW", "DAY"),
    **dict.fromkeys("HIp", "HOUR"),
    "M": "MINUTE",
    **dict.fromkeys("cSTX", "SECOND"),
}
_OF_CHARACTERS = ((4, "YEAR"), (7, "MONTH"), (10, "DAY"), (13, "HOUR"), (16, "MINUTE"), (19, "SECOND"))


def refines(fine: str, coarse: str) -> bool:
    """Is each interval of the coarse unit made of whole ones of the fine unit?"""
    if fine == coarse:
        return True
    if "WEEK" in (fine, coarse):
        return coarse == "WEEK" and _CHAIN.index(fine) <= _CHAIN.index("DAY")
    return _CHAIN.index(fine) <= _CHAIN.index(coarse)


def common(a: str, b: str) -> str:
    """The coarsest unit that refines both."""
    if refines(a, b):
        return a
    return b if refines(b, a) else "DAY"


def looks(node: Expr) -> Looks:
    """The moments that a call looks at: it gives the same for them as for the beginnings of their units.

    Empty where no rule says so.
    """
    try:
        found = _looks(node)
    except Error:  # what is wrong with it is said elsewhere
        return ()
    return tuple((moment, unit) for moment, unit in found if holds(moment, exp.Column))


def _looks(node: Expr) -> Looks:
    match node:
        case exp.DateDiff():
            # It counts the boundaries between two moments, which are the same for the beginnings of their units.
            counted = part_of(node.args["unit"], node).name.upper()
            return ((node.this, counted), (node.expression, counted)) if counted in (*_CHAIN, "WEEK") else ()
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _known(node.this, _OF_PART.get(part_of(node.args["unit"], node).name.upper()))
        case exp.Extract():
            return _known(node.expression, _OF_PART.get(part_of(node.this, node).name.upper()))
        case exp.TimeToStr():
            return _known(node.this, unit_of_format(constant_text(node.args["format"], "a date format")))
        case exp.Cast() if node.to.is_type(exp.DataType.Type.DATE):
            return _known(node.this, "DAY")
        case exp.Left() | exp.Substring():
            return _of_text(node)
    entry = lookup(node)
    if entry is None:
        return ()
    if entry.name == "DATE_PART":
        part, moment = arguments(node, 2)
        return _known(moment, _OF_PART.get(part_of(part, node).name.upper()))
    unit = _OF_PART.get(entry.name)
    return () if unit is None else _known(arguments(node, 1)[0], unit)


def _known(moment: Expr, unit: str | None) -> Looks:
    return () if unit is None else ((moment, unit),)


def unit_of_format(layout: str) -> str | None:
    """The unit that STRFTIME rests on; None where it writes less than seconds, or what isn't known here."""
    letters = [letter for letter in re.findall(r"%-?(.)", layout, re.DOTALL) if letter not in "%zZ"]  # always the same
    if any(letter not in _OF_LETTER for letter in letters):
        return None
    units = [_OF_LETTER[letter] for letter in letters]
    return reduce(common, units) if units else "YEAR"


def _of_text(node: Expr) -> Looks:
    """LEFT or SUBSTRING of a moment as text, which begins with the year and goes on to smaller parts."""
    text = node.this
    if not isinstance(text, exp.Cast) or not text.to.is_type(*exp.DataType.TEXT_TYPES):
        return ()
    length = node.expression if isinstance(node, exp.Left) else node.args.get("length")
    start = None if isinstance(node, exp.Left) else node.args.get("start")
    if length is None:
        return ()
    first = 1 if start is None else constant_integer(start, "a place", -(2**31), 2**31)
    last = first - 1 + constant_integer(length, "a length", -(2**31), 2**31)
    if first < 1 or last < first:  # counted from the end
        return ()
    return _known(text.this, next((unit for most, unit in _OF_CHARACTERS if last <= most), None))


def beginning(unit: str, moment: Expr, kind: Type) -> Expr:
    """The beginning of the interval that a moment is in, as a DATE where the moment is one."""
    begin = truncated(unit, moment)
    return exp.cast(begin, data_type(kind.sql)) if kind == DATE else begin


def at_beginnings(node: Expr, changed: Mapping[int, Expr]) -> Expr:
    """A call with other moments in place of those that it looks at. changed: by the ids of its parts."""

    def rewrite(part: Expr) -> Expr:
        return changed[id(part)] if id(part) in changed else rebuilt(part, rewrite)

    return rebuilt(node, rewrite)
