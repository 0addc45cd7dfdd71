"""What reading records one by one costs (Theorem SCAN-1): the statements that dpsql emits, over its own views and over
bare ones, on the same file, in one run.

    python -m benchmarks.scan [rows]      default 10,000,000

CPU seconds of fifteen pairs, in turns; the medians of bare views and of the ratios. The target is 1.10 where no float
is filtered. Bare views are no alternative: they let one person's value decide whether other people's rows are read.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa

import dpsql
from benchmarks.data import FOLDER
from benchmarks.events import made
from dpsql.backends.duckdb.dialect import text_of
from dpsql.backends.duckdb.sources import CONFIG
from dpsql.backends.statements.render import render

PAIRS = 15
QUERIES = {
    "all rows": "SELECT category, COUNT(*), SUM(amount), AVG(amount) FROM events GROUP BY category",
    "integers": "SELECT category, COUNT(*), SUM(qty) FROM events GROUP BY category",
    "integer filtered": "SELECT category, AVG(amount) FROM events WHERE day < DATE '2023-07-01' GROUP BY category",
    "one integer": "SELECT COUNT(*) FROM events WHERE country = 'C017'",
    "text filtered": "SELECT COUNT(*), SUM(qty) FROM events WHERE category = 'cat07'",
    "user filtered": "SELECT SUM(amount) FROM events WHERE user_id < 1000",
    "float filtered": "SELECT category, COUNT(*) FROM events WHERE amount > 400 GROUP BY category",
}


def private(session: dpsql.Session) -> Any:
    """The engine in which dpsql reads private rows, with its own views."""
    backend: Any = session._engine.backend
    return backend._private.cursor()


def compare(session: dpsql.Session, bare: duckdb.DuckDBPyConnection, sql: str) -> tuple[float, float]:
    """CPU seconds over the bare view, and the ratio."""
    (step,) = session.explain(sql, epsilon=1).steps
    text = text_of(render(step.statement))
    fitted = private(session)
    engines: list[Any] = [bare, fitted]
    if step.cells is not None:
        numbers = pa.array(range(step.cells.num_rows), pa.int64())
        for engine in engines:
            engine.register("dpsql_cells", step.cells.append_column("cell", numbers))
    seconds: list[tuple[float, ...]] = []
    for _ in range(1 + PAIRS):
        pair = []
        found = []
        for engine in engines:
            start = time.process_time()
            found.append(sorted(engine.execute(text).fetchall()))
            pair.append(time.process_time() - start)
        assert found[0] == found[1], sql
        seconds.append(tuple(pair))
    return median(s[0] for s in seconds[1:]), median(s[1] / s[0] for s in seconds[1:])


def parquet(policy: dpsql.Policy, path: Path) -> None:
    bare = duckdb.connect(":memory:", config=CONFIG)
    bare.execute(f"CREATE VIEW events AS SELECT * FROM read_parquet('{path}', hive_partitioning = false)")
    start = time.perf_counter()
    with dpsql.connect(policy, ledger=":memory:") as session:
        print(f"opened for the first time, which reads everything, in {time.perf_counter() - start:.1f} s")
        for name, sql in QUERIES.items():
            seconds, ratio = compare(session, bare, sql)
            print(f"{name:<24} {seconds:>8.3f}s {ratio:>6.2f}", flush=True)


def csv(whole: dpsql.Policy, path: Path) -> None:
    """A tenth of the rows as CSV, without quotes (read in parallel) and with them (read by one thread)."""
    types = {"user_id": "INTEGER", "country": "VARCHAR", "category": "VARCHAR", "day": "DATE", "amount": "DOUBLE"}
    for name, options in (("CSV", ""), ("CSV with quotes", ", FORCE_QUOTE (category)")):
        target = FOLDER / f"{path.stem}{'_quoted' if options else ''}.csv"
        if not target.exists():
            duckdb.sql(f"COPY (FROM '{path}' LIMIT 1_000_000) TO '{target}' (HEADER{options})")
        columns: dict[str, Any] = {c: {"type": type_} for c, type_ in {**types, "qty": "INTEGER"}.items()}
        columns["category"]["values"] = [f"cat{i:02}" for i in range(20)]
        for column in ("day", "amount", "qty"):
            said = whole.tables["events"].columns[column]
            columns[column] |= {"min": said.min, "max": said.max}
        entry = {"source": str(target), "unit": "row", "columns": columns}
        read = dpsql.Policy.from_dict({"budget": {"epsilon": 10**6, "delta": 0}, "tables": {"events": entry}})
        listed = ", ".join(f"'{c}': 'VARCHAR'" for c in columns)
        cast = ", ".join(f"TRY_CAST(NULLIF({c}, '') AS {v['type']}) AS {c}" for c, v in columns.items())
        bare = duckdb.connect(":memory:", config=CONFIG)
        bare.execute(
            f"CREATE VIEW events AS SELECT {cast} FROM read_csv('{target}', auto_detect = false, header = true, "
            f"delim = ',', quote = '\"', escape = '\"', columns = {{{listed}}}, ignore_errors = true)"
        )
        start = time.perf_counter()
        with dpsql.connect(read, ledger=":memory:") as session:
            opened = time.perf_counter() - start
            seconds, ratio = compare(session, bare, QUERIES["all rows"])
            clocks = []
            for engine in (bare, private(session)):
                start = time.perf_counter()
                engine.execute("SELECT COUNT(*), SUM(amount) FROM events").fetchall()
                clocks.append(time.perf_counter() - start)
            wall = clocks[1] / clocks[0]
            print(f"{name:<24} {seconds:>8.3f}s {ratio:>6.2f}   wall {wall:.2f}, opened first in {opened:.1f} s")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    data = made(rows, "row")
    policy, path = dpsql.Policy.load(data.policy), data.files["events"]
    print(
        f"{rows:,} rows, unit = row; CPU seconds over a bare view, and the ratio of dpsql's own; {PAIRS} pairs in turns"
    )
    parquet(policy, path)
    csv(policy, path)


if __name__ == "__main__":
    main()
