"""What queries take on Spark, beside plain Spark: the same files, the same server, in turns.

    python -m benchmarks.spark [--rows 1M,10M] [--url 'local[2]'] [--turns 5] [--cases Q3,Q4]

Each query is asked again with new noise, warm: by an engine that has found heavy units, as its first query does, and by
one that has none ("first": it looks for them, and then answers by way of them). Plain Spark has a session of its own,
with the server's own settings. COUNT(*) is compared with one GROUP BY user, since plain Spark reads no row for it.
Seconds are of the clock; where the server is this process's own, CPU seconds of all its threads and bytes that were
shuffled stand beside them. Scans and exchanges are those of the plan before it runs.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import dpsql
from benchmarks import machine
from benchmarks.__main__ import sizes
from benchmarks.cases import BY_USER, DELTA, EPSILON, EVENTS, NAMED, Case
from benchmarks.data import FOLDER, Data
from benchmarks.events import made
from benchmarks.report import number, rows_of, table
from benchmarks.turns import in_turns
from dpsql.backends.spark.server import Connection, address, connect_module
from dpsql.policy.settings import BackendSettings
from dpsql.store.unit_index import UnitIndexes

CHOSEN = ("Q1", "Q2", "Q3", "Q4", "Q7")
DISTINCT = Case(
    "distinct",
    "COUNT(DISTINCT day) by 20 public keys",
    "SELECT category, COUNT(DISTINCT day) AS COUNT FROM events GROUP BY category",
    limits=NAMED,
)
CASES = {case.name: case for case in (*(c for c in EVENTS if c.name in CHOSEN), DISTINCT)}
SCAN, EXCHANGE, BROADCAST = (re.compile(rf"\b{word} ") for word in ("FileScan", "Exchange", "BroadcastExchange"))


@dataclass(frozen=True, slots=True)
class Shape:
    """What a plan moves: files that are read, rows that change tasks, tables that every task gets."""

    scans: int
    exchanges: int
    broadcasts: int

    def __str__(self) -> str:
        return f"{self.scans}, {self.exchanges}, {self.broadcasts}"


def shape(session: Any, sql: str, parameters: Mapping[str, str]) -> Shape:
    """Of a statement's plan."""
    plan = session.sql(sql, args=dict(parameters))._explain_string(extended=False)
    return Shape(*(len(word.findall(plan)) for word in (SCAN, EXCHANGE, BROADCAST)))


@contextmanager
def noted(connection: Connection, found: list[Shape]) -> Iterator[None]:
    """Note the plans of the statements that run meanwhile."""
    run = connection.arrow

    def arrow(sql: str, parameters: Mapping[str, str], *rest: Any) -> Any:
        found.append(shape(connection._session, sql, parameters))
        return run(sql, parameters, *rest)

    vars(connection)["arrow"] = arrow
    try:
        yield
    finally:
        del vars(connection)["arrow"]


@dataclass(frozen=True, slots=True)
class Taken:
    """Seconds of the clock and, of a server of this process, CPU seconds and shuffled bytes."""

    wall: float
    cpu: float
    shuffled: float


