"""Which DuckDB the proofs were tried with. The engine is an assumption of theirs, and its behaviour changes."""

from __future__ import annotations

import duckdb

from dpsql.core.errors import PolicyError

TESTED_DUCKDB = ("2.0.0",)
"""The versions that the whole suite passed with. Another one is added after `python -m tests.engine` passed with it."""


def untested() -> str:
    """The installed DuckDB, in words, if it isn't among the tested versions; else nothing."""
    return "" if duckdb.__version__ in TESTED_DUCKDB else f"DuckDB {duckdb.__version__}"


def warning() -> str:
    """What is said of an untested engine."""
    return f"dpsql was not tested with {untested()}, only with {', '.join(TESTED_DUCKDB)}"


def require_tested() -> None:
    """Refuse an engine that dpsql was not tested with."""
    if untested():
        raise PolicyError(
            f"the engine is refused: {warning()}",
            code="untested-engine",
            hint=f'install a tested one (pip install "duckdb=={TESTED_DUCKDB[-1]}"); only the steward can allow '
            'others: [engine] untested = "warn", and no --strict-engine',
        )
