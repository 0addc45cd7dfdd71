"""Shared by all tests: small sessions over data made on the spot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from golden_files import Case, rewrite
from support import WHOLE, Connect

import dpsql
from dpsql.backends.choose import read_constants

read_constants()  # of expressions that are looked at without a session


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; review the diff")
    parser.addoption("--whole", action="store_true", help="run long randomised suites whole, not a sample")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--whole"):
        os.environ[WHOLE] = "1"  # before test files, which settle their numbers of examples, are read


@pytest.fixture
def connect() -> Iterator[Connect]:
    """connect(tables, **policy): a session over Arrow tables with an account in memory; closed at the end."""
    opened: list[dpsql.Session] = []

    def make(
        tables: dict[str, pa.Table], policy: dict[str, Any], *, epsilon: object = 10**9, delta: object = 0
    ) -> dpsql.Session:
        whole = {"budget": {"epsilon": epsilon, "delta": delta}, **policy}
        session = dpsql.connect(dpsql.Policy.from_dict(whole), sources=tables, ledger=":memory:")
        opened.append(session)
        return session

    yield make
    for session in opened:
        session.close()


@pytest.fixture
def agree(request: pytest.FixtureRequest) -> Any:
    """agree(folder, file, case, found): compares with a golden file, or rewrites it."""

    def compare(folder: str, file: str, case: Case, found: str) -> None:
        if request.config.getoption("--update-golden"):
            rewrite(folder, file, case, found)
        else:
            assert found == case.expected

    return compare