def local() -> tuple[Callable[[], float], Callable[[], float]] | None:
    """How the CPU seconds and shuffled bytes of this process's server are read; None where there is no such server."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None:
        return None
    status = Path(f"/proc/{context._gateway.proc.pid}/stat")
    ticks = os.sysconf("SC_CLK_TCK")

    def cpu() -> float:
        fields = status.read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    def shuffled() -> float:
        return float(context._jsc.sc().statusStore().executorList(False).apply(0).totalShuffleWrite())

    return cpu, shuffled


def taken(run: Callable[[], Any]) -> Taken:
    meters = local()
    before = [read() for read in meters] if meters else []
    start = perf_counter()
    run()
    wall = perf_counter() - start
    spent = [read() - b for read, b in zip(meters, before, strict=True)] if meters else [float("nan")] * 2
    return Taken(wall, *spent)


@dataclass(frozen=True, slots=True)
class Both:
    """dpsql and plain Spark over the same files."""

    session: dpsql.Session
    plain: Any

    @property
    def connection(self) -> Connection:
        backend: Any = self.session._engine.backend
        found: Connection = backend._connection
        return found

    def ways(self, case: Case) -> dict[str, Callable[[], Any]]:
        sql = BY_USER if case.name == "Q1" else case.sql
        asked = {"epsilon": EPSILON, "delta": DELTA, "fresh": True, **case.limits}

        def first() -> Any:
            engine = self.session._engine
            engine._indexes = UnitIndexes(engine.ledger)
            return self.session.query(case.sql, **asked).rows

        return {
            "plain": lambda: self.plain.sql(sql).toArrow(),
            "first": first,
            "dpsql": lambda: self.session.query(case.sql, **asked).rows,
        }


@contextmanager
def opened(data: Data, url: str) -> Iterator[Both]:
    """Both, over one server."""
    policy = replace(dpsql.Policy.load(data.policy), backend=BackendSettings("spark", url))
    with dpsql.connect(policy, ledger=":memory:") as session:
        plain = connect_module().SparkSession.builder.remote(address(url)).create()
        try:
            for name, file in data.files.items():
                plain.read.parquet(f"file://{file}").createOrReplaceTempView(name)
            yield Both(session, plain)
        finally:
            plain.stop()


def measure(case: Case, both: Both, turns: int) -> Iterator[str]:
    """A line of the table."""
    ways = both.ways(case)
    shapes: list[Shape] = []
    ways["first"]()
    with noted(both.connection, shapes):
        ways["dpsql"]()
    runs: dict[str, list[Taken]] = {way: [] for way in ways}
    for turn, way in in_turns(turns + 1, list(ways)):
        one = taken(ways[way])
        if turn:  # the first is for compilers
            runs[way].append(one)
    wall, cpu, shuffled = (
        {way: median(getattr(one, what) for one in listed) for way, listed in runs.items()}
        for what in ("wall", "cpu", "shuffled")
    )
    yield f"{case.name}: {case.title}"
    yield from (number(wall["plain"]), number(wall["dpsql"]))
    yield number(median(o.wall / p.wall for o, p in zip(runs["dpsql"], runs["plain"], strict=True)))
    yield from (number(cpu["plain"]), number(cpu["dpsql"]))
    yield number(median(o.cpu / p.cpu for o, p in zip(runs["dpsql"], runs["plain"], strict=True)))
    yield number(cpu["first"])
    yield from (number(shuffled["plain"] / 1e6), number(shuffled["dpsql"] / 1e6))
    yield "; ".join(map(str, shapes))


COLUMNS = (
    "query", "plain, s", "dpsql, s", "ratio", "plain, CPU s", "dpsql, CPU s", "ratio", "first, CPU s",
    "plain, MB shuffled", "dpsql, MB shuffled", "scans, exchanges, broadcasts",
)  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=sizes, default=(10**6,), help="sizes of the events (1M)")
    parser.add_argument("--url", default="local[2]", help="of a Spark Connect server, or local[2]")
    parser.add_argument("--turns", type=int, default=5, help="how often each way is timed (5)")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--data", type=Path, default=FOLDER, help="where data are made")
    asked = parser.parse_args(given)
    facts = machine.facts()
    print(f"{facts['processor']}, {facts['cores']} cores; pyspark {machine.version('pyspark')}; load {machine.load()}")
    for rows in asked.rows:
        data = made(rows, "user_id", asked.data)
        lines = []
        with opened(data, asked.url) as both:
            for name in asked.cases.split(","):
                lines.append(list(measure(CASES[name], both, asked.turns)))
                print(rows_of(rows), *lines[-1], sep=" | ", file=sys.stderr, flush=True)
        print(f"\n{rows_of(rows)} rows, medians of {asked.turns} turns; load {machine.load()}\n")
        print("\n".join(table(COLUMNS, lines)))


if __name__ == "__main__":
    main()
