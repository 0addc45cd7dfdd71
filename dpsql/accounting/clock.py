"""The time, as ledgers write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def after(seconds: float) -> str:
    """The time so many seconds from now, as `now` writes it: two such texts compare as the times do."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")
