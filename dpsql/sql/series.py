"""range() and generate_series(): rows of numbers or times between two constants, as spines to join results to.

No pass of rewrite: in FROM a series is a source, whose name and columns the binder gives it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlglot import exp

from dpsql.core.errors import SQLError
from dpsql.sql.refuse import refuse

MAX_SERIES = 100_000

_SECONDS = {
    "MICROSECOND": 1e-6, "MILLISECOND": 1e-3, "SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3600.0, "DAY": 86_400.0,
    "WEEK": 604_800.0, "MONTH": 28 * 86_400.0, "QUARTER": 90 * 86_400.0, "YEAR": 365 * 86_400.0,
}  # fmt: skip


def series_of(node: exp.Expr) -> exp.GenerateSeries | None:
    """The series that a source of FROM, or UNNEST in a SELECT list, stands for."""
    if isinstance(node, exp.Table):
        node = node.this
    elif isinstance(node, exp.Unnest) and len(node.expressions) == 1 and not node.args.get("offset"):
        node = node.expressions[0]
    elif isinstance(node, exp.Explode):
        node = node.this
    return node if isinstance(node, exp.GenerateSeries) else None


def checked_series(node: exp.GenerateSeries, place: exp.Expr) -> exp.Expr:
    """The rows of a series, whose number is known from its constants alone."""
    start, end, step = (node.args.get(k) for k in ("start", "end", "step"))
    ends = (_number(start), _number(end))
    if all(e is not None for e in ends):
        size, by = float((ends[1] or 0) - (ends[0] or 0)), 1.0 if step is None else _number(step)
    else:
        times = (_time(start), _time(end))
        first, last = times
        if first is None or last is None:
            raise _unclear(place)
        size, by = (last - first) / timedelta(seconds=1), _seconds(step)
    if by is None or by <= 0:
        raise _unclear(place)
    if size / by > MAX_SERIES:
        raise refuse(
            SQLError,
            f"a series has at most {MAX_SERIES:,} rows",
            place,
            code="too-large",
            hint="take a larger step, or a shorter stretch",
        )
    return exp.Explode(this=node.copy())


def _number(node: object) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this)
        return None if inner is None else -inner
    return int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def _time(node: object) -> datetime | None:
    """DATE '2024-01-01', TIMESTAMP '2024-01-01 12:00:00'."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return None
    if not node.to.is_type("date", "timestamp", "timestampntz", "datetime"):
        return None
    try:
        return datetime.fromisoformat(node.this.this).replace(tzinfo=None)
    except ValueError:
        return None


def _seconds(node: object) -> float | None:
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = _SECONDS.get(str(node.args.get("unit") or "").upper().removesuffix("S"))
    try:
        return None if unit is None else float(int(node.this.this)) * unit
    except ValueError:
        return None


def _unclear(place: exp.Expr) -> SQLError:
    return refuse(
        SQLError,
        "a series goes from one constant to another, in constant steps",
        place,
        code="literal-needed",
        hint="write range(0, 10, 2), or range(DATE '2024-01-01', DATE '2024-02-01', INTERVAL 1 DAY)",
    )
