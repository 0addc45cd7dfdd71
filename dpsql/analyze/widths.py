"""How wide the columns are that a value is made of: so are told values whose range arithmetic alone makes wide.

The range of a total of one unit's rows, of a product or of a difference of dates is derived from the policy, and mostly
far wider than what the data hold. Which values these are follows from the SQL and the policy alone (Theorem AUTO-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from fractions import Fraction

from sqlglot import exp

from dpsql.analyze.variables import KeyColumn
from dpsql.core.errors import Error
from dpsql.core.frozen import dataclass
from dpsql.core.types import Type
from dpsql.plan.nodes import Expr
from dpsql.sql.scalar import Scalar, scalar
from dpsql.sql.trees import holds, nodes_of

WIDER = 4  # times the widest column: a range that is wider than that is found automatically
AUTOMATIC_WIDTH = Fraction(10) ** 500  # of a column with automatic bounds: no range is wider, so none is found twice

_DATE_GAPS = ("DATE_SUB", "DATESUB")

Columns = Mapping[str, KeyColumn]


@dataclass(frozen=True, slots=True)
class WideValue:
    """A value whose derived range is more than WIDER times as wide as the columns that it is made of."""

    written: Expr  # over plan columns
    text: str  # as the query writes it
    type: Type
    low: Fraction  # the derived range
    high: Fraction
    otherwise: tuple[Fraction, Fraction]  # the range that serves where none is found
    named: bool = True  # False: no limit on rows was named, so that the derived range is one of SEED_ROWS rows


def span_of(known: Scalar) -> Fraction | None:
    """The width of a range of numbers; None of what is no number, or has no finite range."""
    low, high = known.range.low, known.range.high
    return high - low if isinstance(low, Fraction) and isinstance(high, Fraction) else None


def width_of(e: Expr, columns: Columns) -> Fraction | None:
    """The width of the widest column that a value is made of, times the constants that it is multiplied by.

    0 of a difference of dates: there is no column to compare it with, and its range is always found. None where there
    is nothing to compare a range with: then it stands as it is derived.
    """
    match e:
        case exp.Column():
            return columns[e.name].width if e.name in columns else None
        case exp.Predicate() | exp.Connector() | exp.Not():
            return None  # true or false
        case exp.Count() | exp.CountIf():
            return Fraction(1)  # what one row adds to it
        case exp.Sum():
            width = width_of(e.this, columns)
            return _span(e.this, columns) if width is None else width
        case exp.Window() | exp.Filter():
            return width_of(e.this, columns)  # neither its order nor its condition is a part of the value
        case exp.Case():
            return _widest([*(i.args["true"] for i in e.args["ifs"]), e.args.get("default")], columns)
        case exp.If():
            return _widest([e.args.get("true"), e.args.get("false")], columns)
        case exp.Mul() | exp.Div():
            return _scaled(e, columns)
        case exp.Least() | exp.Greatest():
            return _clipped(e, columns)
        case exp.Sub() | exp.DateDiff() if _dates(e.this, e.expression, columns):
            return Fraction(0)
        case exp.Anonymous() if e.name.upper() == "CLIP":
            return _clipped(e, columns)
        case exp.Anonymous() if e.name.upper() in _DATE_GAPS and _dates(e.expressions[-2], e.expressions[-1], columns):
            return Fraction(0)
        case _:
            return _widest(e.iter_expressions(), columns)


def is_wide(e: Expr, value: Scalar, columns: Columns) -> bool:
    """Is the derived range of a number more than WIDER times as wide as the widest column that it is made of?"""
    if not value.type.is_numeric or (span := span_of(value)) is None:
        return False
    width = width_of(e, columns)
    return width is not None and span > WIDER * width


def _widest(parts: Iterable[Expr | None], columns: Columns) -> Fraction | None:
    return max((w for p in parts if p is not None and (w := width_of(p, columns)) is not None), default=None)


def _scaled(e: exp.Mul | exp.Div, columns: Columns) -> Fraction | None:
    """Of a product or a quotient: a constant makes another unit of the same column."""
    width = _widest([e.this, e.expression], columns)
    if width is None:
        return None
    factor, by = _constant(e.this), _constant(e.expression)
    if isinstance(e, exp.Div):
        return width / abs(by) if by else width
    return width * abs(next((c for c in (factor, by) if c is not None), Fraction(1)))


def _clipped(e: Expr, columns: Columns) -> Fraction | None:
    """Of a value between constants: the query names its range. Of others, as of any function."""
    named = any(_constant(part) is not None for part in e.iter_expressions())
    span = _span(e, columns) if named else None
    return _widest(e.iter_expressions(), columns) if span is None else span


def _constant(e: Expr) -> Fraction | None:
    """The value of an expression over constants; None of any other."""
    if holds(e, exp.Column):
        return None
    with suppress(Error):
        known = scalar(e, {}).range
        return known.low if isinstance(known.low, Fraction) and known.low == known.high else None
    return None


def _span(e: Expr, columns: Columns) -> Fraction | None:
    with suppress(Error):
        return span_of(scalar(e, {name: c.scalar for name, c in columns.items()}))
    return None


def _dates(start: Expr, end: Expr, columns: Columns) -> bool:
    """Are both sides of a difference made of columns of dates or times? One from a constant is a column's own range."""
    return all(
        any(c.name in columns and _is_moment(columns[c.name].scalar) for c in nodes_of(side, exp.Column))
        for side in (start, end)
    )


def _is_moment(known: Scalar) -> bool:
    return known.type.is_date or known.type.is_timestamp
