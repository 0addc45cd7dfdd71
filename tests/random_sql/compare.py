"""Is an answer with almost no noise the one that plain DuckDB gives?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
Off = tuple[tuple[Any, float], ...]  # values of a row, and how far each may be off

ABSOLUTE, RELATIVE = 0.02, 1e-5  # what is left of the noise, and of the grid's rounding
LOOSE = {"spread": 10, "wide": 5_000}  # wide: bounds of 10^8 for each of 200 groups leave noise of a scale of about 5


def mismatch(
    ours: Sequence[Row],
    plain: Sequence[Row],
    few: Sequence[Row] | None,
    roles: Sequence[str],
    *,
    ordered: bool,
    noise: Sequence[Sequence[float]] | None = None,
) -> str | None:
    """What is wrong with our rows, or None.

    Each of our rows must be one of DuckDB's, or a public cell without rows; each of DuckDB's must be one of ours, but
    for keys of a single unit where keys are private (`few` is then the answer without them, None otherwise).
    noise: how far each of our values may be off by what is left of its noise, where that is known.
    """
    if any(len(row) != len(roles) for row in (*ours, *plain)):
        return f"the rows have other columns than {roles}"
    slack = noise or [[0.0] * len(roles)] * len(ours)
    left = [tuple(zip(row, off, strict=True)) for row, off in zip(ours, slack, strict=True)]
    if ordered:
        if len(ours) != len(plain):
            return f"{len(ours)} rows instead of {len(plain)}"
        wrong = [(_bare(a), b) for a, b in zip(left, plain, strict=True) if not _alike(a, b, roles)]
        return f"{wrong[0][0]} instead of {wrong[0][1]}" if wrong else None
    needed = list(plain if few is None else few)
    missing = _taken(left, needed, lambda a, b: _alike(a, b, roles))
    if missing:
        return f"no row like {missing[0]}"
    if few is not None:  # keys of one unit may be there, if they are right
        _taken(left, list(plain), lambda a, b: _alike(a, b, roles))
    extra = [row for row in left if not _empty(row, roles)]
    return f"{_bare(extra[0])} is not in DuckDB's answer" if extra else None


def _bare(row: Off) -> Row:
    return tuple(value for value, _ in row)


def _taken(ours: list[Off], theirs: Sequence[Row], alike: Callable[[Off, Row], bool]) -> list[Row]:
    """Take each of their rows out of ours; what isn't there is returned."""
    missing = []
    for row in theirs:
        found = next((i for i, mine in enumerate(ours) if alike(mine, row)), None)
        if found is None:
            missing.append(row)
        else:
            del ours[found]
    return missing


def _alike(ours: Off, theirs: Row, roles: Sequence[str]) -> bool:
    return all(_same(a, b, role, off) for (a, off), b, role in zip(ours, theirs, roles, strict=True))


def _same(a: Any, b: Any, role: str, off: float) -> bool:
    if a is None or b is None:
        return a is None and b is None
    if _number(a) and _number(b):
        if role in ("key", "count", "whole") and not isinstance(b, float) and off < 0.5:
            return bool(a == b)
        if math.isnan(float(a)) or math.isnan(float(b)):
            return math.isnan(float(a)) and math.isnan(float(b))
        loose = LOOSE.get(role, 1)
        return math.isclose(float(a), float(b), rel_tol=loose * RELATIVE, abs_tol=max(loose * ABSOLUTE, off))
    if isinstance(a, date) and isinstance(b, date):
        return _moment(a) == _moment(b)
    return type(a) is type(b) and bool(a == b)


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def _empty(row: Off, roles: Sequence[str]) -> bool:
    """A public cell without rows: nothing counted, nothing summed; averages of nothing can be anything.

    A list of groups has none of them.
    """
    measured = [pair for pair, role in zip(row, roles, strict=True) if role in ("count", "whole", "real")]
    wide = [float(pair[0]) for pair, role in zip(row, roles, strict=True) if role == "wide" and pair[0] is not None]
    small = all(v is not None and abs(float(v)) < max(ABSOLUTE, off) for v, off in measured)
    return "key" in roles and set(roles) != {"key"} and small and all(abs(v) < LOOSE["wide"] * ABSOLUTE for v in wide)
