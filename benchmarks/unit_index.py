"""The unit index (`dpsql index`): heavy units, found once for a version of the data. The one place that knows of it."""

from __future__ import annotations

from typing import Any


def missing() -> str | None:
    """Why it can't be measured; None where this version of dpsql has one."""
    import dpsql

    return None if hasattr(dpsql.Engine, "index") else f"dpsql {dpsql.__version__} has no unit index"


def build(engine: Any) -> None:
    """Find heavy units, as the steward does."""
    engine.index(steward=True)
