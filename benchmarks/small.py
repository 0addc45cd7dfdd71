"""What isn't a matter of rows: small queries a second, planning, starting up, and drawing noise."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import duckdb

import dpsql
from benchmarks import tpch
from benchmarks.data import Data
from benchmarks.turns import as_installed, in_turns, spread

ROOT = Path(__file__).parent.parent
POLICY = """
[budget]
epsilon = 1e9
delta = 0
[privacy]
max_rows = 4
[tables.visits]
source = "visits.parquet"
unit = "person"
[tables.visits.columns]
city = { values = ["Bern", "Lima", "Oslo"] }
minutes = { min = 0, max = 60 }
"""
WITHOUT = "limits_share = 0\n[tables.visits]"
VISITS = """
COPY (
    SELECT i // 3 AS person, ['Bern', 'Lima', 'Oslo'][1 + i * i % 3] AS city, (7 * i % 61)::INT AS minutes
    FROM range(10000) t(i)
) TO '{file}' (FORMAT parquet)
"""


def rate(seconds: float, *, limits_counted: bool) -> dict[str, Any]:
    """New queries of 10,000 rows, one after the other, each paid for in a ledger on disk.

    limits_counted: whether each counts what its limits cut, as is usual; without, the policy says `limits_share = 0`.
    """
    texts = (
        f"SELECT city, AVG(minutes) FROM visits WHERE minutes <> {i % 60} AND {i} > -1 GROUP BY city"
        for i in range(10**9)
    )
    with TemporaryDirectory(prefix="dpsql-benchmark-") as folder:
        duckdb.sql(VISITS.format(file=Path(folder) / "visits.parquet"))
        policy = Path(folder) / "policy.toml"
        policy.write_text(POLICY if limits_counted else POLICY.replace("[tables.visits]", WITHOUT, 1), encoding="utf-8")

        def ask(session: dpsql.Session) -> float:
            start = time.process_time()
            session.query(next(texts), epsilon="0.01")
            return time.process_time() - start

        with _transactions() as begun, dpsql.connect(policy) as session:
            ask(session)
            begun.clear()
            ask(session)
            ledger = dict(begun)
        with dpsql.connect(policy) as session:
            for _ in range(3):
                ask(session)
            taken, start = [ask(session)], time.perf_counter()
            while time.perf_counter() < start + seconds:
                taken.append(ask(session))
            a_second = (len(taken) - 1) / (time.perf_counter() - start)
    return {"queries": len(taken), "a_second": a_second, "cpu": spread(taken), "ledger": ledger}


@contextmanager
def _transactions() -> Iterator[Counter[str]]:
    """Counts transactions of ledgers that are opened inside: those that only read, and those that write."""
    begun: Counter[str] = Counter()
    plain = sqlite3.connect

    def seen(text: str) -> None:
        if text.startswith("BEGIN"):
            begun["writes" if "IMMEDIATE" in text else "reads"] += 1

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*given, **named)
        connection.set_trace_callback(seen)
        return connection

    with patch("sqlite3.connect", connect):
        yield begun


def planning(data: Data, times: int) -> dict[str, Any]:
    """CPU time of `explain` for a text never seen: the least of so many, for every TPC-H query of the tests."""
    taken = {}
    with data.account() as ledger, dpsql.connect(data.policy, ledger=ledger) as session:
        for name in tpch.ALL:
            seconds = []
            for i in range(times):
                text = f"{tpch.text_of(name)} -- {i}"
                start = time.process_time()
                session.explain(text, epsilon=1, delta=1e-7, **tpch.LIMITS)
                seconds.append(time.process_time() - start)
            taken[name.upper()] = min(seconds)
    return {"cpu": spread(list(taken.values())), "queries": taken}


def start_up(turns: int) -> dict[str, Any]:
    """`dpsql query` and others on a small file, as processes, beside the bare import of what they need; wall time."""
    python, asked = sys.executable, ["--file", "queries/hours_by_education.sql"]
    commands = {
        "python itself": [python, "-c", "pass"],
        "bare imports": [python, "-c", "import duckdb, numpy, pyarrow, sqlglot, sqlite3, click"],
        "dpsql --help": [python, "-m", "dpsql", "--help"],
        "dpsql explain": [python, "-m", "dpsql", "explain", *asked],
        "dpsql query": [python, "-m", "dpsql", "query", "--fresh", *asked],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    with TemporaryDirectory(prefix="dpsql-benchmark-") as folder:
        copytree(ROOT / "examples" / "adult", folder, ignore=ignore_patterns("*.ledger.*"), dirs_exist_ok=True)
        for _, name in in_turns(1 + turns, tuple(commands)):
            start = time.perf_counter()
            subprocess.run(commands[name], cwd=folder, env=as_installed(), check=True, capture_output=True)
            taken[name].append(time.perf_counter() - start)
    return {name: spread(seconds[1:]) for name, seconds in taken.items()}  # the first is to warm up


def draws(many: int) -> dict[str, dict[str, float]]:
    """Millions of exact draws a second, by sampler and scale; the best of three."""
    from dpsql.mechanisms import sampler

    makers: tuple[Callable[[Fraction, int], Any], ...] = (
        sampler.geometric,
        sampler.discrete_laplace,
        sampler.rounded_normal,
    )
    found: dict[str, dict[str, float]] = {}
    for draw in makers:
        for scale in (1, 1000, 2**20, 2**40):
            seconds = []
            for _ in range(3):
                start = time.perf_counter()
                draw(Fraction(scale), many)
                seconds.append(time.perf_counter() - start)
            found.setdefault(draw.__name__, {})[f"{scale:,}"] = many / min(seconds) / 1e6
    return found
