"""Shared by all tests: small sessions over data made on the spot."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
import time_limit
from golden_files import Case, rewrite
from named import Named
from seeding import FRESH, Seeding
from services import left_out
from support import PYTHON, SPARK, WHOLE, Connect
from usual_signals import usual

import dpsql
from dpsql.backends.choose import read_constants

read_constants()  # of expressions that are looked at without a session


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files; review the diff")
    parser.addoption("--seed", default="1", help=f"of the noise in tests; {FRESH!r}: the operating system's")
    parser.addoption("--whole", action="store_true", help="run long randomised suites whole, not a sample")
    parser.addoption("--one-in", type=int, help="run one in so many of the quicker tests, and all that run everywhere")
    parser.addoption("--python", help="of the environments of tests/installed: another one's path")
    parser.addoption("--spark", action="store_true", help="with --whole: all queries of shared suites on Spark, too")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until the tests are listed: next to nothing of that is garbage
    if config.getoption("--whole"):
        os.environ[WHOLE] = "1"  # before test files, which settle their numbers of examples, are read
    if config.getoption("--seed") != FRESH:
        config.pluginmanager.register(Seeding(config.getoption("--seed")))
    if config.getoption("--spark"):
        os.environ[SPARK] = "1"
    if python := config.getoption("--python"):
        os.environ[PYTHON] = python
    config.pluginmanager.register(time_limit)
    if not hasattr(config, "workerinput"):  # there reports of all workers come together
        config.pluginmanager.register(Named(config))


LONGEST = ("test_spark", "test_quality", "test_browser", "test_scan", "test_unit_index", "test_attacks",
           "test_accuracy_corpus",
           "test_neighbours", "test_moments_end_to_end", "test_distinct", "test_pages", "test_versions",
           "test_postgres", "test_refresh", "test_random_neighbours", "test_walks", "test_crash", "test_disk",
           "test_random")  # fmt: skip
"""Files that take long, whatever their number of tests: they begin first, so that no worker waits for one at last."""


WHOLE_LIMIT = 3 * 3600
"""Seconds that a test may take with --whole; else `timeout` in pyproject.toml says it."""


GOLDEN = (5**0.5 - 1) / 2
"""Its multiples lie evenly between 0 and 1, without a period: a sample by them leaves out no row or column of cases."""


def in_sample(number: int, one_in: int) -> bool:
    """Is the case of this number in a sample of one in so many?"""
    return number * GOLDEN % 1 < 1 / one_in


def among(item: pytest.Item, one_in: int | None) -> bool:
    """Is a test among one in so many? By its name alone, so that other tests don't change it."""
    if one_in is None or item.get_closest_marker("everywhere"):
        return True
    return item.path.stem not in LONGEST and crc32(item.nodeid.encode()) % one_in == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        whole = config.getoption("--whole")
        mark = None if whole else item.get_closest_marker("sample")
        number = seen[item.nodeid.split("[")[0]]
        seen[item.nodeid.split("[")[0]] += 1
        taken = mark is None or in_sample(number, mark.args[0])
        taken = taken and (whole or not item.get_closest_marker("long")) and among(item, config.getoption("--one-in"))
        (kept if taken else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    if config.getoption("--whole") and config.getoption("timeout", None) is None:
        for item in items:
            item.add_marker(pytest.mark.timeout(WHOLE_LIMIT))
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


def pytest_collection_finish() -> None:
    """Nobody need look for garbage among half a million objects that stay, nor as often as in a small process."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # so that the process can end in order


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line)


def has_limits(policy: dict[str, Any]) -> bool:
    """Does a policy name limits, or has it only rows that are their own units?"""
    parts = [policy.get("privacy", {}), *policy["tables"].values()]
    return any(key.startswith("max_") for part in parts for key in part) or all(
        table.get("unit") == "row" for table in policy["tables"].values() if not table.get("public")
    )


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Signals do what they do to a program in a terminal, whoever started the tests."""
    with usual():
        yield


@pytest.fixture
def connect() -> Iterator[Connect]:
    """connect(tables, **policy): a session over Arrow tables with an account in memory; closed at the end.

    Where the policy names limits, or needs none, what these cut isn't counted unless it says limits_share: most tests
    are of something else.
    """
    opened: list[dpsql.Session] = []

    def make(
        tables: dict[str, pa.Table], policy: dict[str, Any], *, epsilon: object = 10**9, delta: object = 0
    ) -> dpsql.Session:
        privacy = {**({"limits_share": 0} if has_limits(policy) else {}), **policy.get("privacy", {})}
        whole = {"budget": {"epsilon": epsilon, "delta": delta}, **policy, "privacy": privacy}
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
