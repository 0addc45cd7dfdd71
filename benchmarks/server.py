"""The server under load: clients at once, without an error; latencies and CPU time before replies are held.

    python -m benchmarks.server [--seconds 60] [--clients 8] [--rows 100000]

Each client is an analyst of its own who asks new queries (paid), the same again (stored), and explanations. Replies
aren't held back here: what is measured is the work.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpsql.core.hold import Hold
from dpsql.server.core import Core
from dpsql.server.http import Http
from dpsql.server.serve import listen
from dpsql.server.settings import read_settings
from dpsql.server.tokens import Who
from dpsql.session import Engine, Session

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


class Unheld(Core):
    """A core that answers as soon as it can."""

    @contextmanager
    def _session(self, who: Who, hold: Hold | None = None) -> Iterator[Session]:
        with super()._session(who, None) as session:
            yield session


def prepare(folder: Path, rows: int) -> Path:
    random = np.random.default_rng(1)
    cities = np.array(["Bern", "Lima", "Oslo"])[random.integers(0, 3, rows)]
    columns = {"person": random.integers(0, rows // 3, rows), "city": cities, "minutes": random.integers(0, 60, rows)}
    pq.write_table(pa.table(columns), folder / "visits.parquet")
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


def ask(url: str, token: str, until: float, number: int, times: dict[str, list[float]]) -> int:
    """Ask until the time is up; how many replies were errors."""
    failed = turn = 0
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False
    ) as client:
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
        settings = replace(read_settings(None, policy, {}), port=0, rate=100_000)
        core = Unheld(Engine.open(policy), settings)
        http = Http(core)
        tokens = [http.tokens.add(f"analyst {i}")[0] for i in range(given.clients)]
        started, found, loop = threading.Event(), dict[str, Any](), asyncio.new_event_loop()

        def listening(address: str, end: Any) -> None:
            found.update(url=address, end=end)
            started.set()

        thread = threading.Thread(target=lambda: loop.run_until_complete(listen(http, settings, listening)))
        thread.start()
        started.wait()
        times: dict[str, list[float]] = defaultdict(list)
        cpu, begun = time.process_time(), time.monotonic()
        until = begun + given.seconds
        with ThreadPoolExecutor(given.clients) as pool:
            asks = [pool.submit(ask, found["url"], t, until, i, times) for i, t in enumerate(tokens)]
            failed = sum(one.result() for one in asks)
        cpu, seconds = time.process_time() - cpu, time.monotonic() - begun
        loop.call_soon_threadsafe(found["end"])
        thread.join()
        loop.close()
        core.close()
    count = sum(map(len, times.values()))
    print(f"{given.clients} clients, {given.rows:,} rows, {seconds:.0f} s: {count:,} replies, {failed} errors")
    print(f"CPU {cpu:.1f} s (clients included), {1000 * cpu / count:.1f} ms a reply")
    for kind, one in times.items():
        p50, p99 = np.percentile(one, [50, 99]) * 1000
        print(f"{kind:<10} {len(one):>6,} replies   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms")


if __name__ == "__main__":
    main()
