"""python -m tests.engine: does the installed DuckDB behave as the proofs assume?

Runs the part of the suite that pins the engine's behaviour, and says in its last line which version it was, whether it
is admitted, and what to do to admit it. Options of pytest may follow (-n 4, --whole).
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest

from dpsql.backends.duckdb.versions import TESTED_DUCKDB

HERE = Path(__file__).parent
FILES = (
    "privacy",
    "random_sql",
    "sql/test_functions.py",
    "test_sources.py",
    "test_end_to_end.py",
    "test_tpch.py",
    "test_engine_facts.py",
    "test_engine_failure.py",
    "test_stoppable.py",
)


class Counter:
    """How many tests passed."""

    def __init__(self) -> None:
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed


def verdict(version: str, passed: int, failed: bool, whole: bool) -> str:
    """What the run says of this version."""
    head = f"DuckDB {version} {'is' if version in TESTED_DUCKDB else 'is not'} admitted"
    if failed or not passed:
        return f"{head}, and FAILED: it is not known to do what the proofs assume"
    if version in TESTED_DUCKDB:
        return f"{head}, and passed {passed:,} tests"
    first = "" if whole else "run this again with --whole, then "
    return f"{head}, and passed {passed:,} tests: to admit it, {first}add it to TESTED_DUCKDB in versions.py"


def main(arguments: list[str]) -> int:
    """Run the tests; 0 if all of them pass."""
    counter = Counter()
    code = pytest.main([*(str(HERE / name) for name in FILES), *arguments], plugins=[counter])
    print(verdict(duckdb.__version__, counter.passed, code != pytest.ExitCode.OK, "--whole" in arguments))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
