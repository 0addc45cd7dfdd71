"""Row-level speed: dpsql against plain DuckDB on the same parquet file, in one run.

    python benchmarks/rows.py [rows]      default 10,000,000

Prints the medians of fifteen warm runs, and the ratios. The target for COUNT/SUM/AVG by 20 keys is 1.5.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copytree, ignore_patterns
from tempfile import TemporaryDirectory

import duckdb
from common import DATA, medians

import dpsql

QUERIES = {
    "count": "SELECT COUNT(*) FROM events",
    "count by key": "SELECT category, COUNT(*) FROM events GROUP BY category",
    "count, sum, avg by key": "SELECT category, COUNT(*), SUM(amount), AVG(amount) FROM events GROUP BY category",
    "integers by key": "SELECT category, COUNT(*), SUM(qty), AVG(qty) FROM events GROUP BY category",
    "filtered": "SELECT category, AVG(amount) FROM events WHERE day < 180 GROUP BY category",
    "computed key": "SELECT day // 30 AS month, SUM(amount * qty) FROM events GROUP BY month",
}


def events(rows: int) -> Path:
    """The events of one shop: 20 categories, 365 days, amounts of 0 to 500, heavy-tailed users."""
    path = DATA / f"events_{rows}.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        duckdb.sql(
            f"""
            COPY (
                SELECT CAST(floor({rows} / 20 * pow(random(), 3)) AS INTEGER) AS user_id,
                       CAST(floor(random() * 200) AS INTEGER) AS country,
                       'category' || CAST(floor(random() * 20) AS INTEGER) AS category,
                       CAST(floor(random() * 365) AS INTEGER) AS day,
                       round(random() * 500, 2) AS amount,
                       CAST(1 + floor(random() * 10) AS INTEGER) AS qty
                FROM range({rows})
            ) TO '{path}' (FORMAT parquet)
            """
        )
    return path


def policy(path: Path) -> dpsql.Policy:
    return dpsql.Policy.from_dict(
        {
            "budget": {"epsilon": 10**6, "delta": 0},
            "tables": {
                "events": {
                    "source": str(path),
                    "unit": "row",
                    "columns": {
                        "category": {"values": [f"category{i}" for i in range(20)]},
                        "day": {"min": 0, "max": 364},
                        "amount": {"min": 0, "max": 500},
                        "qty": {"min": 1, "max": 10},
                    },
                }
            },
        }
    )


def start_up() -> None:
    """`dpsql query` on a small file, as a process, against the bare import of what it needs; medians, in turns."""
    python = sys.executable
    asked = ["--file", "queries/hours_by_education.sql"]
    commands = {
        "bare imports": [python, "-c", "import duckdb, numpy, pyarrow, sqlglot, sqlite3, click"],
        "query": [python, "-m", "dpsql", "query", "--fresh", *asked],
        "explain": [python, "-m", "dpsql", "explain", *asked],
        "--help": [python, "-m", "dpsql", "--help"],
        "python itself": [python, "-c", "pass"],
    }
    # As installed: without bytecode, Python would compile all of dpsql at each start.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    example = Path(__file__).parent.parent / "examples" / "adult"
    with TemporaryDirectory() as folder:
        copytree(example, folder, ignore=ignore_patterns("*.ledger.*"), dirs_exist_ok=True)  # a ledger of its own
        for _ in range(1 + 9):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
                taken[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}
    print("start-up")
    for name, seconds in middle.items():
        print(f"{name:<24} {seconds:>8.3f}s {seconds / middle['bare imports']:>6.2f}")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    path = events(rows)
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW events AS SELECT * FROM '{path}'")
    print(f"{rows:,} rows, unit = row, medians of fifteen, in turns; new noise each time")
    print(f"{'query':<24} {'DuckDB':>9} {'new text':>9} {'ratio':>6} {'same text':>9} {'ratio':>6}")
    texts = count()
    with dpsql.connect(policy(path), ledger=":memory:") as session:
        for name, sql in QUERIES.items():
            exact = partial(lambda sql: plain.execute(sql).fetchall(), sql)
            again = partial(lambda sql: session.query(sql, epsilon=1, fresh=True).rows, sql)
            first = partial(lambda sql: session.query(f"{sql} -- {next(texts)}", epsilon=1, fresh=True).rows, sql)
            base, new, same = medians([exact, first, again], 15)
            print(f"{name:<24} {base:>8.3f}s {new:>8.3f}s {new / base:>6.2f} {same:>8.3f}s {same / base:>6.2f}")
    start_up()


if __name__ == "__main__":
    main()
