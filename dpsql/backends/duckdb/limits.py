"""What an engine may take of the machine: memory, threads, disk."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb

from dpsql.policy.settings import EngineSettings


def limit(connection: duckdb.DuckDBPyConnection, settings: EngineSettings, spill: Path | None) -> None:
    """The limits of the private engine, as the policy or the environment has them."""
    spill_to(connection, spill)
    connection.execute(f"SET max_temp_directory_size = '{settings.spill}'")
    connection.execute(f"SET memory_limit = '{settings.memory}'")
    connection.execute(f"SET threads = {settings.threads or max(1, os.cpu_count() or 1)}")


def spill_to(connection: duckdb.DuckDBPyConnection, spill: Path | None) -> None:
    """Where what doesn't fit into memory goes; None: nowhere. DuckDB would take a folder in the working folder."""
    text = "" if spill is None else str(spill).replace("'", "''")
    connection.execute(f"SET temp_directory = '{text}'")
