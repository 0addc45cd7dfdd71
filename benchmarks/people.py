"""User-level speed against plain DuckDB on the same parquet file, in one run. (error.py has the error.)

    python benchmarks/people.py [rows]      default 10,000,000

`events`: user_id (rows/20 users, heavy-tailed), country (200), category (20), day (365), amount 0..500, qty. ε = 1,
δ = 1e-7, unit = user, max_rows = 50.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from common import DATA, medians

import dpsql

OPTIONS = {"epsilon": 1, "delta": "1e-7", "max_rows": 50, "max_groups": 50}
QUERIES = {
    "Q1 count": "SELECT COUNT(*) FROM events",
    "Q2 users": "SELECT COUNT(DISTINCT user_id) FROM events",
    "Q2b distinct amounts": "SELECT COUNT(DISTINCT amount) FROM events",
    "Q2c distinct triples": "SELECT COUNT(DISTINCT country || day || category) FROM events",
    "Q3 by 20 public keys": "SELECT category, COUNT(*), SUM(amount), AVG(amount) FROM events GROUP BY category",
    "Q4 by 73,000 private keys": "SELECT country, day, COUNT(*), SUM(amount) FROM events GROUP BY country, day",
}


def events(rows: int) -> Path:
    """Each user has a log-normal appetite: about 4% of the rows are beyond a user's 50th; rows are shuffled."""
    path = DATA / f"people_{rows}.parquet"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        users = rows // 20
        random = np.random.default_rng(1)
        appetite = random.lognormal(0, 0.63, users)
        counts = random.multinomial(rows, appetite / appetite.sum())
        owner = random.permutation(np.repeat(np.arange(users, dtype=np.int32), counts))
        table = duckdb.connect()
        table.register("owners", pa.table({"user_id": owner}))
        table.execute(
            f"""
            COPY (
                SELECT user_id,
                       'c' || CAST(floor(random() * 200) AS INTEGER) AS country,
                       'category' || CAST(floor(random() * 20) AS INTEGER) AS category,
                       CAST(floor(random() * 365) AS INTEGER) AS day,
                       round(random() * 500, 2) AS amount,
                       CAST(1 + floor(random() * 10) AS INTEGER) AS qty
                FROM owners
            ) TO '{path}' (FORMAT parquet)
            """
        )
    return path


def policy(path: Path) -> dpsql.Policy:
    columns = {
        "category": {"values": [f"category{i}" for i in range(20)]},
        "amount": {"min": 0, "max": 500},
        "qty": {"min": 1, "max": 10},
    }
    table = {"source": str(path), "unit": "user_id", "columns": columns}
    return dpsql.Policy.from_dict({"budget": {"epsilon": 10**6, "delta": 1e-4}, "tables": {"events": table}})


def speed(rows: int) -> None:
    path = events(rows)
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW events AS SELECT * FROM '{path}'")
    print(f"{rows:,} rows, unit = user, max_rows = 50, medians of five, in turns")
    print(f"{'query':<26} {'DuckDB':>9} {'dpsql':>9} {'ratio':>6} {'to one GROUP BY user':>21}")
    by_user = "SELECT MAX(n) FROM (SELECT COUNT(*) n FROM events GROUP BY user_id)"
    with dpsql.connect(policy(path), ledger=":memory:") as session:
        for name, sql in QUERIES.items():
            runs = (
                lambda sql=sql: plain.execute(sql).fetchall(),
                lambda: plain.execute(by_user).fetchall(),
                lambda sql=sql: session.query(sql, **OPTIONS, fresh=True).rows,
            )
            base, users, ours = medians(runs, 5)
            print(f"{name:<26} {base:>8.3f}s {ours:>8.3f}s {ours / base:>6.1f} {ours / users:>21.1f}")


def memory(rows: int) -> None:
    """Q3 in a process of its own: its peak memory."""
    script = f"import people; people.peak({rows})"
    print(
        subprocess.run(
            [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        ).stdout,
        end="",
    )


def peak(rows: int) -> None:
    with dpsql.connect(policy(events(rows)), ledger=":memory:") as session:
        session.query(QUERIES["Q3 by 20 public keys"], **OPTIONS)
    # Not ru_maxrss: a child starts with its parent's.
    kilobytes = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
    print(f"peak memory of Q3: {kilobytes / 1024:,.0f} MB (the whole process)")


def main() -> None:
    speed(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
    memory(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)


if __name__ == "__main__":
    main()
