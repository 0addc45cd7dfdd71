"""A server of a test's or a benchmark's own, in this process: a policy over files, a core, and the HTTP API on a free
port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from dpsql.core.concurrency import ReleaseTime
from dpsql.server.core import Core
from dpsql.server.http import Http
from dpsql.server.serve import listen
from dpsql.server.settings import Settings, read_settings
from dpsql.server.tokens import Who
from dpsql.session import Engine, Session

POLICY = """
[budget]
epsilon = 1000
delta = 1e-6
query_epsilon = 0.5
analysts = { carl = 2 }

[privacy]
max_rows = 4
max_groups = 3
limits_share = 0

[tables.visits]
source = "visits.parquet"
unit = "person"

[tables.visits.columns]
city = { values = ["Bern", "Lima", "Oslo"] }
minutes = { min = 0, max = 60 }
"""
CITIES = ("Bern", "Lima", "Oslo")


def make_policy(folder: Path) -> Path:
    """A policy and its data in a folder."""
    rows = [(p, CITIES[(p * p + i * i) % 3], (7 * p + 13 * i) % 70) for p in range(300) for i in range(1 + p % 5)]
    table = pa.table(dict(zip(("person", "city", "minutes"), map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, folder / "visits.parquet")
    (folder / "policy.toml").write_text(POLICY)
    return folder / "policy.toml"


class Unheld(Core):
    """A core that answers as soon as it can: most tests are of something else than when."""

    @contextmanager
    def _session(self, who: Who, hold: ReleaseTime | None = None) -> Iterator[Session]:
        with super()._session(who, None) as session:
            yield session


class Server:
    """A server that listens, the tokens of its people, and clients. held: replies wait for their moment."""

    def __init__(
        self, policy: Path, *, held: bool = False, analysts: Sequence[str] = ("ann", "bob", "carl"), **settings: Any
    ) -> None:
        self.settings: Settings = replace(read_settings(None, policy, {}), **{"port": 0, "rate": 100_000, **settings})
        self.engine = Engine.open(policy)
        self.core = (Core if held else Unheld)(self.engine, self.settings)
        self.http = Http(self.core)
        self.tokens = {name: self.http.tokens.add(name)[0] for name in analysts}
        self.tokens["steve"] = self.http.tokens.add("steve", "steward")[0]
        self.url = ""
        self._started, self._loop = threading.Event(), asyncio.new_event_loop()
        self._end: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._started.wait(30)

    def _run(self) -> None:
        def listening(address: str, end: Any) -> None:
            self.url, self._end = address, end
            self._started.set()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(listen(self.http, self.settings, listening))
        self._loop.close()

    def client(self, name: str | None = "ann", **named: Any) -> httpx.Client:
        headers = {} if name is None else {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, **named)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(30)
        self.core.close()
