"""The server under load: clients at once, without an error; latencies and CPU time before replies are held.

    python -m benchmarks.server [--seconds 60] [--clients 8] [--rows 100000]

Each client is an analyst of its own who asks new queries (paid), the same again (stored), and explanations. Replies
aren't held back here: what is measured is the work.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from servers import Server

POLICY = """
[budget]
epsilon = 1000000
delta = 0
[privacy]
max_rows = 4
limits_share = 0
[tables.visits]
source = "visits.parquet"
unit = "person"
[tables.visits.columns]
city = { values = ["Bern", "Lima", "Oslo"] }
minutes = { min = 0, max = 60 }
"""


def prepare(folder: Path, rows: int) -> Path:
    random = np.random.default_rng(1)
    cities = np.array(["Bern", "Lima", "Oslo"])[random.integers(0, 3, rows)]
    columns = {"person": random.integers(0, rows // 3, rows), "city": cities, "minutes": random.integers(0, 60, rows)}
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


def ask(server: Server, name: str, until: float, number: int, times: dict[str, list[float]]) -> int:
    """Ask until the time is up; how many replies were errors."""
    failed = turn = 0
    with server.client(name) as client:
        while time.monotonic() < until:
            turn += 1
            new = f"minutes <> {turn % 60} AND {turn} > {number}"
            sql = f"SELECT city, AVG(minutes) FROM visits WHERE {new} GROUP BY city"
            for kind, path in (("explain", "/v1/explain"), ("new query", "/v1/query"), ("stored", "/v1/query")):
                begun = time.perf_counter()
                reply = client.post(path, json={"sql": sql, "epsilon": 0.01})
                times[kind].append(time.perf_counter() - begun)
                failed += reply.status_code != 200
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        policy = prepare(Path(name), given.rows)
        names = [f"analyst {i}" for i in range(given.clients)]
        server = Server(policy, analysts=names)
        times: dict[str, list[float]] = defaultdict(list)
        cpu, begun = time.process_time(), time.monotonic()
        until = begun + given.seconds
        with ThreadPoolExecutor(given.clients) as pool:
            asks = [pool.submit(ask, server, name, until, i, times) for i, name in enumerate(names)]
            failed = sum(one.result() for one in asks)
        cpu, seconds = time.process_time() - cpu, time.monotonic() - begun
        server.close()
    count = sum(map(len, times.values()))
    print(f"{given.clients} clients, {given.rows:,} rows, {seconds:.0f} s: {count:,} replies, {failed} errors")
    print(f"CPU {cpu:.1f} s (clients included), {1000 * cpu / count:.1f} ms a reply")
    for kind, one in times.items():
        p50, p99 = np.percentile(one, [50, 99]) * 1000
        print(f"{kind:<10} {len(one):>6,} replies   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms")


if __name__ == "__main__":
    main()
