"""Which DuckDB the proofs were tried with. The engine is an assumption of theirs, and its behaviour changes."""

from __future__ import annotations

import duckdb

from dpsql.backends.base import Versions
from dpsql.backends.parser import parser_versions

TESTED_DUCKDB = ("2.0.0",)
"""The versions that the whole suite passed with. Another one is added after `python -m tests.engine` passed with it."""


def versions() -> Versions:
    """The DuckDB that is installed, and those that were tested."""
    return Versions("DuckDB", duckdb.__version__, TESTED_DUCKDB, "duckdb", (parser_versions(),))
