"""Which columns have public keys, in words."""

from __future__ import annotations

from dpsql.analyze.domains import MAX_IMPLIED
from dpsql.core.types import Type
from dpsql.policy.model import Column
from dpsql.policy.reader import Bound


def public_keys(name: str, type_: Type, said: Column | None) -> str | None:
    """The public keys of a column, in words; None where keys are selected privately."""
    if said is not None and said.private:
        return None
    if said is not None and said.values is not None:
        return f"{name} ({len(said.values):,} values)"
    if said is not None and said.references is not None:
        return f"{name} (those of {said.references.table}.{said.references.column})"
    if type_.is_boolean:
        return f"{name} (true, false)"
    if said is None or said.min is None or said.max is None:
        return None
    if (type_.is_integer or type_.is_date) and _span(said.min, said.max) < MAX_IMPLIED:
        return f"{name} ({'each day' if type_.is_date else 'each whole number'} of its range)"
    return None


def _span(low: Bound, high: Bound) -> float:
    gap = high - low  # type: ignore[operator]  # a policy's min and max are of one kind
    return float(gap.days) if hasattr(gap, "days") else float(gap)
